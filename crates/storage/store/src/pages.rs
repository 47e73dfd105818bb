//! Reading of large ranges without holding them in memory.

use std::ops::Range;

use bytes::Bytes;
use futures::StreamExt;

use crate::{Chunks, Count, KeyValue, RangeRequest, Revision, Store, StoreError};

/// A range at one revision, read page by page.
///
/// Pages are bounded by bytes as well as by count, since objects have any size: the size of the next page is estimated
/// from the last one, and a page that is too large for the store (gRPC's limit on messages of etcd, for example) is read
/// again in smaller parts.
pub struct Pages<'a, S: Store + ?Sized = dyn Store> {
    store: &'a S,
    rest: Range<Bytes>,
    revision: Revision,
    finished: bool,
    /// The maximum number of objects in the next page.
    limit: usize,
    size: PageSize,
    torn: bool,
    /// The stream of the rest, while one is open.
    chunks: Option<Chunks<'a>>,
    /// The number of streams that may still be opened.
    streams: u8,
}

/// The bounds of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageSize {
    /// The maximum number of objects.
    pub objects: usize,
    /// The intended number of bytes of keys and values. A page can have more if its objects are larger than those before.
    pub bytes: usize,
}

/// The number of objects in the first page, whose size is unknown.
const FIRST_PAGE: usize = 32;
/// The maximum growth from one page to the next: objects can suddenly be larger.
const GROWTH: usize = 4;
/// The number of streams of one read: if they break this often, the rest is read by ranges.
const MAX_STREAMS: u8 = 4;

impl Default for PageSize {
    /// As many objects as kube-apiserver requests from etcd at once.
    fn default() -> Self {
        Self { objects: 500, bytes: 4 << 20 }
    }
}

// === impl Pages ===

impl<'a, S: Store + ?Sized> Pages<'a, S> {
    /// Reads at a revision; 0 means the current revision of each page.
    pub fn new(store: &'a S, range: Range<Bytes>, revision: Revision) -> Self {
        let size = PageSize::default();
        Self {
            store,
            rest: range,
            revision,
            finished: false,
            limit: FIRST_PAGE,
            size,
            torn: false,
            chunks: None,
            streams: 0,
        }
    }

    /// Reads the range as one stream, if the engine has streams. Its chunks replace the pages, and the engine bounds
    /// them. This is for readers of the whole range: a stream that ends early has been read for nothing.
    #[must_use]
    pub fn streamed(mut self) -> Self {
        // Without a revision, each page has its own.
        self.streams = if self.revision.0 > 0 { MAX_STREAMS } else { 0 };
        self
    }

    /// Replaces the bounds of the pages.
    #[must_use]
    pub fn sized(mut self, size: PageSize) -> Self {
        self.limit = FIRST_PAGE.min(size.objects).max(1);
        self.size = size;
        self
    }

    /// Returns the next page, `None` after the last one. Fails with [`StoreError::Compacted`] if the revision is
    /// compacted.
    pub async fn next(&mut self) -> Result<Option<Vec<KeyValue>>, StoreError> {
        if let Some(chunk) = self.next_chunk().await? {
            return Ok(Some(chunk));
        }
        if self.finished {
            return Ok(None);
        }
        let page = loop {
            let request = RangeRequest {
                range: self.rest.clone(),
                revision: (self.revision.0 > 0).then_some(self.revision),
                limit: self.limit,
                count: Count::Returned,
            };
            match self.store.range(request).await {
                Err(StoreError::TooLarge) if self.limit > 1 => self.limit /= 2,
                answer => break answer?,
            }
        };
        let bytes: usize = page.kvs.iter().map(|kv| kv.key.len() + kv.value.len()).sum();
        let fitting = self.size.bytes.saturating_mul(page.kvs.len().max(1)) / bytes.max(1);
        self.limit = fitting.min(self.size.objects).min(self.limit.saturating_mul(GROWTH)).max(1);
        self.skip(&page.kvs);
        self.finished = page.kvs.is_empty() || !page.more;
        Ok(Some(page.kvs))
    }

    /// Returns the next chunk of the stream. `None` means that a page is next, or nothing.
    async fn next_chunk(&mut self) -> Result<Option<Vec<KeyValue>>, StoreError> {
        if self.finished {
            return Ok(None);
        }
        if self.chunks.is_none() && self.streams > 0 {
            self.streams -= 1;
            match self.store.stream(self.rest.clone(), self.revision).await {
                Ok(None) => self.streams = 0,
                Ok(chunks) => self.chunks = chunks,
                Err(error) => return continue_by_page(error),
            }
        }
        let Some(chunks) = &mut self.chunks else { return Ok(None) };
        match chunks.next().await {
            Some(Ok(chunk)) => {
                self.skip(&chunk);
                Ok(Some(chunk))
            }
            Some(Err(error)) => {
                self.chunks = None;
                continue_by_page(error)
            }
            None => {
                self.chunks = None;
                self.finished = true;
                Ok(None)
            }
        }
    }

    /// Continues after the last of these keys.
    fn skip(&mut self, kvs: &[KeyValue]) {
        if let Some(last) = kvs.last() {
            self.rest.start = Bytes::from([&*last.key, b"\0"].concat());
        }
    }

    /// Returns the next page as [`next`](Self::next) does, but continues at the current revision if the revision is
    /// compacted.
    pub async fn next_or_newer(&mut self) -> Result<Option<Vec<KeyValue>>, StoreError> {
        match self.next().await {
            Err(StoreError::Compacted { .. }) => {
                self.torn = true;
                self.revision = self.store.current_revision().await?;
                self.next().await
            }
            answer => answer,
        }
    }

    /// Reports whether the revision was compacted during the read, so that later pages are from later revisions.
    pub fn is_torn(&self) -> bool {
        self.torn
    }
}

/// Decides what follows an error of a stream: a page, whose request is repeated if that helps, and which reports lasting
/// errors. Only a compaction is final.
fn continue_by_page(error: StoreError) -> Result<Option<Vec<KeyValue>>, StoreError> {
    match error {
        StoreError::Compacted { .. } => Err(error),
        error => {
            tracing::debug!(%error, "a stream of a range broke, its next keys are read as a page");
            Ok(None)
        }
    }
}
