//! The end of the log, as earlier versions, power failures and clients may leave it.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binnacle_store::{Expect, LeaseId, Op, Revision, Store, Txn, prefix_range};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError, check};
use bytes::Bytes;
use support::model::list;
use support::sim_files::{SimFiles, SurvivingBytes};

async fn put(store: &dyn Store, key: &str, value: Vec<u8>) {
    let op = Op::Put { value: value.into(), lease: None };
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    store.txn(txn).await.expect("a put");
}

fn newest(files: &SimFiles) -> String {
    files.names().into_iter().rfind(|name| name.starts_with("log-")).expect("a segment")
}

/// Returns bytes that look like the starts of many frames of an earlier version, each as long as all the following
/// bytes.
fn fake_frames(len: usize) -> Vec<u8> {
    let mut value = Vec::with_capacity(len);
    while value.len() + 48 <= len {
        let body = (len - value.len() - 48) as u32;
        value.extend(b"Fram");
        value.extend(body.to_le_bytes());
        value.extend([0; 40]);
    }
    value
}

/// A client's value full of fake frames, in the last write, whose first page and whose note in `head` were lost in a
/// power failure: each byte is read a few times at most.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn search_for_complete_frames_is_linear() {
    let files = SimFiles::default();
    let log = LogOptions { background: false, ..LogOptions::default() };
    let open = |files: &SimFiles| {
        EmbeddedStore::open_in(Arc::new(files.clone()), &EmbeddedOptions { log, ..EmbeddedOptions::new("") })
            .expect("it opens")
    };
    let store = open(&files);
    put(&store, "/a/b/1", b"small".to_vec()).await;
    let (segment, mut head, mut begin) = (newest(&files), Vec::new(), 0);
    files.tamper("head", |bytes| head = bytes.clone());
    files.tamper(&segment, |bytes| begin = bytes.iter().rposition(|byte| *byte != 0).expect("a frame") + 1);
    put(&store, "/a/b/2", fake_frames(900_000)).await;
    std::mem::forget(store);
    let files = files.restarted(SurvivingBytes::Everything);
    files.tamper("head", |bytes| *bytes = head);
    let begin = begin.next_multiple_of(8);
    files.tamper(&segment, |bytes| {
        assert_eq!(&bytes[begin + 48 + 4 + 46 + 6..][..4], b"Fram", "fake frames are where frames could be");
        bytes[begin..begin + 100].fill(0);
    });
    let store = open(&files);
    assert_eq!(list(&store, &prefix_range(b"/"), None).await.expect("a list").len(), 1);
    let (read, size) = (files.bytes_read(), 4 << 20);
    assert!(read < 4 * size, "{read} bytes read");
    put(&store, "/a/b/2", b"again".to_vec()).await;
    drop(store);
    assert_eq!(list(&open(&files), &prefix_range(b"/"), None).await.expect("a list").len(), 2);
}

/// Copies the store that an earlier version wrote, whose frames have the fixed mark. It has the history of revisions 90
/// to 130: 30 keys, some written once, one deleted, one with a lease.
fn earlier_version() -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for file in fs::read_dir(Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/stores/fixed-marks")).expect("files") {
        let file = file.expect("a file");
        fs::copy(file.path(), dir.path().join(file.file_name())).expect("a copy");
    }
    dir
}

fn open(dir: &Path) -> Result<EmbeddedStore, OpenError> {
    let log = LogOptions { min_segment: 8 << 10, max_segment: 8 << 10, background: true };
    EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(dir) })
}

