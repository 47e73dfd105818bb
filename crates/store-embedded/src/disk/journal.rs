//! What a power cut can leave at the end of `fjall`'s journal, and what it cannot.
//!
//! A batch that was being written when the power went may be on disk in part, in any order of its pages. Nobody was told
//! that it is durable, so it is cut off. `fjall` does that only where the batch ends early; where its inside has holes it
//! refuses to open. The other way round, it takes a hole in the middle of the journal for its end and forgets everything
//! behind it. As every batch is synced before the next one is begun, the two can be told apart: a whole batch behind a
//! broken one proves that the broken one had been acknowledged.

use std::fs::{self, File, OpenOptions};
use std::io::{self, BufReader, Read};
use std::path::{Path, PathBuf};

use xxhash_rust::xxh3::Xxh3;

const START: u8 = 1;
const ITEM: u8 = 2;
const END: u8 = 3;
const TRAILER: &[u8; 4] = b"FJL\x03";
/// After its tag: type, compression, keyspace, length of the key, length of the value, the same as stored.
const ITEM_HEADER: usize = 20;

/// Cuts an unfinished batch off the end of the newest journal in `dir`; fails when something else is broken.
pub(super) fn mend(dir: &Path) -> io::Result<()> {
    let Some(path) = newest(dir)? else { return Ok(()) };
    let file = OpenOptions::new().read(true).write(true).open(&path)?;
    let mut reader = BufReader::with_capacity(256 << 10, &file);
    let whole = whole_batches(&mut reader)?;
    let rest = read_from(&file, whole.end)?;
    if rest.is_empty() {
        return Ok(());
    }
    if let Some(at) = batch_within(&rest, whole.seqno) {
        let (bad, good) = (whole.end, whole.end + at as u64);
        return Err(io::Error::new(
            io::ErrorKind::InvalidData,
            format!("the journal {} is damaged at byte {bad} and goes on at byte {good}", path.display()),
        ));
    }
    tracing::warn!(journal = %path.display(), at = whole.end, "cut off a write that was never finished");
    file.set_len(whole.end)?;
    file.sync_all()
}

struct Whole {
    /// Where the last whole batch ends.
    end: u64,
    seqno: Option<u64>,
}

fn newest(dir: &Path) -> io::Result<Option<PathBuf>> {
    let entries = match fs::read_dir(dir) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        entries => entries?,
    };
    let mut newest: Option<(u64, PathBuf)> = None;
    for entry in entries {
        let path = entry?.path();
        let id = path.extension().filter(|ext| *ext == "jnl").and(path.file_stem()).and_then(|stem| stem.to_str());
        if let Some(id) = id.and_then(|id| id.parse().ok())
            && newest.as_ref().is_none_or(|(newest, _)| id > *newest)
        {
            newest = Some((id, path));
        }
    }
    Ok(newest.map(|(_, path)| path))
}

fn whole_batches(reader: &mut impl Read) -> io::Result<Whole> {
    let mut whole = Whole { end: 0, seqno: None };
    loop {
        match read_batch(reader) {
            Ok(batch) => whole = Whole { end: whole.end + batch.len, seqno: Some(batch.seqno) },
            Err(error) if matches!(error.kind(), io::ErrorKind::UnexpectedEof | io::ErrorKind::InvalidData) => {
                return Ok(whole);
            }
            Err(error) => return Err(error),
        }
    }
}

/// The bytes from a place on, without the zeros at the end. The file has a fixed size and is mostly a hole, which the file
/// system can tell without it being read.
fn read_from(mut file: &File, at: u64) -> io::Result<Vec<u8>> {
    const CHUNK: usize = 64 << 10;
    let zeros = [0; CHUNK];
    let (mut bytes, mut chunk) = (Vec::new(), vec![0; CHUNK]);
    let mut next = at;
    loop {
        next = match rustix::fs::seek(file, rustix::fs::SeekFrom::Data(next)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => return Ok(bytes),
            Err(error) => return Err(error.into()),
        };
        let read = file.read(&mut chunk)?;
        if read == 0 {
            return Ok(bytes);
        }
        if chunk[..read] != zeros[..read] {
            bytes.resize((next - at) as usize, 0);
            bytes.extend_from_slice(&chunk[..read]);
        }
        next += read as u64;
    }
}

/// Where a whole batch that is newer than `seqno` begins.
fn batch_within(bytes: &[u8], seqno: Option<u64>) -> Option<usize> {
    let starts = (1..bytes.len()).filter(|&at| bytes[at] == START);
    starts.into_iter().find(|&at| read_batch(&mut &bytes[at..]).is_ok_and(|batch| Some(batch.seqno) > seqno))
}

struct Batch {
    len: u64,
    seqno: u64,
}

