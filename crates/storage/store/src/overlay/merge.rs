//! A range of a snapshot and of the writes on top of it, in order.

use std::cmp::Ordering;
use std::ops::Range;
use std::vec;

use bytes::Bytes;

use super::is_deleted;
use crate::{Count, KeyValue, RangeRequest, Revision, Snapshot, Store, StoreError};

/// A read in progress. The own keys are read in pages of the request's limit.
pub(super) struct Merge<'a> {
    own_store: &'a dyn Store,
    limit: usize,
    count: Count,
    /// The revision of all own pages.
    revision: Revision,
    /// The store's revision at the first page.
    current: Revision,
    own: Part,
    /// The keys of the snapshot that were not used yet.
    base: &'a [KeyValue],
}

/// The own keys that were read and not yet used.
struct Part {
    kvs: std::iter::Peekable<vec::IntoIter<KeyValue>>,
    /// The keys that are not read yet; `None` after the last page.
    unread: Option<Range<Bytes>>,
    /// The number of keys in `unread`.
    unread_count: usize,
}

impl<'a> Merge<'a> {
    pub(super) async fn begin(
        own_store: &'a dyn Store,
        base: &'a Snapshot,
        request: RangeRequest,
    ) -> Result<Self, StoreError> {
        let (limit, count, range) = (request.limit, request.count, request.range.clone());
        let asked = request.revision.filter(|revision| revision.0 > 0);
        let own = own_store.range(request).await?;
        Ok(Self {
            own_store,
            limit,
            count,
            revision: asked.unwrap_or(own.revision),
            current: own.revision,
            own: Part::new(own.kvs, own.more, own.count, &range),
            base: base.range(&range),
        })
    }

    pub(super) fn current(&self) -> Revision {
        self.current
    }

    /// Returns the number of keys after the last one; one in both parts counts twice.
    pub(super) fn rest(&self) -> usize {
        self.own.kvs.len() + self.own.unread_count + self.base.len()
    }

    /// Returns the next key that is not deleted.
    pub(super) async fn next(&mut self) -> Result<Option<KeyValue>, StoreError> {
        loop {
            self.fill().await?;
            let order = match (self.own.kvs.peek(), self.base.first()) {
                (None, None) => return Ok(None),
                (Some(_), None) => Ordering::Less,
                (None, Some(_)) => Ordering::Greater,
                (Some(own), Some(base)) => own.key.cmp(&base.key),
            };
            if order.is_ge()
                && let Some((base, rest)) = self.base.split_first()
            {
                self.base = rest;
                if order.is_gt() {
                    return Ok(Some(base.clone()));
                }
            }
            match self.own.kvs.next() {
                Some(kv) if is_deleted(&kv) => {}
                kv => return Ok(kv),
            }
        }
    }

    /// Reads the next page of own keys when they are used up.
    async fn fill(&mut self) -> Result<(), StoreError> {
        if let Some(range) = self.own.take_unread() {
            let (revision, limit) = (Some(self.revision), self.limit);
            let request = RangeRequest { range: range.clone(), revision, limit, count: self.count };
            let page = self.own_store.range(request).await?;
            self.own = Part::new(page.kvs, page.more, page.count, &range);
        }
        Ok(())
    }
}

impl Part {
    fn new(kvs: Vec<KeyValue>, more: bool, count: usize, range: &Range<Bytes>) -> Self {
        let unread_count = count.saturating_sub(kvs.len());
        // The first key after the last one.
        let start = kvs.last().filter(|_| more).map(|last| Bytes::from([&*last.key, b"\0"].concat()));
        let unread = start.map(|start| start..range.end.clone());
        Self { kvs: kvs.into_iter().peekable(), unread, unread_count }
    }

    /// Takes the range of the next page, if this one is used up.
    fn take_unread(&mut self) -> Option<Range<Bytes>> {
        match self.kvs.peek() {
            Some(_) => None,
            None => self.unread.take(),
        }
    }
}
