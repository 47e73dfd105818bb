//! The OpenAPI documents of remote servers: the index of version 3, whose documents are fetched on demand, and the
//! whole document of version 2.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use binnacle_meta::Text;
use binnacle_openapi::{ConvertedDocument, RemoteDocuments, convert_to_v3, keep_paths};
use binnacle_request::User;
use binnacle_schema::Limits;
use binnacle_scheme::ServedResources;
use binnacle_work::{WorkLimits, limited};
use bytes::Bytes;
use http::header::ETAG;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;

use crate::aggregator::{Aggregator, Inner};
use crate::fetch::{FetchRequest, aggregator_user, fetch};
use crate::remote::Remote;

/// The timeout for the documents, which may be large.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The first and the longest pause after a failure; the longest is also the period after a success.
const RETRY: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_secs(60);
/// The maximum sizes of the documents. An index with a thousand group versions has 100 KB.
const INDEX_LIMIT: usize = 1 << 20;
const V2_LIMIT: usize = 32 << 20;

/// The maximum memory of a document of version 2. The one of Kubernetes itself takes 22 MiB.
const MAX_MEMORY: usize = 48 << 20;
/// The maximum memory of the documents of all servers.
const MAX_TOTAL_MEMORY: usize = 192 << 20;
/// The limits of the work to convert a document to version 3.
const CONVERSION: WorkLimits = WorkLimits { steps: 100_000_000, memory: 64 << 20 };

const V3: &str = "/openapi/v3";

/// The OpenAPI documents of all servers.
#[derive(Default)]
pub(crate) struct Specs {
    by_name: Mutex<BTreeMap<Text, Spec>>,
    published: ArcSwap<PublishedSpecs>,
}

/// The documents of one server for the group version of an APIService.
#[derive(Clone, Default)]
struct Spec {
    /// The names and URLs of the documents of version 3.
    index: BTreeMap<String, String>,
    /// The document of version 3, converted from the document of version 2, if there is no index.
    built: Option<(String, Arc<ConvertedDocument>)>,
    v2: Option<Arc<Value>>,
    v2_etag: String,
    /// The estimated memory of `v2`.
    v2_memory: usize,
}

impl Spec {
    /// Returns the memory of the whole documents.
    fn memory(&self) -> usize {
        let v2 = self.v2.as_ref().map_or(0, |_| self.v2_memory);
        v2 + self.built.as_ref().map_or(0, |(_, built)| built.json().len())
    }
}

/// All documents, in the form that requests read.
#[derive(Default)]
struct PublishedSpecs {
    others: Arc<RemoteDocuments>,
    /// The APIServices by the names of their servers' documents of version 3.
    owners: HashMap<String, Text>,
}

impl Specs {
    pub(crate) fn others(&self) -> Arc<RemoteDocuments> {
        self.published.load().others.clone()
    }

    /// Returns the name of the APIService whose server has the document at a path.
    pub(crate) fn owner(&self, path: &str) -> Option<Text> {
        let name = path.strip_prefix(V3)?.strip_prefix('/')?;
        self.published.load().owners.get(name).cloned()
    }

    pub(crate) fn forget(&self, name: &str) {
        let mut by_name = self.by_name.lock();
        if by_name.remove(name).is_some() {
            self.publish(&by_name);
        }
    }

    fn cached(&self, name: &str) -> Spec {
        self.by_name.lock().get(name).cloned().unwrap_or_default()
    }

    fn put(&self, name: &Text, mut spec: Spec) {
        let mut by_name = self.by_name.lock();
        let others: usize = by_name.iter().filter(|(other, _)| *other != name).map(|(_, spec)| spec.memory()).sum();
        if others + spec.memory() > MAX_TOTAL_MEMORY {
            tracing::warn!(api_service = %name, "OpenAPI documents of aggregated API servers are too large together");
            // Without the ETag, the document is read again: there may be room for it later.
            spec = Spec { index: spec.index, ..Spec::default() };
        }
        let is_same = by_name.get(name).is_some_and(|cached| {
            let same_v2 = match (&cached.v2, &spec.v2) {
                (Some(cached), Some(new)) => Arc::ptr_eq(cached, new),
                (cached, new) => cached.is_none() && new.is_none(),
            };
            cached.index == spec.index && cached.built.is_some() == spec.built.is_some() && same_v2
        });
        by_name.insert(name.clone(), spec);
        if !is_same {
            self.publish(&by_name);
        }
    }

    fn publish(&self, by_name: &BTreeMap<Text, Spec>) {
        let mut published = PublishedSpecs::default();
        let mut others = RemoteDocuments::default();
        for (name, spec) in by_name {
            for (document, url) in &spec.index {
                others.index.entry(document.clone()).or_insert_with(|| url.clone());
                published.owners.entry(document.clone()).or_insert_with(|| name.clone());
            }
            others.v2.extend(spec.v2.clone());
        }
        let built = by_name.values().filter_map(|spec| spec.built.clone());
        let built = built.filter(|(name, _)| !others.index.contains_key(name)).collect();
        others.documents = built;
        published.others = Arc::new(others);
        self.published.store(Arc::new(published));
    }
}

