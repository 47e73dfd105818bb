//! The conformance tests that every engine passes: they verify the contract of [`Store`](crate::Store) through its
//! methods.
//!
//! [`contract_tests!`](crate::contract_tests) expands to one test per case. Each case gets a store without other
//! writers.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;

use crate::{
    Count, Event, Expect, KeyValue, LeaseId, Op, RangeRequest, RangeResponse, Revision, Store, Txn, TxnResponse, Watch,
    WatchMessage, prefix_range,
};

pub mod compaction;
pub mod deletions;
pub mod leases;
pub mod ranges;
pub mod transactions;
pub mod watches;

/// Expands to one `#[tokio::test]` per case. The argument is a path to an `async fn() -> (impl Sized, Arc<dyn Store>)`;
/// the first value (a directory or a server) is held until the case ends. Attributes in front of the path, such as
/// `#[ignore]`, are applied to every test.
#[macro_export]
macro_rules! contract_tests {
    ($(#[$attribute:meta])* $factory:path) => {
        $crate::contract_tests! { @ [$(#[$attribute])*] $factory; ranges: count_includes_keys_beyond_limit; }
        $crate::contract_tests! { @ compaction [$(#[$attribute])*] $factory }
        $crate::contract_tests! { @ common [$(#[$attribute])*] $factory }
    };
    // Omits the cases that compact, for a part of a store.
    (without_compaction $factory:path) => {
        $crate::contract_tests! { @ [] $factory; ranges: count_includes_keys_beyond_limit; }
        $crate::contract_tests! { @ common [] $factory }
    };
    (@ compaction $attributes:tt $factory:path) => {
        $crate::contract_tests! { @ $attributes $factory;
            compaction: compaction_drops_earlier_revisions, rejects_compaction_to_past_or_future_revision,
                compactor_compacts_to_previous_revision, compactor_compacts_after_its_first_interval;
            watches: rejects_watch_of_compacted_history;
        }
    };
    (@ common $attributes:tt $factory:path) => {
        $crate::contract_tests! { @ $attributes $factory;
            transactions: each_write_gets_the_next_revision, key_has_create_and_mod_revision,
                writes_only_if_expectation_holds, deleting_absent_key_changes_nothing,
                stores_empty_binary_and_large_values, concurrent_writers_lose_no_increment,
                concurrent_creates_have_one_winner;
            deletions: deletes_exactly_the_keys_of_a_range, deletes_more_keys_than_a_batch_has,
                deleting_an_empty_range_changes_nothing, deletes_keys_of_leases;
            ranges: range_is_ordered_and_excludes_its_end, limit_is_reported_by_more,
                pages_show_one_revision_despite_writes, prefix_range_has_exactly_keys_with_prefix;
            compaction: reads_return_contents_at_revision;
            watches: events_have_previous_values, watch_from_older_revision_replays_history,
                watch_delivers_only_its_range, barrier_covers_acknowledged_writes, barrier_covers_history_of_watch,
                watches_are_complete_and_ordered_under_load, slow_reader_misses_no_event,
                watch_starts_at_future_revision;
            leases: revoking_lease_deletes_its_keys, expired_lease_deletes_its_keys, rejects_unknown_lease,
                lease_has_remaining_time, newest_put_sets_lease_of_key, put_during_revocation_leaves_no_key;
        }
    };
    (@ case [$(#[$attribute:meta])*] $factory:path; $module:ident $case:ident) => {
        $(#[$attribute])*
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn $case() {
            let (_guard, store) = $factory().await;
            $crate::contract::$module::$case(store).await;
        }
    };
    (@ $attributes:tt $factory:path; $($module:ident: $($case:ident),+;)+) => {
        $($(
            $crate::contract_tests! { @ case $attributes $factory; $module $case }
        )+)+
    };
}

/// The timeout of expected events.
const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) fn bytes(text: impl AsRef<str>) -> Bytes {
    Bytes::copy_from_slice(text.as_ref().as_bytes())
}

pub(crate) async fn put_if(store: &dyn Store, key: &str, expect: Expect, value: &str) -> TxnResponse {
    let op = Op::Put { value: bytes(value), lease: None };
    store.txn(Txn { key: bytes(key), expect, op }).await.expect("a put is carried out")
}

pub(crate) async fn put(store: &dyn Store, key: &str, value: &str) -> Revision {
    done(put_if(store, key, Expect::Anything, value).await).0
}

pub(crate) async fn put_with_lease(store: &dyn Store, key: &str, lease: LeaseId) -> Revision {
    let op = Op::Put { value: bytes("leased"), lease: Some(lease) };
    done(store.txn(Txn { key: bytes(key), expect: Expect::Anything, op }).await.expect("a put is carried out")).0
}

pub(crate) async fn delete_if(store: &dyn Store, key: &str, expect: Expect) -> TxnResponse {
    store.txn(Txn { key: bytes(key), expect, op: Op::Delete }).await.expect("a deletion is carried out")
}

pub(crate) async fn delete(store: &dyn Store, key: &str) -> Revision {
    done(delete_if(store, key, Expect::Anything).await).0
}

pub(crate) async fn get(store: &dyn Store, key: &str) -> Option<KeyValue> {
    store.get(bytes(key), None).await.expect("a read is answered").0
}

pub(crate) async fn list(store: &dyn Store, prefix: &str, revision: Option<Revision>, limit: usize) -> RangeResponse {
    let request = RangeRequest { range: prefix_range(prefix.as_bytes()), revision, limit, count: Count::All };
    store.range(request).await.expect("a range is answered")
}

pub(crate) fn done(response: TxnResponse) -> (Revision, Option<KeyValue>) {
    match response {
        TxnResponse::Done { revision, previous } => (revision, previous),
        TxnResponse::Unmet { current, .. } => panic!("the expectation was not met, the key holds {current:?}"),
    }
}

pub(crate) fn unmet(response: TxnResponse) -> (Option<KeyValue>, Revision) {
    match response {
        TxnResponse::Unmet { current, revision } => (current, revision),
        TxnResponse::Done { revision, .. } => panic!("carried out at {revision:?} against its expectation"),
    }
}

/// Returns keys and values as strings, for comparisons.
pub(crate) fn pairs(kvs: &[KeyValue]) -> Vec<(String, String)> {
    kvs.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect()
}

pub(crate) fn text(bytes: &Bytes) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

pub(crate) fn event_revision(event: &Event) -> Revision {
    match event {
        Event::Put { kv, .. } => kv.mod_revision,
        Event::Delete { revision, .. } => *revision,
    }
}

/// Describes an event on one line: its type, key, revision, value, and previous value.
pub(crate) fn describe(event: &Event) -> String {
    let previous = |previous: &Option<KeyValue>| {
        previous.as_ref().map_or("-".to_owned(), |kv| format!("{}@{}", text(&kv.value), kv.mod_revision.0))
    };
    match event {
        Event::Put { kv, previous: old } => {
            format!("put {} {}@{} was {}", text(&kv.key), text(&kv.value), kv.mod_revision.0, previous(old))
        }
        Event::Delete { key, revision, previous: old } => {
            format!("delete {} @{} was {}", text(key), revision.0, previous(old))
        }
    }
}

/// A reader of a watch's events.
pub(crate) struct Reader {
    watch: Watch,
    pending: std::collections::VecDeque<Event>,
}

impl Reader {
    pub(crate) async fn open(store: &Arc<dyn Store>, prefix: &str, after: Revision) -> Self {
        let watch = store.watch(prefix_range(prefix.as_bytes()), after).await.expect("a watch starts");
        Self { watch, pending: Default::default() }
    }

    pub(crate) async fn next(&mut self) -> Event {
        tokio::time::timeout(PATIENCE, async {
            loop {
                if let Some(event) = self.pending.pop_front() {
                    return event;
                }
                match self.watch.messages.next().await {
                    Some(Ok(WatchMessage::Events(events))) => self.pending.extend(events),
                    Some(Ok(WatchMessage::Progress(_))) => {}
                    Some(Err(error)) => panic!("the watch ended: {error}"),
                    None => panic!("the watch ended without saying why"),
                }
            }
        })
        .await
        .expect("an event arrives")
    }

    pub(crate) async fn take(&mut self, count: usize) -> Vec<String> {
        let mut taken = Vec::new();
        for _ in 0..count {
            taken.push(describe(&self.next().await));
        }
        taken
    }

    /// Returns the events of one message.
    pub(crate) async fn message(&mut self) -> Vec<Event> {
        let first = self.next().await;
        std::iter::once(first).chain(self.pending.drain(..)).collect()
    }

    pub(crate) fn control(&self) -> &dyn crate::WatchControl {
        &*self.watch.control
    }
}
