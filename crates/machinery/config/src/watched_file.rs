//! A file that is reloaded when it changes.

use std::io;
use std::path::PathBuf;
use std::time::{Duration, SystemTime};

use crate::{load, read};

/// The interval between two checks of the file's modification time and size.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// After this many checks, the file is read even if both are unchanged.
const MAX_SKIPPED_READS: u32 = 60;

/// A watched file and its last accepted contents.
pub struct WatchedFile {
    path: PathBuf,
    accepted: Vec<u8>,
    last_metadata: Option<(SystemTime, u64)>,
    skipped_reads: u32,
}

impl WatchedFile {
    /// Watches a file; `contents` is what the first read returned.
    pub fn new(path: PathBuf, contents: Vec<u8>) -> Self {
        Self { path, accepted: contents, last_metadata: None, skipped_reads: MAX_SKIPPED_READS }
    }

    /// Returns the last accepted contents: those of the first read, or of [`settle`](Self::settle).
    pub fn contents(&self) -> &[u8] {
        &self.accepted
    }

    /// Waits until the file's contents differ from the accepted ones. Unless they are accepted, or the file changes
    /// again, the same contents are returned again a minute later; an error is, too.
    pub async fn changed(&mut self) -> io::Result<Vec<u8>> {
        loop {
            tokio::time::sleep(CHECK_INTERVAL).await;
            self.skipped_reads += 1;
            let found = tokio::fs::metadata(&self.path).await.ok();
            let metadata = found.and_then(|found| Some((found.modified().ok()?, found.len())));
            if metadata == self.last_metadata && self.skipped_reads < MAX_SKIPPED_READS {
                continue;
            }
            (self.last_metadata, self.skipped_reads) = (metadata, 0);
            let path = self.path.clone();
            let data = load(move || read(&path)).await??;
            if data != self.accepted {
                return Ok(data);
            }
        }
    }

    /// Accepts contents, valid or not, so that they are not returned again.
    pub fn accept(&mut self, data: Vec<u8>) {
        self.accepted = data;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn returns_changed_contents_until_accepted() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "one").unwrap();
        let mut file = WatchedFile::new(path.clone(), b"one".to_vec());
        std::fs::write(&path, "three").unwrap();
        assert_eq!(file.changed().await.unwrap(), b"three");
        // Contents that were not accepted are returned again.
        assert_eq!(file.changed().await.unwrap(), b"three");
        file.accept(b"three".to_vec());
        std::fs::remove_file(&path).unwrap();
        assert_eq!(file.changed().await.unwrap_err().kind(), io::ErrorKind::NotFound);
        std::fs::write(&path, "three").unwrap();
        let again = tokio::time::timeout(Duration::from_secs(200), file.changed()).await;
        assert!(again.is_err(), "{again:?}");
        std::fs::write(&path, "fours").unwrap();
        assert_eq!(file.changed().await.unwrap(), b"fours");
        std::fs::File::options().write(true).open(&path).unwrap().set_len(1 << 40).unwrap();
        assert_eq!(file.changed().await.unwrap_err().kind(), io::ErrorKind::FileTooLarge);
    }
}
