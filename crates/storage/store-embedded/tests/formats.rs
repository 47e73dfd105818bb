//! Stores that released versions wrote, in `test_data/stores`: this version reads, continues and compacts them. The
//! example `record_store` writes such a folder.

use std::fs;
use std::path::{Path, PathBuf};

use binnacle_store::{Count, Expect, Op, RangeRequest, Revision, Store, Txn, prefix_range};
use binnacle_store_embedded::{EmbeddedOptions, EmbeddedStore, check};
use bytes::Bytes;

/// Returns the folders of all versions.
fn recorded() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../test_data/stores");
    let mut folders: Vec<_> =
        fs::read_dir(folder).expect("stores").map(|entry| entry.expect("an entry").path()).collect();
    folders.sort();
    folders
}

fn copy(store: &Path) -> tempfile::TempDir {
    let dir = tempfile::tempdir().expect("a directory");
    for file in fs::read_dir(store).expect("files").map(|file| file.expect("a file")) {
        fs::copy(file.path(), dir.path().join(file.file_name())).expect("a copy");
    }
    dir
}

/// Returns all keys at a revision, as lines of `contents.tsv`.
async fn lines(store: &EmbeddedStore, revision: u64) -> Vec<String> {
    let request =
        RangeRequest { range: prefix_range(b"/"), revision: Some(Revision(revision)), limit: 0, count: Count::All };
    let kvs = store.range(request).await.expect("a read").kvs;
    let line = |kv: &binnacle_store::KeyValue| {
        let (key, value) = (String::from_utf8_lossy(&kv.key), String::from_utf8_lossy(&kv.value));
        let lease = kv.lease.map_or(0, |lease| lease.0);
        format!("{revision}\t{key}\t{}\t{}\t{lease}\t{value}", kv.create_revision.0, kv.mod_revision.0)
    };
    kvs.iter().map(line).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stores_of_released_versions_are_read_and_continued() {
    let folders = recorded();
    assert!(!folders.is_empty());
    for folder in folders {
        let version = folder.file_name().expect("a name").to_string_lossy().into_owned();
        let contents = fs::read_to_string(folder.join("contents.tsv")).expect("contents");
        let wanted: Vec<_> = contents.lines().filter(|line| !line.starts_with('#')).collect();
        let revision_of = |line: &&str| line.split('\t').next().expect("a field").parse::<u64>().expect("a number");
        let dir = copy(&folder.join("store"));
        let checked = check(dir.path(), None, &mut ()).expect("it is read");
        assert_eq!((checked.problems, checked.compacted), (Vec::new(), revision_of(&wanted[0])), "{version}");

        let open = || EmbeddedStore::open(EmbeddedOptions::new(dir.path())).expect("it opens");
        let store = open();
        for at_once in wanted.chunk_by(|a, b| revision_of(a) == revision_of(b)) {
            assert_eq!(lines(&store, revision_of(&at_once[0])).await, at_once, "{version}");
        }
        let last = revision_of(wanted.last().expect("contents"));
        assert_eq!(store.current_revision().await.expect("a revision"), Revision(last), "{version}");

        // It is continued, compacted, and opened again.
        let op = Op::Put { value: Bytes::from_static(b"new"), lease: None };
        let put = Txn { key: Bytes::from_static(b"/zzz"), expect: Expect::Anything, op };
        store.txn(put).await.expect("a write");
        store.compact(Revision(last + 1)).await.expect("a compaction");
        let before = lines(&store, last + 1).await;
        assert!(before.last().is_some_and(|line| line.ends_with("\tnew")), "{version}");
        store.close().await;
        assert_eq!(lines(&open(), last + 1).await, before, "{version}");
    }
}

/// Fails if the format has changed since the last recorded store: then a release needs a folder of its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn format_of_this_version_is_recorded() {
    /// The format and the feature bits in the head of the first segment.
    fn format(store: &Path) -> Vec<u8> {
        let mut segments: Vec<_> =
            fs::read_dir(store).expect("files").map(|file| file.expect("a file").path()).collect();
        segments.retain(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("log-")));
        let first = segments.iter().min().expect("a segment");
        fs::read(first).expect("a segment")[..20].to_vec()
    }
    let dir = tempfile::tempdir().expect("a directory");
    EmbeddedStore::open(EmbeddedOptions::new(dir.path())).expect("an empty store opens").close().await;
    let present = format(dir.path());
    assert_eq!(&present[..8], b"BINNACLE");
    let formats: Vec<_> = recorded().iter().map(|folder| format(&folder.join("store"))).collect();
    assert!(formats.contains(&present), "run the example record_store for this version: {present:?}");
}
