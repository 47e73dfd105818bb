//! The versions of one object in the retained history, with the changes between them and who made them.

use std::collections::BTreeMap;
use std::path::Path;

use binnacle_encryption::Encryption;
use binnacle_registry::decode_stored;
use binnacle_resources::key_prefixes;
use binnacle_store::{Event, Revision, StoreError, WatchMessage};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};

use crate::Error;
use crate::doctor::configured;
use crate::keys::KeyOwners;
use crate::location::ReadableStore;

/// The maximum length of a value in a change, in characters.
const MAX_SHOWN: usize = 200;
/// Fields that change with every version, or say what the rest of a version says.
const HIDDEN: [&str; 2] = ["metadata.managedFields", "metadata.resourceVersion"];

/// The name of an object.
pub(crate) struct ObjectName<'a> {
    /// `PLURAL` or `PLURAL.GROUP`.
    pub(crate) resource: &'a str,
    /// `NAME` or `NAMESPACE/NAME`.
    pub(crate) name: &'a str,
}

/// The versions of an object, oldest first.
pub(crate) struct History {
    /// The first revision of the history.
    begins: Revision,
    versions: Vec<Version>,
}

struct Version {
    revision: Revision,
    state: State,
    /// Who has written fields of this version: manager, operation, time.
    writers: Vec<Writer>,
    changes: Vec<Change>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    /// The object existed at the beginning of the history.
    Before,
    Created,
    Changed,
    Deleted,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Writer {
    manager: String,
    operation: String,
    time: String,
}

/// A field with its values before and after.
#[derive(Debug, PartialEq)]
struct Change {
    path: String,
    before: Option<Value>,
    after: Option<Value>,
}

/// Reads the history of an object. `encryption` is the server's `--encryption-provider-config`.
pub(crate) async fn read(
    opened: &ReadableStore,
    object: &ObjectName<'_>,
    encryption: Option<&Path>,
) -> Result<History, Error> {
    let encryption = match encryption {
        Some(path) => Some(configured(path, &opened.root).await?),
        None => None,
    };
    let reader = Reader { keys: KeyOwners::new(&opened.root), encryption };
    let store = &*opened.store;
    let key = Bytes::from(format!("{}{}/{}", opened.root, key_prefix(object.resource), object.name));
    let begins = store.compacted_revision().await?;
    let mut versions = Vec::new();
    let mut last: Option<Value> = None;
    if begins > Revision(0)
        && let (Some(kv), _) = store.get(key.clone(), Some(begins)).await?
    {
        let value = reader.value(&kv.key, &kv.value).await?;
        versions.push(Version::of(kv.mod_revision, State::Before, None, &value));
        last = Some(value);
    }
    let end = Bytes::from([&*key, b"\0"].concat());
    let mut watch = store.watch(key..end, begins).await?;
    let barrier = watch.control.barrier().await?;
    let mut reached = Revision(0);
    while reached < barrier.last_event {
        let message = watch.messages.next().await.unwrap_or(Err(StoreError::Closed))?;
        let WatchMessage::Events(events) = message else { continue };
        for event in events {
            reached = event.revision();
            match event {
                Event::Put { kv, .. } => {
                    let value = reader.value(&kv.key, &kv.value).await?;
                    let state = if last.is_some() { State::Changed } else { State::Created };
                    versions.push(Version::of(kv.mod_revision, state, last.as_ref(), &value));
                    last = Some(value);
                }
                Event::Delete { revision, .. } => {
                    let (writers, changes) = (Vec::new(), Vec::new());
                    versions.push(Version { revision, state: State::Deleted, writers, changes });
                    last = None;
                }
            }
        }
    }
    Ok(History { begins, versions })
}

/// Returns the prefix of the keys of a resource, without the root. That of a custom resource is its group and plural.
fn key_prefix(resource: &str) -> String {
    let (plural, group) = resource.split_once('.').unwrap_or((resource, ""));
    let built_in = key_prefixes().find(|(_, known)| (&*known.resource, &*known.group) == (plural, group));
    match built_in {
        Some((prefix, _)) => prefix.to_string(),
        None => format!("{group}/{plural}"),
    }
}

struct Reader {
    keys: KeyOwners,
    encryption: Option<Encryption>,
}

impl Reader {
    /// Returns a stored object as JSON.
    async fn value(&self, key: &Bytes, stored: &Bytes) -> Result<Value, Error> {
        let stored = match &self.encryption {
            Some(encryption) => {
                encryption.read(key, stored).await.map_err(|error| Error::context("decrypting a version", error))?
            }
            None if stored.starts_with(b"k8s:enc:") => {
                return Err(Error::new("the object is encrypted: use --encryption-provider-config"));
            }
            None => stored.clone(),
        };
        let text = match self.keys.stored_type(key) {
            Some(kind) => {
                let object = decode_stored(kind, &stored).map_err(Error::new)?;
                let mut text = Vec::new();
                binnacle_schema::json::write(&object, &mut text);
                text
            }
            None => stored.to_vec(),
        };
        serde_json::from_slice(&text).map_err(|error| Error::context("decoding a version", error))
    }
}

// === impl Version ===

impl Version {
    fn of(revision: Revision, state: State, before: Option<&Value>, after: &Value) -> Self {
        let known = before.map(writers).unwrap_or_default();
        let writers = writers(after).into_iter().filter(|writer| !known.contains(writer)).collect();
        let mut changes = Vec::new();
        if let Some(before) = before {
            compare("", Some(before), Some(after), &mut changes);
            changes.retain(|change| !HIDDEN.iter().any(|hidden| change.path.starts_with(hidden)));
        }
        Self { revision, state, writers, changes }
    }

