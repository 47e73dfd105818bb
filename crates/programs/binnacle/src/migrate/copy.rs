//! One pass: copies the differences between both stores.

use std::io;
use std::time::{Duration, Instant};

use binnacle_cli::progress::Unit;
use binnacle_store::{KeyValue, Pages, Revision, Store, StoreError, prefix_range};
use bytes::Bytes;
use futures::future::join_all;

use super::verify::KeyCursor;
use super::{Failure, Migration};
use crate::Error;
use crate::sort::Sorter;

/// The number of values that are read at once.
const CHUNK: usize = 128;
/// The interval at which the progress of a pass is saved.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// The number of attempts to list the keys when compactions interfere.
const ATTEMPTS: usize = 5;
const ENCRYPTED: &[u8] = b"k8s:enc:";

/// Keys by the revisions of their last changes.
type ChangedKeys = Sorter<(u64, Bytes)>;

impl Migration<'_> {
    /// Copies to the target the contents of the source at the returned revision, except for keys that changed since.
    pub(super) async fn pass(&mut self, source: &dyn Store) -> Result<Revision, Failure> {
        let (revision, mut changed) = self.compare_keys(source).await?;
        let reached = self.marker.reached;
        let all = changed.count();
        self.target.warn_of_many_fillers(revision.0, all, self.progress);
        self.progress.begin();
        let (mut done, mut saved) = (0, Instant::now());
        let mut rows = changed.sorted().map_err(sorting)?;
        loop {
            let chunk = rows.by_ref().take(CHUNK).collect::<io::Result<Vec<_>>>().map_err(sorting)?;
            let reads = join_all(chunk.iter().map(|(_, key)| source.get(key.clone(), None))).await;
            for ((modified, key), read) in chunk.iter().zip(reads) {
                // A key that has changed since it was listed comes later, with the watch.
                if let Some(kv) = read?.0.filter(|kv| kv.mod_revision.0 == *modified) {
                    self.copy_key(source, key, kv).await?;
                }
            }
            let Some((last, _)) = chunk.last() else { break };
            done += chunk.len() as u64;
            self.progress.step(Unit::Items, "copying objects", done, all);
            if saved.elapsed() >= NOTE_EVERY {
                saved = Instant::now();
                self.reached((*last).max(reached)).await?;
            }
        }
        // Done here, so that it need not be done at the switch.
        self.target.advance(revision.0, self.progress).await?;
        self.reached(revision.0).await?;
        Ok(revision)
    }

    /// Writes a key with the source's value.
    pub(super) async fn copy_key(&mut self, source: &dyn Store, key: &Bytes, kv: KeyValue) -> Result<(), Error> {
        let target_key = self.key(key);
        if target_key != *key && kv.value.starts_with(ENCRYPTED) {
            return Err(Error::new(format!(
                "{} is encrypted, which binds its value to its key: it cannot be moved to another prefix",
                String::from_utf8_lossy(key)
            )));
        }
        self.target.put(Some(source), target_key, kv).await
    }

    /// Records that everything up to a revision of the source is in the target.
    pub(super) async fn reached(&mut self, revision: u64) -> Result<(), Error> {
        self.target.flush().await?;
        self.marker.reached = self.marker.reached.max(revision);
        self.note().await
    }

    /// Lists the keys of the source as of one revision, and returns those that changed after the recorded revision, by
    /// revision. Deletes keys that an earlier pass copied and the source no longer has.
    async fn compare_keys(&mut self, source: &dyn Store) -> Result<(Revision, ChangedKeys), Failure> {
        let target = self.target.store().clone();
        let mut attempt = 1;
        loop {
            let revision = source.current_revision().await?;
            let mut theirs = KeyCursor::new(&*target, &self.target_root).await?;
            let mut pages = Pages::new(source, prefix_range(self.source_root.as_bytes()), revision).streamed();
            let (mut changed, mut count) = (Sorter::new(), 0);
            loop {
                match pages.next().await {
                    Ok(Some(page)) => {
                        for kv in &page {
                            if kv.mod_revision.0 > self.marker.reached {
                                // Copied, so that one key does not keep its page in memory.
                                let row = (kv.mod_revision.0, Bytes::copy_from_slice(&kv.key));
                                changed.add(row, kv.key.len()).map_err(sorting)?;
                            }
                            self.delete_before(&mut theirs, Some(self.key(&kv.key))).await?;
                        }
                        count += page.len();
                        self.progress.state(|| format!("listing keys: {count}"));
                    }
                    Ok(None) => {
                        self.delete_before(&mut theirs, None).await?;
                        return Ok((revision, changed));
                    }
                    Err(StoreError::Compacted { .. }) if attempt < ATTEMPTS => break,
                    Err(error) => return Err(error.into()),
                }
            }
            attempt += 1;
        }
    }

    /// Deletes the target's next keys before `key` and skips `key` itself; deletes all of them if there is none.
    async fn delete_before(&mut self, theirs: &mut KeyCursor<'_>, key: Option<Bytes>) -> Result<(), Error> {
        while let Some(next) = theirs.peek().await?.filter(|next| key.as_ref().is_none_or(|key| next.key <= *key)) {
            if key.as_ref() != Some(&next.key) {
                self.target.delete(next.key.clone()).await?;
            }
            theirs.next().await?;
        }
        Ok(())
    }
}

fn sorting(error: io::Error) -> Error {
    Error::context("sorting keys", error)
}
