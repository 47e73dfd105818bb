//! Reading all of a range without holding all of it.

use std::ops::Range;

use binnacle_store::{KeyValue, RangeRequest, Revision, Store, StoreError};
use bytes::Bytes;

/// A range, page by page, as it was at one revision.
pub(crate) struct Pages<'a> {
    store: &'a dyn Store,
    rest: Range<Bytes>,
    revision: Revision,
    finished: bool,
    /// The number of objects that the next page may have.
    limit: usize,
    /// The revision was compacted away meanwhile, so that later pages are from later revisions.
    pub(crate) torn: bool,
}

/// The most objects of a page, as kube-apiserver asks etcd for at once, and the bytes that a page should have if the
/// objects to come are as large as those before.
const PAGE: usize = 500;
const PAGE_BYTES: usize = 4 << 20;
const FIRST_PAGE: usize = 32;

// === impl Pages ===

impl<'a> Pages<'a> {
    pub(crate) fn new(store: &'a dyn Store, range: Range<Bytes>, revision: Revision) -> Self {
        Self { store, rest: range, revision, finished: false, limit: FIRST_PAGE, torn: false }
    }

    /// The next page, `None` after the last one. Fails with [`StoreError::Compacted`] when the revision is gone.
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

    /// As [`next`](Self::next), but goes on at the present when the revision is gone.
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
