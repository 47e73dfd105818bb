//! Lists: their snapshots, selections and pages.

mod from_store;
mod read_source;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use binnacle_meta::{FieldSelector, LabelSelector, ShardSelector, Status, Text};
use binnacle_store::Revision;
use binnacle_watchcache::{Cursor, Entry, Interest, Selection, Snapshot};

use self::read_source::{ListRequest, ReadSource};
use crate::context::Context;
use crate::continue_token::ContinueToken;
use crate::counts::Counts;
use crate::resource::{Resource, ResourceStore};
use crate::unreadable::UnreadableObjects;

/// The options of a list.
#[derive(Clone, Debug, Default)]
pub struct ListOptions {
    pub labels: LabelSelector,
    /// The selector on the resource's selectable fields.
    pub fields: FieldSelector,
    /// The selector of the objects of a shard.
    pub shard: Option<ShardSelector>,
    /// 0 means no limit.
    pub limit: usize,
    pub continue_token: Option<String>,
    pub version: Match,
}

/// The state of the store that a read returns.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Match {
    /// A state with all writes that were acknowledged before the request.
    #[default]
    Consistent,
    /// Any state.
    Any,
    NotOlderThan(u64),
    /// The newest state, which must have reached a version already: nothing waits for it.
    Reached(u64),
    Exact(u64),
}

/// A list, or one page of it, which is read in chunks.
pub struct Page {
    pub revision: Revision,
    pub continue_token: Option<String>,
    /// The number of objects after the page, if it is available (only without selectors).
    pub remaining: Option<usize>,
    /// The selector of the shard that the list contains.
    pub shard: Option<String>,
    source: Source,
}

enum Source {
    Cursor(CountedCursor),
    /// A page with a limit, or a page from the store's history.
    Entries(Vec<Arc<Entry>>),
}

/// A list that is read in chunks, and counted at its end.
struct CountedCursor {
    cursor: Cursor,
    index: Text,
    returned: usize,
    counts: Arc<Counts>,
}

impl Drop for CountedCursor {
    fn drop(&mut self) {
        self.counts.add_cached(&self.index, self.cursor.examined(), self.returned);
    }
}

/// The number of objects that are read from a snapshot at once.
const CHUNK: usize = 128;
const EXPIRED_PAGE: &str = "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.";
const EXPIRED_LIST: &str = "The resourceVersion for the provided list is too old.";

impl Resource {
    /// Lists the objects of the context's namespace, or of all namespaces if the namespace is empty.
    pub async fn list(&self, context: &Context, options: &ListOptions) -> Result<Page, Status> {
        let page = self.list_to_delete(context, options).await?;
        if self.collection.too_large.load(Ordering::Acquire) {
            self.refuse_unreadable(&page)?;
        }
        Ok(page)
    }

    /// Lists objects like [`Resource::list`], including those that are too large to be read.
    pub async fn list_to_delete(&self, context: &Context, options: &ListOptions) -> Result<Page, Status> {
        let page = self.list_selected(context, options).await?;
        Ok(Page { shard: options.shard.as_ref().map(ToString::to_string), ..page })
    }

    /// Fails if the list has objects that are too large to be read, before anything is sent.
    fn refuse_unreadable(&self, page: &Page) -> Result<(), Status> {
        let mut unreadable = UnreadableObjects::of(self);
        let mut record = |entries: &[Arc<Entry>]| {
            let errors = entries.iter().filter_map(|entry| self.collection.read_failure(entry));
            errors.into_iter().try_for_each(|error| unreadable.record(error))
        };
        match &page.source {
            Source::Entries(entries) => record(entries)?,
            Source::Cursor(list) => {
                let mut cursor = list.cursor.clone();
                let mut chunk = Vec::new();
                loop {
                    binnacle_work::charge(CHUNK as u64)?;
                    cursor.fill(CHUNK, &mut chunk);
                    if chunk.is_empty() {
                        break;
                    }
                    record(&chunk)?;
                    chunk.clear();
                }
            }
        }
        unreadable.finish()
    }

