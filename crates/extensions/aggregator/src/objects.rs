//! The objects of one kind on a remote server, cached by a list and a watch while they are in use.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};
use std::time::Duration;

use binnacle_fields::meta::v1::{
    ListMeta, ObjectMeta, PartialObjectMetadata as AnyKind, PartialObjectMetadataList as ObjectList, Status, WatchEvent,
};
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_request::{BoxFuture, User};
use binnacle_schema::{Limits, Value, json};
use bytes::{Bytes, BytesMut};
use http_body_util::BodyExt;
use parking_lot::RwLock;
use tokio::sync::watch;

use crate::aggregator::{Aggregator, Inner};
use crate::fetch::{FetchRequest, FetchResponse, fetch, open_stream};
use crate::remote::Remote;

/// The maximum size of a page of a list, and of an event.
const LIMIT: usize = 64 << 20;
/// The number of objects per page of a list.
pub(crate) const PAGE: usize = 500;
/// The bytes of names and tokens that stay as they are in URLs.
pub(crate) const UNESCAPED: &[u8] = b"-_.~";
const TIMEOUT: Duration = Duration::from_secs(60);
/// The requested duration of a watch, and the additional time after which this server gives up on it.
const WATCH_TIMEOUT: Duration = Duration::from_secs(480);
const WATCH_GRACE: Duration = Duration::from_secs(30);
/// The first and the longest pause after a failure, as in client-go's reflector.
const RETRY: Duration = Duration::from_millis(800);
const MAX_RETRY: Duration = Duration::from_secs(30);
/// The maximum time to wait for the first list.
const FIRST_LIST_TIMEOUT: Duration = Duration::from_secs(1);

type Key = (Text, Text);

/// The objects of a kind that a remote server serves. They are watched until this value is dropped.
pub struct RemoteObjects {
    /// True if the kind is namespaced.
    pub namespaced: bool,
    /// By namespace and name.
    objects: RwLock<BTreeMap<Key, Arc<Value>>>,
    /// True once all objects have been read.
    read: watch::Sender<bool>,
}

impl Aggregator {
    /// Starts to watch the objects of a kind; `None` if no remote server lists the kind in its discovery.
    pub fn objects(&self, kind: &GroupVersionKind) -> Option<Arc<RemoteObjects>> {
        let registry = self.0.registry.load();
        let prefix = if kind.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", kind.group) };
        let remote = registry.remote_of(&format!("{prefix}/{}/", kind.version))?;
        let documents = self.0.documents.all();
        let (_, document) = documents.iter().find(|(name, _)| *name == remote.name)?;
        let found = document.resources.iter().find(|resource| resource.kind.kind == kind.kind)?;
        let objects = Arc::new(RemoteObjects {
            namespaced: found.is_namespaced(),
            objects: RwLock::default(),
            read: watch::Sender::new(false),
        });
        let reflector =
            Reflector { inner: Arc::downgrade(&self.0), path: format!("{}/{}", remote.path(), found.plural) };
        tokio::spawn(reflector.run(Arc::downgrade(&objects)));
        Some(objects)
    }
}

impl Aggregator {
    /// Returns the kinds of a resource in the discovery of remote servers; the empty group matches any.
    pub fn kinds(&self, group: &str, version: &str, plural: &str) -> Vec<GroupVersionKind> {
        let registry = self.0.registry.load();
        let mut found = Vec::new();
        for (name, document) in self.0.documents.all() {
            let remote = registry.by_name.get(&name).and_then(|entry| entry.remote.as_ref());
            let is_requested =
                |remote: &&Arc<Remote>| (group.is_empty() || remote.group == group) && remote.version == version;
            let Some(remote) = remote.filter(is_requested) else { continue };
            // The group version of the APIService counts, not the one in the document.
            let resources = document.resources.iter().filter(|resource| resource.plural == plural);
            found.extend(resources.map(|resource| {
                GroupVersionKind::new(remote.group.clone(), remote.version.clone(), resource.kind.kind.clone())
            }));
        }
        found
    }
}

