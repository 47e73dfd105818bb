//! The deletion of the objects that remote servers have in a namespace.

use std::sync::Arc;

use binnacle_api_controllers::{RemoteContents, RemoteDeletion, RemoteDeletions};
use binnacle_controllers::{WriteAuditor, WriteTrail};
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadataList as ObjectList};
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{GroupVersionResource, Text};
use binnacle_request::{BoxFuture, User};
use binnacle_scheme::RemoteResource;
use futures::StreamExt;
use futures::stream;
use http::Method;

use crate::aggregator::Aggregator;
use crate::fetch::{FetchRequest, FetchResponse, fetch};
use crate::objects::{PAGE, UNESCAPED, fetch_request, next_page, parse};
use crate::remote::Remote;

/// The number of pages that are read at once. Objects beyond them are deleted by the next attempt.
const MAX_PAGES: usize = 200;
/// The number of resources whose objects are deleted at the same time.
const RESOURCES: usize = 16;
/// The orphan finalizer would be in the way: everything in the namespace is deleted anyway.
const BACKGROUND: &str = r#"{"kind":"DeleteOptions","apiVersion":"meta.k8s.io/v1","propagationPolicy":"Background"}"#;
const METADATA: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1,application/json";

/// The objects of a resource in a namespace of a remote server.
struct NamespacedResource<'a> {
    remote: &'a Remote,
    path: String,
    user: &'a Arc<User>,
    auditor: Option<&'a WriteAuditor>,
}

impl RemoteContents for Aggregator {
    fn delete_all<'a>(
        &'a self,
        namespace: &'a str,
        user: &'a Arc<User>,
        auditor: Option<&'a WriteAuditor>,
    ) -> BoxFuture<'a, RemoteDeletions> {
        Box::pin(async move {
            let (registry, documents) = (self.0.registry.load_full(), self.0.documents.all());
            let mut deletions = RemoteDeletions::default();
            let mut found = Vec::new();
            for (name, entry) in &registry.by_name {
                let Some(remote) = &entry.remote else { continue };
                match documents.iter().find(|(of, document)| of == name && !document.is_stale) {
                    Some((_, document)) => {
                        let deletable = document.resources.iter().filter(|resource| is_deletable(resource));
                        found.extend(deletable.map(|resource| (remote.clone(), resource.clone())));
                    }
                    None => {
                        let version = format!("{}/{}", remote.group, remote.version);
                        let why = format!("stale GroupVersion discovery: {version}");
                        deletions.unknown.insert(version, why);
                    }
                }
            }
            let deleted = found.into_iter().map(|(remote, resource)| async move {
                let path = format!("{}/namespaces/{namespace}/{}", remote.path(), resource.plural);
                let collection = NamespacedResource { remote: &remote, path, user, auditor };
                let name = (remote.group.clone(), remote.version.clone(), resource.plural.clone());
                (GroupVersionResource::new(name.0, name.1, name.2), collection.delete(&resource).await)
            });
            deletions.resources = stream::iter(deleted).buffer_unordered(RESOURCES).collect().await;
            deletions
        })
    }
}

fn has_verb(resource: &RemoteResource, verb: &str) -> bool {
    resource.verbs.iter().flat_map(|verbs| verbs.iter()).any(|own| own == verb)
}

fn is_deletable(resource: &RemoteResource) -> bool {
    resource.is_namespaced() && has_verb(resource, "delete") && has_verb(resource, "list")
}

impl NamespacedResource<'_> {
    async fn delete(&self, resource: &RemoteResource) -> RemoteDeletion {
        let mut deletion = RemoteDeletion::default();
        if let Err(why) = self.delete_and_count(resource, &mut deletion).await {
            deletion.failure = Some(why);
        }
        deletion
    }

    async fn delete_and_count(&self, resource: &RemoteResource, deletion: &mut RemoteDeletion) -> Result<(), String> {
        let names = self.list(&mut RemoteDeletion::default()).await?;
        if names.is_empty() {
            return Ok(());
        }
        deletion.deleted = names.len();
        let is_collection_deleted = has_verb(resource, "deletecollection") && self.delete_at(&self.path).await?;
        if !is_collection_deleted {
            for name in names {
                let name = binnacle_client::path::escape(&name, UNESCAPED);
                self.delete_at(&format!("{}/{name}", self.path)).await?;
            }
        }
        deletion.remaining = self.list(deletion).await?.len();
        Ok(())
    }

    /// Deletes what is at a path. Returns false if there is nothing, or if the server does not do that.
    async fn delete_at(&self, path: &str) -> Result<bool, String> {
        let trail = match self.auditor {
            Some(auditor) => auditor.begin(Method::DELETE, path, self.user).await,
            None => Ok(WriteTrail::default()),
        };
        let trail = trail.map_err(|status| status.message().to_owned())?;
        let response = self.fetch(path, Some(BACKGROUND)).await;
        trail.end_with_code(response.as_ref().map_or(503, |response| response.code)).await;
        let response = response?;
        match response.code {
            200..300 => Ok(true),
            404 | 405 => Ok(false),
            _ => Err(response.failure()),
        }
    }

    /// Returns the names of objects, and counts their finalizers.
    async fn list(&self, deletion: &mut RemoteDeletion) -> Result<Vec<Text>, String> {
        let (mut names, mut next) = (Vec::new(), String::new());
        for _ in 0..MAX_PAGES {
            let page = self.fetch(&format!("{}?limit={PAGE}{next}", self.path), None).await?;
            match page.code {
                200 => {}
                404 | 405 => return Ok(names),
                _ => return Err(page.failure()),
            }
            let list = parse(&page.body)?;
            let list = FieldRef::<ObjectList>::root(&list);
            for item in list.at(ObjectList::ITEMS).values() {
                let metadata = metadata(item.value());
                names.push(Text::from(metadata.at(ObjectMeta::NAME).str()));
                for finalizer in metadata.at(ObjectMeta::FINALIZERS).strs() {
                    *deletion.finalizers.entry(finalizer.to_owned()).or_default() += 1;
                }
            }
            match next_page(list) {
                Some(rest) => next = rest,
                None => return Ok(names),
            }
        }
        Ok(names)
    }

    async fn fetch(&self, path: &str, delete_options: Option<&'static str>) -> Result<FetchResponse, String> {
        let request = FetchRequest { delete_options, accept: METADATA, ..fetch_request(path, self.user) };
        fetch(self.remote, &request).await.map_err(|error| error.to_string())
    }
}
