//! Tests on a real file system that is full.

mod support;

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_store::{Expect, Op, Store, StoreError, Txn, spawn_compactor};
use binnacle_store_embedded::files::LogFile;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, Salvage, check};
use bytes::Bytes;
use support::small_disk;

/// The timeout of background work.
const PATIENCE: Duration = Duration::from_secs(60);

fn open(dir: &Path) -> Arc<EmbeddedStore> {
    Arc::new(EmbeddedStore::open(EmbeddedOptions::new(dir.join("store"))).expect("the store opens"))
}

async fn put(store: &dyn Store, key: String, len: usize) -> Result<(), StoreError> {
    let op = Op::Put { value: Bytes::from(vec![b'v'; len]), lease: None };
    store.txn(Txn { key: key.into(), expect: Expect::Anything, op }).await.map(drop)
}

async fn delete(store: &dyn Store, key: String) {
    let txn = Txn { key: key.into(), expect: Expect::Anything, op: Op::Delete };
    store.txn(txn).await.expect("deletions are taken");
}

/// Writes until the disk is full, and returns the number of objects.
async fn fill(store: &dyn Store, prefix: &str, len: usize) -> usize {
    for n in 0.. {
        match put(store, format!("{prefix}{n}"), len).await {
            Ok(()) => {}
            Err(StoreError::NoSpace(_)) => return n,
            Err(error) => panic!("{error}"),
        }
    }
    unreachable!("the disk is small")
}

/// Waits until the store accepts objects up to this number, as space is freed in the background, and is ready.
async fn heal(store: &dyn Store, objects: std::ops::Range<usize>, len: usize, context: &str) {
    let deadline = Instant::now() + PATIENCE;
    for n in objects {
        while let Err(error) = put(store, format!("/a/{n}"), len).await {
            assert!(matches!(error, StoreError::NoSpace(_)) && Instant::now() < deadline, "{context}: {error}");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    }
    while let Err(error) = store.readiness().await {
        assert!(Instant::now() < deadline, "{context}: {error}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

/// A reservation that cannot succeed takes no space in the meantime.
#[test]
fn failed_reservation_takes_no_space() {
    let Some(dir) = small_disk::enter("failed_reservation_takes_no_space", 8) else { return };
    let file = File::create_new(dir.join("file")).expect("a file");
    let refused = LogFile::allocate(&file, 64 << 20).expect_err("it is larger than the disk");
    assert_eq!(refused.kind(), std::io::ErrorKind::StorageFull, "{refused}");
    assert_eq!(file.metadata().expect("a file").blocks(), 0);
    LogFile::allocate(&file, 2 << 20).expect("there is room");
    assert!(file.metadata().expect("a file").blocks() * 512 >= 2 << 20);
}

/// Deletions and the rounds of the compactor make a full disk writable again, in the same process and after a restart.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compactor_frees_full_disk() {
    let Some(dir) = small_disk::enter("compactor_frees_full_disk", 96) else { return };
    const LEN: usize = 900_000;
    for restarts in [false, true] {
        let mut store = open(&dir);
        let compactor = spawn_compactor(store.clone(), Duration::from_millis(50), Duration::ZERO, |_| {});
        let count = fill(&*store, "/a/", LEN).await;
        assert!(count > 30, "{count}");
        assert!(matches!(store.readiness().await, Err(StoreError::NoSpace(_))));
        let first = count / 8;
        for n in first..count {
            delete(&*store, format!("/a/{n}")).await;
        }
        if restarts {
            drop(compactor);
            store.close().await;
            store = open(&dir);
        }
        let _compactor = spawn_compactor(store.clone(), Duration::from_millis(50), Duration::ZERO, |_| {});
        heal(&*store, first..count / 2, LEN, &format!("restarts: {restarts}")).await;
        for n in 0..count / 2 {
            delete(&*store, format!("/a/{n}")).await;
        }
        store.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tools_read_stores_on_full_disks() {
    let Some(dir) = small_disk::enter("tools_read_stores_on_full_disks", 64) else { return };
    let store = open(&dir);
    fill(&*store, "/k", 500 << 10).await;
    // The space that the store frees when it closes is filled as well.
    store.close().await;
    drop(store);
    let filled = std::fs::write(dir.join("filler"), vec![1; 64 << 20]);
    assert!(filled.is_err(), "there is no room for it");
    let names = || {
        let mut names: Vec<_> =
            std::fs::read_dir(dir.join("store")).expect("a directory").flatten().map(|e| e.file_name()).collect();
        names.sort();
        names
    };
    let before = names();
    for mode in ["full", "read-only"] {
        if mode == "read-only" {
            let status = Command::new("mount").args(["-o", "remount,ro"]).arg(&dir).status().expect("mount runs");
            assert!(status.success(), "{status}");
        }
        let checked = check(&dir.join("store"), None, &mut ()).unwrap_or_else(|error| panic!("{mode}: {error}"));
        assert!(checked.problems.is_empty() && checked.keys > 50, "{mode}: {checked:?}");
        let salvage = Salvage::open(&dir.join("store")).unwrap_or_else(|error| panic!("{mode}: {error}"));
        assert_eq!(salvage.damage().keys, checked.keys);
        assert_eq!(names(), before, "{mode}");
    }
}