    async fn list_selected(&self, context: &Context, options: &ListOptions) -> Result<Page, Status> {
        let collection = &self.collection;
        let namespace = if collection.kind.namespaced { context.namespace.as_str() } else { "" };
        collection.check_namespace_and_name(namespace, None)?;
        let list = ListRequest::new(collection, namespace, options)?;
        let snapshot = match collection.read_source(&list).await? {
            ReadSource::Cache(snapshot) => snapshot,
            ReadSource::Store(revision) => {
                let page = self.list_history(&list, revision).await?;
                return page.ok_or_else(|| expired(&list));
            }
            ReadSource::StoreOrPast(revision) => match self.list_history(&list, revision).await? {
                Some(page) => return Ok(page),
                None => collection.compacted_snapshot(&list, revision).await?,
            },
        };
        Ok(collection.page(&snapshot, &list))
    }
}

impl Match {
    /// Checks that a state of the store is recent enough for the request, without waiting.
    pub(crate) fn check_reached(self, current: Revision) -> Result<(), Status> {
        match self {
            Self::NotOlderThan(revision) | Self::Reached(revision) | Self::Exact(revision) if revision > current.0 => {
                Err(Status::too_large_resource_version(revision, current.0, 0))
            }
            _ => Ok(()),
        }
    }
}

impl ResourceStore {
    pub(crate) fn selection(&self, namespace: &str, options: &ListOptions) -> Arc<Selection> {
        self.cache.selection(Interest {
            namespace: Some(namespace).filter(|n| !n.is_empty()).map(Text::from),
            name: None,
            labels: options.labels.clone(),
            fields: options.fields.clone(),
            shard: options.shard.clone(),
        })
    }

    /// Returns the list or the page of a snapshot.
    fn page(&self, snapshot: &Snapshot, list: &ListRequest<'_>) -> Page {
        let limit = list.options.limit;
        // A page has the requested version, even if the snapshot is valid for other versions, too.
        let revision = match list.version {
            Match::Exact(revision) => Revision(revision),
            _ => snapshot.revision(),
        };
        let index = snapshot.index(&list.selection, self.cache.fields());
        let mut cursor = snapshot.cursor(list.selection.clone(), &list.start);
        // As in kube-apiserver's cache, a list at any version is returned whole.
        if limit == 0 || list.version == Match::Any {
            let source = Source::Cursor(CountedCursor { cursor, index, returned: 0, counts: self.counts.clone() });
            return Page { source, ..Page::empty(revision) };
        }
        let mut entries = Vec::with_capacity(limit.min(1024));
        cursor.fill(limit, &mut entries);
        self.counts.add_cached(&index, cursor.examined(), entries.len());
        // Retained for the next page, which must have the same state.
        self.cache.retain(snapshot);
        let mut page = Page::empty(revision);
        if entries.len() == limit
            && let Some(last) = entries.last()
        {
            let next = format!("{}\0", last.path());
            let remaining = snapshot.remaining(list.namespace(), &next);
            // The tokens of kube-apiserver's cache begin with a slash, those of its storage do not.
            page.set_continue(format!("/{}", strip_scope(&list.scope, &next)), revision, remaining, list);
        }
        page.source = Source::Entries(entries);
        page
    }
}

impl Page {
    fn empty(revision: Revision) -> Self {
        let source = Source::Entries(Vec::new());
        Self { revision, continue_token: None, remaining: None, shard: None, source }
    }

    /// Creates a page of objects that have already been read.
    pub fn of(entries: Vec<Arc<Entry>>, like: &Self) -> Self {
        Self {
            revision: like.revision,
            continue_token: like.continue_token.clone(),
            remaining: like.remaining,
            shard: like.shard.clone(),
            source: Source::Entries(entries),
        }
    }

    /// Returns the next objects, or `None` at the end.
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

    /// Sets the continue token, and the remaining count if there are no selectors. As in kube-apiserver, the count of a
    /// shard includes all objects.
    fn set_continue(&mut self, start: String, revision: Revision, remaining: usize, list: &ListRequest<'_>) {
        if remaining == 0 {
            return;
        }
        self.continue_token = Some(ContinueToken { revision: revision.0 as i64, start }.encode());
        if list.has_no_selector() {
            self.remaining = Some(remaining);
        }
    }
}

/// Returns a path without the common prefix of a list.
fn strip_scope<'a>(scope: &str, path: &'a str) -> &'a str {
    path.strip_prefix(scope).unwrap_or(path)
}

fn expired(list: &ListRequest<'_>) -> Status {
    if list.options.continue_token.is_none() {
        return Status::expired(EXPIRED_LIST);
    }
    let start = strip_scope(&list.scope, &list.start).to_owned();
    Status::expired(EXPIRED_PAGE).with_continue(ContinueToken { revision: -1, start }.encode())
}
