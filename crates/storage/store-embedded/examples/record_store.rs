//! Records a store of this version for `tests/formats.rs`, which later versions open:
//!
//! `cargo run -p binnacle-store-embedded --example record_store -- test_data/stores/VERSION`
//!
//! The folder gets the files of the store, and `contents.tsv`: all keys at several revisions, as this version reads them.

use std::fmt::Write as _;
use std::path::PathBuf;

use binnacle_store::{Count, Expect, LeaseId, Op, RangeRequest, Revision, Store, Txn, prefix_range};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore};
use bytes::Bytes;

/// Small segments: the store has several, and some are rewritten.
const SEGMENT: u64 = 8 << 10;

#[tokio::main]
async fn main() {
    let folder = PathBuf::from(std::env::args().nth(1).expect("the argument is a folder to create"));
    std::fs::create_dir_all(&folder).expect("the folder can be created");
    let log = LogOptions { min_segment: SEGMENT, max_segment: SEGMENT, background: true };
    let options = EmbeddedOptions { log, ..EmbeddedOptions::new(folder.join("store")) };
    let store = EmbeddedStore::open(options).expect("an empty store opens");
    write(&store).await;
    let contents = contents(&store).await;
    store.close().await;
    std::fs::write(folder.join("contents.tsv"), contents).expect("a file");
    // It names a process of this machine.
    std::fs::remove_file(folder.join("store/lock")).expect("the lock is removed");
}

/// Writes keys once and often, under leases, and deletes some; compacts in between.
async fn write(store: &EmbeddedStore) {
    let lease = store.grant_lease(3_600).await.expect("a lease");
    for round in 0..12 {
        for n in 0..12 {
            let lease = (n % 5 == 0).then_some(lease);
            let op = Op::Put { value: format!("round {round} of {n}; ").repeat(4).into(), lease };
            txn(store, format!("/often/{n:02}"), op).await;
        }
        txn(store, format!("/once/{round:02}"), Op::Put { value: vec![b'a' + round; 60].into(), lease: None }).await;
        txn(store, format!("/often/{round:02}"), Op::Delete).await;
        if round == 6 {
            let revision = store.current_revision().await.expect("a revision");
            store.compact(revision).await.expect("a compaction");
        }
    }
    let ending = store.grant_lease(60).await.expect("a lease");
    for n in 0..3 {
        txn(store, format!("/leased/{n}"), Op::Put { value: Bytes::from_static(b"x"), lease: Some(ending) }).await;
    }
    store.revoke_lease(ending).await.expect("the end of a lease");
}

async fn txn(store: &EmbeddedStore, key: String, op: Op) {
    store.txn(Txn { key: key.into(), expect: Expect::Anything, op }).await.expect("a write");
}

/// Returns a line for each key at each of some revisions.
async fn contents(store: &EmbeddedStore) -> String {
    let (first, last) = (
        store.compacted_revision().await.expect("a revision").0,
        store.current_revision().await.expect("a revision").0,
    );
    let mut text = String::from("# revision, key, created, modified, lease, value\n");
    for revision in [first, (first + last) / 2, last - 1, last] {
        let request =
            RangeRequest { range: prefix_range(b"/"), revision: Some(Revision(revision)), limit: 0, count: Count::All };
        for kv in store.range(request).await.expect("a read").kvs {
            let key = String::from_utf8_lossy(&kv.key);
            let (lease, value) = (kv.lease.unwrap_or(LeaseId(0)).0, String::from_utf8_lossy(&kv.value));
            let (created, modified) = (kv.create_revision.0, kv.mod_revision.0);
            writeln!(text, "{revision}\t{key}\t{created}\t{modified}\t{lease}\t{value}").expect("a string grows");
        }
    }
    text
}
