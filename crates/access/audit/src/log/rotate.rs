//! A log file that is rotated by size; backups are compressed, and removed by number and age.
//!
//! Backups are named as by lumberjack, the library of kube-apiserver, so that each server also removes the backups of
//! the other: `audit-2026-01-02T15-04-05.000.log` beside `audit.log`, in UTC, with `.gz` if compressed.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use binnacle_meta::MicroTime;
use flate2::Compression;
use flate2::write::GzEncoder;
use parking_lot::Mutex;

use crate::LogOptions;

const COMPRESSED: &str = ".gz";
const MEGABYTE: u64 = 1024 * 1024;

pub(super) struct RotatingFile {
    path: PathBuf,
    /// In bytes; `None` to never rotate the file.
    max_size: Option<u64>,
    /// `None` if it could not be opened; the next write tries again.
    file: Option<File>,
    size: u64,
    cleaner: Arc<BackupCleaner>,
}

/// Compresses and removes backups on its own thread.
struct BackupCleaner {
    path: PathBuf,
    max_backups: usize,
    max_age: Option<Duration>,
    compress: bool,
    /// Held by the thread that is running, so that there is only one.
    running: Mutex<()>,
}

impl RotatingFile {
    pub(super) fn open(options: &LogOptions) -> io::Result<Self> {
        let path = options.path.clone();
        if let Some(directory) = path.parent().filter(|directory| !directory.as_os_str().is_empty()) {
            fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        let file = open_for_append(&path)?;
        let size = file.metadata()?.len();
        let cleaner = Arc::new(BackupCleaner {
            path: path.clone(),
            max_backups: options.max_backups,
            max_age: (options.max_age_days > 0).then(|| Duration::from_secs(options.max_age_days * 24 * 3600)),
            compress: options.compress,
            running: Mutex::new(()),
        });
        let max_size = (options.max_size_mb > 0).then(|| options.max_size_mb * MEGABYTE);
        Ok(Self { path, max_size, file: Some(file), size, cleaner })
    }

    /// Appends a line, after rotating the file if the line does not fit. A partially written line is removed, so that
    /// the next one does not continue it.
    pub(super) fn write_line(&mut self, line: &[u8]) -> io::Result<()> {
        let length = line.len() as u64;
        if let Some(max) = self.max_size {
            if length > max {
                return Err(io::Error::other(format!("write length {length} exceeds maximum file size {max}")));
            }
            if self.size + length > max {
                self.rotate()?;
            }
        }
        let file = match &mut self.file {
            Some(file) => file,
            empty => {
                let file = open_for_append(&self.path)?;
                self.size = file.metadata()?.len();
                empty.insert(file)
            }
        };
        match file.write_all(line) {
            Ok(()) => {
                self.size += length;
                Ok(())
            }
            Err(error) => {
                // Fails for pipes and devices, which need no truncation.
                let _ = file.set_len(self.size);
                Err(error)
            }
        }
    }

    fn rotate(&mut self) -> io::Result<()> {
        self.file = None;
        let backup = backup_path(&self.path, SystemTime::now());
        match fs::rename(&self.path, &backup) {
            Ok(()) => {}
            // The file is already gone.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            Err(error) => return Err(io::Error::new(error.kind(), format!("can't rename log file: {error}"))),
        }
        self.file = Some(open_for_append(&self.path)?);
        self.size = 0;
        let cleaner = self.cleaner.clone();
        std::thread::Builder::new().name("audit-tidy".to_owned()).spawn(move || {
            if let Err(error) = cleaner.clean(SystemTime::now()) {
                tracing::error!("failed to remove old audit log files: {error}");
            }
        })?;
        Ok(())
    }
}

impl BackupCleaner {
    fn clean(&self, now: SystemTime) -> io::Result<()> {
        let _one = self.running.lock();
        let mut backups = self.backups()?;
        // Newest first; a backup and its compressed copy count once.
        backups.sort_by_key(|(time, _)| std::cmp::Reverse(*time));
        let oldest = self.max_age.and_then(|age| now.checked_sub(age));
        let (mut kept, mut counted) = (Vec::new(), Vec::new());
        for (time, path) in backups {
            let stem = path.to_string_lossy().trim_end_matches(COMPRESSED).to_owned();
            if !counted.contains(&stem) {
                counted.push(stem);
            }
            let too_many = self.max_backups > 0 && counted.len() > self.max_backups;
            let too_old = oldest.is_some_and(|oldest| time < oldest);
            if too_many || too_old {
                fs::remove_file(&path)?;
            } else {
                kept.push(path);
            }
        }
        if self.compress {
            for path in kept.iter().filter(|path| !path.to_string_lossy().ends_with(COMPRESSED)) {
                compress(path)?;
            }
        }
        Ok(())
    }

    /// Returns the backups, with the time in their names.
    fn backups(&self) -> io::Result<Vec<(SystemTime, PathBuf)>> {
        let (prefix, suffix) = affixes(&self.path);
        let mut found = Vec::new();
        for entry in fs::read_dir(directory(&self.path))? {
            let path = entry?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else { continue };
            let middle = name
                .strip_suffix(COMPRESSED)
                .unwrap_or(name)
                .strip_prefix(prefix.as_str())
                .and_then(|rest| rest.strip_suffix(suffix.as_str()));
            if let Some(time) = middle.and_then(parse_time) {
                found.push((time, path));
            }
        }
        Ok(found)
    }
}

fn open_for_append(path: &Path) -> io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
}

