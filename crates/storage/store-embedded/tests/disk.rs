//! The directory: its lock, restarts, and changed files.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use binnacle_store::{Count, Expect, Op, RangeRequest, Revision, Store, StoreError, Txn, TxnResponse, prefix_range};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError, check};
use bytes::Bytes;
use futures::StreamExt;
use support::model::{Model, list};
use support::work::{RandomOperation, Rng};

fn open(dir: &Path) -> Result<EmbeddedStore, OpenError> {
    EmbeddedStore::open(EmbeddedOptions::new(dir))
}

async fn put(store: &dyn Store, key: &str, value: &[u8], lease: Option<binnacle_store::LeaseId>) {
    let op = Op::Put { value: Bytes::copy_from_slice(value), lease };
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    store.txn(txn).await.expect("a put");
}

#[tokio::test]
async fn locks_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path()).expect("the store opens");
    let refused = match open(dir.path()) {
        Err(error) => error,
        Ok(_) => panic!("two stores use one directory"),
    };
    let expected =
        format!("the data directory {} is in use by the process with pid {}", dir.path().display(), std::process::id());
    assert_eq!(refused.to_string(), expected);
    store.close().await;
    drop(open(dir.path()).expect("a closed store has let go"));
    drop(open(dir.path()).expect("a dropped store has let go"));
}

/// The directory itself is locked, not only a file in it.
#[tokio::test]
async fn locks_directory_without_lock_file() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path()).expect("the store opens");
    fs::remove_file(dir.path().join("lock")).expect("the file goes");
    let refused = open(dir.path()).map(drop).expect_err("two stores use one directory");
    assert!(matches!(refused, OpenError::Locked { pid: None, .. }), "{refused}");
    assert!(matches!(check(dir.path(), None, &mut ()), Err(OpenError::Locked { .. })));
    store.close().await;
    drop(open(dir.path()).expect("a closed store has let go"));
}

async fn try_put(store: &dyn Store, key: &str) -> Result<(), StoreError> {
    let op = Op::Put { value: Bytes::from(vec![b'x'; 900]), lease: None };
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    store.txn(txn).await.map(drop)
}

/// A store whose directory is moved away accepts no more writes, and never changes a new directory at its path.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detects_moved_directory() {
    let base = tempfile::tempdir().expect("a directory");
    let [path, away, aside] = ["store", "away", "aside"].map(|name| base.path().join(name));
    let log = LogOptions { min_segment: 64 << 10, max_segment: 64 << 10, background: true };
    let open = || EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(&path) }).expect("it opens");
    let (mut counts, keys) = ([0, 0], prefix_range(b"/"));
    let first = open();
    while counts[0] < 300 {
        try_put(&first, &format!("/first/{}", counts[0])).await.expect("a put");
        counts[0] += 1;
    }
    fs::rename(&path, &away).expect("it is moved");
    let result = first.readiness().await;
    assert!(matches!(&result, Err(StoreError::Io(why)) if why.contains("no longer leads to the store")), "{result:?}");
    let second = open();
    while counts[1] < 300 {
        try_put(&second, &format!("/second/{}", counts[1])).await.expect("a put");
        counts[1] += 1;
        let refused = try_put(&first, "/first/lost").await;
        assert!(matches!(refused, Err(StoreError::Unavailable(_))), "{refused:?}");
    }
    assert!(matches!(first.grant_lease(60).await, Err(StoreError::Unavailable(_))));
    assert_eq!(list(&first, &keys, None).await.expect("reads go on").len(), 300);
    // The first store continues when its directory is back.
    fs::rename(&path, &aside).expect("it is moved");
    fs::rename(&away, &path).expect("it is moved back");
    try_put(&first, "/first/again").await.expect("a put");
    first.readiness().await.expect("it is ready");
    assert!(matches!(try_put(&second, "/second/lost").await, Err(StoreError::Unavailable(_))));
    for store in [first, second] {
        store.close().await;
    }
    assert_eq!(list(&open(), &keys, None).await.expect("a list").len(), 301);
    fs::rename(&path, &away).expect("it is moved");
    fs::rename(&aside, &path).expect("it is moved");
    assert_eq!(list(&open(), &keys, None).await.expect("a list").len(), 300);
    let removed = open();
    // The store may create a file while the directory is removed.
    while path.exists() {
        let _ = fs::remove_dir_all(&path);
    }
    assert!(matches!(try_put(&removed, "/second/lost").await, Err(StoreError::Unavailable(_))));
}

