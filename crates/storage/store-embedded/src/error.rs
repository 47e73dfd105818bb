//! Errors of opening a store, and of its disk.

use std::io;
use std::path::PathBuf;

use binnacle_store::StoreError;

use crate::disk::Disk;

/// An error of opening a store. The failed attempt has changed nothing on disk that affects the next one.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// Another process (or another store of this one) has locked the directory.
    #[error("the data directory {dir} is in use by {}", holder(.pid))]
    Locked { dir: PathBuf, pid: Option<u32> },
    /// The data read differ from the data written. A start could return wrong objects, or miss some.
    #[error("the data in {dir} is damaged, refusing to start: {detail}; {ADVICE}")]
    Damaged { dir: PathBuf, detail: String },
    #[error("the data in {dir} has format {found}, this program knows format {known}{}", advice(.found))]
    Format { dir: PathBuf, found: u32, known: u32 },
    #[error("cannot use the data directory {dir}: {source}")]
    Io { dir: PathBuf, source: io::Error },
}

const ADVICE: &str =
    "'binnacle check' lists all of the damage, and 'binnacle salvage' makes a new store of what is whole";

fn holder(pid: &Option<u32>) -> String {
    match pid {
        Some(pid) => format!("the process with pid {pid}"),
        None => "another process".to_owned(),
    }
}

fn advice(found: &u32) -> &'static str {
    match found {
        1 => ": it was made before the first release, which nothing reads any more; move it away to begin anew",
        _ => "",
    }
}

pub(crate) fn no_space(disk: &dyn Disk) -> StoreError {
    let free = disk.free_bytes().map_or_else(String::new, |free| format!(": {} KiB are free", free >> 10));
    StoreError::NoSpace(format!("the file system of the store is full{free}"))
}

pub(crate) fn read_error(error: &io::Error) -> StoreError {
    match error.kind() {
        io::ErrorKind::InvalidData => StoreError::Damaged(error.to_string()),
        _ => StoreError::Io(error.to_string()),
    }
}
