//! The content of a namespace: all objects in it, of all resources.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::SystemTime;

use binnacle_controllers::Objects;
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{Pod, PodSpec, PodStatus};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{GroupResource, GroupVersionResource, Status, Time};
use binnacle_registry::{DeleteOptions, ListOptions, Resource, object};
use binnacle_schema::Value;
use binnacle_watchcache::Entry;
use futures::StreamExt;

use super::NAME;
use crate::context::{ClusterContext, account_user};
use crate::remote_contents::{RemoteDeletion, RemoteDeletions};
use crate::stored_resources::deletable;

/// The number of resources whose objects are deleted at the same time, and the number of objects of each.
const RESOURCES: usize = 16;
const OBJECTS: usize = 64;
/// The time in seconds after which objects with finalizers are expected to be gone.
const FINALIZERS_ESTIMATE: u64 = 15;

/// What an attempt to delete the content has left.
#[derive(Debug, Default)]
pub(super) struct Content {
    /// The seconds until the rest is expected to be gone, or 0 if nothing is left.
    pub(super) estimate: u64,
    /// The number of objects whose deletion was requested.
    pub(super) deleted: usize,
    pub(super) remaining: BTreeMap<String, usize>,
    /// The number of objects by finalizer.
    pub(super) finalizers: BTreeMap<String, usize>,
    pub(super) failures: Vec<String>,
    /// The error of discovery, and the number of group versions that it concerns.
    pub(super) undiscovered: Option<(usize, String)>,
    /// True if only pods were deleted so far.
    pub(super) waits_for_pods: bool,
}

/// What is left of one resource.
#[derive(Default)]
struct Rest {
    estimate: u64,
    deleted: usize,
    remaining: usize,
    finalizers: BTreeMap<String, usize>,
    failure: Option<String>,
}

impl Content {
    /// Deletes the content of a namespace: first the pods, then everything else.
    pub(super) async fn delete(context: &ClusterContext, namespace: &Value) -> Self {
        let name = metadata(namespace).at(ObjectMeta::NAME).str();
        let since = Time::parse(metadata(namespace).at(ObjectMeta::DELETION_TIMESTAMP).str()).ok();
        let resources = deletable(&context.resources.snapshot());
        let namespaced = resources.into_iter().filter(|resource| resource.description.namespaced);
        let (pods, others): (Vec<_>, Vec<_>) = namespaced.partition(|resource| is_pods(resource));
        let mut content = Self::default();
        for pods in pods {
            let resource = pods.group_resource();
            let rest = delete_all(&context.objects_of(NAME, pods), name, since).await;
            content.add(&resource, rest);
        }
        if !content.remaining.is_empty() {
            content.waits_for_pods = true;
            return content;
        }
        let deletions = others.into_iter().map(|resource| async move {
            let of = resource.group_resource();
            let rest = delete_all(&context.objects_of(NAME, resource), name, since).await;
            (of, rest)
        });
        let mut deletions = futures::stream::iter(deletions).buffer_unordered(RESOURCES);
        while let Some((resource, rest)) = deletions.next().await {
            content.add(&resource, rest);
        }
        drop(deletions);
        if let Some(remote) = &context.remote {
            let user = Arc::new(account_user(NAME));
            content.add_remote(name, remote.delete_all(name, &user, context.auditor.as_deref()).await);
        }
        content
    }

    fn add_remote(&mut self, namespace: &str, deletions: RemoteDeletions) {
        for (resource, deletion) in deletions.resources {
            let RemoteDeletion { deleted, remaining, finalizers, mut failure } = deletion;
            let estimate = if finalizers.is_empty() { 0 } else { FINALIZERS_ESTIMATE };
            if failure.is_none() && remaining > 0 && estimate == 0 {
                failure = Some(unexpected_rest(namespace, &resource));
            }
            let rest = Rest { estimate, deleted, remaining, finalizers, failure };
            self.add(&GroupResource::new(resource.group, resource.resource), rest);
        }
        let unknown = deletions.unknown;
        if !unknown.is_empty() {
            let each: Vec<String> = unknown.iter().map(|(version, why)| format!("{version}: {why}")).collect();
            let error = format!("unable to retrieve the complete list of server APIs: {}", each.join(", "));
            self.undiscovered = Some((unknown.len(), error));
        }
    }

