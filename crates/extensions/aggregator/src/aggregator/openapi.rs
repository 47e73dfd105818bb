//! The OpenAPI documents of other servers: the index of version 3, whose documents are requested from them on demand,
//! and the whole document of version 2.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Weak};
use std::time::Duration;

use arc_swap::ArcSwap;
use binnacle_meta::Text;
use binnacle_openapi::{Made, Others, converted, keep_paths};
use binnacle_request::User;
use binnacle_schema::Limits;
use binnacle_scheme::Served;
use binnacle_work::{WorkLimits, limited};
use bytes::Bytes;
use http::header::ETAG;
use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::Value;
use tokio::sync::Notify;

use crate::aggregator::{Aggregator, Inner};
use crate::fetch::{Question, aggregator_user, fetch};
use crate::remote::Remote;

/// The timeout for the documents, which may be large.
const TIMEOUT: Duration = Duration::from_secs(60);
/// The first and the longest pause after a failure; the longest is also the period after a success.
const RETRY: Duration = Duration::from_secs(1);
const REFRESH: Duration = Duration::from_secs(60);
/// The maximum sizes of the documents. An index with a thousand group versions has 100 KB.
const INDEX_LIMIT: usize = 1 << 20;
const V2_LIMIT: usize = 32 << 20;

/// The maximum memory of a document of version 2. That of Kubernetes itself takes 22 MiB.
const MAX_MEMORY: usize = 48 << 20;
/// The limits of making a document of version 3.
const CONVERSION: WorkLimits = WorkLimits { steps: 100_000_000, memory: 64 << 20 };

const V3: &str = "/openapi/v3";

/// The OpenAPI documents of all servers.
#[derive(Default)]
pub(crate) struct Specs {
    by_name: Mutex<BTreeMap<Text, Spec>>,
    told: ArcSwap<Told>,
}

/// The documents of one server for the group version of an APIService.
#[derive(Clone, Default)]
struct Spec {
    /// The names and URLs of the documents of version 3.
    index: BTreeMap<String, String>,
    /// The document of version 3 made from that of version 2, if there is no index.
    made: Option<(String, Arc<Made>)>,
    v2: Option<Arc<Value>>,
    v2_etag: String,
}

/// All documents, as requests read them.
#[derive(Default)]
struct Told {
    others: Arc<Others>,
    /// The APIServices by the names of their servers' documents of version 3.
    owners: HashMap<String, Text>,
}

impl Specs {
    pub(crate) fn others(&self) -> Arc<Others> {
        self.told.load().others.clone()
    }

    /// Returns the name of the APIService whose server has the document at a path.
    pub(crate) fn owner(&self, path: &str) -> Option<Text> {
        let name = path.strip_prefix(V3)?.strip_prefix('/')?;
        self.told.load().owners.get(name).cloned()
    }

    pub(crate) fn forget(&self, name: &str) {
        let mut by_name = self.by_name.lock();
        if by_name.remove(name).is_some() {
            self.publish(&by_name);
        }
    }

    fn known(&self, name: &str) -> Spec {
        self.by_name.lock().get(name).cloned().unwrap_or_default()
    }

    fn put(&self, name: &Text, spec: Spec) {
        let mut by_name = self.by_name.lock();
        let is_same = by_name.get(name).is_some_and(|known| {
            let same_v2 = match (&known.v2, &spec.v2) {
                (Some(known), Some(new)) => Arc::ptr_eq(known, new),
                (known, new) => known.is_none() && new.is_none(),
            };
            known.index == spec.index && known.made.is_some() == spec.made.is_some() && same_v2
        });
        by_name.insert(name.clone(), spec);
        if !is_same {
            self.publish(&by_name);
        }
    }

    fn publish(&self, by_name: &BTreeMap<Text, Spec>) {
        let mut told = Told::default();
        let mut others = Others::default();
        for (name, spec) in by_name {
            for (document, url) in &spec.index {
                others.index.entry(document.clone()).or_insert_with(|| url.clone());
                told.owners.entry(document.clone()).or_insert_with(|| name.clone());
            }
            others.v2.extend(spec.v2.clone());
        }
        let made = by_name.values().filter_map(|spec| spec.made.clone());
        let made = made.filter(|(name, _)| !others.index.contains_key(name)).collect();
        others.documents = made;
        told.others = Arc::new(others);
        self.told.store(Arc::new(told));
    }
}

impl Aggregator {
    /// Reads the document of version 3 of a group version that another server has.
    pub async fn document(&self, group: &str, version: &str) -> Option<binnacle_schema::Value> {
        let name = if group.is_empty() { format!("api/{version}") } else { format!("apis/{group}/{version}") };
        let others = self.0.specs.others();
        let json = match others.documents.get(&name) {
            Some(made) => made.json().clone(),
            None => self.fetched(&name, others.index.get(&name)?).await?,
        };
        let limits = Limits { max_bytes: V2_LIMIT, ..Limits::default() };
        let parse = move || binnacle_schema::json::parse(&json, &limits).ok();
        tokio::task::spawn_blocking(parse).await.ok().flatten()
    }