impl Aggregator {
    /// Reads the document of version 3 of a group version from the remote server that has it.
    pub async fn document(&self, group: &str, version: &str) -> Option<binnacle_schema::Value> {
        let name = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let others = self.0.specs.others();
        let json = match others.documents.get(&name) {
            Some(built) => built.json().clone(),
            None => self.fetch_document(&name, others.index.get(&name)?).await?,
        };
        let limits = Limits { max_bytes: V2_LIMIT, ..Limits::default() };
        let parse = move || binnacle_schema::json::parse(&json, &limits).ok();
        tokio::task::spawn_blocking(parse).await.ok().flatten()
    }

    async fn fetch_document(&self, name: &str, url: &str) -> Option<Bytes> {
        let owner = self.0.specs.owner(&format!("{V3}/{name}"))?;
        let remote = self.0.registry.load().by_name.get(&owner)?.remote.clone()?;
        let user = aggregator_user();
        let request = FetchRequest {
            delete_options: None,
            path: url,
            accept: "application/json",
            if_none_match: "",
            user: &user,
            timeout: TIMEOUT,
            limit: Some(V2_LIMIT),
            is_for_peer: false,
        };
        let response = fetch(&remote, &request).await.ok()?;
        (response.code == 200).then_some(response.body)
    }
}

