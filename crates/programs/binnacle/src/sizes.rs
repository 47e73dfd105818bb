//! The space that each resource uses, in current objects and in the history.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::ops::Range;

use binnacle_cli::progress::Progress;
use binnacle_store::{Event, Pages, Revision, Store, StoreError, WatchMessage};
use bytes::Bytes;
use futures::StreamExt;
use serde_json::{Value, json};

use crate::Error;
use crate::keys::{KeyOwners, Owner};
use crate::location::ReadableStore;
use crate::text;

/// The contents of a store, by size.
#[derive(Debug, Default)]
pub(crate) struct Sizes {
    revision: u64,
    compacted: u64,
    /// Sizes of keys and values.
    resources: BTreeMap<Owner, Size>,
    /// Bytes and key, the largest first.
    largest: Vec<(u64, String)>,
    notes: Vec<String>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Size {
    objects: u64,
    bytes: u64,
    /// Old versions: replaced or deleted ones, and deletions.
    past: u64,
    past_bytes: u64,
}

/// Measures all keys of a store, and lists the `largest` objects.
pub(crate) async fn measure(opened: &ReadableStore, largest: usize) -> Result<Sizes, Error> {
    let store = &*opened.store;
    let keys = KeyOwners::new(&opened.root);
    let revision = store.current_revision().await?;
    let mut sizes = Sizes { revision: revision.0, ..Sizes::default() };
    let mut top: BinaryHeap<Reverse<(u64, Bytes)>> = BinaryHeap::new();
    let mut pages = Pages::new(store, opened.range(), revision).streamed();
    let (mut progress, mut objects) = (Progress::new(), 0);
    while let Some(page) = pages.next_or_newer().await? {
        objects += page.len();
        progress.state(|| format!("measuring: {objects} objects"));
        for kv in page {
            let bytes = (kv.key.len() + kv.value.len()) as u64;
            let size = sizes.resources.entry(keys.owner(&kv.key)).or_default();
            size.objects += 1;
            size.bytes += bytes;
            // Copied, so that the key does not keep its page in memory.
            top.push(Reverse((bytes, Bytes::copy_from_slice(&kv.key))));
            if top.len() > largest {
                top.pop();
            }
        }
    }
    if pages.is_torn() {
        sizes
            .notes
            .push("the history was compacted during the measurement: the sizes are not all of one revision".to_owned());
    }
    sizes.largest = top.into_sorted_vec().into_iter().map(|Reverse((bytes, key))| (bytes, show(&key))).collect();
    match past(store, &keys, opened.range(), revision).await {
        Ok((compacted, past)) => {
            sizes.compacted = compacted.0;
            for (owner, (count, bytes)) in past {
                let size = sizes.resources.entry(owner).or_default();
                size.past += count;
                size.past_bytes += bytes;
            }
        }
        Err(StoreError::Compacted { .. }) => {
            sizes.notes.push("the history was compacted during the measurement and is left out".to_owned());
        }
        Err(error) => return Err(error.into()),
    }
    Ok(sizes)
}

/// Returns the number and bytes of old versions in the history, per resource.
async fn past(
    store: &dyn Store,
    keys: &KeyOwners,
    range: Range<Bytes>,
    revision: Revision,
) -> Result<(Revision, BTreeMap<Owner, (u64, u64)>), StoreError> {
    let compacted = store.compacted_revision().await?;
    let mut past: BTreeMap<Owner, (u64, u64)> = BTreeMap::new();
    let mut watch = store.watch(range, compacted).await?;
    let last = watch.control.barrier().await?.last_event.min(revision);
    let mut reached = Revision(0);
    while reached < last {
        let Some(message) = watch.messages.next().await else { return Err(StoreError::Closed) };
        let WatchMessage::Events(events) = message? else { continue };
        for event in events {
            reached = event.revision();
            if reached > revision {
                break;
            }
            // A replaced version is old from here on. The first one of a key may be from before the history.
            let (key, replaced, deletion) = match event {
                Event::Put { kv, previous } => (kv.key, previous, None),
                Event::Delete { key, previous, .. } => {
                    let len = key.len();
                    (key, previous, Some(len))
                }
            };
            let entry = past.entry(keys.owner(&key)).or_default();
            if let Some(replaced) = replaced {
                entry.0 += 1;
                entry.1 += (replaced.key.len() + replaced.value.len()) as u64;
            }
            if let Some(len) = deletion {
                entry.0 += 1;
                entry.1 += len as u64;
            }
        }
    }
    Ok((compacted, past))
}

fn show(key: &[u8]) -> String {
    String::from_utf8_lossy(key).into_owned()
}

// === impl Sizes ===

impl Sizes {
    fn by_bytes(&self) -> Vec<(&Owner, &Size)> {
        let mut rows: Vec<_> = self.resources.iter().collect();
        rows.sort_by_key(|(owner, size)| (Reverse(size.bytes), *owner));
        rows
    }