/// Returns the parts of a backup's name before and after the time.
fn affixes(path: &Path) -> (String, String) {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let extension = path.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    (format!("{stem}-"), extension.unwrap_or_default())
}

fn backup_path(path: &Path, now: SystemTime) -> PathBuf {
    let (prefix, suffix) = affixes(path);
    let time = format_time(now);
    directory(path).join(format!("{prefix}{time}{suffix}"))
}

fn directory(path: &Path) -> &Path {
    path.parent().filter(|directory| !directory.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Formats a time as `2026-01-02T15-04-05.000`: without colons, which some file systems do not allow.
fn format_time(time: SystemTime) -> String {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let text = MicroTime::from_unix(since.as_secs() as i64, since.subsec_nanos()).to_string();
    text.trim_end_matches('Z').get(..23).unwrap_or_default().replace(':', "-")
}

fn parse_time(text: &str) -> Option<SystemTime> {
    let (date, clock) = text.split_once('T').filter(|_| text.len() == 23)?;
    let time = MicroTime::parse(&format!("{date}T{}000Z", clock.replace('-', ":"))).ok()?;
    UNIX_EPOCH.checked_add(Duration::new(u64::try_from(time.unix_seconds()).ok()?, time.nanos()))
}

/// Replaces a file with a compressed copy, which gets its final name only when it is complete.
fn compress(path: &Path) -> io::Result<()> {
    let mut name = path.as_os_str().to_owned();
    name.push(COMPRESSED);
    let target = PathBuf::from(name);
    let mut partial = target.as_os_str().to_owned();
    partial.push(".partial");
    let partial = PathBuf::from(partial);
    let mut source = File::open(path)?;
    let out = OpenOptions::new().create(true).write(true).truncate(true).mode(0o600).open(&partial)?;
    let mut encoder = GzEncoder::new(out, Compression::default());
    let mut buffer = vec![0; 64 * 1024];
    loop {
        let read = source.read(&mut buffer)?;
        if read == 0 {
            break;
        }
        encoder.write_all(&buffer[..read])?;
    }
    encoder.finish()?.sync_all()?;
    fs::rename(&partial, &target)?;
    fs::remove_file(path)
}

#[cfg(test)]
mod tests {
    use std::time::UNIX_EPOCH;

    use flate2::read::GzDecoder;

    use super::*;
    use crate::options::tests::log_options;

    fn names(directory: &Path) -> Vec<String> {
        let mut names: Vec<String> =
            fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }

    #[test]
    fn rotates_a_file_that_would_exceed_its_maximum_size() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let options = LogOptions { max_size_mb: 1, max_backups: 0, ..log_options(&path) };
        let mut log = RotatingFile::open(&options).unwrap();
        let line = vec![b'x'; 400 * 1024];
        for _ in 0..3 {
            log.write_line(&line).unwrap();
        }
        let names = names(directory.path());
        assert_eq!(names.len(), 2, "{names:?}");
        assert!(names[0].starts_with("audit-20") && names[0].ends_with(".log"), "{names:?}");
        assert_eq!(fs::metadata(&path).unwrap().len(), line.len() as u64);
        let error = log.write_line(&vec![b'x'; 2 << 20]).unwrap_err();
        assert_eq!(error.to_string(), "write length 2097152 exceeds maximum file size 1048576");
        // A restarted server appends to the file.
        let mut again = RotatingFile::open(&options).unwrap();
        again.write_line(b"y").unwrap();
        assert_eq!(fs::metadata(&path).unwrap().len(), line.len() as u64 + 1);
    }

    #[test]
    fn removes_backups_by_number_and_age_and_compresses_the_rest() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("audit.log");
        let time = |day: u64| UNIX_EPOCH + Duration::from_secs((20_000 + day) * 24 * 3600);
        for day in 0..5 {
            fs::write(backup_path(&path, time(day)), format!("day {day}")).unwrap();
        }
        fs::write(directory.path().join("audit-other.log"), "kept").unwrap();
        let cleaner = |max_backups, max_age_days: u64, compress| BackupCleaner {
            path: path.clone(),
            max_backups,
            max_age: (max_age_days > 0).then(|| Duration::from_secs(max_age_days * 24 * 3600)),
            compress,
            running: Mutex::new(()),
        };
        let now = time(5);
        cleaner(0, 0, false).clean(now).unwrap();
        assert_eq!(names(directory.path()).len(), 6);
        cleaner(4, 0, false).clean(now).unwrap();
        assert_eq!(names(directory.path()).len(), 5);
        cleaner(0, 3, true).clean(now).unwrap();
        let left = names(directory.path());
        let dates = ["2024-10-06", "2024-10-07", "2024-10-08"];
        let want: Vec<String> = dates.iter().map(|date| format!("audit-{date}T00-00-00.000.log.gz")).collect();
        assert_eq!(left[..3], want[..], "{left:?}");
        let mut text = String::new();
        GzDecoder::new(File::open(directory.path().join(&left[2])).unwrap()).read_to_string(&mut text).unwrap();
        assert_eq!(text, "day 4");
        cleaner(1, 0, true).clean(now).unwrap();
        assert_eq!(names(directory.path()), [&left[2], "audit-other.log"]);
    }
}
