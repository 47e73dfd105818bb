//! Files on a disk that cannot read all of them.

use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::files::{LogFile, ReadError};

/// A file in which bytes that cannot be read are replaced with zeros. No frame consists of zeros, so that the frames
/// behind them are found.
pub(crate) struct TolerantFile {
    name: String,
    file: Arc<dyn LogFile>,
    /// The reason for each block that cannot be read, by position.
    unreadable: Mutex<BTreeMap<u64, String>>,
}

/// The unit in which operating systems read files.
const BLOCK: u64 = 4096;

// === impl TolerantFile ===

impl TolerantFile {
    pub(crate) fn new(name: String, file: Arc<dyn LogFile>) -> Self {
        Self { name, file, unreadable: Mutex::default() }
    }

    /// Describes the blocks that could not be read, with adjacent ones together.
    pub(crate) fn problems(&self) -> Vec<String> {
        let unreadable = self.unreadable.lock();
        let mut runs: Vec<(u64, u64, &String)> = Vec::new();
        for (at, why) in &*unreadable {
            match runs.last_mut() {
                Some((_, end, known)) if end == at && *known == why => *end += BLOCK,
                _ => runs.push((*at, at + BLOCK, why)),
            }
        }
        let describe = |(at, end, why): (u64, u64, &String)| {
            format!("{}: the disk cannot read {} bytes from byte {at}: {why}", self.name, end - at)
        };
        runs.into_iter().map(describe).collect()
    }

    /// Reads a part of one block.
    fn read_block(&self, buf: &mut [u8], at: u64) -> usize {
        let block = at - at % BLOCK;
        if !self.unreadable.lock().contains_key(&block) {
            match self.file.read_at(buf, at) {
                Ok(read) => return read,
                Err(error) => {
                    self.unreadable.lock().insert(block, ReadError::reason(&error).to_string());
                }
            }
        }
        buf.fill(0);
        buf.len()
    }
}

impl LogFile for TolerantFile {
    fn read_at(&self, buf: &mut [u8], at: u64) -> io::Result<usize> {
        if let Ok(read) = self.file.read_at(buf, at) {
            return Ok(read);
        }
        let rest = usize::try_from(self.file.size()?.saturating_sub(at)).unwrap_or(usize::MAX);
        let len = buf.len().min(rest);
        let mut read = 0;
        while read < len {
            let from = at + read as u64;
            let until = len.min(read + (BLOCK - from % BLOCK) as usize);
            match self.read_block(&mut buf[read..until], from) {
                0 => break,
                some => read += some,
            }
        }
        Ok(read)
    }

    fn write_at(&self, _: &[u8], _: u64) -> io::Result<usize> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn sync_data(&self) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn allocate(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn set_len(&self, _: u64) -> io::Result<()> {
        Err(io::ErrorKind::ReadOnlyFilesystem.into())
    }

    fn size(&self) -> io::Result<u64> {
        self.file.size()
    }
}
