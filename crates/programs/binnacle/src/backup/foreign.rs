//! Files of other programs that can be restored: etcd snapshots, and kine's SQL table.
//!
//! They are converted to a backup in an anonymous file, and restored from that.

mod bolt;
mod kine;
mod snapshot;
mod sqlite;
mod table;

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::file::{Head, Reader};

/// Opens a backup, or a file of another program converted to one.
pub(super) fn open(path: &Path) -> io::Result<(Reader, Head)> {
    let file = File::open(path)?;
    let mut start = [0; 32];
    let len = file.read_at(&mut start, 0)?;
    let start = &start[..len];
    if start.starts_with(sqlite::MAGIC) {
        converted(|out| kine::convert(out, &mut |each| sqlite::Database::open(path)?.rows("kine", kine::COLUMNS, each)))
    } else if bolt::is_format(start) {
        converted(|out| snapshot::convert(out, file))
    } else if table::is_format(start) {
        converted(|out| kine::convert(out, &mut |each| table::rows(File::open(path)?, kine::COLUMNS, each)))
    } else {
        Reader::open(file)
    }
}

fn converted(write: impl FnOnce(File) -> io::Result<()>) -> io::Result<(Reader, Head)> {
    let file = tempfile::tempfile()?;
    write(file.try_clone()?)?;
    // Both handles share one position.
    io::Seek::seek(&mut &file, io::SeekFrom::Start(0))?;
    Reader::open(file)
}

/// A value of a row in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value {
    Null,
    Integer(i64),
    Bytes(Vec<u8>),
}

/// A callback that receives the values of each row.
type Each<'a> = &'a mut dyn FnMut(Vec<Value>) -> io::Result<()>;

fn damaged(what: impl Into<String>) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what.into())
}

// === impl Value ===

impl Value {
    fn integer(&self) -> i64 {
        match self {
            Self::Integer(number) => *number,
            Self::Null | Self::Bytes(_) => 0,
        }
    }

    fn into_bytes(self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Null | Self::Integer(_) => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use binnacle_store::{Count, RangeRequest, Store, prefix_range};
    use binnacle_store_embedded::OfflineStore;

    use super::*;
    use crate::backup::restore;

    fn data(name: &str) -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("test_data/foreign").join(name)
    }

    /// Restores a file. Returns the keys and values in the order of their last changes.
    async fn restored(file: &Path, revision: Option<u64>) -> Result<Vec<(String, String)>, String> {
        let dir = tempfile::tempdir().expect("a directory");
        let target = dir.path().join("data");
        restore(file, &target, revision, 1000).await.map_err(|error| error.to_string())?;
        let offline = OfflineStore::open(&target.join("store"), None).expect("it opens");
        let request = RangeRequest { range: prefix_range(b"/registry/"), revision: None, limit: 0, count: Count::All };
        let mut kvs = offline.store().range(request).await.expect("a range").kvs;
        kvs.sort_by_key(|kv| kv.mod_revision);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        Ok(kvs.iter().map(|kv| (text(&kv.key), text(&kv.value))).collect())
    }

    fn map(n: u32) -> String {
        format!("/registry/configmaps/a/{n}")
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn restores_sqlite_database_of_kine() {
        let first = |n: u32| (map(n), format!("{n} ").repeat((n * n) as usize));
        let event = ("/registry/events/a/b".to_owned(), "gone in an hour".to_owned());
        let again = (0..40).step_by(3).filter(|n| n % 7 != 0).map(|n| (map(n), format!("again {n}")));
        let unchanged = (0..40).filter(|n| n % 3 != 0 && n % 7 != 0).map(first).chain([event.clone()]);
        let want: Vec<_> = unchanged.chain(again).collect();
        assert_eq!(restored(&data("kine.db"), None).await, Ok(want));
        // The row of the compaction is followed by 40 objects and the event.
        let before: Vec<_> = (0..40).map(first).chain([event]).collect();
        assert_eq!(restored(&data("kine.db"), Some(42)).await, Ok(before));
        let gone = restored(&data("kine.db"), Some(2)).await.expect_err("it was compacted");
        assert!(gone.contains("it has the revisions 3 to 63"), "{gone}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn restores_etcd_snapshot() {
        let value = |n: u32| (map(n), format!("value {n}"));
        let event = ("/registry/events/a/b".to_owned(), "soon".to_owned());
        let unchanged = (0..30).filter(|n| ![0, 3, 6, 9, 7, 14].contains(n)).map(value).chain([event]);
        let want: Vec<_> = unchanged.chain([3, 6, 9].map(|n| (map(n), format!("again {n}")))).collect();
        assert_eq!(restored(&data("etcd.snapshot"), None).await, Ok(want));
        let before: Vec<_> = (0..30).map(value).collect();
        assert_eq!(restored(&data("etcd.snapshot"), Some(31)).await, Ok(before));
        let gone = restored(&data("etcd.snapshot"), Some(19)).await.expect_err("it was compacted");
        assert!(gone.contains("it has the revisions 20 to"), "{gone}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn restores_table_in_csv() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("kine.csv");
        let head = "id,name,created,deleted,create_revision,prev_revision,lease,value\n";
        let rows = "1,compact_rev_key,1,0,0,0,0,\n2,/registry/a,1,0,0,0,0,\\x6f6e65\n3,/registry/b,1,0,0,0,0,\\x74776f\n\
                    4,/registry/b,0,1,3,3,0,\n5,gap-5,0,1,0,0,0,\n";
        std::fs::write(&file, format!("{head}{rows}")).expect("it is written");
        assert_eq!(restored(&file, None).await, Ok(vec![("/registry/a".into(), "one".into())]));
        std::fs::write(&file, format!("{head}1,/other,1,0,0,0,0,\n")).expect("it is written");
        let none = restored(&file, None).await.expect_err("it has nothing");
        assert!(none.contains("no name that begins with /registry/"), "{none}");
    }

    /// Reading always returns, whatever the bytes are.
    #[test]
    fn rejects_damaged_files_without_panic() {
        let dir = tempfile::tempdir().expect("a directory");
        let log = dir.path().join("kine.db-wal");
        std::fs::copy(data("kine.db-wal"), &log).expect("a copy");
        let mut state = 7_u64;
        let mut random = |below: usize| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) as usize % below
        };
        for name in ["kine.db", "etcd.snapshot"] {
            let whole = std::fs::read(data(name)).expect("the file");
            // Without its checksum.
            let whole = &whole[..whole.len() / 512 * 512];
            let mut refused = 0;
            for _ in 0..300 {
                let mut bytes = whole.to_vec();
                for _ in 0..1 + random(6) {
                    let at = random(bytes.len());
                    bytes[at] = random(256) as u8;
                }
                bytes.truncate(whole.len() - random(2) * random(whole.len() / 2));
                let file = dir.path().join(name);
                std::fs::write(&file, bytes).expect("it is written");
                refused += u32::from(open(&file).is_err());
            }
            assert!(refused > 50, "{name}: {refused} refused");
        }
        let mut changed = std::fs::read(data("etcd.snapshot")).expect("the file");
        changed[20_000] ^= 1;
        let file = dir.path().join("changed");
        std::fs::write(&file, changed).expect("it is written");
        let message = open(&file).err().expect("it is refused").to_string();
        assert!(message.contains("checksum of the snapshot"), "{message}");
    }
}
