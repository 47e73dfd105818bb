//! Lists: their snapshots, selections and pages.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use binnacle_meta::{FieldSelector, GroupResource, LabelSelector, ShardSelector, Status, Text};
use binnacle_request::latency::{Part, measure, measured};
use binnacle_request::{WaitError, waiting, waiting_unless_failed};
use binnacle_store::{RangeRequest, Revision, StoreError, prefix_end};
use binnacle_watchcache::{BLOCK_TIMEOUT, CacheError, Cursor, Entry, Interest, Selection, Snapshot};
use bytes::Bytes;
use tokio::time::Instant;

use crate::context::Context;
use crate::continue_token::ContinueToken;
use crate::counts::Counts;
use crate::resource::{Collection, Resource};
use crate::stored::store_failure;
use crate::unreadable::Unread;

/// The options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub labels: LabelSelector,
    /// Selects by the resource's selectable fields.
    pub fields: FieldSelector,
    /// Selects objects of a shard.
    pub shard: Option<ShardSelector>,
    /// 0 for no limit.
    pub limit: usize,
    pub continue_token: Option<String>,
    pub version: Match,
}

/// The state of the store that a read returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// With all writes that were acknowledged before the request.
    #[default]
    Consistent,
    /// Any state.
    Any,
    NotOlderThan(u64),
    Exact(u64),
}

/// A list, or one page of it, which is read in chunks.
pub struct Page {
    pub revision: Revision,
    pub continue_token: Option<String>,
    /// The number of objects after the page, if known (no selector).
    pub remaining: Option<usize>,
    /// The selector of the shard that the list is.
    pub shard: Option<String>,
    source: Source,
}

enum Source {
    Cursor(Counted),
    /// A page with a limit, or one of the store's history.
    Entries(Vec<Arc<Entry>>),
}

/// A list that is read in chunks, and counted at its end.
struct Counted {
    cursor: Cursor,
    index: Text,
    returned: usize,
    counts: Arc<Counts>,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.counts.add_cached(&self.index, self.cursor.seen(), self.returned);
    }
}

/// The number of objects that are taken from a snapshot at once.
const CHUNK: usize = 128;
/// The number of events that are undone in the cache rather than reading a list from the store.
const EASILY_UNDONE: usize = 4096;
/// The `retryAfterSeconds` of a read whose wait timed out.
const RETRY: i32 = 1;

const EXPIRED_PAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
const EXPIRED_LIST: &str = "The resourceVersion for the provided list is too old.";

impl Resource {
    /// Lists the objects of the context's namespace, or of all namespaces if that is empty.
    pub async fn list(&self, context: &Context, options: &ListOptions) -> Result<Page, Status> {
        let page = self.list_to_delete(context, options).await?;
        if self.collection.too_large.load(Ordering::Acquire) {
            self.refuse_unreadable(&page)?;
        }
        Ok(page)
    }

    /// As [`Resource::list`], with the objects that are too large to be read.
    pub async fn list_to_delete(&self, context: &Context, options: &ListOptions) -> Result<Page, Status> {
        let page = self.list_selected(context, options).await?;
        Ok(Page { shard: options.shard.as_ref().map(ToString::to_string), ..page })
    }

    /// Fails if the list has objects that are too large to be read, before anything is sent.
    fn refuse_unreadable(&self, page: &Page) -> Result<(), Status> {
        let mut unread = Unread::of(self);
        let mut note = |entries: &[Arc<Entry>]| {
            let errors = entries.iter().filter_map(|entry| self.collection.read_failure(entry));
            errors.into_iter().try_for_each(|error| unread.note(error))
        };
        match &page.source {
            Source::Entries(entries) => note(entries)?,
            Source::Cursor(list) => {
                let mut cursor = list.cursor.clone();
                let mut chunk = Vec::new();
                loop {
                    binnacle_work::charge(CHUNK as u64)?;
                    cursor.fill(CHUNK, &mut chunk);
                    if chunk.is_empty() {
                        break;
                    }
                    note(&chunk)?;
                    chunk.clear();
                }
            }
        }
        unread.finish()
    }