impl RemoteObjects {
    /// Waits a short time for the first list; returns true once all objects have been read.
    pub fn are_read(&self) -> BoxFuture<'_, bool> {
        Box::pin(async {
            let mut read = self.read.subscribe();
            tokio::time::timeout(FIRST_LIST_TIMEOUT, read.wait_for(|read| *read)).await.is_ok_and(|read| read.is_ok())
        })
    }

    /// Returns an object; `namespace` is empty for cluster-scoped kinds.
    pub fn get(&self, namespace: &str, name: &str) -> Option<Arc<Value>> {
        self.objects.read().get(&(namespace.into(), name.into())).cloned()
    }

    /// Returns the objects of a namespace, or all objects of a cluster-scoped kind, by name.
    pub fn list(&self, namespace: &str) -> Vec<Arc<Value>> {
        let first: Key = (namespace.into(), Text::default());
        let objects = self.objects.read();
        let found = objects.range(first..).take_while(|((of, _), _)| of == namespace);
        found.map(|(_, object)| object.clone()).collect()
    }

    fn replace(&self, objects: BTreeMap<Key, Arc<Value>>) {
        *self.objects.write() = objects;
        self.read.send_replace(true);
    }

    /// Applies a watch event; returns the resource version reached.
    fn apply(&self, event: &Value) -> Result<Text, WatchEnd> {
        let event = FieldRef::<WatchEvent>::root(event);
        let object = event.at(WatchEvent::OBJECT).value();
        let version = Text::from(metadata(object).at(ObjectMeta::RESOURCE_VERSION).str());
        match event.at(WatchEvent::TYPE).str() {
            "ADDED" | "MODIFIED" => drop(self.objects.write().insert(key(object), Arc::new(object.clone()))),
            "DELETED" => drop(self.objects.write().remove(&key(object))),
            "BOOKMARK" => {}
            "ERROR" => {
                // The watch expired or was refused otherwise, so the objects are listed again.
                return Err(WatchEnd::Refused(FieldRef::root(object).at(Status::MESSAGE).str().to_owned()));
            }
            other => return Err(WatchEnd::Refused(format!("unable to understand watch event {other:?}"))),
        }
        Ok(version)
    }
}

/// The reason for the early end of a watch.
#[derive(Debug)]
enum WatchEnd {
    /// The watch can be continued from the version reached.
    Interrupted,
    /// The objects must be listed again.
    Refused(String),
    /// The objects are no longer in use.
    Unneeded,
}

struct Reflector {
    inner: Weak<Inner>,
    /// The path of the collection, in all namespaces.
    path: String,
}

impl Reflector {
    /// Runs while the objects are in use.
    async fn run(self, objects: Weak<RemoteObjects>) {
        let mut pause = RETRY;
        while objects.strong_count() > 0 {
            let why = match self.list(&objects).await {
                Ok(version) => {
                    pause = RETRY;
                    match self.watch(&objects, version).await {
                        WatchEnd::Unneeded => return,
                        WatchEnd::Refused(why) => why,
                        WatchEnd::Interrupted => "interrupted".to_owned(),
                    }
                }
                Err(why) => why,
            };
            tracing::debug!(path = self.path, why, "the objects of another server are read again");
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(MAX_RETRY);
        }
    }

    fn remote(&self) -> Result<Arc<Remote>, String> {
        let inner = self.inner.upgrade().ok_or("the server stops")?;
        let registry = inner.registry.load();
        let remote = registry.remote_of(&self.path).ok_or("the server could not find the requested resource")?;
        if !remote.is_available {
            return Err("service unavailable".to_owned());
        }
        Ok(remote.clone())
    }

    async fn get(&self, path: &str) -> Result<FetchResponse, String> {
        let user = apiserver();
        let response = fetch(&*self.remote()?, &fetch_request(path, &user)).await.map_err(|error| error.to_string())?;
        match response.code {
            200 => Ok(response),
            _ => Err(response.failure()),
        }
    }

