//! Temporary files that only their owner can read, and that leave nothing behind.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::StartError;

/// A file that is removed on drop.
pub(crate) struct TemporaryFile(PathBuf);

/// The log of a process. Its file has no name, so that nothing remains of it, however this process ends.
pub(crate) struct Log(File);

impl TemporaryFile {
    pub(crate) fn with(text: &str) -> Result<Self, StartError> {
        let (path, mut file) = create()?;
        let temporary = Self(path);
        file.write_all(text.as_bytes()).map_err(|error| StartError::File { path: temporary.0.clone(), error })?;
        Ok(temporary)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for TemporaryFile {
    fn drop(&mut self) {
        // A file that cannot be removed is left to the cleanup of the temporary directory.
        let _ = fs::remove_file(&self.0);
    }
}

impl Log {
    pub(crate) fn new() -> Result<Self, StartError> {
        let (path, file) = create()?;
        drop(TemporaryFile(path));
        Ok(Self(file))
    }

    /// Returns a handle for the process that writes the log.
    pub(crate) fn writer(&self) -> io::Result<File> {
        self.0.try_clone()
    }

    /// Returns the text so far.
    pub(crate) fn text(&self) -> String {
        let mut bytes = vec![0; self.0.metadata().map_or(0, |file| usize::try_from(file.len()).unwrap_or_default())];
        // Not by reading on: the process writes at the position that both share. What is there already stays.
        match self.0.read_exact_at(&mut bytes, 0) {
            Ok(()) => String::from_utf8_lossy(&bytes).into_owned(),
            Err(error) => format!("the log cannot be read: {error}"),
        }
    }
}

/// Creates a file with an unpredictable name.
fn create() -> Result<(PathBuf, File), StartError> {
    let path = std::env::temp_dir().join(format!("binnacle-testing-{}", random()?));
    let file = OpenOptions::new().read(true).write(true).create_new(true).mode(0o600).open(&path);
    match file {
        Ok(file) => Ok((path, file)),
        Err(error) => Err(StartError::File { path, error }),
    }
}

/// Returns 128 unpredictable bits in hexadecimal digits.
pub(crate) fn random() -> Result<String, StartError> {
    const SOURCE: &str = "/dev/urandom";
    let mut bytes = [0; 16];
    File::open(SOURCE)
        .and_then(|mut file| file.read_exact(&mut bytes))
        .map_err(|error| StartError::File { path: SOURCE.into(), error })?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}