fn read_batch(reader: &mut impl Read) -> io::Result<Batch> {
    let broken = || io::Error::from(io::ErrorKind::InvalidData);
    let mut start = [0; 13];
    read_tag(reader, START)?;
    reader.read_exact(&mut start[1..])?;
    let count = u32::from_le_bytes([start[1], start[2], start[3], start[4]]);
    let seqno = u64::from_le_bytes(start[5..].try_into().map_err(|_| broken())?);
    let mut hasher = Xxh3::new();
    let mut len = start.len() as u64;
    let mut buf = Vec::new();
    for _ in 0..count {
        read_tag(reader, ITEM)?;
        let mut header = [0; ITEM_HEADER];
        reader.read_exact(&mut header)?;
        if header[1] != 0 {
            // Compressed: this program does not write such.
            return Err(broken());
        }
        let key = u64::from(u16::from_le_bytes([header[10], header[11]]));
        let value = u64::from(u32::from_le_bytes([header[16], header[17], header[18], header[19]]));
        hasher.update(&[ITEM]);
        hasher.update(&header);
        buf.clear();
        // Grows as bytes arrive, so that a length that is nonsense costs nothing.
        if reader.take(key + value).read_to_end(&mut buf)? as u64 != key + value {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        hasher.update(&buf);
        len += 1 + ITEM_HEADER as u64 + key + value;
    }
    read_tag(reader, END)?;
    let mut end = [0; 12];
    reader.read_exact(&mut end)?;
    if end[..8] != hasher.digest().to_le_bytes() || end[8..] != TRAILER[..] {
        return Err(broken());
    }
    Ok(Batch { len: len + 13, seqno })
}

fn read_tag(reader: &mut impl Read, tag: u8) -> io::Result<()> {
    let mut found = [0];
    reader.read_exact(&mut found)?;
    if found == [tag] { Ok(()) } else { Err(io::ErrorKind::InvalidData.into()) }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::disk::{Batch, Disk, FjallDisk};
    use crate::lock::DirLock;
    use crate::options::Options;

    const RECORD: usize = 3000;

    fn open(dir: &Path) -> io::Result<FjallDisk> {
        FjallDisk::open(dir, &Options::new(dir), DirLock::acquire(dir).expect("the lock is free"))
    }

    fn commit(disk: &FjallDisk, revisions: std::ops::Range<u64>) {
        let record = |revision: u64| (revision, Bytes::from(vec![revision as u8; RECORD]));
        disk.commit(&Batch { records: revisions.map(record).collect(), meta: Vec::new() }).expect("a commit");
    }

    fn last_revision(disk: &FjallDisk) -> u64 {
        let mut last = 0;
        let mut visit = |revision, _| {
            last = revision;
            std::ops::ControlFlow::Continue(())
        };
        disk.scan(0, u64::MAX, &mut visit).expect("a scan");
        last
    }

    /// A journal of three batches, with where each of them ends.
    fn journal() -> (tempfile::TempDir, PathBuf, Vec<usize>) {
        let dir = tempfile::tempdir().expect("a directory");
        let disk = open(dir.path()).expect("the disk opens");
        let path = newest(&dir.path().join("log")).expect("a folder").expect("a journal");
        let mut ends = Vec::new();
        for revisions in [2..5, 5..9, 9..15] {
            commit(&disk, revisions);
            let file = File::open(&path).expect("the journal");
            ends.push(whole_batches(&mut BufReader::new(file)).expect("whole").end as usize);
        }
        drop(disk);
        (dir, path, ends)
    }

    #[test]
    fn a_torn_end_is_cut_off_and_a_hole_in_the_middle_refused() {
        let (dir, path, ends) = journal();
        let whole = fs::read(&path).expect("the journal");
        let zeroed = |range: std::ops::Range<usize>| {
            let mut bytes = whole.clone();
            bytes[range].fill(0);
            bytes
        };
        let page = |n: usize| n * 4096;
        let (middle, last) = (ends[0], ends[1]);
        // What is on disk, and the last revision found, or none where it must be refused.
        let mut cases: Vec<(String, Vec<u8>, Option<u64>)> = vec![
            ("whole".to_owned(), whole.clone(), Some(14)),
            ("cut after two".to_owned(), whole[..last].to_vec(), Some(8)),
            ("hole in the middle batch".to_owned(), zeroed(middle + 500..middle + 1000), None),
            ("hole at the start of the middle batch".to_owned(), zeroed(middle..middle + 10), None),
            ("hole in the first batch".to_owned(), zeroed(100..200), None),
        ];
        for n in last / 4096 + 1..ends[2] / 4096 {
            cases.push((format!("last batch without page {n}"), zeroed(page(n)..page(n + 1)), Some(8)));
            cases.push((format!("last batch up to page {n}"), zeroed(page(n)..ends[2]), Some(8)));
            cases.push((format!("last batch from page {n}"), zeroed(last..page(n)), Some(8)));
            cases.push((format!("file cut at page {n}"), whole[..page(n)].to_vec(), Some(8)));
        }
        for (name, bytes, expected) in cases {
            fs::write(&path, bytes).expect("the journal is replaced");
            let opened = open(dir.path());
            match (opened, expected) {
                (Ok(disk), Some(revision)) => {
                    assert_eq!(last_revision(&disk), revision, "{name}");
                    if revision == 8 {
                        commit(&disk, 9..11);
                        drop(disk);
                        let again = open(dir.path()).unwrap_or_else(|error| panic!("{name}: {error}"));
                        assert_eq!(last_revision(&again), 10, "{name}");
                    }
                }
                (Err(error), None) => assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}"),
                (Ok(_), None) => panic!("{name}: it was believed"),
                (Err(error), Some(_)) => panic!("{name}: {error}"),
            }
        }
    }
}