/// A segment never replaces a file that this process did not create.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn never_replaces_foreign_files() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = LogOptions { min_segment: 64 << 10, max_segment: 64 << 10, background: true };
    let store = EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(dir.path()) }).expect("it opens");
    let strange = dir.path().join("log-0000000001-0000000001-0000000000");
    fs::write(&strange, "somebody's").expect("a file");
    let mut written = 0;
    let error = loop {
        match try_put(&store, &format!("/a/{written}")).await {
            Ok(()) => written += 1,
            Err(error) => break error,
        }
    };
    assert!(matches!(error, StoreError::Io(_)), "{error:?}");
    assert_eq!(fs::read(&strange).expect("a file"), b"somebody's");
    store.close().await;
    fs::remove_file(&strange).expect("it goes");
    let store = open(dir.path()).expect("it opens");
    assert_eq!(list(&store, &prefix_range(b"/a/"), None).await.expect("a list").len(), written);
}

#[tokio::test]
async fn rejects_unusable_directory() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("file");
    fs::write(&file, "x").expect("a file");
    let refused = open(&file.join("data")).map(drop).expect_err("a file is no directory");
    assert!(matches!(refused, OpenError::Io { .. }), "{refused}");
    assert!(refused.to_string().contains("file/data"), "{refused}");
}

/// A released value is read from the log, and replaced, deleted and compacted like others.
#[tokio::test]
async fn reads_released_values_from_log() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path()).expect("the store opens");
    for (key, value) in [("/a/1", b"one"), ("/a/2", b"two"), ("/a/3", b"six")] {
        put(&store, key, value, None).await;
    }
    let request = || RangeRequest { range: prefix_range(b"/a/"), revision: None, limit: 0, count: Count::All };
    let before = store.range(request()).await.expect("a range").kvs;
    for kv in &before {
        store.release(&kv.key, kv.mod_revision);
    }
    assert_eq!(store.range(request()).await.expect("a range").kvs, before);
    let one = Bytes::from_static(b"/a/1");
    let (kv, _) = store.get(one.clone(), None).await.expect("a read");
    assert_eq!(kv.as_ref(), before.first());
    let op = |op| Txn { key: one.clone(), expect: Expect::Anything, op };
    let put = op(Op::Put { value: Bytes::from_static(b"new"), lease: None });
    let Ok(TxnResponse::Done { previous, revision }) = store.txn(put).await else { panic!("the put failed") };
    assert_eq!(previous, kv, "the previous value is reported");
    store.release(&one, revision);
    let Ok(TxnResponse::Done { previous, .. }) = store.txn(op(Op::Delete)).await else { panic!("the delete failed") };
    assert_eq!(previous.map(|kv| kv.value), Some(Bytes::from_static(b"new")));
    store.compact(store.current_revision().await.expect("a revision")).await.expect("a compaction");
    let left = store.range(request()).await.expect("a range").kvs;
    assert_eq!(left, before[1..]);
    store.close().await;
    let store = open(dir.path()).expect("the store opens");
    assert_eq!(store.range(request()).await.expect("a range").kvs, left);
}

