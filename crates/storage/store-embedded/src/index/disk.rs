//! The index in its own directory, which is rebuilt at every start, with a row for each version.
//!
//! A row's key is the escaped key, an end mark and the inverted revision, so that the newest version comes first. Rows
//! have no values; these are in the records.

use std::fs::{self, DirBuilder};
use std::io;
use std::ops::{Bound, ControlFlow};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use bytes::{Buf, BufMut, Bytes};

use super::rows::Rows;
use super::{Entry, KeyVisitor, LiveVersion, Version};

pub(crate) struct DiskIndex {
    /// Versions by key: the create revision and the lease, or nothing for a deletion.
    rows: Rows,
    /// A lease and a key that was put with it. The key may have another lease since then, or none.
    lease_rows: Rows,
    dir: PathBuf,
}

/// A zero byte in a key is followed by 0xff, and the end of a key is a zero byte and 1, so that rows are in the order
/// of keys.
const END: [u8; 2] = [0, 1];

// === impl DiskIndex ===

impl DiskIndex {
    /// Creates an empty index in `dir`, and removes the index of an earlier process.
    pub(crate) fn create(dir: PathBuf) -> io::Result<Self> {
        remove(&dir)?;
        DirBuilder::new().mode(0o700).create(&dir)?;
        let rows = Rows::create(&dir.join("rows"))?;
        let lease_rows = Rows::create(&dir.join("leased"))?;
        Ok(Self { rows, lease_rows, dir })
    }

    pub(super) fn put(&mut self, key: &Bytes, live: &LiveVersion) -> io::Result<()> {
        let mut row = Vec::with_capacity(16);
        row.put_u64(live.created);
        row.put_i64(live.lease);
        self.rows.put(row_key(key, live.modified), row)?;
        if live.lease == 0 {
            return Ok(());
        }
        self.lease_rows.put([&live.lease.to_be_bytes()[..], key].concat(), Vec::new())
    }

    pub(super) fn delete(&mut self, key: &Bytes, revision: u64) -> io::Result<()> {
        self.rows.put(row_key(key, revision), Vec::new())
    }

    pub(super) fn compact_key(&mut self, key: &Bytes, compacted: u64) -> io::Result<()> {
        let mut entry = Entry::default();
        self.versions(key, u64::MAX, |row| {
            entry.add_older(&row);
            ControlFlow::Continue(())
        })?;
        entry.past.reverse();
        for revision in entry.forgotten_revisions(compacted) {
            self.rows.remove(row_key(key, revision))?;
        }
        Ok(())
    }

    pub(super) fn live(&self, key: &[u8]) -> io::Result<Option<LiveVersion>> {
        Ok(self.newest(key, u64::MAX)?.and_then(|row| row.live))
    }

    /// Returns the modification revision of the version that a key had at `revision`.
    pub(super) fn modified_at(&self, key: &[u8], revision: u64) -> io::Result<Option<u64>> {
        Ok(self.newest(key, revision)?.and_then(|row| Some(row.live?.modified)))
    }

    /// Visits the keys from `first` on (excluding it unless `inclusive`) and before `end`.
    pub(super) fn range(
        &self,
        first: &[u8],
        inclusive: bool,
        end: Option<&Bytes>,
        visit: &mut KeyVisitor<'_>,
    ) -> io::Result<()> {
        // The oldest row that a key can have.
        let start = if inclusive { Bound::Included(escaped(first)) } else { Bound::Excluded(row_key(first, 0)) };
        let end = end.map_or(Bound::Unbounded, |end| Bound::Excluded(escaped(end)));
        if let (Bound::Included(start) | Bound::Excluded(start), Bound::Excluded(end)) = (&start, &end)
            && start >= end
        {
            return Ok(());
        }
        let mut current: Option<(Bytes, Entry)> = None;
        let mut is_over = false;
        self.rows.each((start, end), &mut |key, value| {
            let row = Row::read(key, value)?;
            match &mut current {
                Some((key, entry)) if *key == row.key => entry.add_older(&row),
                _ => {
                    let mut entry = Entry::default();
                    entry.add_older(&row);
                    if let Some((key, entry)) = current.replace((row.key, entry)) {
                        is_over = visit_entry(&key, entry, visit).is_break();
                    }
                }
            }
            Ok(if is_over { ControlFlow::Break(()) } else { ControlFlow::Continue(()) })
        })?;
        if let Some((key, entry)) = current.filter(|_| !is_over) {
            let _ = visit_entry(&key, entry, visit);
        }
        Ok(())
    }

