//! Reads SQLite databases: the rows of a table, including those in the write-ahead log.
//!
//! Numbers are big endian. A page of a table's B-tree has a header (its kind 1, 2, number of cells 2, 2, 1, in inner
//! pages the last child 4), and then the places of its cells.

use std::cell::Cell;
use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::{Each, Value, damaged};

pub(super) const MAGIC: &[u8] = b"SQLite format 3\0";
const FILE_HEADER: usize = 100;
const INNER: u8 = 0x05;
const LEAF: u8 = 0x0d;
const MAX_DEPTH: u32 = 32;
/// The longest row: SQLite's own bound is a billion, kine's rows have two values.
const MAX_ROW: u64 = 256 << 20;
const LOG_HEADER: usize = 32;
const FRAME_HEADER: usize = 24;
/// The magic number of a log with little-endian checksums; with the last bit set, they are big-endian.
const LOG_MAGIC: u32 = 0x377f_0682;

pub(super) struct Database {
    file: File,
    page: usize,
    /// The usable bytes of a page.
    usable: usize,
    log: Log,
    /// The number of pages that may still be read: each is read once, unless the file is damaged.
    left: Cell<u64>,
}

/// The write-ahead log, with newer versions of pages.
#[derive(Default)]
struct Log {
    file: Option<File>,
    /// The offset of each page in the log, as of the last complete transaction.
    pages: HashMap<u32, u64>,
}

/// A callback that receives the number and the payload of each row.
type Payloads<'a> = &'a mut dyn FnMut(i64, &[u8]) -> io::Result<()>;

// === impl Database ===

impl Database {
    pub(super) fn open(path: &Path) -> io::Result<Self> {
        let file = File::open(path)?;
        let mut header = [0; FILE_HEADER];
        file.read_exact_at(&mut header, 0)?;
        let page = match big(&header[16..18]) {
            1 => 65_536,
            size => size as usize,
        };
        let usable = page.saturating_sub(header[20].into());
        if !page.is_power_of_two() || page < 512 || usable < 480 {
            return Err(damaged("the size of its pages makes no sense"));
        }
        if ![0, 1].contains(&big(&header[56..60])) {
            return Err(damaged("its texts are not in UTF-8"));
        }
        let mut log = path.as_os_str().to_owned();
        log.push("-wal");
        let log = match File::open(&log) {
            Ok(log) => Log::read(log, page)?,
            Err(error) if error.kind() == io::ErrorKind::NotFound => Log::default(),
            Err(error) => return Err(error),
        };
        let pages = file.metadata()?.len() / page as u64 + log.pages.len() as u64;
        Ok(Self { file, page, usable, log, left: Cell::new(pages) })
    }

    /// Passes the values of these columns for each row of a table; the first column is the row's number.
    pub(super) fn rows(&self, table: &str, columns: &[&str], each: Each<'_>) -> io::Result<()> {
        let mut found = None;
        self.below(1, 0, &mut |_, payload| {
            let record = record(payload)?;
            let text = |n: usize| match record.get(n) {
                Some(Value::Bytes(bytes)) => String::from_utf8_lossy(bytes).into_owned(),
                _ => String::new(),
            };
            if text(0) == "table" && text(1) == table {
                found = Some((record.get(3).map_or(0, Value::integer), text(4)));
            }
            Ok(())
        })?;
        let (root, statement) = found.ok_or_else(|| damaged(format!("it has no table {table}")))?;
        let root = u32::try_from(root).map_err(|_| damaged("a table has no page"))?;
        let names = column_names(&statement);
        let places = columns.iter().map(|column| {
            let location = names.iter().position(|name| name == column);
            location.ok_or_else(|| damaged(format!("the table {table} has no column {column}")))
        });
        let places: Vec<usize> = places.collect::<io::Result<_>>()?;
        self.below(root, 0, &mut |number, payload| {
            let record = record(payload)?;
            let value = |location: &usize| record.get(*location).cloned().unwrap_or(Value::Null);
            let mut row: Vec<Value> = places.iter().map(value).collect();
            // The column with the row's number is stored as NULL.
            if let Some(id) = row.first_mut() {
                *id = Value::Integer(number);
            }
            each(row)
        })
    }