    fn add(&mut self, resource: &GroupResource, rest: Rest) {
        self.estimate = self.estimate.max(rest.estimate);
        self.deleted += rest.deleted;
        self.failures.extend(rest.failure);
        if rest.remaining > 0 {
            self.remaining.insert(format!("{}.{}", resource.resource, resource.group), rest.remaining);
        }
        for (finalizer, count) in rest.finalizers {
            *self.finalizers.entry(finalizer).or_default() += count;
        }
    }

    /// Returns the error of the attempt, if there is one.
    pub(super) fn error(&self) -> Option<Status> {
        let undiscovered = self.undiscovered.iter().map(|(_, error)| error);
        let failures: Vec<&str> = undiscovered.chain(&self.failures).map(String::as_str).collect();
        match failures.as_slice() {
            [] => None,
            [one] => Some(Status::unknown(500, one)),
            several => Some(Status::unknown(500, &format!("[{}]", several.join(", ")))),
        }
    }
}

fn is_pods(resource: &Resource) -> bool {
    resource.description.group.is_empty() && resource.description.plural == "pods"
}

/// Deletes all objects of a resource in a namespace, whose deletion began at `since`.
async fn delete_all(objects: &Objects, namespace: &str, since: Option<Time>) -> Rest {
    let mut rest = Rest::default();
    if let Err(status) = delete_and_count(objects, namespace, since, &mut rest).await {
        rest.failure = Some(status.message().to_owned());
    }
    rest
}

async fn delete_and_count(
    objects: &Objects,
    namespace: &str,
    since: Option<Time>,
    rest: &mut Rest,
) -> Result<(), Status> {
    let resource = objects.resource();
    let context = objects.context(namespace);
    let list = ListOptions::default();
    // Most resources have no objects in a namespace, and then there is no request.
    let one = ListOptions { limit: 1, ..ListOptions::default() };
    if entries(resource.list_to_delete(&context, &one).await?).is_empty() {
        return Ok(());
    }
    // The orphan finalizer would be in the way: everything in the namespace is deleted anyway.
    let options = DeleteOptions { propagation_policy: Some("Background".into()), ..DeleteOptions::default() };
    let deleted = entries(objects.delete_all(namespace, &options, OBJECTS).await?);
    rest.deleted = deleted.len();
    if deleted.is_empty() {
        return Ok(());
    }
    if is_pods(resource) {
        rest.estimate = grace_of_pods(resource, &deleted, since);
    }
    let left = entries(resource.list_to_delete(&context, &list).await?);
    rest.remaining = left.len();
    if left.is_empty() {
        rest.estimate = 0;
        return Ok(());
    }
    for entry in &left {
        let Ok(object) = resource.collection.decode_entry(entry) else { continue };
        for finalizer in object::finalizers(&object) {
            *rest.finalizers.entry(finalizer.to_owned()).or_default() += 1;
        }
    }
    if rest.estimate > 0 {
        return Ok(());
    }
    if !rest.finalizers.is_empty() {
        rest.estimate = FINALIZERS_ESTIMATE;
        return Ok(());
    }
    let d = &resource.description;
    let resource = GroupVersionResource::new(d.group.clone(), d.version.clone(), d.plural.clone());
    Err(Status::unknown(500, &unexpected_rest(namespace, &resource)))
}

fn unexpected_rest(
    namespace: &str,
    GroupVersionResource { group, version, resource }: &GroupVersionResource,
) -> String {
    format!("unexpected items still remain in namespace: {namespace} for gvr: {group}/{version}, Resource={resource}")
}

fn entries(mut page: binnacle_registry::Page) -> Vec<Arc<Entry>> {
    let mut entries = Vec::new();
    while let Some(chunk) = page.next_chunk() {
        entries.extend(chunk);
    }
    entries
}

/// Returns the seconds in which running pods are expected to end, or 0 if that time has passed.
fn grace_of_pods(resource: &Resource, pods: &[Arc<Entry>], since: Option<Time>) -> u64 {
    let graces = pods.iter().filter_map(|entry| {
        let pod = resource.collection.decode_entry(entry).ok()?;
        let pod = FieldRef::<Pod>::root(&pod);
        if ["Succeeded", "Failed"].contains(&pod.at(Pod::STATUS).at(PodStatus::PHASE).str()) {
            return None;
        }
        let grace = pod.at(Pod::SPEC).at(PodSpec::TERMINATION_GRACE_PERIOD_SECONDS).int()?;
        u64::try_from(grace).ok()
    });
    let estimate = graces.max().unwrap_or_default();
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let elapsed = since.map_or(0, |since| now.saturating_sub(u64::try_from(since.unix_seconds()).unwrap_or(0)));
    if elapsed >= estimate { 0 } else { estimate }
}
