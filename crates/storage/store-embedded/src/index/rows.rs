//! Sorted rows in a file that only this process uses: the newest in memory, the others in a `redb` table.

use std::collections::BTreeMap;
use std::io;
use std::ops::{Bound, ControlFlow};
use std::path::Path;

use redb::{Database, Durability, ReadableDatabase, TableDefinition};

pub(super) struct Rows {
    database: Database,
    /// Rows that are not in the file yet. `None` means removed.
    newest: BTreeMap<Vec<u8>, Option<Vec<u8>>>,
    bytes: usize,
    flushes: u64,
}

/// A range of rows.
pub(super) type Range = (Bound<Vec<u8>>, Bound<Vec<u8>>);
/// Called with each row of a range until it returns `Break` or fails.
pub(super) type RowVisitor<'a> = dyn FnMut(&[u8], &[u8]) -> io::Result<ControlFlow<()>> + 'a;

const TABLE: TableDefinition<'_, &[u8], &[u8]> = TableDefinition::new("rows");
const CACHE_BYTES: usize = 4 << 20;
const NEWEST_BYTES: usize = 2 << 20;
/// The memory of a row besides its bytes.
const ROW_BYTES: usize = 96;
/// One in this many flushes is durable. Only then is the space of replaced rows reused.
const DURABLE_EVERY: u64 = 16;

// === impl Rows ===

impl Rows {
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        let database = Database::builder().set_cache_size(CACHE_BYTES).create(path).map_err(io::Error::other)?;
        let mut rows = Self { database, newest: BTreeMap::new(), bytes: 0, flushes: 0 };
        rows.flush()?;
        Ok(rows)
    }

    pub(super) fn put(&mut self, row: Vec<u8>, value: Vec<u8>) -> io::Result<()> {
        self.write(row, Some(value))
    }

    pub(super) fn remove(&mut self, row: Vec<u8>) -> io::Result<()> {
        self.write(row, None)
    }

    fn write(&mut self, row: Vec<u8>, value: Option<Vec<u8>>) -> io::Result<()> {
        self.bytes += row.len() + value.as_ref().map_or(0, Vec::len) + ROW_BYTES;
        self.newest.insert(row, value);
        if self.bytes < NEWEST_BYTES { Ok(()) } else { self.flush() }
    }

    fn flush(&mut self) -> io::Result<()> {
        let mut write = self.database.begin_write().map_err(io::Error::other)?;
        let durable = self.flushes.is_multiple_of(DURABLE_EVERY);
        write
            .set_durability(if durable { Durability::Immediate } else { Durability::None })
            .map_err(io::Error::other)?;
        {
            let mut table = write.open_table(TABLE).map_err(io::Error::other)?;
            for (row, value) in &self.newest {
                match value {
                    Some(value) => drop(table.insert(&row[..], &value[..]).map_err(io::Error::other)?),
                    None => drop(table.remove(&row[..]).map_err(io::Error::other)?),
                }
            }
        }
        write.commit().map_err(io::Error::other)?;
        self.flushes += 1;
        self.newest.clear();
        self.bytes = 0;
        Ok(())
    }

    /// Visits the rows of a range in order.
    pub(super) fn each(&self, (start, end): Range, visit: &mut RowVisitor<'_>) -> io::Result<()> {
        fn borrowed(bound: &Bound<Vec<u8>>) -> Bound<&[u8]> {
            bound.as_ref().map(|row| &row[..])
        }
        let bounds = (borrowed(&start), borrowed(&end));
        let mut newest = self.newest.range::<[u8], _>(bounds).peekable();
        let read = self.database.begin_read().map_err(io::Error::other)?;
        let table = read.open_table(TABLE).map_err(io::Error::other)?;
        let mut older = table.range::<&[u8]>(bounds).map_err(io::Error::other)?;
        let mut old = older.next().transpose().map_err(io::Error::other)?;
        loop {
            let order = match (&old, newest.peek()) {
                (None, None) => return Ok(()),
                (Some(_), None) => std::cmp::Ordering::Less,
                (None, Some(_)) => std::cmp::Ordering::Greater,
                (Some((old, _)), Some((new, _))) => old.value().cmp(&new[..]),
            };
            if order.is_le() {
                let shown = old.take();
                old = older.next().transpose().map_err(io::Error::other)?;
                // Replaced by a newer row.
                if let Some((row, value)) = shown.filter(|_| order.is_lt())
                    && visit(row.value(), value.value())?.is_break()
                {
                    return Ok(());
                }
                if order.is_lt() {
                    continue;
                }
            }
            if let Some((row, Some(value))) = newest.next()
                && visit(row, value)?.is_break()
            {
                return Ok(());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_in_memory_override_rows_in_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let mut rows = Rows::create(&dir.path().join("rows")).expect("it is made");
        for n in 0..20_u8 {
            rows.put(vec![n], vec![0]).expect("a row");
        }
        rows.flush().expect("written");
        for n in 0..20_u8 {
            match n % 4 {
                0 => rows.put(vec![n], vec![1]).expect("a row"),
                1 => rows.remove(vec![n]).expect("a row"),
                2 => rows.put(vec![n, 7], vec![2]).expect("a row"),
                _ => {}
            }
        }
        let seen = |rows: &Rows, start: u8, end: u8| {
            let mut seen = Vec::new();
            let range = (Bound::Included(vec![start]), Bound::Excluded(vec![end]));
            rows.each(range, &mut |row, value| {
                seen.push((row.to_vec(), value[0]));
                Ok(ControlFlow::Continue(()))
            })
            .expect("a walk");
            seen
        };
        let expected = vec![(vec![4], 1), (vec![6], 0), (vec![6, 7], 2), (vec![7], 0), (vec![8], 1)];
        assert_eq!(seen(&rows, 4, 10), expected);
        rows.flush().expect("written");
        assert_eq!(seen(&rows, 4, 10), expected);
    }
}