fn newest_on_disk(dir: &Path) -> PathBuf {
    let paths = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let segment = |path: &PathBuf| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-"));
    paths.filter(segment).max().expect("a segment")
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opens_and_continues_store_of_earlier_version() {
    let dir = earlier_version();
    let checked = check(dir.path(), None, &mut ()).expect("it is read");
    assert_eq!((checked.problems, checked.revision, checked.compacted), (Vec::new(), 130, 90));
    let store = open(dir.path()).expect("it opens");
    let keys = prefix_range(b"/");
    let past = list(&store, &keys, Some(100)).await.expect("history");
    assert_eq!(past.len(), 36, "{past:?}");
    let (kv, _) = store.get("/k/07".into(), Some(Revision(100))).await.expect("a read");
    let kv = kv.expect("it is there");
    assert_eq!((kv.value, kv.lease), (Bytes::from("value 97 ".repeat(20)), Some(LeaseId(7_350_444_339_074_510_437))));
    let (first, _) = store.get("/once/3".into(), None).await.expect("a read");
    assert_eq!(first.map(|kv| (kv.mod_revision, kv.value)), Some((Revision(5), Bytes::from("value 3 ".repeat(20)))));
    // Both kinds of segments, one after the other, several times.
    let before = list(&store, &keys, None).await.expect("a list");
    for round in 0..3 {
        let store = open_again(dir.path(), if round == 0 { Some(&store) } else { None }).await;
        for n in 0..40 {
            put(&store, &format!("/new/{n}"), vec![b'n'; 500]).await;
        }
        let all = list(&store, &keys, None).await.expect("a list");
        assert_eq!(all.len(), before.len() + 40);
        assert!(before.iter().all(|kv| all.contains(kv)));
        let revision = store.current_revision().await.expect("a revision");
        store.compact(revision).await.expect("a compaction");
        store.close().await;
        assert_eq!(check(dir.path(), None, &mut ()).expect("it is read").problems, [""; 0]);
    }
}

async fn open_again(dir: &Path, running: Option<&EmbeddedStore>) -> EmbeddedStore {
    if let Some(running) = running {
        running.close().await;
    }
    open(dir).expect("it opens")
}

/// Writes that an earlier version did not finish are distinguished from damage.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tells_unfinished_writes_of_earlier_version_from_damage() {
    let dir = earlier_version();
    let segment = newest_on_disk(dir.path());
    let whole = fs::read(&segment).expect("a segment");
    let torn = [&whole[..], &fake_frames(5000)[..]].concat();
    fs::write(&segment, torn).expect("a file");
    let store = open(dir.path()).expect("an unfinished write is left out");
    assert_eq!(store.current_revision().await.expect("a revision"), Revision(130));
    store.close().await;
    let dir = earlier_version();
    let mut damaged = whole;
    damaged[4096 + 60] ^= 1;
    fs::write(newest_on_disk(dir.path()), damaged).expect("a file");
    let refused = open(dir.path()).map(drop).expect_err("an acknowledged write is damaged");
    assert!(matches!(&refused, OpenError::Damaged { detail, .. } if detail.contains("the log goes on")), "{refused}");
}

/// Two stores that continued from one copy: each has the same positions and numbers, but other contents.
async fn two_histories(until: usize) -> [SimFiles; 2] {
    let log = LogOptions { min_segment: 16 << 10, max_segment: 16 << 10, background: false };
    let open = |files: &SimFiles| {
        EmbeddedStore::open_in(Arc::new(files.clone()), &EmbeddedOptions { log, ..EmbeddedOptions::new("") })
            .expect("it opens")
    };
    let first = SimFiles::default();
    put(&open(&first), "/a/0", vec![b'0'; 100]).await;
    let histories = [first.restarted(SurvivingBytes::Everything), first.restarted(SurvivingBytes::Everything)];
    for (files, value) in histories.iter().zip([b'1', b'2']) {
        let store = open(files);
        for n in 0..until {
            put(&store, "/a/0", vec![value + (n % 2) as u8; 400]).await;
        }
    }
    histories.map(|files| files.restarted(SurvivingBytes::Everything))
}

fn refusal(files: &SimFiles) -> String {
    let opened = EmbeddedStore::open_in(Arc::new(files.clone()), &EmbeddedOptions::new(""));
    opened.map(drop).expect_err("it has writes of another history").to_string()
}

/// A disk, or a person, mixes files of two copies of a store. Each frame identifies the one before it, also across
/// segments.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejects_frames_of_another_history() {
    // A frame of the other history behind the last one that both have in the same position.
    let (mut begin, mut bytes) = (0, Vec::new());
    let [shorter, _] = two_histories(1).await;
    let segment = newest(&shorter);
    shorter.show(&segment, |all| begin = all.iter().rposition(|byte| *byte != 0).expect("a frame") + 1);
    let begin = begin.next_multiple_of(8);
    let [this, other] = two_histories(2).await;
    other.show(&segment, |all| bytes = all.to_vec());
    this.tamper(&segment, |all| all[begin..].copy_from_slice(&bytes[begin..]));
    let refused = refusal(&this);
    assert!(refused.contains("does not follow the one before it"), "{refused}");

    // A whole segment of the other history, between segments of this one.
    let [this, other] = two_histories(100).await;
    let segment = this.names().into_iter().find(|name| name.starts_with("log-")).expect("a segment");
    other.show(&segment, |all| bytes = all.to_vec());
    this.tamper(&segment, |all| *all = bytes);
    let refused = refusal(&this);
    assert!(refused.contains("is not the one that was written there"), "{refused}");
}
