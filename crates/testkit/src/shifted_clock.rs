//! A wall clock that a test moves under a running program.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;

use crate::TempDir;
use crate::program::with_environment_of;

/// The clock of the programs run with it, some seconds off the real one. Time as it passes (timeouts, leases) stays what
/// it is. Needs Debian's `libfaketime`.
pub struct ShiftedClock {
    temp: TempDir,
    library: &'static Path,
}

impl ShiftedClock {
    /// As the real one; `None`, and says so, where the library is missing.
    #[must_use]
    pub fn available() -> Option<Self> {
        static LIBRARY: OnceLock<Option<PathBuf>> = OnceLock::new();
        let library = LIBRARY.get_or_init(|| {
            let found = libraries().find(|path| path.exists());
            if found.is_none() {
                eprintln!("no shifted clock: libfaketime is missing");
            }
            found
        });
        let clock = Self { temp: TempDir::new(), library: library.as_deref()? };
        clock.shift(0);
        Some(clock)
    }

    /// From now on the clock is so far ahead of the real one, or behind it.
    pub fn shift(&self, seconds: i64) {
        // Readers see the old line or the new one.
        let new = self.temp.file("new", &format!("{seconds:+}s\n"));
        std::fs::rename(new, self.temp.path().join(SHIFT)).unwrap();
    }

    /// The command with this clock; to the system it is the same process. Nothing that runs beside the program may have
    /// the clock: the library has the processes of a family wait for each other.
    #[must_use]
    pub(crate) fn under(&self, command: &Command) -> Command {
        let mut shifted = Command::new("env");
        let place = self.temp.path().join(SHIFT);
        shifted
            .arg(format!("LD_PRELOAD={}", self.library.display()))
            .arg(format!("FAKETIME_TIMESTAMP_FILE={}", place.display()))
            // The place is looked at once a second.
            .args(["FAKETIME_CACHE_DURATION=1", "FAKETIME_DONT_FAKE_MONOTONIC=1"])
            // Times of files are the real ones.
            .arg("NO_FAKE_STAT=1")
            .arg(command.get_program())
            .args(command.get_args());
        with_environment_of(shifted, command)
    }
}

const SHIFT: &str = "shift";

fn libraries() -> impl Iterator<Item = PathBuf> {
    let systems = std::fs::read_dir("/usr/lib").into_iter().flatten().flatten();
    systems.map(|system| system.path().join("faketime/libfaketime.so.1"))
}
