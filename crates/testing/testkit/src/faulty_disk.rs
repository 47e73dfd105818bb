//! A disk for any program, whose flushes a test can delay and whose calls it can make fail.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::Errno;

use crate::TempDir;
use crate::program::with_environment_of;
use crate::seccomp;

/// Programs on it wait at every flush. Needs `python3` and a Linux on which one process can trace another one's calls.
pub struct FaultyDisk {
    temp: TempDir,
    /// The calls that may fail, besides flushes.
    calls: &'static str,
}

/// A call that can be made to fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DiskCall {
    /// `fdatasync`.
    Flush,
    /// `pwrite64` and `pwritev`.
    Write,
    /// `fallocate` and `ftruncate`.
    Allocate,
    /// `openat`.
    Open,
}

const SCRIPT: &str = include_str!("faulty_disk.py");

impl FaultyDisk {
    /// Returns true if programs can be run on such a disk. Otherwise prints a message: the test does without.
    #[must_use]
    pub fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        seccomp::available(&AVAILABLE, SCRIPT, &["/dev/null", ""], "no faulty disk")
    }

    /// As fast as the real disk; only flushes can be delayed and fail. Other calls have no overhead.
    #[must_use]
    pub fn slow() -> Self {
        Self { temp: TempDir::new(), calls: "" }
    }

    /// As fast as the real disk; every [`DiskCall`] can fail.
    #[must_use]
    pub fn failing() -> Self {
        Self { temp: TempDir::new(), calls: "pwrite64,pwritev,ftruncate,fallocate,openat" }
    }

    /// Delays every flush from now on, to the millisecond.
    pub fn delay(&self, delay: Duration) {
        self.write("delay", u64::try_from(delay.as_millis()).unwrap());
    }

    /// Makes every such call fail, until [mended](Self::mend).
    pub fn fail(&self, call: DiskCall, error: Errno) {
        for name in call.names() {
            self.write(&format!("fail/{name}"), u64::from(error.raw_os_error().unsigned_abs()));
        }
    }

    /// Makes only the next flush fail.
    pub fn fail_one_flush(&self, error: Errno) {
        self.write("once/fdatasync", u64::from(error.raw_os_error().unsigned_abs()));
    }

    /// Ends all faults.
    pub fn mend(&self) {
        for place in ["fail", "once"] {
            let _ = std::fs::remove_dir_all(self.temp.path().join(place));
        }
    }

    fn write(&self, name: &str, number: u64) {
        // Readers see either the old or the new number.
        let new = self.temp.file("new", &number.to_string());
        let place = self.temp.path().join(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::rename(new, place).unwrap();
    }

    /// Returns the command with this disk; to the system it is the same process.
    #[must_use]
    pub(crate) fn under(&self, command: &Command) -> Command {
        let mut slowed = seccomp::command(SCRIPT);
        let directory = self.temp.path().to_str().unwrap();
        slowed.args([directory, self.calls]).arg(command.get_program()).args(command.get_args());
        let mut slowed = with_environment_of(slowed, command);
        slowed.stdin(Stdio::null());
        slowed
    }
}

impl DiskCall {
    fn names(self) -> &'static [&'static str] {
        match self {
            Self::Flush => &["fdatasync"],
            Self::Write => &["pwrite64", "pwritev"],
            Self::Allocate => &["fallocate", "ftruncate"],
            Self::Open => &["openat"],
        }
    }
}