    async fn list_selected(&self, context: &Context, options: &ListOptions) -> Result<Page, Status> {
        let collection = &self.collection;
        let namespace = if collection.kind.namespaced { context.namespace.as_str() } else { "" };
        collection.check_place(namespace, None)?;
        let selection = collection.selection(namespace, options);
        let scope = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let (version, start) = match &options.continue_token {
            None => (options.version, scope.clone()),
            Some(token) => {
                let token = ContinueToken::decode(token)?;
                let version = match u64::try_from(token.revision) {
                    Ok(revision) => Match::Exact(revision),
                    Err(_) => Match::Consistent,
                };
                (version, format!("{scope}{}", token.start))
            }
        };
        if !collection.cached {
            let revision = match version {
                Match::Exact(revision) => Revision(revision),
                Match::Consistent | Match::Any | Match::NotOlderThan(_) => {
                    collection.store.current_revision().await.map_err(store_failure)?
                }
            };
            version.reached(revision)?;
            let page = self.list_history(&selection, &scope, &start, options, revision).await?;
            return page.ok_or_else(|| expired(options, &start, &scope));
        }
        // While an unreadable value keeps the cache from being filled, lists are read from the store, as in Go (KEP
        // 4568), to report the value and return others; after a while only cheap ones.
        let plain = selection.is_everything() || selection.is_whole_namespace();
        let lost = || options.limit > 0 && plain && collection.cache.is_lost();
        let waits = version == Match::Consistent && !collection.cache.is_lost();
        let filling = options.limit > 0 && plain && collection.waits_for_conversions();
        if filling || collection.is_unreadable().await? && (lost() || waits) {
            return self.list_stored(&selection, &scope, &start, version, options).await;
        }
        let failed = |error| collection.cache_failure(error);
        let snapshot = match version {
            Match::Consistent => {
                let waited = waiting(measured(Part::Storage, collection.cache.wait_consistent(deadline()))).await?;
                collection.counts.add_consistent(waited.is_ok());
                match waited {
                    Ok(snapshot) => snapshot,
                    Err(CacheError::TooLargeRevision { .. }) if collection.cache.is_unreadable() => {
                        return self.list_stored(&selection, &scope, &start, version, options).await;
                    }
                    Err(error) => return Err(failed(error)),
                }
            }
            Match::Any => waiting(collection.cache.snapshot(deadline())).await?.map_err(failed)?,
            Match::NotOlderThan(revision) => collection.not_older_than(revision).await?,
            Match::Exact(revision) => match collection.exact(revision).await? {
                Some(snapshot) => snapshot,
                None => match self.list_history(&selection, &scope, &start, options, Revision(revision)).await? {
                    Some(page) => return Ok(page),
                    None => {
                        let past = collection.past(revision, usize::MAX).await;
                        past.ok_or_else(|| expired(options, &start, &scope))?
                    }
                },
            },
        };
        // A page has the requested version, even if the snapshot is valid for others, too.
        let revision = match version {
            Match::Exact(revision) => Revision(revision),
            _ => snapshot.revision(),
        };
        // As in kube-apiserver's cache, a list at any version is returned whole.
        if options.limit == 0 || version == Match::Any {
            let index = snapshot.index(&selection, collection.cache.fields());
            let cursor = snapshot.cursor(selection, &start);
            let source = Source::Cursor(Counted { cursor, index, returned: 0, counts: collection.counts.clone() });
            return Ok(Page { revision, continue_token: None, remaining: None, shard: None, source });
        }
        let mut entries = Vec::with_capacity(options.limit.min(1024));
        let mut cursor = snapshot.cursor(selection.clone(), &start);
        cursor.fill(options.limit, &mut entries);
        let index = snapshot.index(&selection, collection.cache.fields());
        collection.counts.add_cached(&index, cursor.seen(), entries.len());
        // Kept for the next page, which must have the same state.
        collection.cache.retain(&snapshot);
        let mut page =
            Page { revision, continue_token: None, remaining: None, shard: None, source: Source::Entries(Vec::new()) };
        if entries.len() == options.limit
            && let Some(last) = entries.last()
        {
            let next = format!("{}\0", last.path());
            let remaining = snapshot.remaining(Some(namespace).filter(|n| !n.is_empty()), &next);
            // Tokens of kube-apiserver's cache begin with a slash, those of its storage do not.
            page.go_on(format!("/{}", below(&scope, &next)), revision, remaining, &selection);
        }
        page.source = Source::Entries(entries);
        Ok(page)
    }

    /// Reads a list of the requested version from the store.
    async fn list_stored(
        &self,
        selection: &Arc<Selection>,
        scope: &str,
        start: &str,
        version: Match,
        options: &ListOptions,
    ) -> Result<Page, Status> {
        let current = self.collection.store.current_revision().await.map_err(store_failure)?;
        version.reached(current)?;
        let revision = if let Match::Exact(revision) = version { Revision(revision) } else { current };
        let page = self.list_history(selection, scope, start, options, revision).await?;
        page.ok_or_else(|| expired(options, start, scope))
    }