    fn below(&self, number: u32, depth: u32, each: Payloads<'_>) -> io::Result<()> {
        if depth > MAX_DEPTH {
            return Err(damaged("its pages lead in a circle"));
        }
        let page = self.read(number)?;
        let cut = || damaged(format!("page {number} is damaged"));
        let start = if number == 1 { FILE_HEADER } else { 0 };
        let kind = page[start];
        let cells = big(&page[start + 3..start + 5]) as usize;
        let places = start + if kind == INNER { 12 } else { 8 };
        for n in 0..cells {
            let at = places + 2 * n;
            let at = big(page.get(at..at + 2).ok_or_else(cut)?) as usize;
            let cell = page.get(at..self.usable).ok_or_else(cut)?;
            match kind {
                INNER => self.below(big(cell.get(..4).ok_or_else(cut)?), depth + 1, each)?,
                LEAF => {
                    let (len, rest) = varint(cell).ok_or_else(cut)?;
                    let (row, rest) = varint(rest).ok_or_else(cut)?;
                    each(row.cast_signed(), &self.payload(len, rest).map_err(|_| cut())?)?;
                }
                _ => return Err(cut()),
            }
        }
        match kind {
            INNER => self.below(big(&page[start + 8..start + 12]), depth + 1, each),
            LEAF => Ok(()),
            _ => Err(cut()),
        }
    }

    /// Reads a row, which may continue on overflow pages.
    fn payload(&self, len: u64, cell: &[u8]) -> io::Result<Vec<u8>> {
        let cut = || damaged("a row is cut off");
        let len = usize::try_from(len).ok().filter(|len| *len as u64 <= MAX_ROW).ok_or_else(cut)?;
        let largest = self.usable - 35;
        let local = if len <= largest {
            len
        } else {
            let least = (self.usable - 12) * 32 / 255 - 23;
            let fitting = least + (len - least) % (self.usable - 4);
            if fitting <= largest { fitting } else { least }
        };
        let mut payload = cell.get(..local).ok_or_else(cut)?.to_vec();
        let mut next = if local < len { big(cell.get(local..local + 4).ok_or_else(cut)?) } else { 0 };
        while payload.len() < len {
            // Each page has a part of the row, so the loop ends.
            let page = self.read(next)?;
            let part = (len - payload.len()).min(self.usable - 4);
            payload.extend_from_slice(&page[4..4 + part]);
            next = big(&page[..4]);
        }
        Ok(payload)
    }

    fn read(&self, number: u32) -> io::Result<Vec<u8>> {
        let left = self.left.get().checked_sub(1).ok_or_else(|| damaged("its pages lead in a circle"))?;
        self.left.set(left);
        let mut page = vec![0; self.page];
        match (self.log.pages.get(&number), &self.log.file) {
            (Some(at), Some(log)) => log.read_exact_at(&mut page, *at)?,
            _ => {
                let before = u64::from(number).checked_sub(1).ok_or_else(|| damaged("there is no page 0"))?;
                self.file.read_exact_at(&mut page, before * self.page as u64)?;
            }
        }
        Ok(page)
    }
}

// === impl Log ===

impl Log {
    /// Reads a log up to its last complete transaction.
    fn read(file: File, page: usize) -> io::Result<Self> {
        let mut header = [0; LOG_HEADER];
        if file.read_exact_at(&mut header, 0).is_err() {
            return Ok(Self::default());
        }
        let magic = big(&header[..4]);
        if magic & !1 != LOG_MAGIC || big(&header[8..12]) as usize != page {
            return Ok(Self::default());
        }
        let big_endian = magic & 1 == 1;
        let mut sums = checksum((0, 0), &header[..24], big_endian);
        if sums != (big(&header[24..28]), big(&header[28..32])) {
            return Ok(Self::default());
        }
        let (mut pages, mut pending) = (HashMap::new(), HashMap::new());
        let mut frame = vec![0; FRAME_HEADER + page];
        let mut at = LOG_HEADER as u64;
        while file.read_exact_at(&mut frame, at).is_ok() {
            sums = checksum(sums, &frame[..8], big_endian);
            sums = checksum(sums, &frame[FRAME_HEADER..], big_endian);
            if frame[8..16] != header[16..24] || sums != (big(&frame[16..20]), big(&frame[20..24])) {
                break;
            }
            pending.insert(big(&frame[..4]), at + FRAME_HEADER as u64);
            // The last page of a transaction has the size of the database.
            if big(&frame[4..8]) != 0 {
                pages.extend(pending.drain());
            }
            at += frame.len() as u64;
        }
        Ok(Self { file: Some(file), pages })
    }
}

