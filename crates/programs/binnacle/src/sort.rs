//! Sorting of more than fits in memory: sorted runs are written to an anonymous file and merged on reading.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io;
use std::marker::PhantomData;
use std::ops::Range;
use std::os::unix::fs::FileExt;

use bytes::{Buf, BufMut, Bytes};

/// A row that can be sorted.
pub(crate) trait Row: Ord + Sized {
    /// Appends an encoding that [`read`](Self::read) decodes from the front.
    fn write(&self, out: &mut Vec<u8>);

    /// Returns `None` if it is incomplete.
    fn read(bytes: &mut &[u8]) -> Option<Self>;
}

/// Rows in any order.
pub(crate) struct Sorter<R> {
    /// Rows that are not in a run yet.
    rows: Vec<R>,
    bytes: usize,
    count: u64,
    file: Option<File>,
    /// The ranges of the runs in the file.
    runs: Vec<Range<u64>>,
    limit: usize,
}

/// Rows in order.
pub(crate) struct SortedRows<'a, R> {
    runs: Vec<Run<'a, R>>,
    next: BinaryHeap<Reverse<(R, usize)>>,
}

struct Run<'a, R> {
    file: &'a File,
    rest: Range<u64>,
    /// Bytes read from the run, and the number of those consumed.
    buffer: Vec<u8>,
    taken: usize,
    rows: PhantomData<R>,
}

/// The limit on the bytes of rows in memory.
const MEMORY: usize = 4 << 20;
/// The bytes of each run that are buffered while merging.
const READ: usize = 64 << 10;

// === impl Sorter ===

impl<R: Row> Sorter<R> {
    pub(crate) fn new() -> Self {
        Self::with_memory(MEMORY)
    }

    fn with_memory(limit: usize) -> Self {
        Self { rows: Vec::new(), bytes: 0, count: 0, file: None, runs: Vec::new(), limit }
    }

    /// `size` is the number of bytes that the row refers to outside of itself.
    pub(crate) fn add(&mut self, row: R, size: usize) -> io::Result<()> {
        self.bytes += size_of::<R>() + size;
        self.count += 1;
        self.rows.push(row);
        if self.bytes >= self.limit { self.write_run() } else { Ok(()) }
    }

    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the rows in order; may be called repeatedly.
    pub(crate) fn sorted(&mut self) -> io::Result<SortedRows<'_, R>> {
        self.write_run()?;
        self.rows = Vec::new();
        let mut sorted = SortedRows { runs: Vec::new(), next: BinaryHeap::new() };
        if let Some(file) = &self.file {
            for rest in self.runs.iter().cloned() {
                sorted.runs.push(Run { file, rest, buffer: Vec::new(), taken: 0, rows: PhantomData });
                sorted.refill(sorted.runs.len() - 1)?;
            }
        }
        Ok(sorted)
    }

    fn write_run(&mut self) -> io::Result<()> {
        if self.rows.is_empty() {
            return Ok(());
        }
        self.rows.sort_unstable();
        if self.file.is_none() {
            self.file = Some(tempfile::tempfile()?);
        }
        let Some(file) = &self.file else { return Ok(()) };
        let begin = self.runs.last().map_or(0, |run| run.end);
        let (mut end, mut buffer) = (begin, Vec::with_capacity(READ));
        for row in self.rows.drain(..) {
            row.write(&mut buffer);
            if buffer.len() >= READ {
                file.write_all_at(&buffer, end)?;
                end += buffer.len() as u64;
                buffer.clear();
            }
        }
        file.write_all_at(&buffer, end)?;
        self.runs.push(begin..end + buffer.len() as u64);
        self.bytes = 0;
        Ok(())
    }
}

// === impl SortedRows ===

impl<R: Row> SortedRows<'_, R> {
    fn refill(&mut self, run: usize) -> io::Result<()> {
        if let Some(row) = self.runs[run].next()? {
            self.next.push(Reverse((row, run)));
        }
        Ok(())
    }
}

impl<R: Row> Iterator for SortedRows<'_, R> {
    type Item = io::Result<R>;

    fn next(&mut self) -> Option<io::Result<R>> {
        let Reverse((row, run)) = self.next.pop()?;
        Some(self.refill(run).map(|()| row))
    }
}

// === impl Run ===

impl<R: Row> Run<'_, R> {
    fn next(&mut self) -> io::Result<Option<R>> {
        loop {
            let mut bytes = &self.buffer[self.taken..];
            let before = bytes.len();
            if before > 0
                && let Some(row) = R::read(&mut bytes)
            {
                self.taken += before - bytes.len();
                return Ok(Some(row));
            }
            if self.rest.is_empty() {
                return if before == 0 { Ok(None) } else { Err(io::ErrorKind::InvalidData.into()) };
            }
            self.buffer.drain(..self.taken);
            self.taken = 0;
            let kept = self.buffer.len();
            let read = (READ as u64).min(self.rest.end - self.rest.start);
            self.buffer.resize(kept + read as usize, 0);
            self.file.read_exact_at(&mut self.buffer[kept..], self.rest.start)?;
            self.rest.start += read;
        }
    }
}

// === impl Row ===

impl Row for u64 {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64_le(*self);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        bytes.try_get_u64_le().ok()
    }
}

impl Row for Bytes {
    fn write(&self, out: &mut Vec<u8>) {
        out.put_u64_le(self.len() as u64);
        out.put_slice(self);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        let len = usize::try_from(u64::read(bytes)?).ok()?;
        let (row, rest) = bytes.split_at_checked(len)?;
        *bytes = rest;
        Some(Self::copy_from_slice(row))
    }
}

impl<A: Row, B: Row> Row for (A, B) {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
        self.1.write(out);
    }

    fn read(bytes: &mut &[u8]) -> Option<Self> {
        Some((A::read(bytes)?, B::read(bytes)?))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_rows_sorted_across_runs() {
        // Without a run, with some, and with rows larger than one read.
        for (count, memory, length) in [(0, 1, 0), (1, 1, 3), (1000, MEMORY, 5), (1000, 4096, 5), (20, 1, 3 * READ)] {
            let mut sorter = Sorter::with_memory(memory);
            let mut expected = Vec::new();
            for n in 0..count {
                let row = ((n * 7919) % 501, Bytes::from(vec![n as u8; length]));
                expected.push(row.clone());
                sorter.add(row, length).expect("a row");
            }
            expected.sort();
            assert_eq!(sorter.count(), count);
            for _ in 0..2 {
                let sorted: io::Result<Vec<_>> = sorter.sorted().expect("runs").collect();
                assert!(sorted.expect("rows") == expected, "{count} rows of {length} bytes with {memory}");
            }
        }
    }
}
