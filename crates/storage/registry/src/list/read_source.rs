//! Where a list is read from: a snapshot of the cache, or the store.

use std::sync::Arc;

use binnacle_meta::Status;
use binnacle_request::latency::{Part, measured};
use binnacle_request::waiting;
use binnacle_store::Revision;
use binnacle_watchcache::{CacheError, Selection, Snapshot};

use super::{ListOptions, Match, expired};
use crate::cache_waits::deadline;
use crate::continue_token::ContinueToken;
use crate::resource::ResourceStore;
use crate::store_failure::store_failure;

/// The maximum number of events that the cache undoes for a list instead of reading it from the store.
const MAX_CHEAP_REWIND: usize = 4096;

/// A list as requested.
pub(super) struct ListRequest<'a> {
    pub(super) options: &'a ListOptions,
    pub(super) selection: Arc<Selection>,
    /// The start of the paths in continue tokens: `NAMESPACE/`, or empty for all namespaces.
    pub(super) scope: String,
    /// The common start of the objects' paths: the scope, or the namespace that the field selector requires.
    pub(super) prefix: String,
    /// The path at which the page starts.
    pub(super) start: String,
    pub(super) version: Match,
}

impl<'a> ListRequest<'a> {
    pub(super) fn new(
        collection: &ResourceStore,
        namespace: &'a str,
        options: &'a ListOptions,
    ) -> Result<Self, Status> {
        let selection = collection.selection(namespace, options);
        let scope = if namespace.is_empty() { String::new() } else { format!("{namespace}/") };
        let required = selection.namespace().filter(|namespace| !namespace.is_empty() && !namespace.contains('/'));
        let prefix = match required {
            Some(required) if collection.kind.namespaced => format!("{required}/"),
            _ => scope.clone(),
        };
        let (version, start) = match &options.continue_token {
            None => (options.version, prefix.clone()),
            Some(token) => {
                let token = ContinueToken::decode(token)?;
                let version = match u64::try_from(token.revision) {
                    Ok(revision) => Match::Exact(revision),
                    Err(_) => Match::Consistent,
                };
                (version, format!("{scope}{}", token.start).max(prefix.clone()))
            }
        };
        Ok(Self { options, selection, scope, prefix, start, version })
    }

    /// Returns the namespace of all selected objects, if there is one.
    pub(super) fn namespace(&self) -> Option<&str> {
        self.prefix.strip_suffix('/')
    }

    /// Returns true if the request has no selector, not even one that requires its namespace.
    pub(super) fn has_no_selector(&self) -> bool {
        self.options.labels.is_everything() && self.options.fields.is_everything()
    }

    /// Returns true if the list is one of the newest state.
    fn is_of_newest(&self) -> bool {
        matches!(self.version, Match::Consistent | Match::Reached(_))
    }

    /// Returns true for a page of all objects, or of all objects of a namespace.
    fn is_plain_page(&self) -> bool {
        self.options.limit > 0 && (self.selection.is_everything() || self.selection.is_whole_namespace())
    }
}

/// The source of a list.
pub(super) enum ReadSource {
    Cache(Snapshot),
    Store(Revision),
    /// The store, or an earlier state in the cache if the store has compacted the revision.
    StoreOrPast(Revision),
}

impl ResourceStore {
    /// Returns the source of a list, after it has reached the requested version.
    pub(super) async fn read_source(&self, list: &ListRequest<'_>) -> Result<ReadSource, Status> {
        if !self.cached || self.prefers_store(list).await? {
            return self.store_source(list.version).await;
        }
        if let Match::Reached(_) = list.version {
            let current = self.store.current_revision().await.map_err(store_failure)?;
            list.version.check_reached(current)?;
        }
        match list.version {
            Match::Consistent | Match::Reached(_) => {
                let result = waiting(measured(Part::Storage, self.cache.wait_consistent(deadline()))).await?;
                self.counts.add_consistent(result.is_ok());
                match result {
                    Ok(snapshot) => Ok(ReadSource::Cache(snapshot)),
                    Err(CacheError::TooLargeRevision { .. }) if self.cache.is_unreadable() => {
                        self.store_source(list.version).await
                    }
                    Err(error) => Err(self.cache_failure(error)),
                }
            }
            Match::Any => {
                let snapshot = waiting(self.cache.snapshot(deadline())).await?;
                Ok(ReadSource::Cache(snapshot.map_err(|error| self.cache_failure(error))?))
            }
            Match::NotOlderThan(revision) => Ok(ReadSource::Cache(self.not_older_than(revision).await?)),
            Match::Exact(revision) => Ok(match self.exact(revision).await? {
                Some(snapshot) => ReadSource::Cache(snapshot),
                None => ReadSource::StoreOrPast(Revision(revision)),
            }),
        }
    }

    /// Returns true while an unreadable value or a conversion webhook prevents the initialization of the cache. Lists
    /// are then read from the store, as in kube-apiserver (KEP-4568), to report the unreadable value and return other
    /// objects. After a while, only cheap lists are.
    async fn prefers_store(&self, list: &ListRequest<'_>) -> Result<bool, Status> {
        if list.is_plain_page() && self.waits_for_conversions() {
            return Ok(true);
        }
        if !self.is_unreadable().await? {
            return Ok(false);
        }
        let is_unavailable = self.cache.is_unavailable();
        Ok(if is_unavailable { list.is_plain_page() } else { list.is_of_newest() })
    }

    /// Returns the store at the requested version.
    async fn store_source(&self, version: Match) -> Result<ReadSource, Status> {
        if let Match::Exact(revision) = version {
            return Ok(ReadSource::Store(Revision(revision)));
        }
        let current = self.store.current_revision().await.map_err(store_failure)?;
        version.check_reached(current)?;
        Ok(ReadSource::Store(current))
    }

    /// Returns the earlier state of a revision that the store has compacted.
    pub(super) async fn compacted_snapshot(
        &self,
        list: &ListRequest<'_>,
        revision: Revision,
    ) -> Result<Snapshot, Status> {
        self.past_snapshot(revision.0, usize::MAX).await.ok_or_else(|| expired(list))
    }

    /// Returns true if the cache serves lists of earlier versions (KEP-4988).
    fn serves_past_revisions(&self) -> bool {
        self.features.enabled("ListFromCacheSnapshot")
    }

    /// Returns the snapshot of exactly this revision, if the cache can create it cheaply. As in kube-apiserver, a revision
    /// that the store has not reached is refused at once: only the cache is waited for.
    async fn exact(&self, revision: u64) -> Result<Option<Snapshot>, Status> {
        if !self.serves_past_revisions() {
            return Ok(None);
        }
        if self.cache.progress() < Revision(revision) {
            let current = self.store.current_revision().await.map_err(store_failure)?;
            Match::Exact(revision).check_reached(current)?;
        }
        self.not_older_than(revision).await?;
        Ok(self.past_snapshot(revision, MAX_CHEAP_REWIND).await)
    }

    /// Returns the state of a revision, from the cache or by undoing at most `max_events` events.
    async fn past_snapshot(&self, revision: u64, max_events: usize) -> Option<Snapshot> {
        if !self.serves_past_revisions() {
            return None;
        }
        match self.cache.snapshot_at(Revision(revision)) {
            Some(snapshot) => Some(snapshot),
            None => self.cache.rewind(Revision(revision), max_events, deadline()).await,
        }
    }
}
