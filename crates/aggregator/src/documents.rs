//! The discovery documents of other servers, which are read periodically.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use binnacle_discovery::{DiscoveredGroup, DiscoveredVersion};
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_request::User;
use binnacle_scheme::{RemoteResource, RemoteSubresource};
use http::header::{CONTENT_TYPE, ETAG};
use parking_lot::Mutex;
use serde_json::Value;
use tokio::sync::{Notify, watch};

use crate::aggregator::Inner;
use crate::fetch::{Question, aggregator_user, fetch, shown};
use crate::registered::Registry;
use crate::remote::Remote;

/// The resources by group and version.
type VersionResources = HashMap<(Text, Text), Arc<[RemoteResource]>>;

/// The timeout for a document.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The first and the longest pause after a failure; the longest is also the period after a success.
pub(crate) const RETRY: Duration = Duration::from_millis(500);
pub(crate) const REFRESH: Duration = Duration::from_secs(60);
/// The maximum size of a document. The aggregated document of a server with a thousand resources has about 1 MB.
pub(crate) const LIMIT: usize = 16 << 20;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The resources of group versions by the names of their APIServices.
#[derive(Default)]
pub(crate) struct Documents {
    by_name: Mutex<BTreeMap<Text, Document>>,
    /// The aggregated documents of services, which may have many group versions.
    services: Mutex<HashMap<ServiceKey, Arc<tokio::sync::Mutex<Option<Aggregated>>>>>,
}

/// The resources of one group version.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) resources: Arc<[RemoteResource]>,
    /// True if the last attempt to read it failed.
    pub(crate) is_stale: bool,
}

type ServiceKey = (String, String, u16);

/// The aggregated document of a server.
#[derive(Clone)]
struct Aggregated {
    versions: Arc<VersionResources>,
    etag: String,
    /// The time of its request.
    asked: Instant,
}

impl Documents {
    pub(crate) fn all(&self) -> Vec<(Text, Document)> {
        self.by_name.lock().iter().map(|(name, document)| (name.clone(), document.clone())).collect()
    }

    /// Drops the documents of a deleted APIService, and those of services without an APIService.
    pub(crate) fn forget(&self, name: &str, registry: &Registry) {
        self.by_name.lock().remove(name);
        let used: Vec<ServiceKey> =
            registry.by_name.values().filter_map(|registered| registered.remote.as_deref()).map(key).collect();
        self.services.lock().retain(|key, _| used.contains(key));
    }

    /// Replaces a document; returns true if it has changed.
    fn put(&self, name: &Text, document: Document) -> bool {
        let mut by_name = self.by_name.lock();
        let same = by_name
            .get(name)
            .is_some_and(|known| known.is_stale == document.is_stale && known.resources == document.resources);
        if !same {
            by_name.insert(name.clone(), document);
        }
        !same
    }
}

fn key(remote: &Remote) -> ServiceKey {
    (remote.service.namespace.clone(), remote.service.name.clone(), remote.service.port)
}

/// Reads the document of one APIService's server.
pub(crate) struct Follower {
    pub(crate) name: Text,
    /// Notified when the APIService has changed.
    pub(crate) changed: Arc<Notify>,
    /// Becomes true after the first attempt to query the server.
    pub(crate) tried: watch::Sender<bool>,
}

impl Follower {
    /// Runs as long as the APIService exists.
    pub(crate) async fn run(self, inner: Weak<Inner>) {
        let mut retry = RETRY;
        let mut is_first = true;
        loop {
            let asked = Instant::now();
            let pause = {
                let Some(inner) = inner.upgrade() else { return };
                let registry = inner.registry.load_full();
                let remote = registry.by_name.get(&self.name).and_then(|registered| registered.remote.clone());
                let Some(remote) = remote else { return };
                // A server that was unavailable before the start is not waited for.
                let read = match is_first && !remote.is_available {
                    true => Err("service unavailable".to_owned()),
                    false => read(&inner.documents, &remote, asked).await,
                };
                let (document, pause) = match read {
                    Ok(resources) => {
                        retry = RETRY;
                        (Document { resources, is_stale: false }, REFRESH)
                    }
                    Err(why) => {
                        tracing::debug!(api_service = %self.name, service = %shown(&remote), why, "discovery failed");
                        let pause = retry;
                        retry = (retry * 2).min(REFRESH);
                        (Document { resources: Arc::from([]), is_stale: true }, pause)
                    }
                };
                if inner.documents.put(&self.name, document) {
                    inner.changed();
                }
                pause
            };
            is_first = false;
            self.tried.send_replace(true);
            tokio::select! {
                () = self.changed.notified() => {}
                () = tokio::time::sleep(pause) => {}
            }
        }
    }
}

