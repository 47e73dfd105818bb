//! Lists that are read from the store, at any revision that the store has.

use binnacle_meta::Status;
use binnacle_request::latency::{Part, measure};
use binnacle_store::{Count, RangeRequest, Revision, StoreError, prefix_end};
use bytes::Bytes;

use super::read_source::ListRequest;
use super::{CHUNK, Page, Source, strip_scope};
use crate::resource::Resource;
use crate::store_failure::store_failure;
use crate::unreadable::UnreadableObjects;

impl Resource {
    /// Reads a list at a revision from the store. Returns `None` if the revision is compacted.
    pub(super) async fn list_history(
        &self,
        list: &ListRequest<'_>,
        revision: Revision,
    ) -> Result<Option<Page>, Status> {
        let collection = &self.collection;
        let ListRequest { options, selection, scope, prefix, start, .. } = list;
        let mut page = Page::empty(revision);
        let mut entries = Vec::new();
        let mut unreadable = UnreadableObjects::of(self);
        let (mut fetched, mut evaluated) = (0, 0);
        let mut from = [&collection.prefix, start.as_bytes()].concat();
        let mut end = prefix_end(&[&collection.prefix, prefix.as_bytes()].concat());
        // As in kube-apiserver, a list of one name reads only that key, since others may be unreadable.
        if let Some(name) = selection.name().filter(|_| !collection.kind.namespaced || !prefix.is_empty()) {
            let key = [&collection.prefix, prefix.as_bytes(), name.as_bytes()].concat();
            end = Bytes::from(key_after(&key));
            from = from.max(key);
        }
        if from >= end {
            return Ok(Some(page));
        }
        loop {
            let request = RangeRequest {
                range: Bytes::from(from.clone())..end.clone(),
                revision: Some(revision),
                limit: CHUNK.max(options.limit),
                count: Count::All,
            };
            let (response, failed) = match collection.readable_range(request).await {
                Ok(read) => read,
                Err(StoreError::Compacted { .. }) => return Ok(None),
                Err(StoreError::FutureRevision { current }) => {
                    return Err(Status::too_large_resource_version(revision.0, current.0, 0));
                }
                Err(error) => return Err(store_failure(error)),
            };
            let read = response.kvs.len();
            fetched += read;
            for (i, kv) in response.kvs.into_iter().enumerate() {
                from = key_after(&kv.key);
                // As in the cache, a key that is not UTF-8 is skipped.
                if std::str::from_utf8(&kv.key).is_err() {
                    continue;
                }
                let entry = match measure(Part::Decode, || collection.cache.entry(&kv)) {
                    Ok(entry) => entry,
                    Err(error) => {
                        unreadable.record(error)?;
                        continue;
                    }
                };
                evaluated += 1;
                if !selection.selects(&entry) {
                    continue;
                }
                let full = options.limit > 0 && entries.len() + 1 == options.limit;
                let next = format!("{}\0", entry.path());
                entries.push(entry);
                if full {
                    unreadable.finish()?;
                    collection.counts.add_stored(fetched, evaluated, entries.len());
                    let remaining = response.count.saturating_sub(i + 1);
                    page.set_continue(strip_scope(scope, &next).to_owned(), revision, remaining, list);
                    page.source = Source::Entries(entries);
                    return Ok(Some(page));
                }
            }
            if let Some(error) = failed {
                if let StoreError::Transform { key, .. } = &error {
                    from = key_after(key.as_bytes());
                }
                unreadable.record(error)?;
                continue;
            }
            if !response.more || read == 0 {
                unreadable.finish()?;
                collection.counts.add_stored(fetched, evaluated, entries.len());
                page.source = Source::Entries(entries);
                return Ok(Some(page));
            }
        }
    }
}

/// Returns the first key after another one.
fn key_after(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}
