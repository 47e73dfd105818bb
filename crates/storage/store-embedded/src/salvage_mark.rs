//! The mark of a store that was salvaged from a damaged one.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

/// The file that marks a store salvaged from a damaged one. Its first line is a description; the rest lists the losses.
const MARK: &str = "salvaged";

const MAX_LINE: u64 = 4096;

/// Marks the store in `dir` durably as salvaged from a damaged one. Each start logs the first line of the text, and a
/// [check](crate::check) returns it, until the file is removed.
pub fn mark_salvaged(dir: &Path, text: &str) -> io::Result<()> {
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(dir.join(MARK))?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    File::open(dir)?.sync_all()
}

/// Returns the first line of the mark of a store that was salvaged from a damaged one.
pub(crate) fn mark(dir: &Path) -> io::Result<Option<String>> {
    let file = match File::open(dir.join(MARK)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        file => file?,
    };
    let mut bytes = Vec::new();
    file.take(MAX_LINE).read_to_end(&mut bytes)?;
    Ok(Some(String::from_utf8_lossy(&bytes).lines().next().unwrap_or_default().to_owned()))
}

/// Logs at the start of a server that its store was salvaged from a damaged one.
pub(crate) fn report_mark(dir: &Path) {
    let file = dir.join(MARK);
    let file = file.display();
    match mark(dir) {
        Ok(None) => {}
        Ok(Some(line)) => tracing::warn!(%file, "{line} The file has the details; remove it when they are dealt with"),
        Err(error) => tracing::warn!(%error, %file, "cannot read from which store this one was made"),
    }
}