/// Returns the resources of a group version: from the server's aggregated document, if its request is not older than
/// `since`, or from the legacy document of the version if the server has no aggregated one.
async fn read(documents: &Documents, remote: &Remote, since: Instant) -> Result<Arc<[RemoteResource]>, String> {
    let place = documents.services.lock().entry(key(remote)).or_default().clone();
    let mut known = place.lock().await;
    let version = (remote.group.clone(), remote.version.clone());
    let find = |aggregated: &Aggregated| aggregated.versions.get(&version).cloned().unwrap_or_else(|| Arc::from([]));
    if let Some(aggregated) = &*known
        && aggregated.asked > since
    {
        return Ok(find(aggregated));
    }
    let user = aggregator_user();
    let etag = known.as_ref().map(|aggregated| aggregated.etag.clone()).unwrap_or_default();
    let question = Question {
        path: "/apis",
        accept: AGGREGATED,
        if_none_match: &etag,
        user: &user,
        timeout: TIMEOUT,
        limit: Some(LIMIT),
        is_for_peer: false,
    };
    let asked = Instant::now();
    let answer = fetch(remote, &question).await.map_err(|error| error.to_string())?;
    let media_type = answer.header(CONTENT_TYPE);
    match (answer.code, &mut *known) {
        (304, Some(aggregated)) => {
            aggregated.asked = asked;
            return Ok(find(aggregated));
        }
        (503, _) => return Err(format!("service {} returned non-success response code: 503", shown(remote))),
        (200, _) if is_aggregated(media_type) => {
            let etag = answer.header(ETAG).to_owned();
            let body = answer.body;
            // Parsing a large document would block other requests.
            let parsed = tokio::task::spawn_blocking(move || parse_aggregated(&body).map(by_version)).await;
            let versions = Arc::new(parsed.map_err(|error| error.to_string())??);
            let aggregated = known.insert(Aggregated { versions, etag, asked });
            return Ok(find(aggregated));
        }
        _ => {}
    }
    *known = None;
    drop(known);
    let path = remote.path();
    let user = User::new("system:kube-aggregator", &[]);
    let question = Question { path: &path, accept: "application/json", if_none_match: "", user: &user, ..question };
    let answer = fetch(remote, &question).await.map_err(|error| error.to_string())?;
    if answer.code != 200 {
        let body: String = String::from_utf8_lossy(&answer.body).chars().take(512).collect();
        return Err(format!("failed to download legacy discovery for {path}: {} {body}", answer.code));
    }
    parse_legacy(&answer.body).map(Arc::from)
}

/// Returns true for the media type of the aggregated form, in either version.
pub(crate) fn is_aggregated(media_type: &str) -> bool {
    let mut parts = media_type.split(';').map(str::trim);
    let parameters: Vec<&str> = match parts.next() {
        Some("application/json") => parts.collect(),
        _ => return false,
    };
    let has = |wanted: &str| parameters.contains(&wanted);
    has("g=apidiscovery.k8s.io") && has("as=APIGroupDiscoveryList") && (has("v=v2") || has("v=v2beta1"))
}

pub(crate) fn parse_aggregated(body: &[u8]) -> Result<Vec<DiscoveredGroup>, String> {
    let list: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let groups = list["items"].as_array().into_iter().flatten().map(|group| {
        let versions = group["versions"].as_array().into_iter().flatten().map(|version| DiscoveredVersion {
            version: text(&version["version"]),
            is_stale: version["freshness"] == "Stale",
            resources: version["resources"].as_array().into_iter().flatten().map(aggregated_resource).collect(),
        });
        DiscoveredGroup { name: text(&group["metadata"]["name"]), versions: versions.collect() }
    });
    Ok(groups.collect())
}

fn by_version(groups: Vec<DiscoveredGroup>) -> VersionResources {
    let mut versions = VersionResources::new();
    for group in groups {
        versions.extend(group.versions.into_iter().map(|found| ((group.name.clone(), found.version), found.resources)));
    }
    versions
}

fn aggregated_resource(resource: &Value) -> RemoteResource {
    let subresources = resource["subresources"].as_array().into_iter().flatten();
    RemoteResource {
        plural: text(&resource["resource"]),
        singular: text(&resource["singularResource"]),
        kind: kind(&resource["responseKind"]),
        namespaced: resource["scope"] == "Namespaced",
        verbs: texts(&resource["verbs"]).into(),
        short_names: texts(&resource["shortNames"]),
        categories: texts(&resource["categories"]),
        subresources: subresources.map(aggregated_subresource).collect(),
        storage_version_hash: Text::default(),
    }
}

fn aggregated_subresource(subresource: &Value) -> RemoteSubresource {
    let accepted = subresource["acceptedTypes"].as_array().into_iter().flatten();
    RemoteSubresource {
        name: text(&subresource["subresource"]),
        kind: kind(&subresource["responseKind"]),
        accepted: accepted.map(kind).collect(),
        verbs: texts(&subresource["verbs"]).into(),
    }
}

