//! One pass: what differs between the keys of both stores is brought over.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use binnacle_store::{KeyValue, Revision, Store, StoreError, prefix_range};
use bytes::Bytes;
use futures::future::join_all;

use super::{Failure, Migration};
use crate::Error;
use crate::pages::Pages;

/// How many values are read at once.
const CHUNK: usize = 128;
/// How often it is noted how far a pass has come.
const NOTE_EVERY: Duration = Duration::from_secs(1);
/// How often keys are listed again when a compaction overtakes the listing.
const ATTEMPTS: usize = 5;
const ENCRYPTED: &[u8] = b"k8s:enc:";

impl Migration<'_> {
    /// Makes the target hold what the source held at the revision that is answered, but for what has changed since.
    pub(super) async fn pass(&mut self, source: &dyn Store) -> Result<Revision, Failure> {
        let (revision, mut entries) = self.index(source).await?;
        // What follows then gets revisions above those it had.
        self.target.advance(revision.0, self.progress).await?;
        self.delete_surplus(&entries).await?;
        let reached = self.marker.reached;
        entries.retain(|(modified, _)| modified.0 > reached);
        entries.sort_unstable();
        let all = entries.len() as u64;
        self.progress.begin();
        let (mut done, mut noted) = (0, Instant::now());
        for chunk in entries.chunks(CHUNK) {
            let reads = join_all(chunk.iter().map(|(_, key)| source.get(key.clone(), None))).await;
            for ((modified, key), read) in chunk.iter().zip(reads) {
                // What has changed or gone since it was listed is told by the watch, in its turn.
                if let Some(kv) = read?.0.filter(|kv| kv.mod_revision == *modified) {
                    self.bring(source, key, kv).await?;
                }
            }
            done += chunk.len() as u64;
            self.progress.step("copying objects", done, all);
            if noted.elapsed() >= NOTE_EVERY {
                noted = Instant::now();
                self.reached(chunk.last().map_or(reached, |(modified, _)| modified.0)).await?;
            }
        }
        self.reached(revision.0).await?;
        Ok(revision)
    }

    /// Writes a key as the source has it.
    pub(super) async fn bring(&mut self, source: &dyn Store, key: &Bytes, kv: KeyValue) -> Result<(), Error> {
        let target_key = self.key(key);
        if target_key != *key && kv.value.starts_with(ENCRYPTED) {
            return Err(Error::new(format!(
                "{} is encrypted, which binds its value to its key: it cannot be moved to another prefix",
                String::from_utf8_lossy(key)
            )));
        }
        self.target.put(Some(source), target_key, kv).await
    }

    /// Notes that everything up to a revision of the source is in the target.
    pub(super) async fn reached(&mut self, revision: u64) -> Result<(), Error> {
        self.target.flush().await?;
        self.marker.reached = self.marker.reached.max(revision);
        self.note().await
    }

    /// All keys with the revisions of their last changes, as of one revision.
    async fn index(&mut self, source: &dyn Store) -> Result<(Revision, Vec<(Revision, Bytes)>), StoreError> {
        let mut attempt = 1;
        loop {
            let revision = source.current_revision().await?;
            let mut pages = Pages::new(source, prefix_range(self.source_root.as_bytes()), revision);
            let mut entries = Vec::new();
            loop {
                match pages.next().await {
                    Ok(Some(page)) => {
                        // Copied, so that one key does not keep the page alive in which it came.
                        let entry = |kv: &KeyValue| (kv.mod_revision, Bytes::copy_from_slice(&kv.key));
                        entries.extend(page.iter().map(entry));
                        let count = entries.len();
                        self.progress.state(|| format!("listing keys: {count}"));
                    }
                    Ok(None) => return Ok((revision, entries)),
                    Err(StoreError::Compacted { .. }) if attempt < ATTEMPTS => break,
                    Err(error) => return Err(error),
                }
            }
            attempt += 1;
        }
    }

    /// Deletes what an earlier pass brought and the source no longer has.
    async fn delete_surplus(&mut self, entries: &[(Revision, Bytes)]) -> Result<(), Failure> {
        let store = self.target.store().clone();
        let range = prefix_range(self.target_root.as_bytes());
        let revision = store.current_revision().await.map_err(|error| Error::doing("reading the target", error))?;
        let mut pages = Pages::new(&*store, range, revision);
        let mut known: Option<HashSet<Bytes>> = None;
        loop {
            let page = pages.next_or_newer().await.map_err(|error| Error::doing("reading the target", error))?;
            let Some(page) = page.filter(|page| !page.is_empty()) else { return Ok(()) };
            let known = known.get_or_insert_with(|| entries.iter().map(|(_, key)| self.key(key)).collect());
            let surplus: Vec<_> = page.into_iter().map(|kv| kv.key).filter(|key| !known.contains(key)).collect();
            for key in surplus {
                self.target.delete(key).await?;
            }
        }
    }
}