    fn text(&self) -> String {
        let what = match self.state {
            State::Before => "existed before the history",
            State::Created => "created",
            State::Changed => "changed",
            State::Deleted => "deleted",
        };
        let by: Vec<_> = self.writers.iter().map(Writer::text).collect();
        let by = if by.is_empty() { String::new() } else { format!(" by {}", by.join(", ")) };
        let mut text = format!("revision {}: {what}{by}\n", self.revision.0);
        for change in &self.changes {
            let show = |value: &Option<Value>| value.as_ref().map_or("(none)".to_owned(), shown);
            text.push_str(&format!("  {}: {} -> {}\n", change.path, show(&change.before), show(&change.after)));
        }
        text
    }
}

impl Writer {
    fn text(&self) -> String {
        // Entries of the subresource scale have no time.
        let time = if self.time.is_empty() { String::new() } else { format!(" at {}", self.time) };
        format!("{} ({}){time}", self.manager, self.operation)
    }
}

/// Returns the managers of an object's fields.
fn writers(object: &Value) -> Vec<Writer> {
    let entries = object["metadata"]["managedFields"].as_array();
    let text = |entry: &Value, name: &str| entry[name].as_str().unwrap_or_default().to_owned();
    let writer = |entry: &Value| {
        let operation = match entry["subresource"].as_str() {
            Some(subresource) => format!("{} of {subresource}", text(entry, "operation")),
            None => text(entry, "operation"),
        };
        Writer { manager: text(entry, "manager"), operation, time: text(entry, "time") }
    };
    entries.into_iter().flatten().map(writer).collect()
}

/// Adds the fields that differ. Items of lists are compared by their position.
fn compare(path: &str, before: Option<&Value>, after: Option<&Value>, changes: &mut Vec<Change>) {
    match (before, after) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            let names: BTreeMap<&String, ()> = a.keys().chain(b.keys()).map(|name| (name, ())).collect();
            for name in names.into_keys() {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                compare(&path, a.get(name), b.get(name), changes);
            }
        }
        (Some(Value::Array(a)), Some(Value::Array(b))) => {
            for at in 0..a.len().max(b.len()) {
                compare(&format!("{path}[{at}]"), a.get(at), b.get(at), changes);
            }
        }
        (before, after) if before == after => {}
        (before, after) => {
            changes.push(Change { path: path.to_owned(), before: before.cloned(), after: after.cloned() });
        }
    }
}