/// Parses the legacy document of a version, with subresources below their resources.
fn parse_legacy(body: &[u8]) -> Result<Vec<RemoteResource>, String> {
    let list: Value = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let entries: Vec<&Value> = list["resources"].as_array().into_iter().flatten().collect();
    let named: Vec<(Text, &Value)> = entries.into_iter().map(|entry| (text(&entry["name"]), entry)).collect();
    let mut resources: Vec<RemoteResource> = Vec::new();
    for (name, entry) in named.iter().filter(|(name, _)| !name.contains('/')) {
        resources.push(RemoteResource {
            plural: name.clone(),
            singular: text(&entry["singularName"]),
            kind: kind(entry),
            namespaced: entry["namespaced"].as_bool().unwrap_or_default(),
            verbs: texts(&entry["verbs"]).into(),
            short_names: texts(&entry["shortNames"]),
            categories: texts(&entry["categories"]),
            subresources: Vec::new(),
            storage_version_hash: Text::default(),
        });
    }
    for (name, entry) in &named {
        let Some((parent, below)) = name.split_once('/') else { continue };
        let namespaced = entry["namespaced"].as_bool().unwrap_or_default();
        let place = resources.iter().position(|known| known.plural == parent).unwrap_or_else(|| {
            // A subresource of a resource that does not exist itself.
            resources.push(RemoteResource {
                plural: parent.into(),
                singular: Text::default(),
                kind: GroupVersionKind::new("", "", ""),
                namespaced,
                verbs: Arc::from([]),
                short_names: Vec::new(),
                categories: Vec::new(),
                subresources: Vec::new(),
                storage_version_hash: Text::default(),
            });
            resources.len() - 1
        });
        if resources[place].namespaced != namespaced {
            return Err(format!("Error: Parent {parent} and subresource {below} scope do not match"));
        }
        let has_kind = !text(&entry["kind"]).is_empty();
        resources[place].subresources.push(RemoteSubresource {
            name: below.into(),
            kind: if has_kind { kind(entry) } else { GroupVersionKind::new("", "", "") },
            accepted: Vec::new(),
            verbs: texts(&entry["verbs"]).into(),
        });
    }
    Ok(resources)
}

fn kind(kind: &Value) -> GroupVersionKind {
    GroupVersionKind { group: text(&kind["group"]), version: text(&kind["version"]), kind: text(&kind["kind"]) }
}

fn text(value: &Value) -> Text {
    value.as_str().unwrap_or_default().into()
}

fn texts(value: &Value) -> Vec<Text> {
    value.as_array().into_iter().flatten().map(text).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aggregated_forms() {
        for (media_type, want) in [
            ("application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", true),
            ("application/json; as=APIGroupDiscoveryList; v=v2beta1; g=apidiscovery.k8s.io", true),
            ("application/json;g=apidiscovery.k8s.io;v=v3;as=APIGroupDiscoveryList", false),
            ("application/json", false),
            ("application/yaml;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList", false),
            ("", false),
        ] {
            assert_eq!(is_aggregated(media_type), want, "{media_type}");
        }
    }

    #[test]
    fn documents_are_read() {
        let aggregated = br#"{"items": [{"metadata": {"name": "g"}, "versions": [
            {"version": "v1", "resources": [{"resource": "things", "responseKind": {"group": "g", "version": "v1", "kind": "Thing"},
              "scope": "Namespaced", "verbs": ["get"], "subresources": [{"subresource": "scale", "responseKind": null, "verbs": []}]}]},
            {"version": "v2"}]}]}"#;
        let versions = by_version(parse_aggregated(aggregated).unwrap());
        let things = &versions[&("g".into(), "v1".into())];
        assert_eq!((things.len(), things[0].namespaced, things[0].kind.kind.as_str()), (1, true, "Thing"));
        assert_eq!(things[0].subresources[0].kind, GroupVersionKind::new("", "", ""));
        assert!(versions[&("g".into(), "v2".into())].is_empty());
        assert!(parse_aggregated(b"{").is_err());
        assert!(parse_aggregated(b"[1]").unwrap().is_empty());

        let legacy = br#"{"resources": [
            {"name": "things/scale", "namespaced": true, "group": "autoscaling", "version": "v1", "kind": "Scale", "verbs": ["get"]},
            {"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get", "list"], "shortNames": ["th"]}
        ]}"#;
        let resources = parse_legacy(legacy).unwrap();
        assert_eq!(resources.len(), 1);
        assert_eq!(resources[0].kind, GroupVersionKind::new("", "", "Thing"));
        assert_eq!(resources[0].subresources[0].kind.group, "autoscaling");
        assert_eq!(resources[0].short_names, ["th"]);
    }
}