    /// Lists all objects; returns the resource version of the list.
    async fn list(&self, objects: &Weak<RemoteObjects>) -> Result<Text, String> {
        let (mut found, mut next) = (BTreeMap::new(), String::new());
        loop {
            let page = self.get(&format!("{}?limit={PAGE}{next}", self.path)).await?;
            let list = parse(&page.body)?;
            let list = FieldRef::<ObjectList>::root(&list);
            let (api_version, kind) = (list.at(ObjectList::API_VERSION).str(), list.at(ObjectList::KIND).str());
            let kind = kind.strip_suffix("List").unwrap_or_default();
            for item in list.at(ObjectList::ITEMS).values() {
                let mut object = item.value().clone();
                // Servers with typed lists omit the type of items.
                if item.at(AnyKind::KIND).is_empty() {
                    let mut object = FieldMut::<AnyKind>::root(&mut object);
                    object.set(AnyKind::KIND, kind);
                    object.set(AnyKind::API_VERSION, api_version);
                }
                found.insert(key(&object), Arc::new(object));
            }
            let Some(rest) = next_page(list) else {
                let version = list.at(ObjectList::METADATA).at(ListMeta::RESOURCE_VERSION).str().into();
                let Some(objects) = objects.upgrade() else { return Ok(version) };
                objects.replace(found);
                return Ok(version);
            };
            next = rest;
        }
    }

    /// Watches changes from a resource version on, in as many watches as needed.
    async fn watch(&self, objects: &Weak<RemoteObjects>, mut version: Text) -> WatchEnd {
        loop {
            let before = version.clone();
            let one = self.watch_once(objects, &mut version);
            match tokio::time::timeout(WATCH_TIMEOUT + WATCH_GRACE, one).await {
                Ok(WatchEnd::Interrupted) | Err(_) if version != before => {}
                // Pauses after a watch without events.
                Ok(WatchEnd::Interrupted) | Err(_) => tokio::time::sleep(RETRY).await,
                Ok(end) => return end,
            }
        }
    }

    /// Reads one watch until it ends.
    async fn watch_once(&self, objects: &Weak<RemoteObjects>, version: &mut Text) -> WatchEnd {
        let seconds = WATCH_TIMEOUT.as_secs();
        let from = binnacle_client::path::escape(version, b"-_.~");
        let path = format!(
            "{}?watch=true&allowWatchBookmarks=true&timeoutSeconds={seconds}&resourceVersion={from}",
            self.path
        );
        let user = apiserver();
        let opened = match self.remote() {
            Ok(remote) => open_stream(&remote, &fetch_request(&path, &user)).await.map_err(|error| error.to_string()),
            Err(why) => Err(why),
        };
        let (code, mut body) = match opened {
            Ok(opened) => opened,
            Err(why) => return WatchEnd::Refused(why),
        };
        if code != 200 {
            return WatchEnd::Refused(format!("the watch is answered with {code}"));
        }
        let mut lines = LineBuffer::default();
        loop {
            // Holds no strong reference while waiting for events.
            let frame = tokio::select! {
                frame = body.frame() => frame,
                () = wait_until_unneeded(objects) => return WatchEnd::Unneeded,
            };
            let Some(Ok(frame)) = frame else { return WatchEnd::Interrupted };
            let Ok(data) = frame.into_data() else { continue };
            let Ok(lines_read) = lines.add(&data) else { return WatchEnd::Refused("an event is too large".to_owned()) };
            let Some(objects) = objects.upgrade() else { return WatchEnd::Unneeded };
            for line in lines_read {
                let applied = match parse(&line) {
                    Ok(event) => objects.apply(&event),
                    Err(why) => Err(WatchEnd::Refused(why)),
                };
                match applied {
                    Ok(reached) if reached.is_empty() => {}
                    Ok(reached) => *version = reached,
                    Err(end) => return end,
                }
            }
        }
    }
}

/// Waits until the objects are no longer in use, which it checks periodically.
async fn wait_until_unneeded(objects: &Weak<RemoteObjects>) {
    while objects.strong_count() > 0 {
        tokio::time::sleep(MAX_RETRY).await;
    }
}

/// Returns this server as a user: remote servers see the same user as in kube-apiserver's own requests.
fn apiserver() -> User {
    User::new(User::APISERVER, &[User::MASTERS, User::AUTHENTICATED])
}

