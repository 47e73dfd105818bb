//! Reads bbolt databases: pages of a B+ tree whose leaves hold keys, values and buckets.
//!
//! A page: id 8, flags 2, count 2, number of pages that follow it 4; then its elements. Numbers are little endian.

use std::cell::Cell;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;

use super::damaged;

/// The header of a page.
const HEADER: usize = 16;
const ELEMENT: usize = 16;
const MAGIC: u32 = 0xED0C_DAED;
const VERSION: u32 = 2;
const BRANCH: u16 = 0x01;
const LEAF: u16 = 0x02;
/// The flag of a leaf's element that is a bucket.
const BUCKET: u32 = 0x01;
/// The maximum depth of a tree; real ones are much lower.
const MAX_DEPTH: u32 = 64;
/// The maximum length of consecutive pages in bytes.
const MAX_RUN: u64 = 256 << 20;

pub(super) struct Bolt {
    file: File,
    len: u64,
    page: u64,
    root: u64,
    /// The number of pages that may still be read in this pass: each is read once, unless the file is damaged.
    left: Cell<u64>,
}

/// The keys of a bucket: below a page, or inline in the bucket's value.
pub(super) enum Bucket {
    Page(u64),
    Inline(Vec<u8>),
}

/// A callback that receives the elements of leaves: flags, key, value.
type Each<'a> = &'a mut dyn FnMut(u32, &[u8], &[u8]) -> io::Result<()>;

/// Returns true if a file with this start is a bbolt database.
pub(super) fn is_format(start: &[u8]) -> bool {
    number::<4>(start, HEADER).is_some_and(|magic| magic == u64::from(MAGIC))
}

// === impl Bolt ===

impl Bolt {
    /// Opens a file, with the newer of its two meta pages that is intact.
    pub(super) fn open(file: File) -> io::Result<Self> {
        let len = file.metadata()?.len();
        let mut first = [0; HEADER + 64];
        file.read_exact_at(&mut first, 0)?;
        let page = number::<4>(&first, HEADER + 8).unwrap_or_default();
        if !page.is_power_of_two() || !(512..=1 << 20).contains(&page) {
            return Err(damaged("the size of its pages makes no sense"));
        }
        let mut newest: Option<(u64, u64)> = None;
        for at in [0, page] {
            let mut meta = [0; HEADER + 64];
            if file.read_exact_at(&mut meta, at).is_err() {
                continue;
            }
            let meta = &meta[HEADER..];
            let field = |at: usize| number::<8>(meta, at).unwrap_or_default();
            let right = number::<4>(meta, 0) == Some(MAGIC.into()) && number::<4>(meta, 4) == Some(VERSION.into());
            if right && field(56) == fnv(&meta[..56]) && newest.is_none_or(|(transaction, _)| field(48) > transaction) {
                newest = Some((field(48), field(16)));
            }
        }
        let (_, root) = newest.ok_or_else(|| damaged("neither of its two beginnings is whole"))?;
        Ok(Self { file, len, page, root, left: Cell::new(0) })
    }

    /// Finds a bucket by its name.
    pub(super) fn bucket(&self, name: &[u8]) -> io::Result<Option<Bucket>> {
        let mut found = None;
        self.left.set(self.len / self.page);
        self.below(self.root, 0, &mut |flags, key, value| {
            if flags & BUCKET != 0 && key == name {
                let root = number::<8>(value, 0).ok_or_else(|| damaged("a bucket is cut off"))?;
                found = Some(match root {
                    0 => Bucket::Inline(value.get(16..).unwrap_or_default().to_vec()),
                    root => Bucket::Page(root),
                });
            }
            Ok(())
        })?;
        Ok(found)
    }

    /// Passes all keys of a bucket with their values, in order.
    pub(super) fn each(&self, bucket: &Bucket, mut each: impl FnMut(&[u8], &[u8]) -> io::Result<()>) -> io::Result<()> {
        let each: Each<'_> = &mut |flags, key, value| if flags & BUCKET == 0 { each(key, value) } else { Ok(()) };
        self.left.set(self.len / self.page);
        match bucket {
            Bucket::Page(root) => self.below(*root, 0, each),
            Bucket::Inline(page) => leaf(page, each),
        }
    }

    fn below(&self, id: u64, depth: u32, each: Each<'_>) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(damaged("its pages lead in a circle"));
        }
        let page = self.read(id)?;
        match number::<2>(&page, 8).and_then(|flags| u16::try_from(flags).ok()) {
            Some(LEAF) => leaf(&page, each),
            Some(BRANCH) => {
                for n in 0..count(&page) {
                    let child = number::<8>(&page, HEADER + n * ELEMENT + 8);
                    self.below(child.ok_or_else(|| damaged("a page is cut off"))?, depth + 1, each)?;
                }
                Ok(())
            }
            _ => Err(damaged(format!("page {id} is of no known kind"))),
        }
    }

    /// Reads a page and its overflow pages.
    fn read(&self, id: u64) -> io::Result<Vec<u8>> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| damaged("its pages lead in a circle"))?;
        self.left.set(left);
        let at = id.checked_mul(self.page).filter(|at| at.saturating_add(self.page) <= self.len);
        let at = at.ok_or_else(|| damaged(format!("it ends before page {id}")))?;
        let mut header = [0; HEADER];
        self.file.read_exact_at(&mut header, at)?;
        let more = number::<4>(&header, 12).unwrap_or_default();
        let len = (more + 1) * self.page;
        if number::<8>(&header, 0) != Some(id) || len > MAX_RUN || at + len > self.len {
            return Err(damaged(format!("page {id} is damaged")));
        }
        let mut page = vec![0; usize::try_from(len).map_err(|_| damaged("a page is too long"))?];
        self.file.read_exact_at(&mut page, at)?;
        Ok(page)
    }
}

fn leaf(page: &[u8], each: Each<'_>) -> io::Result<()> {
    for n in 0..count(page) {
        let element = HEADER + n * ELEMENT;
        let field = |at: usize| number::<4>(page, element + at).and_then(|field| usize::try_from(field).ok());
        let parts = || {
            let (flags, at, key, value) = (field(0)?, field(4)?, field(8)?, field(12)?);
            let key_at = element.checked_add(at)?;
            let value_at = key_at.checked_add(key)?;
            Some((flags, page.get(key_at..value_at)?, page.get(value_at..value_at.checked_add(value)?)?))
        };
        let (flags, key, value) = parts().ok_or_else(|| damaged("an element of a page is cut off"))?;
        each(u32::try_from(flags).unwrap_or_default(), key, value)?;
    }
    Ok(())
}

fn count(page: &[u8]) -> usize {
    number::<2>(page, 10).and_then(|count| usize::try_from(count).ok()).unwrap_or_default()
}

/// Parses a number of this length at an offset.
fn number<const N: usize>(bytes: &[u8], at: usize) -> Option<u64> {
    let bytes = bytes.get(at..at.checked_add(N)?)?;
    Some(bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte)))
}

/// Returns the checksum of a meta page: FNV-1a.
fn fnv(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0xcbf2_9ce4_8422_2325, |sum, byte| (sum ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3))
}
