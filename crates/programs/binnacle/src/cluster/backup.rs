//! Backup and restore of one logical cluster, through its host.

use std::collections::HashMap;
use std::io;
use std::path::Path;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use binnacle_cli::progress::{Progress, Unit};
use binnacle_comparison::Outgoing;
use binnacle_registry::ROOT;
use binnacle_store::{KeyValue, LeaseId, Revision};
use bytes::Bytes;
use serde_json::{Value, json};

use super::{Host, path};
use crate::backup::{Contents, DIGESTS, Frame, Head, Reader, UnfinishedFile, Writer, open, refuse_existing};
use crate::digests::ResourceDigests;
use crate::{Error, text};

/// The note in a backup with the keys of the cluster, as JSON.
const KEYS: &str = "logical cluster keys";
/// The bounds of a request with objects to restore.
const MAX_ITEMS: usize = 1000;
const MAX_BYTES: usize = 1 << 20;

/// Writes the objects of a cluster at one revision to a file.
pub(super) async fn save(host: &Host, name: &str, file: &Path) -> Result<String, Error> {
    let about = |error: io::Error| Error::context(&file.display().to_string(), error);
    refuse_existing(file)?;
    let unfinished = UnfinishedFile::next_to(file);
    let mut progress = Progress::new();
    let first = host.send(Outgoing::empty("GET", &format!("{}/backup", path(name)?))).await?;
    let revision = Revision(first["revision"].as_u64().unwrap_or_default());
    let head = Head { root: ROOT.to_owned(), begins: revision };
    let mut writer = Writer::begin(unfinished.create().map_err(about)?, head).map_err(about)?;
    writer.write(&Frame::Note { name: KEYS.to_owned(), data: first["keys"].to_string().into() }).map_err(about)?;
    let (mut keys, mut leases, mut digests) = (0_u64, HashMap::new(), ResourceDigests::new(ROOT));
    let mut page = first;
    loop {
        for item in page["items"].as_array().into_iter().flatten() {
            let kv = key_value(item, &mut leases)?;
            digests.add(&kv.key, &kv.value);
            writer.write(&Frame::Put(kv)).map_err(about)?;
            keys += 1;
        }
        progress.state(|| format!("saving: {keys} keys, {}", text::bytes(writer.bytes)));
        let Some(rest) = page["continue"].as_str() else { break };
        page = host.send(Outgoing::empty("GET", &format!("{}/backup?continue={rest}", path(name)?))).await?;
    }
    for (seconds, lease) in leases {
        writer.write(&Frame::Lease { lease, seconds }).map_err(about)?;
    }
    let data = digests.json().to_string().into();
    writer.write(&Frame::Note { name: DIGESTS.to_owned(), data }).map_err(about)?;
    let bytes = writer.finish(revision).map_err(about)?;
    unfinished.rename_to(file).map_err(about)?;
    Ok(format!("Saved {} at revision {}: {keys} keys.\n", text::bytes(bytes), revision.0))
}

/// Returns the key of an item. Items with the same remaining time share a lease.
fn key_value(item: &Value, leases: &mut HashMap<u64, LeaseId>) -> Result<KeyValue, Error> {
    let number = |name: &str| item[name].as_u64();
    let (key, value) = (item["key"].as_str(), item["value"].as_str().and_then(|text| STANDARD.decode(text).ok()));
    let (Some(key), Some(value)) = (key, value) else { return Err(Error::new("the host has sent an invalid page")) };
    let next = LeaseId(i64::try_from(leases.len()).unwrap_or(i64::MAX - 1) + 1);
    Ok(KeyValue {
        key: Bytes::from(format!("{ROOT}{key}")),
        value: value.into(),
        create_revision: Revision(number("createRevision").unwrap_or_default()),
        mod_revision: Revision(number("modRevision").unwrap_or_default()),
        lease: number("leaseSeconds").map(|seconds| *leases.entry(seconds).or_insert(next)),
    })
}

/// Creates a cluster with the objects in a file. After a failure, the cluster is deleted.
pub(super) async fn restore(host: &Host, name: &str, file: &Path, idle_after: Option<&str>) -> Result<String, Error> {
    let (mut reader, mut contents) = open(file, None)?;
    let mut spec = super::spec(idle_after);
    spec["suspended"] = true.into();
    host.create_object(name, spec).await?;
    let restored = async {
        host.wait_for(name, "Suspended").await?;
        let objects = send(host, name, (&mut reader, &mut contents)).await?;
        host.suspend(name, false).await?;
        let ready = host.get(name).await?;
        let url = ready["status"]["url"].as_str().unwrap_or_default().to_owned();
        Ok(format!("{url}\nRestored {objects} objects as of revision {}.\n", contents.revision.0))
    };
    let restored = restored.await;
    if restored.is_err() {
        // The cluster is incomplete. The first error is the one to show.
        let _ = host.delete(name).await;
    }
    restored
}

/// Sends all objects to the host. Returns their number.
async fn send(host: &Host, name: &str, (reader, contents): (&mut Reader, &mut Contents)) -> Result<u64, Error> {
    let file = |error: io::Error| Error::context("the backup", error);
    let keys = match contents.notes.get(KEYS) {
        Some(keys) => {
            Some(serde_json::from_slice(keys).map_err(|error| Error::context("the keys in the backup", error))?)
        }
        None => None,
    };
    let mut part = Part { first: true, keys, items: Vec::new(), bytes: 0 };
    let mut progress = Progress::new();
    let (all, mut sent) = (contents.live.count(), 0);
    for row in contents.live.sorted().map_err(file)? {
        let (_, at) = row.map_err(file)?;
        let Frame::Put(kv) = reader.read_at(at).map_err(file)? else {
            return Err(Error::new("the file changed while it was read"));
        };
        let seconds = kv.lease.map(|lease| contents.leases.get(&lease).map(std::time::Duration::as_secs));
        if seconds == Some(None) {
            // Its lease has expired.
            continue;
        }
        part.add(&kv, seconds.flatten())?;
        sent += 1;
        if part.is_full() {
            part.send(host, name, false).await?;
        }
        progress.step(Unit::Items, "restoring objects", sent, all);
    }
    part.send(host, name, true).await?;
    Ok(sent)
}

/// A request with objects.
struct Part {
    first: bool,
    keys: Option<Value>,
    items: Vec<Value>,
    bytes: usize,
}

impl Part {
    fn add(&mut self, kv: &KeyValue, lease_seconds: Option<u64>) -> Result<(), Error> {
        let key = std::str::from_utf8(&kv.key).ok().and_then(|key| key.strip_prefix(ROOT));
        let key = key.ok_or_else(|| Error::new(format!("unexpected key {}", String::from_utf8_lossy(&kv.key))))?;
        let mut item = json!({"key": key, "value": STANDARD.encode(&kv.value)});
        if let Some(seconds) = lease_seconds {
            item["leaseSeconds"] = seconds.into();
        }
        self.items.push(item);
        self.bytes += kv.key.len() + kv.value.len();
        Ok(())
    }

    fn is_full(&self) -> bool {
        self.items.len() >= MAX_ITEMS || self.bytes >= MAX_BYTES
    }

    /// Sends the part, and empties it.
    async fn send(&mut self, host: &Host, name: &str, last: bool) -> Result<(), Error> {
        let mut body = json!({"first": self.first, "items": std::mem::take(&mut self.items), "last": last});
        if let Some(keys) = self.keys.take() {
            body["keys"] = keys;
        }
        (self.first, self.bytes) = (false, 0);
        host.send(Outgoing::json("POST", &format!("{}/restore", path(name)?), &body)).await.map(drop)
    }
}
