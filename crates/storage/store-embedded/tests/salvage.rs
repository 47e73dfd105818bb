//! Whatever is damaged, every other object is read, the losses are listed, and the damaged store is not changed.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use binnacle_store::{Expect, Op, Revision, Store, Txn};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, OpenError, Remains, Salvage, check, mark_salvaged};
use bytes::Bytes;

const SEGMENT: u64 = 256 << 10;

async fn change(store: &EmbeddedStore, key: &str, op: Op) -> u64 {
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    match store.txn(txn).await.expect("a write") {
        binnacle_store::TxnResponse::Done { revision, .. } => revision.0,
        other => panic!("{other:?}"),
    }
}

async fn put(store: &EmbeddedStore, key: &str, value: &str) -> u64 {
    change(store, key, Op::Put { value: Bytes::from(value.to_owned()), lease: None }).await
}

fn value(revision: u64) -> String {
    format!("value {revision} ").repeat(1500)
}

/// Revisions 2 to 41 are of forty objects, 42 to 61 of every second one, 62 to 71 delete ten that were not changed, and
/// 72 is of an object with a lease. The compaction is at 45.
async fn make(dir: &Path) -> BTreeMap<String, u64> {
    let log = LogOptions { min_segment: SEGMENT, max_segment: SEGMENT, background: false };
    let store = EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(dir) }).expect("it opens");
    let mut live = BTreeMap::new();
    for n in (0..40).chain((0..40).step_by(2)) {
        let (key, revision) = (format!("/k/{n:02}"), store.current_revision().await.expect("a revision").0 + 1);
        live.insert(key.clone(), put(&store, &key, &value(revision)).await);
    }
    for n in (1..20).step_by(2) {
        let key = format!("/k/{n:02}");
        change(&store, &key, Op::Delete).await;
        live.remove(&key);
    }
    let lease = store.grant_lease(900).await.expect("a lease");
    let op = Op::Put { value: Bytes::from_static(b"leased"), lease: Some(lease) };
    live.insert("/leased".to_owned(), change(&store, "/leased", op).await);
    store.compact(Revision(45)).await.expect("a compaction");
    store.close().await;
    live
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<_> = entries.filter(|path| name(path).starts_with("log-")).collect();
    segments.sort();
    segments
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

fn files(dir: &Path) -> BTreeMap<String, Vec<u8>> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    entries.map(|path| (name(&path), fs::read(&path).expect("a file"))).collect()
}

/// Copies a store, with one of its files changed. Without new contents the file is lost.
fn damaged(from: &Path, to: &Path, file: &str, change: impl FnOnce(Vec<u8>) -> Option<Vec<u8>>) {
    fs::create_dir(to).expect("a directory");
    for (known, bytes) in files(from) {
        fs::write(to.join(known), bytes).expect("a file");
    }
    let path = to.join(file);
    match change(fs::read(&path).expect("the file")) {
        Some(bytes) => fs::write(path, bytes).expect("the file"),
        None => fs::remove_file(path).expect("it goes"),
    }
}

/// Returns the segment with a text, and the position.
fn find(dir: &Path, text: &str) -> (String, usize) {
    let mut found = segments(dir).into_iter().filter_map(|path| {
        let bytes = fs::read(&path).expect("a segment");
        Some((name(&path), bytes.windows(text.len()).position(|window| window == text.as_bytes())?))
    });
    found.next().expect("it is somewhere")
}

fn objects(salvage: &Salvage) -> BTreeMap<String, u64> {
    let mut objects = BTreeMap::new();
    let mut last = 0;
    let visited = salvage.objects(&mut |kv| {
        let key = String::from_utf8(kv.key.to_vec()).expect("a key");
        assert!(kv.mod_revision.0 > last, "they are in the order of their changes");
        last = kv.mod_revision.0;
        assert!(key == "/leased" || kv.value == value(kv.mod_revision.0), "{key} has its value");
        assert_eq!(kv.lease.is_some(), key == "/leased");
        objects.insert(key, kv.mod_revision.0);
        Ok(())
    });
    visited.expect("all of them");
    objects
}

/// Opens a store that must stay unchanged.
fn salvage(dir: &Path) -> (Salvage, BTreeMap<String, u64>) {
    let before = files(dir);
    let salvage = Salvage::open(dir).expect("it is read");
    let found = objects(&salvage);
    assert!(matches!(Salvage::open(dir), Err(OpenError::Locked { .. })), "it is locked meanwhile");
    assert!(before == files(dir), "nothing is written");
    (salvage, found)
}