    /// Reads a list at a revision from the store; `None` if that is compacted.
    async fn list_history(
        &self,
        selection: &Arc<Selection>,
        scope: &str,
        start: &str,
        options: &ListOptions,
        revision: Revision,
    ) -> Result<Option<Page>, Status> {
        let collection = &self.collection;
        let mut page =
            Page { revision, continue_token: None, remaining: None, shard: None, source: Source::Entries(Vec::new()) };
        let mut entries = Vec::new();
        let mut unread = Unread::of(self);
        let (mut fetched, mut evaluated) = (0, 0);
        let mut from = [&collection.prefix, start.as_bytes()].concat();
        let mut end = prefix_end(&[&collection.prefix, scope.as_bytes()].concat());
        // As in kube-apiserver, a list of one name is read as that key alone: others may be unreadable.
        if let Some(name) = selection.name().filter(|_| !collection.kind.namespaced || !scope.is_empty()) {
            let key = [&collection.prefix, scope.as_bytes(), name.as_bytes()].concat();
            end = Bytes::from(after(&key));
            from = from.max(key);
            if from >= end {
                return Ok(Some(page));
            }
        }
        loop {
            let request = RangeRequest {
                range: Bytes::from(from.clone())..end.clone(),
                revision: Some(revision),
                limit: CHUNK.max(options.limit),
                count_only: false,
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
                from = after(&kv.key);
                // As in the cache, a key that is not UTF-8 is skipped.
                if std::str::from_utf8(&kv.key).is_err() {
                    continue;
                }
                let entry = match measure(Part::Decode, || collection.cache.entry(&kv)) {
                    Ok(entry) => entry,
                    Err(error) => {
                        unread.note(error)?;
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
                    unread.finish()?;
                    collection.counts.add_stored(fetched, evaluated, entries.len());
                    let remaining = response.count.saturating_sub(i + 1);
                    page.go_on(below(scope, &next).to_owned(), revision, remaining, selection);
                    page.source = Source::Entries(entries);
                    return Ok(Some(page));
                }
            }
            if let Some(error) = failed {
                if let StoreError::Transform { key, .. } = &error {
                    from = after(key.as_bytes());
                }
                unread.note(error)?;
                continue;
            }
            if !response.more || read == 0 {
                unread.finish()?;
                collection.counts.add_stored(fetched, evaluated, entries.len());
                page.source = Source::Entries(entries);
                return Ok(Some(page));
            }
        }
    }
}

impl Match {
    /// Checks that a state of the store is new enough for the request, without waiting.
    pub(crate) fn reached(self, current: Revision) -> Result<(), Status> {
        match self {
            Self::NotOlderThan(revision) | Self::Exact(revision) if revision > current.0 => {
                Err(Status::too_large_resource_version(revision, current.0, 0))
            }
            _ => Ok(()),
        }
    }
}

impl Collection {
    pub(crate) fn selection(&self, namespace: &str, options: &ListOptions) -> Arc<Selection> {
        self.cache.selection(Interest {
            namespace: Some(namespace).filter(|n| !n.is_empty()).map(Text::from),
            name: None,
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            shard: options.shard.clone(),
        })
    }

    /// Returns a snapshot at or after a revision, which another server may have written.
    pub(crate) async fn not_older_than(&self, revision: u64) -> Result<Snapshot, Status> {
        self.wait_for(Revision(revision)).await?.map_err(|error| self.cache_failure(error))
    }

    /// Waits for a revision. A request of a caller that has too many waiting ones fails at once, as if it had waited.
    pub(crate) async fn wait_for(&self, revision: Revision) -> Result<Result<Snapshot, CacheError>, WaitError> {
        match waiting_unless_failed(self.cache.wait_for(revision, deadline())).await {
            Err(WaitError::Crowded) => {
                Ok(Err(CacheError::TooLargeRevision { requested: revision, current: self.cache.progress() }))
            }
            waited => waited,
        }
    }

    /// Returns true if an unreadable value keeps the cache from being filled.
    pub(crate) async fn is_unreadable(&self) -> Result<bool, WaitError> {
        if self.cache.is_ready() {
            return Ok(false);
        }
        // This starts the cache if it is not used yet.
        let _ = waiting(self.cache.ready(deadline())).await?;
        Ok(self.cache.is_unreadable())
    }

    /// Returns true if a webhook converts the objects that are stored in other versions.
    pub(crate) fn has_conversion_webhook(&self) -> bool {
        self.kind.custom.as_ref().is_some_and(|custom| custom.converter().is_some())
    }

    /// Returns true while the cache is filled through a conversion webhook, which may take long: then cheap reads use
    /// the store, as in kube-apiserver (KEP 4568).
    pub(crate) fn waits_for_conversions(&self) -> bool {
        if !self.has_conversion_webhook() || self.cache.is_ready() {
            return false;
        }
        self.cache.start();
        true
    }