#[tokio::test]
async fn leases_survive_restart() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = open(dir.path()).expect("the store opens");
    let (short, long) = (store.grant_lease(1).await.expect("a lease"), store.grant_lease(3600).await.expect("a lease"));
    put(&store, "/a/long", b"x", Some(long)).await;
    put(&store, "/a/short", b"x", Some(short)).await;
    store.close().await;
    let store = open(dir.path()).expect("the store opens");
    let mut watch = store.watch(prefix_range(b"/a/short"), Revision(3)).await.expect("a watch");
    let message = tokio::time::timeout(Duration::from_secs(30), watch.messages.next()).await.expect("it expires");
    assert!(message.is_some_and(|message| message.is_ok()));
    let left = list(&store, &prefix_range(b"/a/"), None).await.expect("a list");
    assert_eq!(left.iter().map(|kv| (&kv.key[..], kv.lease)).collect::<Vec<_>>(), [(&b"/a/long"[..], Some(long))]);
    store.close().await;
    let store = open(dir.path()).expect("the store opens");
    assert!(matches!(store.revoke_lease(short).await, Err(StoreError::LeaseNotFound)));
    store.revoke_lease(long).await.expect("it is still there");
    assert_eq!(list(&store, &prefix_range(b"/a/"), None).await.expect("a list"), []);
}

/// A lease that ends deletes all its keys, including one that is put at the same moment: the next start has no orphan.
#[tokio::test]
async fn restart_finds_no_orphan_of_ended_lease() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = std::sync::Arc::new(open(dir.path()).expect("the store opens"));
    binnacle_store::contract::leases::put_during_revocation_leaves_no_key(store.clone()).await;
    store.close().await;
    let store = open(dir.path()).expect("the store opens again");
    assert_eq!(list(&store, &prefix_range(b"/l/"), None).await.expect("a list"), []);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn close_is_quick_and_ends_all_calls() {
    let dir = tempfile::tempdir().expect("a directory");
    let store = std::sync::Arc::new(open(dir.path()).expect("the store opens"));
    let mut watches = Vec::new();
    for n in 0..1000 {
        let prefix = format!("/{}/", n % 50);
        watches.push(store.watch(prefix_range(prefix.as_bytes()), Revision(1)).await.expect("a watch"));
    }
    let writer = tokio::spawn({
        let store = store.clone();
        async move {
            for n in 0.. {
                let op = Op::Put { value: Bytes::from_static(b"x"), lease: None };
                let txn = Txn { key: Bytes::from(format!("/a/{n}")), expect: Expect::Absent, op };
                if let Err(error) = store.txn(txn).await {
                    return (n, error);
                }
            }
            unreachable!("the writer goes on until it fails");
        }
    });
    while store.current_revision().await.expect("a revision") < Revision(10) {
        tokio::task::yield_now().await;
    }
    let started = Instant::now();
    store.close().await;
    let took = started.elapsed();
    assert!(took < Duration::from_secs(2), "closing took {took:?}");
    for watch in &mut watches {
        let end = watch.messages.next().await;
        assert!(matches!(end, Some(Err(StoreError::Closed))), "{end:?}");
        assert!(watch.messages.next().await.is_none());
        assert!(matches!(watch.control.barrier().await, Err(StoreError::Closed)));
    }
    let (written, error) = writer.await.expect("the writer");
    assert!(matches!(error, StoreError::Closed), "{error}");
    assert!(matches!(store.get(Bytes::from_static(b"/a/0"), None).await, Err(StoreError::Closed)));
    assert!(matches!(store.health().await, Err(StoreError::Closed)));
    // Open watches hold neither the directory nor its lock.
    let again = open(dir.path()).expect("the store opens again");
    let count = list(&again, &prefix_range(b"/a/"), None).await.expect("a list").len();
    assert_eq!(count, written, "exactly the acknowledged writes");
}