/// Polls the documents of an APIService's server as long as the APIService exists.
pub(crate) async fn poll(inner: Weak<Inner>, name: Text, changed: Arc<Notify>) {
    let mut retry = RETRY;
    loop {
        let pause = {
            let Some(inner) = inner.upgrade() else { return };
            let registry = inner.registry.load_full();
            let Some(remote) = registry.by_name.get(&name).and_then(|entry| entry.remote.clone()) else { return };
            let read = match remote.is_available {
                true => read(&inner.specs, &inner.catalog.snapshot().served().clone(), &remote).await,
                false => Err("service unavailable".to_owned()),
            };
            match read {
                Ok(spec) => {
                    inner.specs.put(&name, spec);
                    retry = RETRY;
                    REFRESH
                }
                // Keeps the last documents, since the server may recover soon.
                Err(why) => {
                    tracing::debug!(api_service = %name, why, "no OpenAPI documents");
                    let pause = retry;
                    retry = (retry * 2).min(REFRESH);
                    pause
                }
            }
        };
        tokio::select! {
            () = changed.notified() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}

async fn read(specs: &Specs, own: &ServedResources, remote: &Remote) -> Result<Spec, String> {
    let user = User::new("system:aggregator", &[]);
    let request = FetchRequest {
        delete_options: None,
        path: V3,
        accept: "",
        if_none_match: "",
        user: &user,
        timeout: TIMEOUT,
        limit: Some(INDEX_LIMIT),
        is_for_peer: false,
    };
    let index = fetch(remote, &request).await.map_err(|error| error.to_string())?;
    let mut spec = specs.cached(&remote.name);
    let has_no_index = index.code == 404;
    spec.index = match index.code {
        200 => {
            // Parsing a large document here would block other requests.
            let index = tokio::task::spawn_blocking(move || parse_index(&index.body)).await;
            select_documents(index.map_err(|error| error.to_string())??, own, remote)
        }
        404 => BTreeMap::new(),
        code => return Err(format!("could not get list of group versions for APIService: {code}")),
    };
    let request = FetchRequest {
        path: "/openapi/v2",
        accept: "application/json",
        if_none_match: &spec.v2_etag.clone(),
        limit: Some(V2_LIMIT),
        ..request
    };
    // A server without this document may still have those of version 3.
    match fetch(remote, &request).await {
        Ok(response) if response.code == 200 => {
            let etag = response.header(ETAG).to_owned();
            let prefix = format!("/apis/{}/{}/", remote.group, remote.version);
            let cached = spec.v2.take();
            let parse = move || {
                let memory = estimated_memory(&response.body);
                let document = parse_v2(&response.body, memory, &prefix);
                let document = match cached.filter(|cached| document.as_ref() == Some(&**cached)) {
                    Some(cached) => Some(cached),
                    None => document.map(Arc::new),
                };
                (document, memory)
            };
            let parsed = tokio::task::spawn_blocking(parse).await.map_err(|error| error.to_string())?;
            (spec.v2, spec.v2_memory) = parsed;
            spec.v2_etag = etag;
        }
        Ok(response) if response.code == 304 => {}
        Ok(response) if response.code == 404 => spec.v2 = None,
        _ => {}
    }
    let name = format!("apis/{}/{}", remote.group, remote.version);
    spec.built = match spec.v2.clone().filter(|_| has_no_index) {
        Some(v2) => {
            let build = move || limited(CONVERSION, || ConvertedDocument::new(&convert_to_v3(&v2)));
            let built = tokio::task::spawn_blocking(build).await.map_err(|error| error.to_string())?;
            Some((name, Arc::new(built.map_err(|exceeded| exceeded.to_string())?)))
        }
        None => None,
    };
    Ok(spec)
}

/// Parses a document of version 2, without the paths of other versions.
fn parse_v2(body: &[u8], memory: usize, prefix: &str) -> Option<Value> {
    if memory > MAX_MEMORY {
        tracing::warn!(memory, "OpenAPI document of aggregated API server is too large");
        return None;
    }
    let mut document: Value = serde_json::from_slice(body).ok()?;
    keep_paths(&mut document, prefix);
    Some(document)
}

/// Returns an upper bound of the memory that the tree of a JSON document takes: a list of objects with one member each
/// takes a hundred times the size of its text. Counting these characters inside of strings as well only raises the
/// bound.
fn estimated_memory(body: &[u8]) -> usize {
    let members = body.iter().map(|byte| match byte {
        // A node of the map of members.
        b'{' => 640,
        b'[' => 128,
        b',' => 64,
        b'"' => 8,
        _ => 0,
    });
    body.len() + members.sum::<usize>()
}

/// The index of documents of version 3.
#[derive(Deserialize)]
struct Index {
    paths: Option<BTreeMap<String, Option<IndexEntry>>>,
}

#[derive(Deserialize)]
struct IndexEntry {
    #[serde(rename = "serverRelativeURL")]
    url: Option<String>,
}

/// Parses an index, and returns the URLs of documents by their names.
fn parse_index(body: &[u8]) -> Result<BTreeMap<String, String>, String> {
    let index: Index = serde_json::from_slice(body).map_err(|error| error.to_string())?;
    let entries = index.paths.into_iter().flatten();
    Ok(entries.filter_map(|(name, entry)| Some((name, entry?.url?))).collect())
}

/// Returns the documents of the APIService's group: for its version, and for versions that this server does not serve
/// itself.
fn select_documents(
    mut index: BTreeMap<String, String>,
    own: &ServedResources,
    remote: &Remote,
) -> BTreeMap<String, String> {
    let group = format!("apis/{}", remote.group);
    index.retain(|name, _| match name.strip_prefix(&group) {
        Some("") => own.group(&remote.group).is_none(),
        Some(rest) => rest
            .strip_prefix('/')
            .is_some_and(|version| version == remote.version || own.version(&remote.group, version).is_none()),
        None => false,
    });
    index
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_indexes() {
        let index = r#"{"x":[{}],"paths":{"a":{"serverRelativeURL":"/a"},"b":{},"c":null}}"#;
        let found = parse_index(index.as_bytes()).expect("an index");
        assert_eq!(found, BTreeMap::from([("a".to_owned(), "/a".to_owned())]));
        assert_eq!(parse_index(b"{}"), Ok(BTreeMap::new()));
        assert!(parse_index(br#"{"paths":[]}"#).is_err());
    }

    #[test]
    fn limits_the_memory_of_all_documents() {
        let specs = Specs::default();
        let spec = || Spec { v2: Some(Arc::new(Value::Null)), v2_memory: MAX_MEMORY, ..Spec::default() };
        let names: Vec<Text> = (0..5).map(|n| format!("v{n}.test").into()).collect();
        names.iter().for_each(|name| specs.put(name, spec()));
        assert_eq!(specs.others().v2.len(), MAX_TOTAL_MEMORY / MAX_MEMORY);
        // A document that is there already may be replaced, and one that goes makes room.
        specs.put(&names[0], spec());
        assert_eq!(specs.others().v2.len(), MAX_TOTAL_MEMORY / MAX_MEMORY);
        specs.forget(&names[1]);
        specs.put(&names[4], spec());
        assert!(specs.cached(&names[4]).v2.is_some());
    }

    #[test]
    fn rejects_documents_by_estimated_memory() {
        let prefix = "/apis/a.b/v1/";
        let document = |item: &str, count: usize| {
            let items = vec![item; count].join(",");
            format!("{{\"paths\":{{\"/apis/a.b/v1/x\":[{items}],\"/apis/a.b/v2/x\":1}}}}").into_bytes()
        };
        let parse = |body: Vec<u8>| parse_v2(&body, estimated_memory(&body), prefix);
        let parsed = parse(document("{\"a\":1}", 1000)).expect("a document");
        assert_eq!(parsed["paths"].as_object().map(serde_json::Map::len), Some(1));
        for (item, count) in [("{\"a\":1}", 70_000), ("1", 800_000), ("[1]", 300_000), ("\"\"", 700_000)] {
            assert!(parse(document(item, count)).is_none(), "{item}");
        }
    }
}
