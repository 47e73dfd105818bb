//! A wall clock that a test can shift for a running program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use binnacle_test_requirements::Ability;

use crate::TempDir;
use crate::program::with_environment_of;

/// The wall clock of programs that are run with it, some seconds off the real one. The monotonic clock (timeouts,
/// leases) is unaffected. Needs Debian's `libfaketime`.
pub struct ShiftedClock {
    temp: TempDir,
    library: &'static Path,
}

impl ShiftedClock {
    /// Returns an unshifted clock; `None`, with a message, if the library is missing.
    #[must_use]
    pub fn available() -> Option<Self> {
        static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| {
            let found = libraries().find(|path| path.exists());
            if found.is_none() {
                Ability::Faketime.is_missing("no shifted clock: there is no libfaketime");
            }
            found
        });
        let clock = Self { temp: TempDir::new(), library: library.as_deref()? };
        clock.shift(0);
        Some(clock)
    }

    /// Sets the difference to the real clock, negative for behind.
    pub fn shift(&self, seconds: i64) {
        // Readers see either the old or the new line.
        let new = self.temp.file("new", &format!("{seconds:+}s\n"));
        std::fs::rename(new, self.temp.path().join(SHIFT)).unwrap();
    }

    /// Returns the command with this clock; to the system it is the same process. Programs beside it must not have the
    /// clock, as the library makes related processes wait for each other.
    #[must_use]
    pub(crate) fn under(&self, command: &Command) -> Command {
        let mut shifted = Command::new("env");
        let place = self.temp.path().join(SHIFT);
        shifted
            .arg(format!("LD_PRELOAD={}", self.library.display()))
            .arg(format!("FAKETIME_TIMESTAMP_FILE={}", place.display()))
            // The file is read once a second.
            .args(["FAKETIME_CACHE_DURATION=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"])
            // The times of files are the real ones.
            .arg("NO_FAKE_STAT=1")
            .arg(command.get_program())
            .args(command.get_args());
        with_environment_of(shifted, command)
    }

    /// Removes the shared memory that the library made for a process with this clock that was killed.
    pub(crate) fn clean_up_after(&self, pid: u32) {
        for name in ["faketime_shm_", "sem.faketime_sem_"] {
            let _ = std::fs::remove_file(format!("/dev/shm/{name}{pid}"));
        }
    }
}

const SHIFT: &str = "shift";

fn libraries() -> impl Iterator<Item = PathBuf> {
    let systems = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    systems.map(|system| system.path().join("faketime/libfaketime.so.1"))
}