    pub(super) fn keys_of_lease(&self, lease: i64) -> io::Result<Vec<Bytes>> {
        let prefix = lease.to_be_bytes();
        let mut candidates = Vec::new();
        self.lease_rows.each((Bound::Included(prefix.to_vec()), Bound::Unbounded), &mut |row, _| {
            let Some(key) = row.strip_prefix(&prefix) else { return Ok(ControlFlow::Break(())) };
            candidates.push(Bytes::copy_from_slice(key));
            Ok(ControlFlow::Continue(()))
        })?;
        let mut keys = Vec::new();
        for key in candidates {
            if self.live(&key)?.is_some_and(|live| live.lease == lease) {
                keys.push(key);
            }
        }
        Ok(keys)
    }

    fn newest(&self, key: &[u8], revision: u64) -> io::Result<Option<Row>> {
        let mut newest = None;
        self.versions(key, revision, |row| {
            newest = Some(row);
            ControlFlow::Break(())
        })?;
        Ok(newest)
    }

    /// Visits the versions of a key up to `revision`, the newest first.
    fn versions(&self, key: &[u8], revision: u64, mut visit: impl FnMut(Row) -> ControlFlow<()>) -> io::Result<()> {
        let range = (Bound::Included(row_key(key, revision)), Bound::Included(row_key(key, 0)));
        self.rows.each(range, &mut |key, value| Ok(visit(Row::read(key, value)?)))
    }
}

impl Drop for DiskIndex {
    fn drop(&mut self) {
        // If this fails, the next `create` removes it.
        let _ = remove(&self.dir);
    }
}

/// Removes the index that a killed process left.
pub(crate) fn remove(dir: &Path) -> io::Result<()> {
    match fs::remove_dir_all(dir) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn visit_entry(key: &Bytes, mut entry: Entry, visit: &mut KeyVisitor<'_>) -> ControlFlow<()> {
    entry.past.reverse();
    visit(key, &entry)
}

/// One version of a key.
struct Row {
    key: Bytes,
    revision: u64,
    /// `None` means deleted.
    live: Option<LiveVersion>,
}

// === impl Row ===

impl Row {
    fn read(key: &[u8], value: &[u8]) -> io::Result<Self> {
        let damaged = || io::Error::new(io::ErrorKind::InvalidData, "the index is damaged");
        let (key, revision) = split(key).ok_or_else(damaged)?;
        let live = match value.len() {
            0 => None,
            16 => {
                let mut value = value;
                let (created, lease) = (value.get_u64(), value.get_i64());
                Some(LiveVersion { value: None, modified: revision, created, lease })
            }
            _ => return Err(damaged()),
        };
        Ok(Self { key, revision, live })
    }
}

// === impl Entry ===

impl Entry {
    /// Adds a version that is older than all others. Until the end, the past versions are in descending order.
    fn add_older(&mut self, row: &Row) {
        match &row.live {
            Some(live) if self.live.is_none() && self.past.is_empty() => self.live = Some(live.clone()),
            Some(_) => self.past.push(Version::put(row.revision)),
            None => self.past.push(Version::deletion(row.revision)),
        }
    }
}

fn row_key(key: &[u8], revision: u64) -> Vec<u8> {
    let mut row = escaped(key);
    row.extend(END);
    row.extend((!revision).to_be_bytes());
    row
}

fn escaped(key: &[u8]) -> Vec<u8> {
    let mut escaped = Vec::with_capacity(key.len() + 10);
    for byte in key {
        escaped.push(*byte);
        if *byte == 0 {
            escaped.push(0xff);
        }
    }
    escaped
}

fn split(row: &[u8]) -> Option<(Bytes, u64)> {
    let (rest, revision) = row.split_last_chunk()?;
    let escaped = rest.strip_suffix(&END)?;
    let key = if escaped.contains(&0) {
        let mut key = Vec::with_capacity(escaped.len());
        let mut bytes = escaped.iter();
        while let Some(byte) = bytes.next() {
            key.push(*byte);
            if *byte == 0 {
                bytes.next();
            }
        }
        key.into()
    } else {
        Bytes::copy_from_slice(escaped)
    };
    Some((key, !u64::from_be_bytes(*revision)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_sort_by_key_then_newest_first() {
        let keys: [&[u8]; 9] = [b"", b"\0", b"\0\0", b"\0\x01", b"\x01", b"a", b"a\0", b"a\0\xff", b"ab"];
        let mut rows = Vec::new();
        for key in keys {
            for revision in [u64::MAX, 300, 7, 0] {
                let row = row_key(key, revision);
                assert_eq!(split(&row), Some((Bytes::copy_from_slice(key), revision)));
                // The bounds of ranges: from a key on, and before a key.
                assert!(escaped(key) <= row);
                rows.push(row);
            }
        }
        assert!(rows.is_sorted());
        for (at, key) in keys.iter().enumerate() {
            let before = rows.iter().filter(|row| **row < escaped(key)).count();
            assert_eq!(before, at * 4, "{key:?}");
        }
        assert_eq!(split(b"short"), None);
    }
}