    fn total(&self) -> Size {
        self.resources.values().fold(Size::default(), |sum, size| Size {
            objects: sum.objects + size.objects,
            bytes: sum.bytes + size.bytes,
            past: sum.past + size.past,
            past_bytes: sum.past_bytes + size.past_bytes,
        })
    }

    pub(crate) fn text(&self) -> String {
        let row = |name: String, size: &Size| {
            let numbers = [size.objects.to_string(), text::bytes(size.bytes)];
            let past = [size.past.to_string(), text::bytes(size.past_bytes)];
            [name].into_iter().chain(numbers).chain(past).collect::<Vec<_>>()
        };
        let head = ["RESOURCE", "OBJECTS", "BYTES", "PAST VERSIONS", "BYTES"].map(str::to_owned).to_vec();
        let mut rows = vec![head];
        rows.extend(self.by_bytes().into_iter().map(|(owner, size)| row(owner.to_string(), size)));
        rows.push(row("all".to_owned(), &self.total()));
        let mut out =
            format!("Revision {}, history since {}.\n\n{}", self.revision, self.compacted, text::table(&rows));
        if !self.largest.is_empty() {
            let mut rows = vec![vec!["LARGEST OBJECTS".to_owned(), "BYTES".to_owned()]];
            rows.extend(self.largest.iter().map(|(bytes, key)| vec![key.clone(), text::bytes(*bytes)]));
            out.push('\n');
            out.push_str(&text::table(&rows));
        }
        for note in &self.notes {
            out.push_str(&format!("\nNote: {note}.\n"));
        }
        out
    }

    pub(crate) fn json(&self) -> Value {
        let size = |size: &Size| json!({"objects": size.objects, "bytes": size.bytes, "pastVersions": size.past, "pastBytes": size.past_bytes});
        let resources = self.by_bytes().into_iter().map(|(owner, own)| {
            let mut entry = size(own);
            entry["resource"] = owner.to_string().into();
            entry
        });
        json!({
            "revision": self.revision,
            "compactedRevision": self.compacted,
            "resources": resources.collect::<Vec<_>>(),
            "total": size(&self.total()),
            "largest": self.largest.iter().map(|(bytes, key)| json!({"key": key, "bytes": bytes})).collect::<Vec<_>>(),
            "notes": self.notes,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_store_embedded::EmbeddedStore;

    use super::*;
    use crate::testing::{delete, opened, put};

    #[tokio::test]
    async fn counts_current_and_past_versions() {
        let store = Arc::new(EmbeddedStore::ephemeral());
        let opened = opened(store.clone());
        put(&*store, "/registry/pods/a/one", "12345").await;
        let compacted_at = put(&*store, "/registry/pods/a/one", "123456").await;
        store.compact(compacted_at).await.expect("a compaction");
        put(&*store, "/registry/pods/a/one", "1234567").await;
        put(&*store, "/registry/secrets/a/s", "x").await;
        delete(&*store, "/registry/secrets/a/s").await;
        put(&*store, "/registry/odd", "").await;
        let sizes = measure(&opened, 1).await.expect("sizes");
        let json = sizes.json();
        let pods = json!({"resource": "pods", "objects": 1, "bytes": 27, "pastVersions": 1, "pastBytes": 26});
        let secrets = json!({"resource": "secrets", "objects": 0, "bytes": 0, "pastVersions": 2, "pastBytes": 43});
        let unknown = json!({"resource": "(unknown)", "objects": 1, "bytes": 13, "pastVersions": 0, "pastBytes": 0});
        assert_eq!(json["resources"], json!([pods, unknown, secrets]));
        assert_eq!(json["largest"], json!([{"key": "/registry/pods/a/one", "bytes": 27}]));
        assert_eq!((&json["revision"], &json["compactedRevision"]), (&json!(7), &json!(compacted_at.0)));
        assert!(sizes.text().contains("pods             1   27 B              1   26 B\n"), "{}", sizes.text());
    }
}