    async fn fetched(&self, name: &str, url: &str) -> Option<Bytes> {
        let owner = self.0.specs.owner(&format!("{V3}/{name}"))?;
        let remote = self.0.registry.load().by_name.get(&owner)?.remote.clone()?;
        let user = aggregator_user();
        let question = Question {
            path: url,
            accept: "application/json",
            if_none_match: "",
            user: &user,
            timeout: TIMEOUT,
            limit: Some(V2_LIMIT),
            is_for_peer: false,
        };
        let answer = fetch(&remote, &question).await.ok()?;
        (answer.code == 200).then_some(answer.body)
    }
}

/// Reads the documents of an APIService's server as long as the APIService exists.
pub(crate) async fn follow(inner: Weak<Inner>, name: Text, changed: Arc<Notify>) {
    let mut retry = RETRY;
    loop {
        let pause = {
            let Some(inner) = inner.upgrade() else { return };
            let registry = inner.registry.load_full();
            let Some(remote) = registry.by_name.get(&name).and_then(|known| known.remote.clone()) else { return };
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
                // The last documents are kept: the server may return soon.
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

async fn read(specs: &Specs, own: &Served, remote: &Remote) -> Result<Spec, String> {
    let user = User::new("system:aggregator", &[]);
    let question = Question {
        path: V3,
        accept: "",
        if_none_match: "",
        user: &user,
        timeout: TIMEOUT,
        limit: Some(INDEX_LIMIT),
        is_for_peer: false,
    };
    let index = fetch(remote, &question).await.map_err(|error| error.to_string())?;
    let mut spec = specs.known(&remote.name);
    let has_none = index.code == 404;
    spec.index = match index.code {
        200 => {
            // Parsing a large document would block other requests.
            let index = tokio::task::spawn_blocking(move || parse_index(&index.body)).await;
            wanted(index.map_err(|error| error.to_string())??, own, remote)
        }
        404 => BTreeMap::new(),
        code => return Err(format!("could not get list of group versions for APIService: {code}")),
    };
    let question = Question {
        path: "/openapi/v2",
        accept: "application/json",
        if_none_match: &spec.v2_etag.clone(),
        limit: Some(V2_LIMIT),
        ..question
    };
    // A server without this document may still have those of version 3.
    match fetch(remote, &question).await {
        Ok(answer) if answer.code == 200 => {
            let etag = answer.header(ETAG).to_owned();
            let prefix = format!("/apis/{}/{}/", remote.group, remote.version);
            let known = spec.v2.take();
            let parse = move || {
                let document = parse_v2(&answer.body, &prefix);
                if document.is_some() && known.as_deref() == document.as_ref() { known } else { document.map(Arc::new) }
            };
            spec.v2 = tokio::task::spawn_blocking(parse).await.map_err(|error| error.to_string())?;
            spec.v2_etag = etag;
        }
        Ok(answer) if answer.code == 304 => {}
        Ok(answer) if answer.code == 404 => spec.v2 = None,
        _ => {}
    }
    let name = format!("apis/{}/{}", remote.group, remote.version);
    spec.made = match spec.v2.clone().filter(|_| has_none) {
        Some(v2) => {
            let make = move || limited(CONVERSION, || Made::new(&converted(&v2)));
            let made = tokio::task::spawn_blocking(make).await.map_err(|error| error.to_string())?;
            Some((name, Arc::new(made.map_err(|exceeded| exceeded.to_string())?)))
        }
        None => None,
    };
    Ok(spec)
}

/// Parses a document of version 2, without the paths of other versions.
fn parse_v2(body: &[u8], prefix: &str) -> Option<Value> {
    let memory = estimated_memory(body);
    if memory > MAX_MEMORY {
        tracing::warn!(memory, "the OpenAPI document of another server is too large");
        return None;
    }
    let mut document: Value = serde_json::from_slice(body).ok()?;
    keep_paths(&mut document, prefix);
    Some(document)
}

/// Returns an upper bound of the memory of a JSON document as a tree: a list of objects with one member each takes a
/// hundred times its text. Some of these characters are in texts, too.
fn estimated_memory(body: &[u8]) -> usize {
    let members = body.iter().map(|byte| match byte {
        // A node of the tree of members.
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

/// Returns the documents of the APIService's group: those of its version, and of versions that this server does not serve
/// itself.
fn wanted(mut index: BTreeMap<String, String>, own: &Served, remote: &Remote) -> BTreeMap<String, String> {
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
    fn rejects_documents_by_estimated_memory() {
        let prefix = "/apis/a.b/v1/";
        let document = |item: &str, count: usize| {
            let items = vec![item; count].join(",");
            format!("{{\"paths\":{{\"/apis/a.b/v1/x\":[{items}],\"/apis/a.b/v2/x\":1}}}}").into_bytes()
        };
        let parsed = parse_v2(&document("{\"a\":1}", 1000), prefix).expect("a document");
        assert_eq!(parsed["paths"].as_object().map(serde_json::Map::len), Some(1));
        for (item, count) in [("{\"a\":1}", 70_000), ("1", 800_000), ("[1]", 300_000), ("\"\"", 700_000)] {
            assert!(parse_v2(&document(item, count), prefix).is_none(), "{item}");
        }
    }
}
