//! The discovery documents of remote servers, which are polled.

mod parsing;

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use binnacle_discovery::DiscoveredGroup;
use binnacle_meta::Text;
use binnacle_request::User;
use binnacle_scheme::RemoteResource;
use http::header::{CONTENT_TYPE, ETAG};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

use self::parsing::parse_legacy;
pub(crate) use self::parsing::{is_aggregated, parse_aggregated};
use crate::aggregator::Inner;
use crate::fetch::{FetchRequest, aggregator_user, fetch, service_text};
use crate::registry::Registry;
use crate::remote::Remote;

/// The resources by group and version.
type VersionResources = HashMap<(Text, Text), Arc<[RemoteResource]>>;

/// The timeout for a document.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(5);
/// The first and the longest pause after a failure; the longest is also the period after a success.
pub(crate) const RETRY: Duration = Duration::from_millis(500);
pub(crate) const REFRESH: Duration = Duration::from_secs(60);
/// The maximum size of a document. The aggregated document of a server with a thousand resources has about 1 MB.
pub(crate) const LIMIT: usize = 10 << 20;

const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,\
                          application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList";

/// The resources of group versions, by the names of their APIServices.
#[derive(Default)]
pub(crate) struct Documents {
    by_name: Mutex<BTreeMap<Text, Document>>,
    /// The aggregated documents of services, which may have many group versions.
    services: Mutex<HashMap<ServiceKey, Arc<tokio::sync::Mutex<Option<AggregatedDocument>>>>>,
}

/// The resources of one group version.
#[derive(Clone)]
pub(crate) struct Document {
    pub(crate) resources: Arc<[RemoteResource]>,
    /// True if the last attempt to read the document failed.
    pub(crate) is_stale: bool,
}

type ServiceKey = (String, String, u16);

/// The aggregated document of a server.
#[derive(Clone)]
struct AggregatedDocument {
    versions: Arc<VersionResources>,
    etag: String,
    /// The time of its request.
    requested_at: Instant,
}

impl Documents {
    pub(crate) fn all(&self) -> Vec<(Text, Document)> {
        self.by_name.lock().iter().map(|(name, document)| (name.clone(), document.clone())).collect()
    }

    /// Drops the documents of a deleted APIService, and those of services without an APIService.
    pub(crate) fn forget(&self, name: &str, registry: &Registry) {
        self.by_name.lock().remove(name);
        let used: Vec<ServiceKey> =
            registry.by_name.values().filter_map(|entry| entry.remote.as_deref()).map(key).collect();
        self.services.lock().retain(|key, _| used.contains(key));
    }

    /// Replaces a document; returns true if it has changed.
    fn put(&self, name: &Text, document: Document) -> bool {
        let mut by_name = self.by_name.lock();
        let is_same = by_name
            .get(name)
            .is_some_and(|cached| cached.is_stale == document.is_stale && cached.resources == document.resources);
        if !is_same {
            by_name.insert(name.clone(), document);
        }
        !is_same
    }
}

fn key(remote: &Remote) -> ServiceKey {
    (remote.service.namespace.clone(), remote.service.name.clone(), remote.service.port)
}

/// Polls the discovery document of one APIService's server.
pub(crate) struct DiscoveryPoller {
    pub(crate) name: Text,
    /// Notified when the APIService has changed.
    pub(crate) changed: Arc<Notify>,
    /// Becomes true after the first attempt to query the server.
    pub(crate) tried: watch::Sender<bool>,
}

impl DiscoveryPoller {
    /// Runs as long as the APIService exists.
    pub(crate) async fn run(self, inner: Weak<Inner>) {
        let mut retry = RETRY;
        let mut is_first = true;
        loop {
            let requested_at = Instant::now();
            let pause = {
                let Some(inner) = inner.upgrade() else { return };
                let registry = inner.registry.load_full();
                let remote = registry.by_name.get(&self.name).and_then(|entry| entry.remote.clone());
                let Some(remote) = remote else { return };
                // Does not wait for a server that was unavailable before the start.
                let read = match is_first && !remote.is_available {
                    true => Err("service unavailable".to_owned()),
                    false => read(&inner.documents, &remote, requested_at).await,
                };
                let (document, pause) = match read {
                    Ok(resources) => {
                        retry = RETRY;
                        (Document { resources, is_stale: false }, REFRESH)
                    }
                    Err(why) => {
                        tracing::debug!(api_service = %self.name, service = %service_text(&remote), why, "discovery failed");
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
    let cached_document = documents.services.lock().entry(key(remote)).or_default().clone();
    let mut cached = cached_document.lock().await;
    let version = (remote.group.clone(), remote.version.clone());
    let find =
        |aggregated: &AggregatedDocument| aggregated.versions.get(&version).cloned().unwrap_or_else(|| Arc::from([]));
    if let Some(aggregated) = &*cached
        && aggregated.requested_at > since
    {
        return Ok(find(aggregated));
    }
    let user = aggregator_user();
    let etag = cached.as_ref().map(|aggregated| aggregated.etag.clone()).unwrap_or_default();
    let request = FetchRequest {
        delete_options: None,
        path: "/apis",
        accept: AGGREGATED,
        if_none_match: &etag,
        user: &user,
        timeout: TIMEOUT,
        limit: Some(LIMIT),
        is_for_peer: false,
    };
    let requested_at = Instant::now();
    let response = fetch(remote, &request).await.map_err(|error| error.to_string())?;
    let media_type = response.header(CONTENT_TYPE);
    match (response.code, &mut *cached) {
        (304, Some(aggregated)) => {
            aggregated.requested_at = requested_at;
            return Ok(find(aggregated));
        }
        (503, _) => return Err(format!("service {} returned non-success response code: 503", service_text(remote))),
        (200, _) if is_aggregated(media_type) => {
            let etag = response.header(ETAG).to_owned();
            let body = response.body;
            // Parsing a large document here would block other requests.
            let parsed = tokio::task::spawn_blocking(move || parse_aggregated(&body).map(by_version)).await;
            let versions = Arc::new(parsed.map_err(|error| error.to_string())??);
            let aggregated = cached.insert(AggregatedDocument { versions, etag, requested_at });
            return Ok(find(aggregated));
        }
        _ => {}
    }
    *cached = None;
    drop(cached);
    let path = remote.path();
    let user = User::new("system:kube-aggregator", &[]);
    let request = FetchRequest { path: &path, accept: "application/json", if_none_match: "", user: &user, ..request };
    let response = fetch(remote, &request).await.map_err(|error| error.to_string())?;
    if response.code != 200 {
        let excerpt = &response.body[..response.body.len().min(2048)];
        let body: String = String::from_utf8_lossy(excerpt).chars().take(512).collect();
        return Err(format!("failed to download legacy discovery for {path}: {} {body}", response.code));
    }
    let parsed = tokio::task::spawn_blocking(move || parse_legacy(&response.body)).await;
    parsed.map_err(|error| error.to_string())?.map(Arc::from)
}

fn by_version(groups: Vec<DiscoveredGroup>) -> VersionResources {
    let mut versions = VersionResources::new();
    for group in groups {
        versions.extend(group.versions.into_iter().map(|found| ((group.name.clone(), found.version), found.resources)));
    }
    versions
}
