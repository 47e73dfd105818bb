//! Reading of large ranges without holding them in memory.

use std::ops::Range;

use binnacle_store::{KeyValue, RangeRequest, Revision, Store, StoreError};
use bytes::Bytes;

/// A range at one revision, read page by page.
pub(crate) struct Pages<'a> {
    store: &'a dyn Store,
    rest: Range<Bytes>,
    revision: Revision,
    finished: bool,
    /// The maximum number of objects in the next page.
    limit: usize,
    /// True if the revision was compacted while reading, so that later pages are from later revisions.
    pub(crate) torn: bool,
}

/// The maximum number of objects in a page, as in kube-apiserver's requests to etcd, and the intended size of a page,
/// estimated from the previous objects.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 4 << 20;
const FIRST_PAGE: usize = 32;

// === impl Pages ===

impl<'a> Pages<'a> {
    pub(crate) fn new(store: &'a dyn Store, range: Range<Bytes>, revision: Revision) -> Self {
        Self { store, rest: range, revision, finished: false, limit: FIRST_PAGE, torn: false }
    }

    /// Returns the next page, `None` after the last one. Fails with [`StoreError::Compacted`] if the revision is
    /// compacted.
    pub(crate) async fn next(&mut self) -> Result<Option<Vec<KeyValue>>, StoreError> {
        if self.finished {
            return Ok(None);
        }
        let request = RangeRequest {
            range: self.rest.clone(),
            revision: Some(self.revision),
            limit: self.limit,
            count_only: false,
        };
        let page = self.store.range(request).await?;
        let bytes: usize = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        let fitting = PAGE_BYTES * page.kvs.len().max(1) / bytes.max(1);
        self.limit = fitting.clamp(1, PAGE.min(self.limit * 2));
        match page.kvs.last() {
            // The first key after the last one.
            Some(last) if page.more => self.rest.start = Bytes::from([&*last.key, b"\0"].concat()),
            _ => self.finished = true,
        }
        Ok(Some(page.kvs))
    }

    /// Like [`next`](Self::next), but continues at the current revision if the revision is compacted.
    pub(crate) async fn next_or_newer(&mut self) -> Result<Option<Vec<KeyValue>>, StoreError> {
        match self.next().await {
            Err(StoreError::Compacted { .. }) => {
                self.torn = true;
                self.revision = self.store.current_revision().await?;
                self.next().await
            }
            answer => answer,
        }
    }
}