/// Returns the key, the revision and the remains of all lost versions.
fn lost(salvage: &Salvage) -> Vec<(Option<&str>, u64, Remains)> {
    let damaged = salvage.damage().damaged.iter();
    damaged.map(|lost| (lost.key.as_deref(), lost.revision, lost.remains)).collect()
}

#[tokio::test]
async fn reads_undamaged_store_completely() {
    let base = tempfile::tempdir().expect("a directory");
    let dir = base.path().join("store");
    let live = make(&dir).await;
    assert_eq!(check(&dir, None, &mut ()).expect("it is read").problems, Vec::<String>::new());
    let (salvage, found) = salvage(&dir);
    assert_eq!((found, salvage.damage().problems.clone()), (live, Vec::new()));
    assert!(salvage.damage().damaged.is_empty() && salvage.damage().unidentified.is_empty());
    assert_eq!(salvage.newest_revision(), Revision(72));
    let leases: Vec<_> = salvage.leases().into_values().collect();
    assert_eq!(leases, [Duration::from_secs(900)]);
}

/// Returns the position of the flipped bit.
type FlipLocator = fn(&Path) -> (String, usize);

#[tokio::test]
async fn flipped_bit_costs_at_most_its_record() {
    let base = tempfile::tempdir().expect("a directory");
    let dir = base.path().join("store");
    let live = make(&dir).await;
    // A key is preceded by the length field of its record and the fixed fields, and these by the header of the frame.
    let header: FlipLocator = |dir| {
        let (file, at) = find(dir, "/k/21value 23 ");
        (file, at - 50 - 48 + 9)
    };
    let mark: FlipLocator = |dir| {
        let (file, at) = find(dir, "/k/21value 23 ");
        (file, at - 50 - 48)
    };
    let length: FlipLocator = |dir| {
        let (file, at) = find(dir, "/k/21value 23 ");
        (file, at - 50 + 1)
    };
    let key: FlipLocator = |dir| {
        let (file, at) = find(dir, "/k/21value 23 ");
        (file, at + 4)
    };
    let value: FlipLocator = |dir| find(dir, "value 23 ");
    let changed: FlipLocator = |dir| find(dir, "value 52 ");
    let deletion: FlipLocator = |dir| {
        // The checksum of the record that deletes the first object.
        let path = segments(dir).pop().expect("a segment");
        let bytes = fs::read(&path).expect("a segment");
        let at = bytes.windows(5).rposition(|window| window == b"/k/01").expect("its key");
        (name(&path), at - 34)
    };
    let first_head: FlipLocator = |dir| (name(&segments(dir)[0]), 90);
    let last_head: FlipLocator = |dir| (name(&segments(dir).pop().expect("a segment")), 25);
    let head: FlipLocator = |_| ("head".to_owned(), 40);
    let missing = |key: &'static str| vec![(Some(key), None)];
    // The expected losses: keys that are missing or have an older revision, and their report.
    type ExpectedLosses = Vec<(Option<&'static str>, u64, Remains)>;
    type ExpectedDifferences = Vec<(Option<&'static str>, Option<u64>)>;
    let cases: Vec<(&str, FlipLocator, ExpectedDifferences, ExpectedLosses)> = vec![
        ("the header of a frame", header, Vec::new(), Vec::new()),
        ("the mark of a frame", mark, vec![(Some("/k/21"), None)], vec![(None, 23, Remains::Unknown)]),
        ("the length of a record", length, missing("/k/21"), vec![(None, 23, Remains::Unknown)]),
        ("a key", key, missing("/k/21"), vec![(None, 23, Remains::Unknown)]),
        ("a value", value, missing("/k/21"), vec![(Some("/k/21"), 23, Remains::Nothing)]),
        (
            "the value of a later version",
            changed,
            vec![(Some("/k/20"), Some(22))],
            vec![(Some("/k/20"), 52, Remains::Older(22))],
        ),
        ("a deletion", deletion, Vec::new(), vec![(Some("/k/01"), 62, Remains::Deleted)]),
        ("the head of the first segment", first_head, Vec::new(), Vec::new()),
        ("the head of the last segment", last_head, Vec::new(), Vec::new()),
        ("head", head, Vec::new(), Vec::new()),
    ];
    for (n, (case, place, different, expected_losses)) in cases.into_iter().enumerate() {
        let copy = base.path().join(format!("case-{n}"));
        let (file, at) = place(&dir);
        damaged(&dir, &copy, &file, |mut bytes| {
            bytes[at] ^= 1;
            Some(bytes)
        });
        let (salvage, found) = salvage(&copy);
        let mut expected = live.clone();
        for (key, revision) in different {
            let key = key.expect("a key").to_owned();
            match revision {
                Some(revision) => drop(expected.insert(key, revision)),
                None => drop(expected.remove(&key)),
            }
        }
        let problems = &salvage.damage().problems;
        assert_eq!(found, expected, "{case}: {problems:?}");
        assert_eq!(lost(&salvage), expected_losses, "{case}: {problems:?}");
        assert!(case == "head" || !problems.is_empty(), "{case}");
    }
}

/// Each case lists the missing file, the objects that are missing or older, and their report.
#[tokio::test]
async fn lost_segments_cost_only_their_records() {
    let base = tempfile::tempdir().expect("a directory");
    let dir = base.path().join("store");
    let live = make(&dir).await;
    let all = segments(&dir);
    assert!(all.len() > 3, "{all:?}");
    // Nothing in the cases is newer than in the intact store, and each difference is reported.
    let check_case = |copy: &Path, newest: u64| {
        let (salvage, found) = salvage(copy);
        let damage = salvage.damage();
        assert!(!damage.problems.is_empty());
        let mut different = 0;
        for (key, revision) in &live {
            match found.get(key) {
                Some(is) if is == revision => continue,
                Some(older) => assert!(older < revision, "{key}"),
                None => {}
            }
            different += 1;
            let named = damage.damaged.iter().any(|lost| lost.revision == *revision);
            let unknown = damage.unidentified.iter().any(|range| range.contains(revision));
            let compacted = *revision <= damage.compacted;
            assert!(named || unknown || compacted, "{key} at {revision}: {damage:?}");
        }
        for key in found.keys().filter(|key| !live.contains_key(*key)) {
            // The deletion of the object is lost.
            let unknown = |range: &std::ops::Range<u64>| range.clone().any(|revision| (62..72).contains(&revision));
            assert!(damage.unidentified.iter().any(unknown), "{key}: {damage:?}");
        }
        assert_eq!(salvage.newest_revision(), Revision(newest));
        different
    };
    for (n, path) in all.iter().enumerate() {
        let copy = base.path().join(format!("without-{n}"));
        damaged(&dir, &copy, &name(path), |_| None);
        // All objects in the first segment were changed or deleted later.
        assert_eq!(check_case(&copy, 72) > 0, n > 0, "segment {n} had objects");
        let copy = base.path().join(format!("cut-{n}"));
        damaged(&dir, &copy, &name(path), |bytes| {
            let end = bytes.iter().rposition(|byte| *byte != 0).expect("it is not empty");
            Some(bytes[..4096 + (end - 4096) / 2].to_vec())
        });
        assert_eq!(check_case(&copy, 72) > 0, n > 0, "segment {n} had objects behind the place");
    }
    // Without `head`, the log ends where its last frame ends.
    let copy = base.path().join("no-head");
    damaged(&dir, &copy, "head", |_| None);
    assert_eq!(check_case(&copy, 72), 0);
}

#[tokio::test]
async fn rejects_stores_in_use_and_of_other_formats() {
    let base = tempfile::tempdir().expect("a directory");
    let dir = base.path().join("store");
    let store = EmbeddedStore::open(EmbeddedOptions::new(&dir)).expect("it opens");
    put(&store, "/a", "b").await;
    assert!(matches!(Salvage::open(&dir), Err(OpenError::Locked { pid: Some(pid), .. }) if pid == std::process::id()));
    store.close().await;
    drop(store);
    assert!(matches!(Salvage::open(base.path()), Err(OpenError::Io { .. })), "there is no store");
    mark_salvaged(&dir, "Made today.\nThis was lost.\n").expect("it is marked");
    assert!(mark_salvaged(&dir, "again").is_err(), "the mark is not replaced");
    assert_eq!(check(&dir, None, &mut ()).expect("it is read").salvaged.as_deref(), Some("Made today."));
    // The store is used like any other.
    let store = EmbeddedStore::open(EmbeddedOptions::new(&dir)).expect("it opens");
    put(&store, "/a", "c").await;
    store.close().await;
    drop(store);
    let segment = segments(&dir).pop().expect("a segment");
    let bytes = fs::read(&segment).expect("a segment");
    let mut later = bytes.clone();
    later[8..10].copy_from_slice(&[7, 1]);
    fs::write(&segment, later).expect("a segment");
    assert!(matches!(Salvage::open(&dir), Err(OpenError::Format { found: 263, .. })));
}