/// Creates the files of a store with several segments, and returns its contents.
async fn filled(dir: &Path) -> Model {
    let mut options = EmbeddedOptions::new(dir);
    options.log = LogOptions { min_segment: 64 << 10, max_segment: 64 << 10, background: true };
    let store = EmbeddedStore::open(options).expect("the store opens");
    let mut model = Model::default();
    let mut rng = Rng::new(7);
    for n in 0..400 {
        let work = match n {
            200 => RandomOperation::Compact(100),
            _ => {
                let mut txn = rng.txn(&model);
                if let Op::Put { value, lease: None } = &mut txn.op {
                    *value = Bytes::from([&value[..], &[b'.'; 700]].concat());
                }
                RandomOperation::Txn(txn)
            }
        };
        work.run(&store, &mut model).await.expect("nothing fails here");
    }
    store.close().await;
    model
}

fn files(dir: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(dir).expect("a directory") {
        let path = entry.expect("an entry").path();
        if path.is_dir() { found.extend(files(&path)) } else { found.push(path) }
    }
    found.sort_unstable();
    found
}

fn copy(from: &Path, to: &Path) {
    for file in files(from) {
        let target = to.join(file.strip_prefix(from).expect("inside"));
        fs::create_dir_all(target.parent().expect("a folder")).expect("a folder");
        fs::copy(&file, target).expect("a copy");
    }
}

/// After any change of the files, the store fails to start, or a read fails, or the contents are unchanged.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn damaged_files_never_return_wrong_data() {
    let original = tempfile::tempdir().expect("a directory");
    let model = filled(original.path()).await;
    let trimmed = tempfile::tempdir().expect("a directory");
    copy(original.path(), trimmed.path());
    let mut rng = Rng::new(11);
    let (mut refused, mut unharmed) = (0, 0);
    for round in 0..150 {
        let dir = tempfile::tempdir().expect("a directory");
        copy(trimmed.path(), dir.path());
        let all: Vec<_> =
            files(dir.path()).into_iter().filter(|path| fs::metadata(path).is_ok_and(|m| m.len() > 0)).collect();
        let file = &all[rng.below(all.len() as u64) as usize];
        let mut bytes = fs::read(file).expect("a file");
        let at = rng.below(bytes.len() as u64) as usize;
        let damage = match rng.below(3) {
            0 => {
                bytes[at] ^= 1 << rng.below(8);
                "a flipped bit"
            }
            1 => {
                let end = (at + 512).min(bytes.len());
                bytes[at..end].fill(0);
                "zeros"
            }
            _ => {
                bytes.truncate(at);
                "a cut"
            }
        };
        fs::write(file, bytes).expect("the file is replaced");
        let context = format!("round {round}: {damage} at byte {at} of {}", file.display());
        let dir = dir.path().to_owned();
        match tokio::task::spawn_blocking(move || open(&dir)).await {
            Ok(Ok(store)) => {
                model.check(&store, &context).await;
                unharmed += 1;
            }
            Ok(Err(OpenError::Damaged { .. } | OpenError::Io { .. } | OpenError::Format { .. })) => refused += 1,
            Ok(Err(error)) => panic!("{context}: {error}"),
            Err(panic) => panic!("{context}: opening panicked: {panic}"),
        }
    }
    println!("{refused} refused, {unharmed} unharmed");
    assert!(refused > 20, "damage is found at all");
}

/// A lost file is an error: the store must not return an older state.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn detects_lost_files() {
    let original = tempfile::tempdir().expect("a directory");
    let model = filled(original.path()).await;
    for file in files(original.path()) {
        let dir = tempfile::tempdir().expect("a directory");
        copy(original.path(), dir.path());
        let relative = file.strip_prefix(original.path()).expect("inside");
        fs::remove_file(dir.path().join(relative)).expect("the file goes");
        let context = format!("without {}", relative.display());
        let dir = dir.path().to_owned();
        match tokio::task::spawn_blocking(move || open(&dir)).await {
            Ok(Ok(store)) => model.check(&store, &context).await,
            Ok(Err(_)) => {}
            Err(panic) => panic!("{context}: opening panicked: {panic}"),
        }
    }
}