fn shown(value: &Value) -> String {
    let text = value.to_string();
    match text.char_indices().nth(MAX_SHOWN) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text,
    }
}

// === impl History ===

impl History {
    pub(crate) fn text(&self) -> String {
        let begins = format!("The history begins at revision {}.\n", self.begins.0);
        match self.versions.is_empty() {
            true => format!("{begins}It has no version of this object.\n"),
            false => begins + &self.versions.iter().map(Version::text).collect::<String>(),
        }
    }

    pub(crate) fn json(&self) -> Value {
        let versions = self.versions.iter().map(|version| {
            let state = match version.state {
                State::Before => "Existed",
                State::Created => "Created",
                State::Changed => "Changed",
                State::Deleted => "Deleted",
            };
            let writers = version.writers.iter();
            let writers = writers.map(|w| json!({"manager": w.manager, "operation": w.operation, "time": w.time}));
            let changes = version.changes.iter();
            let changes = changes.map(|c| json!({"path": c.path, "before": c.before, "after": c.after}));
            json!({
                "revision": version.revision.0,
                "state": state,
                "writers": writers.collect::<Vec<_>>(),
                "changes": changes.collect::<Vec<_>>(),
            })
        });
        json!({"begins": self.begins.0, "versions": versions.collect::<Vec<_>>()})
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_store::Store;
    use binnacle_store_embedded::EmbeddedStore;

    use super::*;
    use crate::testing::{delete, opened, put};

    fn widget(size: i64, manager: &str, time: &str) -> String {
        json!({"apiVersion": "a.test/v1", "kind": "Widget", "spec": {"size": size, "parts": ["x"]}, "metadata": {"name": "w",
            "managedFields": [{"manager": manager, "operation": "Update", "time": time}]}})
        .to_string()
    }

    #[tokio::test]
    async fn shows_each_version_with_its_changes() {
        let store = Arc::new(EmbeddedStore::ephemeral());
        let key = "/registry/a.test/widgets/n/w";
        put(&*store, key, widget(1, "first", "t1")).await;
        let middle = put(&*store, key, widget(2, "second", "t2")).await;
        put(&*store, "/registry/a.test/widgets/n/w2", widget(9, "other", "t")).await;
        put(&*store, key, widget(2, "third", "t3").replace("[\"x\"]", "[\"x\",\"y\"]")).await;
        delete(&*store, key).await;
        put(&*store, key, widget(5, "fourth", "t5")).await;
        let object = ObjectName { resource: "widgets.a.test", name: "n/w" };
        let lines = async || {
            let history = read(&opened(store.clone()), &object, None).await.expect("a history");
            let text = history.text();
            let plain = text.lines().skip(1).map(|line| match line.split_once(": ") {
                Some((head, rest)) if head.starts_with("revision") => rest.to_owned(),
                _ => line.to_owned(),
            });
            plain.collect::<Vec<_>>()
        };
        let later = [
            "changed by third (Update) at t3",
            "  spec.parts[1]: (none) -> \"y\"",
            "deleted",
            "created by fourth (Update) at t5",
        ];
        let all = ["created by first (Update) at t1", "changed by second (Update) at t2", "  spec.size: 1 -> 2"];
        assert_eq!(lines().await, [&all[..], &later[..]].concat());
        store.compact(middle).await.expect("a compaction");
        let kept = ["existed before the history by second (Update) at t2"];
        assert_eq!(lines().await, [&kept[..], &later[..]].concat());
        let other = ObjectName { resource: "widgets.a.test", name: "n/none" };
        let none = read(&opened(store.clone()), &other, None).await.expect("a history").text();
        assert!(none.ends_with("It has no version of this object.\n"), "{none}");
    }

    #[test]
    fn finds_keys_of_resources() {
        for (resource, want) in [
            ("pods", "pods"),
            ("services", "services/specs"),
            ("deployments.apps", "deployments"),
            ("crontabs.stable.example.com", "stable.example.com/crontabs"),
        ] {
            assert_eq!(key_prefix(resource), want, "{resource}");
        }
    }
}
