//! A check describes damage and continues behind it.

use std::fs::{self, File};
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use binnacle_store::{Expect, Op, Store, Txn};
use binnacle_store_embedded::files::{Files, LogFile};
use binnacle_store_embedded::log::LogOptions;
use binnacle_store_embedded::{DamagedObject, EmbeddedOptions, EmbeddedStore, Remains, check, check_in};
use bytes::Bytes;

const SEGMENT: u64 = 256 << 10;

async fn put(store: &EmbeddedStore, key: &str, value: &[u8]) {
    let op = Op::Put { value: Bytes::copy_from_slice(value), lease: None };
    let txn = Txn { key: Bytes::copy_from_slice(key.as_bytes()), expect: Expect::Anything, op };
    store.txn(txn).await.expect("a put");
}

/// Writes forty objects, twice each, in several segments: revisions 2 + n and 42 + n are of object n.
async fn make(dir: &Path) {
    let log = LogOptions { min_segment: SEGMENT, max_segment: SEGMENT, background: false };
    let store = EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(dir) }).expect("it opens");
    for n in 0..80 {
        let value = format!("value {n} ").repeat(2000);
        put(&store, &format!("/k/{:02}", n % 40), value.as_bytes()).await;
    }
    store.close().await;
}

fn segments(dir: &Path) -> Vec<PathBuf> {
    let entries = fs::read_dir(dir).expect("a directory").map(|entry| entry.expect("an entry").path());
    let mut segments: Vec<_> = entries
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-")))
        .collect();
    segments.sort();
    segments
}

fn name(path: &Path) -> String {
    path.file_name().expect("a name").to_string_lossy().into_owned()
}

/// Returns the segment and position of the first occurrence of a text.
fn find(dir: &Path, text: &str) -> (PathBuf, usize) {
    let mut found = segments(dir).into_iter().filter_map(|path| {
        let bytes = fs::read(&path).expect("a segment");
        Some((path, bytes.windows(text.len()).position(|window| window == text.as_bytes())?))
    });
    found.next().expect("it is somewhere")
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = fs::read(path).expect("a file");
    change(&mut bytes);
    fs::write(path, bytes).expect("a file");
}

/// The bytes before a key: the length field, and the record's header up to the key's length.
const BEFORE_KEY: usize = 4 + 46;

#[tokio::test]
async fn names_damaged_value_and_reads_the_rest() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path()).await;
    let whole = check(dir.path(), None, &mut ()).expect("it is read");
    assert_eq!((whole.problems, whole.records, whole.keys), (Vec::new(), 80, 40));
    let mut expected = Vec::new();
    for (n, revision, remains) in [(7, 9, Remains::Newer), (8, 10, Remains::Newer), (75, 77, Remains::Older(37))] {
        let (path, at) = find(dir.path(), &format!("value {n} "));
        change(&path, |bytes| bytes[at + 3] ^= 1);
        let key = format!("/k/{:02}", n % 40);
        let place = Some((name(&path), (at - key.len() - BEFORE_KEY) as u64));
        expected.push(DamagedObject { key: Some(key), revision, place, remains });
    }
    let checked = check(dir.path(), None, &mut ()).expect("it is read");
    assert_eq!(checked.damaged, expected);
    assert_eq!((checked.records, checked.keys, checked.unreadable_bytes), (77, 40, 0), "{:?}", checked.problems);
    let first = &expected[0].place.clone().expect("a place");
    let named = format!("revision 9 of \"/k/07\" is damaged ({}, byte {})", first.0, first.1);
    assert!(checked.problems.contains(&named), "{:?}", checked.problems);
}

#[tokio::test]
async fn counts_unreadable_bytes_and_names_lost_versions() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path()).await;
    // The frames of revisions 12 and 13 have lost both headers and records.
    let (path, first) = find(dir.path(), "value 10 ");
    let (_, behind) = find(dir.path(), "value 12 ");
    let header = 48;
    let key = 5;
    let (from, to) = (first - key - BEFORE_KEY - header, behind - key - BEFORE_KEY - header);
    change(&path, |bytes| bytes[from..to].fill(0xEE));
    let checked = check(dir.path(), None, &mut ()).expect("it is read");
    let lost =
        |n: u64| DamagedObject { key: Some(format!("/k/{n}")), revision: n + 2, place: None, remains: Remains::Newer };
    assert_eq!(checked.damaged, [lost(10), lost(11)]);
    assert_eq!(checked.unreadable_bytes, (to - from) as u64);
    assert_eq!((checked.records, checked.keys), (78, 40));
    for text in [
        format!("{}: {} bytes from byte {from} cannot be read", name(&path), to - from),
        "the log lacks the revisions 12 to 13".to_owned(),
        "revision 12 of \"/k/10\" is lost".to_owned(),
    ] {
        assert!(checked.problems.contains(&text), "{text}: {:?}", checked.problems);
    }
}