/// Returns the parameter of the request for the next page of a list, with `&`; `None` after the last page.
pub(crate) fn next_page(list: FieldRef<'_, '_, ObjectList>) -> Option<String> {
    let token = list.at(ObjectList::METADATA).at(ListMeta::CONTINUE).str();
    (!token.is_empty()).then(|| format!("&continue={}", binnacle_client::path::escape(token, UNESCAPED)))
}

pub(crate) fn fetch_request<'a>(path: &'a str, user: &'a User) -> FetchRequest<'a> {
    FetchRequest {
        delete_options: None,
        path,
        accept: "application/json",
        if_none_match: "",
        user,
        timeout: TIMEOUT,
        limit: Some(LIMIT),
        is_for_peer: false,
    }
}

pub(crate) fn parse(text: &[u8]) -> Result<Value, String> {
    json::parse(text, &Limits::default()).map_err(|error| error.to_string())
}

fn key(object: &Value) -> Key {
    let part = |field| metadata(object).at(field).str().into();
    (part(ObjectMeta::NAMESPACE), part(ObjectMeta::NAME))
}

/// Assembles lines from the chunks of a stream.
#[derive(Default)]
struct LineBuffer {
    partial: BytesMut,
    /// The length of the prefix that contains no end of a line.
    searched: usize,
}

impl LineBuffer {
    /// Adds a chunk, and returns the complete lines. Fails if a line exceeds the limit.
    fn add(&mut self, piece: &[u8]) -> Result<Vec<Bytes>, ()> {
        self.partial.extend_from_slice(piece);
        let mut lines_read = Vec::new();
        while let Some(end) = self.partial[self.searched..].iter().position(|byte| *byte == b'\n') {
            let line = self.partial.split_to(self.searched + end + 1).freeze();
            self.searched = 0;
            if !line.trim_ascii().is_empty() {
                lines_read.push(line);
            }
        }
        self.searched = self.partial.len();
        if self.partial.len() > LIMIT { Err(()) } else { Ok(lines_read) }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    fn object(namespace: &str, name: &str, version: &str) -> Value {
        value!({"metadata": {"namespace": namespace, "name": name, "resourceVersion": version}})
    }

    #[tokio::test]
    async fn applies_watch_events() {
        let objects = RemoteObjects { namespaced: true, objects: RwLock::default(), read: watch::Sender::new(false) };
        objects.replace([object("n", "a", "1"), object("o", "a", "1")].map(|o| (key(&o), Arc::new(o))).into());
        assert!(objects.are_read().await);
        for (kind, name, version, want) in [
            ("ADDED", "b", "2", &[("a", "1"), ("b", "2")][..]),
            ("MODIFIED", "a", "3", &[("a", "3"), ("b", "2")]),
            ("BOOKMARK", "", "4", &[("a", "3"), ("b", "2")]),
            ("DELETED", "a", "5", &[("b", "2")]),
        ] {
            let event = value!({"type": kind, "object": (object("n", name, version))});
            assert_eq!(objects.apply(&event).ok().as_deref(), Some(version));
            let found = objects.list("n");
            let found: Vec<_> = found
                .iter()
                .map(|o| (o.str_at(&["metadata", "name"]), o.str_at(&["metadata", "resourceVersion"])))
                .collect();
            assert_eq!(found, want, "{kind}");
        }
        assert!(objects.get("n", "b").is_some() && objects.get("n", "a").is_none() && objects.get("", "b").is_none());
        let expired = value!({"type": "ERROR", "object": {"code": 410i64, "message": "too old"}});
        assert!(matches!(objects.apply(&expired), Err(WatchEnd::Refused(why)) if why == "too old"));
    }

    #[test]
    fn splits_chunks_into_lines() {
        let mut lines = LineBuffer::default();
        let mut got = Vec::new();
        for piece in ["{\"a\"", ":1}\n{\"b\":", "2}\n\n", "{\"c\":3}\n{"] {
            got.extend(lines.add(piece.as_bytes()).unwrap());
        }
        assert_eq!(got, ["{\"a\":1}\n", "{\"b\":2}\n", "{\"c\":3}\n"]);
    }
}