    /// Returns the status for a read that the cache cannot serve.
    pub(crate) fn cache_failure(&self, error: CacheError) -> Status {
        match error {
            CacheError::TooLargeRevision { requested, current } => {
                Status::too_large_resource_version(requested.0, current.0, RETRY)
            }
            CacheError::Store(error) => store_failure(error),
            // The response of kube-apiserver while its cache is (re)initialized, after which clients retry.
            CacheError::NotReady(Some(trouble)) => {
                let resource = GroupResource::new(self.kind.storage.group.clone(), self.kind.plural.clone());
                let why = if self.unsafe_deletion && trouble.error.is_unreadable() {
                    Status::store_read_error(&resource).message().to_owned()
                } else {
                    trouble.error.to_string()
                };
                let message = format!("storage is (re)initializing: failed to list {}: {why}", self.go_type(""));
                Status::too_many_requests(message, retry_after(trouble.lasting))
            }
            CacheError::NotReady(None) | CacheError::Closed => {
                Status::too_many_requests("storage is (re)initializing", RETRY)
            }
        }
    }

    /// Returns true if the cache serves lists of past versions (KEP 4988).
    fn serves_past(&self) -> bool {
        self.features.enabled("ListFromCacheSnapshot")
    }

    /// Returns the snapshot of exactly this revision, if the cache can make it cheaply.
    async fn exact(&self, revision: u64) -> Result<Option<Snapshot>, Status> {
        if !self.serves_past() {
            return Ok(None);
        }
        self.not_older_than(revision).await?;
        Ok(self.past(revision, EASILY_UNDONE).await)
    }

    /// Returns the state of a revision, from the cache or by undoing at most `most` events.
    async fn past(&self, revision: u64, most: usize) -> Option<Snapshot> {
        if !self.serves_past() {
            return None;
        }
        match self.cache.snapshot_at(Revision(revision)) {
            Some(snapshot) => Some(snapshot),
            None => self.cache.rewound(Revision(revision), most, deadline()).await,
        }
    }
}

impl Page {
    /// Makes a page of objects that were read before.
    pub fn of(entries: Vec<Arc<Entry>>, like: &Self) -> Self {
        Self {
            revision: like.revision,
            continue_token: like.continue_token.clone(),
            remaining: like.remaining,
            shard: like.shard.clone(),
            source: Source::Entries(entries),
        }
    }

    /// Returns the next objects; `None` at the end.
    pub fn next_chunk(&mut self) -> Option<Vec<Arc<Entry>>> {
        match &mut self.source {
            Source::Cursor(list) => {
                let mut chunk = Vec::with_capacity(CHUNK.min(list.cursor.snapshot().len()));
                list.cursor.fill(CHUNK, &mut chunk);
                list.returned += chunk.len();
                (!chunk.is_empty()).then_some(chunk)
            }
            Source::Entries(entries) => (!entries.is_empty()).then(|| std::mem::take(entries)),
        }
    }

    /// Sets the continue token, and without selectors the remaining count, which is unknown otherwise. That of a shard
    /// counts all objects, as in kube-apiserver.
    fn go_on(&mut self, start: String, revision: Revision, remaining: usize, selection: &Selection) {
        if remaining == 0 {
            return;
        }
        self.continue_token = Some(ContinueToken { revision: revision.0 as i64, start }.encode());
        if selection.has_no_terms() {
            self.remaining = Some(remaining);
        }
    }
}

/// Returns the time until which a read waits for the cache.
pub(crate) fn deadline() -> Instant {
    Instant::now() + BLOCK_TIMEOUT
}

/// Returns a path without the common prefix of a list.
fn below<'a>(scope: &str, path: &'a str) -> &'a str {
    path.strip_prefix(scope).unwrap_or(path)
}

/// Returns the first key after another one.
fn after(key: &[u8]) -> Vec<u8> {
    [key, b"\0"].concat()
}

fn expired(options: &ListOptions, start: &str, scope: &str) -> Status {
    if options.continue_token.is_none() {
        return Status::expired(EXPIRED_LIST);
    }
    let start = below(scope, start).to_owned();
    Status::expired(EXPIRED_PAGE).with_continue(ContinueToken { revision: -1, start }.encode())
}

/// Returns the seconds after which clients retry, more the longer the failure lasts.
fn retry_after(downtime: Duration) -> i32 {
    (0.06 * downtime.as_secs_f64()).exp().clamp(1.0, 30.0) as i32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_come_back_later_and_later() {
        for (seconds, want) in [(0, 1), (10, 1), (12, 2), (30, 6), (56, 28), (57, 30), (100_000, 30)] {
            assert_eq!(retry_after(Duration::from_secs(seconds)), want, "{seconds}");
        }
    }
}