#[tokio::test]
async fn missing_heads_and_segments_hide_nothing_else() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path()).await;
    let all = segments(dir.path());
    assert!(all.len() > 3, "{all:?}");
    change(&all[1], |bytes| bytes[100] ^= 1);
    let checked = check(dir.path(), None, &mut ()).expect("it is read");
    assert_eq!((checked.records, checked.keys, checked.damaged.len()), (80, 40, 0), "{:?}", checked.problems);
    assert!(checked.problems[0].contains("is damaged: its head"), "{:?}", checked.problems);
    fs::remove_file(&all[1]).expect("it goes");
    let checked = check(dir.path(), None, &mut ()).expect("it is read");
    assert_eq!(checked.problems[0], "the segments 1 to 1 of the log are missing");
    assert!(checked.records > 40 && checked.records < 80, "{}", checked.records);
    assert!(!checked.damaged.is_empty() && checked.damaged.iter().all(|object| object.key.is_some()));
    // One bit is wrong in one head at a time.
    let all = segments(dir.path());
    for (n, path) in all.iter().enumerate() {
        change(path, |bytes| bytes[30 + n] ^= 1 << n);
    }
    let again = check(dir.path(), None, &mut ()).expect("it is read");
    assert_eq!((again.records, again.keys), (checked.records, checked.keys), "{:?}", again.problems);
    // The identity is intact in one of them, and proved by the frames that were written with it.
    for (n, path) in all.iter().enumerate() {
        change(path, |bytes| {
            bytes[30 + n] ^= 1 << n;
            bytes[if n == 1 { 80 } else { 30 }..100].fill(7);
        });
    }
    let again = check(dir.path(), None, &mut ()).expect("it is read");
    assert_eq!((again.records, again.keys), (checked.records, checked.keys), "{:?}", again.problems);
    // Without any identity, frames cannot be distinguished from user data.
    for path in &all {
        change(path, |bytes| bytes[30..35].fill(9));
    }
    let checked = check(dir.path(), None, &mut ()).expect("it is read");
    assert!(
        checked.problems.iter().any(|problem| problem.starts_with("no segment has a head")),
        "{:?}",
        checked.problems
    );
}

/// A damaged record is not copied into a valid frame: its segment stays unchanged.
#[tokio::test]
async fn does_not_rewrite_damaged_segments() {
    let dir = tempfile::tempdir().expect("a directory");
    let log = LogOptions { min_segment: SEGMENT, max_segment: SEGMENT, background: false };
    let store = EmbeddedStore::open(EmbeddedOptions { log, ..EmbeddedOptions::new(dir.path()) }).expect("it opens");
    // Every fourth object is unchanged; the segments of the first forty writes are mostly dead.
    for n in (0..40).chain((0..120).map(|n| n % 40).filter(|n| n % 4 != 0)) {
        let value = format!("value {n} ").repeat(2000);
        put(&store, &format!("/k/{n:02}"), value.as_bytes()).await;
    }
    let mut damaged = Vec::new();
    for n in [0, 16, 32] {
        let (path, at) = find(dir.path(), &format!("value {n} "));
        change(&path, |bytes| bytes[at + 3] ^= 1);
        damaged.push((path, n + 2));
    }
    let revision = store.current_revision().await.expect("a revision");
    store.compact(revision).await.expect("a compaction");
    store.close().await;
    for (path, revision) in &damaged {
        assert!(path.exists(), "{} with revision {revision} was rewritten: {:?}", name(path), segments(dir.path()));
    }
    let checked = check(dir.path(), None, &mut ()).expect("it is read");
    let found: Vec<u64> = checked.damaged.iter().map(|object| object.revision).collect();
    assert_eq!(found, damaged.iter().map(|(_, revision)| *revision).collect::<Vec<_>>(), "{:?}", checked.problems);
}

