//! Reads of history from disk: earlier versions of a key, and the events of a span of revisions.

use std::ops::{ControlFlow, Range};
use std::sync::Arc;

use binnacle_store::{Event, KeyValue, Revision, StoreError};
use bytes::Bytes;

use crate::disk::Disk;
use crate::error::read_error;
use crate::index::lease_id;
use crate::record::{self, Deletion, Put, Record};
use crate::shared::Shared;
use crate::span::Span;

/// The maximum size of one read of a span: events, their bytes, and examined records.
const CHUNK_EVENTS: usize = 1024;
const CHUNK_BYTES: usize = 4 << 20;
const CHUNK_RECORDS: usize = 16 << 10;

/// Reads events of a span within a range of keys. Returns them, and the part of the span that is still to be read.
pub(crate) async fn read(
    shared: &Arc<Shared>,
    range: &Range<Bytes>,
    span: Span,
) -> Result<(Vec<Event>, Option<Span>), StoreError> {
    let (shared, range) = (shared.clone(), range.clone());
    blocking(move || {
        let read = read_span(&shared, &range, span);
        // If a compaction has removed records in the meantime, that error is returned, whatever was read.
        let compacted = shared.state.read().compacted;
        if span.after + 1 < compacted {
            return Err(StoreError::Compacted { compacted: Revision(compacted) });
        }
        read
    })
    .await
}

/// Reads the values of past versions, each given by key and revision. All of them existed when `revision` was read.
pub(crate) async fn values(
    shared: &Arc<Shared>,
    revision: u64,
    versions: Vec<(Bytes, u64)>,
) -> Result<Vec<KeyValue>, StoreError> {
    let shared = shared.clone();
    blocking(move || {
        let disk = shared.disk()?;
        let read = versions.into_iter().map(|(key, modified)| read_version(&*disk, &key, modified));
        let read = read.collect();
        let compacted = shared.state.read().compacted;
        if revision < compacted {
            return Err(StoreError::Compacted { compacted: Revision(compacted) });
        }
        read
    })
    .await
}

/// Returns the version of a key that was written at a revision.
pub(crate) fn read_version(disk: &dyn Disk, key: &Bytes, modified: u64) -> Result<KeyValue, StoreError> {
    let found = value(disk, key, modified)?;
    found.ok_or_else(|| StoreError::Damaged(format!("revision {modified} is not in the log")))
}

fn read_span(shared: &Shared, range: &Range<Bytes>, span: Span) -> Result<(Vec<Event>, Option<Span>), StoreError> {
    let disk = shared.disk()?;
    let (mut found, mut bytes, mut examined) = (Vec::new(), 0, 0);
    let (mut reached, mut problem) = (span.after, None);
    let scanned = disk.scan(span.after + 1, span.last, &mut |revision, record| {
        if revision != reached + 1 {
            problem = Some(format!("revision {} is not in the log", reached + 1));
            return ControlFlow::Break(());
        }
        match record::decode(revision, &record) {
            Ok(Record::Put(put)) if range.contains(&put.key) => {
                bytes += record.len();
                found.push((revision, Record::Put(put.to_owned_record())));
            }
            Ok(Record::Put(_)) => {}
            Ok(Record::Delete(mut deletions)) => {
                deletions.retain(|deletion| range.contains(&deletion.key));
                if !deletions.is_empty() {
                    found.push((revision, Record::Delete(deletions)));
                }
            }
            Err(detail) => {
                problem = Some(detail);
                return ControlFlow::Break(());
            }
        }
        reached = revision;
        examined += 1;
        let full = found.len() >= CHUNK_EVENTS || bytes >= CHUNK_BYTES || examined >= CHUNK_RECORDS;
        if full { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
    });
    scanned.map_err(|error| read_error(&error))?;
    if let Some(detail) = problem {
        return Err(StoreError::Damaged(detail));
    }
    if examined == 0 && span.after < span.last {
        return Err(StoreError::Damaged(format!("revision {} is not in the log", span.after + 1)));
    }
    let mut events = Vec::with_capacity(found.len());
    for (revision, record) in found {
        match record {
            Record::Put(put) => events.push(put_event(&*disk, revision, put)?),
            Record::Delete(deletions) => {
                for deletion in deletions {
                    events.push(delete_event(&*disk, revision, deletion)?);
                }
            }
        }
    }
    let rest = (reached < span.last).then_some(Span { after: reached, last: span.last });
    Ok((events, rest))
}

fn put_event(disk: &dyn Disk, revision: u64, put: Put) -> Result<Event, StoreError> {
    let previous = previous(disk, &put.key, put.previous)?;
    Ok(Event::Put { kv: put.key_value(revision), previous })
}

fn delete_event(disk: &dyn Disk, revision: u64, deletion: Deletion) -> Result<Event, StoreError> {
    let key = Bytes::copy_from_slice(&deletion.key);
    let previous = previous(disk, &key, deletion.previous)?;
    Ok(Event::Delete { key, revision: Revision(revision), previous })
}

fn previous(disk: &dyn Disk, key: &Bytes, revision: u64) -> Result<Option<KeyValue>, StoreError> {
    if revision == 0 { Ok(None) } else { value(disk, key, revision) }
}

fn value(disk: &dyn Disk, key: &Bytes, revision: u64) -> Result<Option<KeyValue>, StoreError> {
    let Some(record) = disk.read(revision).map_err(|error| read_error(&error))? else { return Ok(None) };
    match record::decode(revision, &record) {
        Ok(Record::Put(put)) if put.key == *key => Ok(Some(put.key_value(revision))),
        Ok(_) => Err(StoreError::Damaged(format!("revision {revision} is of another key"))),
        Err(detail) => Err(StoreError::Damaged(detail)),
    }
}

async fn blocking<T: Send + 'static>(
    read: impl FnOnce() -> Result<T, StoreError> + Send + 'static,
) -> Result<T, StoreError> {
    match tokio::task::spawn_blocking(read).await {
        Ok(result) => result,
        Err(_) => Err(StoreError::Closed),
    }
}

// === impl Put ===

impl Put {
    /// Returns a copy that does not retain the whole block.
    fn to_owned_record(&self) -> Self {
        Self {
            key: Bytes::copy_from_slice(&self.key),
            value: Bytes::copy_from_slice(&self.value),
            created: self.created,
            previous: self.previous,
            lease: self.lease,
        }
    }

    fn key_value(self, revision: u64) -> KeyValue {
        KeyValue {
            key: self.key,
            value: self.value,
            create_revision: Revision(self.created),
            mod_revision: Revision(revision),
            lease: lease_id(self.lease),
        }
    }
}