/// Parses the values of a row.
fn record(payload: &[u8]) -> io::Result<Vec<Value>> {
    let cut = || damaged("a row cannot be read");
    let (header, _) = varint(payload).ok_or_else(cut)?;
    let header = usize::try_from(header).ok().filter(|len| *len <= payload.len()).ok_or_else(cut)?;
    let (mut kinds, mut body) = payload.split_at(header);
    (_, kinds) = varint(kinds).ok_or_else(cut)?;
    let mut values = Vec::new();
    while !kinds.is_empty() {
        let kind;
        (kind, kinds) = varint(kinds).ok_or_else(cut)?;
        let len = match kind {
            0 | 8 | 9 => 0,
            1..=4 => kind,
            5 => 6,
            6 | 7 => 8,
            10 | 11 => return Err(cut()),
            _ => (kind - 12) / 2,
        };
        let len = usize::try_from(len).ok().filter(|len| *len <= body.len()).ok_or_else(cut)?;
        let (bytes, rest) = body.split_at(len);
        body = rest;
        values.push(match kind {
            0 | 7 => Value::Null,
            8 => Value::Integer(0),
            9 => Value::Integer(1),
            1..=6 => Value::Integer(signed(bytes)),
            _ => Value::Bytes(bytes.to_vec()),
        });
    }
    Ok(values)
}

/// Returns the names of the columns in a CREATE TABLE statement: the first word of each definition.
fn column_names(statement: &str) -> Vec<String> {
    let columns = statement.split_once('(').map_or("", |(_, columns)| columns);
    let word = |column: &str| {
        column.split_whitespace().next().unwrap_or_default().trim_matches(['"', '`', '[', ']']).to_owned()
    };
    columns.split(',').map(word).collect()
}

/// Parses a variable-length number of SQLite: seven bits per byte, eight in the ninth.
fn varint(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let mut number = 0_u64;
    for n in 0..9 {
        let byte = *bytes.get(n)?;
        if n == 8 {
            return Some((number << 8 | u64::from(byte), &bytes[9..]));
        }
        number = number << 7 | u64::from(byte & 0x7f);
        if byte & 0x80 == 0 {
            return Some((number, &bytes[n + 1..]));
        }
    }
    None
}

/// Parses an unsigned number of at most four bytes.
fn big(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |number, byte| number << 8 | u32::from(*byte))
}

fn signed(bytes: &[u8]) -> i64 {
    let negative = bytes.first().is_some_and(|byte| byte & 0x80 != 0);
    bytes.iter().fold(if negative { -1 } else { 0 }, |number, byte| number << 8 | i64::from(*byte))
}

/// Continues the two checksums of a log over pairs of numbers.
fn checksum((mut a, mut b): (u32, u32), bytes: &[u8], big_endian: bool) -> (u32, u32) {
    let word = |bytes: &[u8]| if big_endian { big(bytes) } else { big(bytes).swap_bytes() };
    for pair in bytes.chunks_exact(8) {
        a = a.wrapping_add(word(&pair[..4])).wrapping_add(b);
        b = b.wrapping_add(word(&pair[4..])).wrapping_add(a);
    }
    (a, b)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_varints_and_signed_integers() {
        for (bytes, want) in [(&[0x7f][..], 127), (&[0x81, 0x00], 128), (&[0xff; 9], u64::MAX)] {
            assert_eq!(varint(bytes).map(|(number, rest)| (number, rest.len())), Some((want, 0)));
        }
        assert_eq!(varint(&[0x81]), None);
        assert_eq!([signed(&[0xff]), signed(&[0x01, 0x00]), signed(&[0x80, 0, 0])], [-1, 256, -8_388_608]);
    }

    #[test]
    fn reads_column_names_of_create_table() {
        let statement = "CREATE TABLE kine\n(\n id INTEGER PRIMARY KEY AUTOINCREMENT,\n name TEXT, \"value\" BLOB\n)";
        assert_eq!(column_names(statement), ["id", "name", "value"]);
    }
}