/// A directory on a disk that cannot read some bytes of a file, and that is never written to.
struct BadSectorFiles {
    dir: PathBuf,
    file: String,
    bad: Range<u64>,
}

struct BadSectorFile {
    file: File,
    bad: Range<u64>,
}

impl Files for BadSectorFiles {
    fn create(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        panic!("{name} is created")
    }

    fn open(&self, name: &str) -> io::Result<Arc<dyn LogFile>> {
        let bad = if name == self.file { self.bad.clone() } else { 0..0 };
        Ok(Arc::new(BadSectorFile { file: File::open(self.dir.join(name))?, bad }))
    }

    fn rename(&self, from: &str, _: &str) -> io::Result<()> {
        panic!("{from} is renamed")
    }

    fn replace(&self, from: &str, _: &str) -> io::Result<()> {
        panic!("{from} is renamed")
    }

    fn remove(&self, name: &str) -> io::Result<()> {
        panic!("{name} is removed")
    }

    fn list(&self) -> io::Result<Vec<String>> {
        let entries = fs::read_dir(&self.dir)?;
        entries.map(|entry| Ok(name(&entry?.path()))).collect()
    }

    fn sync_dir(&self) -> io::Result<()> {
        panic!("the directory is synced")
    }

    fn free_bytes(&self) -> Option<u64> {
        None
    }
}

impl LogFile for BadSectorFile {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        const EIO: i32 = 5;
        if at < self.bad.end && self.bad.start < at + buf.len() as u64 {
            return Err(io::Error::from_raw_os_error(EIO));
        }
        FileExt::read_at(&self.file, buf, at)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        panic!("a file is written to")
    }

    fn sync_data(&self) -> io::Result<()> {
        panic!("a file is synced")
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        panic!("space is reserved")
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        panic!("a file is truncated")
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.file.metadata()?.len())
    }
}

#[tokio::test]
async fn names_unreadable_sector_and_reads_the_rest() {
    let dir = tempfile::tempdir().expect("a directory");
    make(dir.path()).await;
    let check_with = |file: &str, bad: Range<u64>| {
        check_in(Arc::new(BadSectorFiles { dir: dir.path().to_owned(), file: file.to_owned(), bad }), None, &mut ())
    };
    let whole = check_with("", 0..0);
    assert_eq!((whole.problems, whole.records, whole.keys), (Vec::new(), 80, 40));
    // A value takes more than three blocks of 4096 bytes.
    let (path, at) = find(dir.path(), "value 50 ");
    let block = (at as u64).next_multiple_of(4096);
    let checked = check_with(&name(&path), block + 512..block + 1024);
    let named = format!("{}: the disk cannot read 4096 bytes from byte {block}: ", name(&path));
    let problem = checked.problems.iter().find(|problem| problem.starts_with(&named));
    assert!(problem.is_some_and(|problem| problem.contains("os error 5")), "{:?}", checked.problems);
    let lost: Vec<_> = checked.damaged.iter().map(|lost| (lost.key.as_deref(), lost.revision, lost.remains)).collect();
    assert_eq!((lost, checked.records), (vec![(Some("/k/10"), 52, Remains::Older(12))], 79), "{:?}", checked.problems);
    // Two adjacent blocks are one problem, and losing the header of the segment loses nothing else.
    let checked = check_with(&name(&path), block..block + 8192);
    let named = format!("{}: the disk cannot read 8192 bytes from byte {block}: ", name(&path));
    assert!(checked.problems.iter().any(|problem| problem.starts_with(&named)), "{:?}", checked.problems);
    let checked = check_with(&name(&path), 0..512);
    assert_eq!((checked.records, checked.keys, checked.damaged.len()), (80, 40, 0), "{:?}", checked.problems);
    let checked = check_with("head", 0..64);
    assert_eq!((checked.records, checked.keys, checked.damaged.len()), (80, 40, 0), "{:?}", checked.problems);
    assert!(
        checked.problems.iter().any(|problem| problem.starts_with("head cannot be read: ")),
        "{:?}",
        checked.problems
    );
}
