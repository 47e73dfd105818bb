//! A disk whose flushes take as long as a test says, and that fails when a test says so, for any program.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use rustix::io::Errno;

use crate::TempDir;
use crate::program::with_environment_of;
use crate::seccomp;

/// Programs that run on it wait at every flush. Needs `python3` and a Linux that lets one process watch another's calls.
pub struct FaultyDisk {
    temp: TempDir,
    /// The calls that may fail, flushes apart.
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
    /// True when programs can be run so here. Says so when not: the test does without.
    #[must_use]
    pub fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        seccomp::available(&AVAILABLE, SCRIPT, &["/dev/null", ""], "no faulty disk")
    }

    /// As fast as the real one; only flushes can be delayed and fail. Other calls cost what they always do.
    #[must_use]
    pub fn slow() -> Self {
        Self { temp: TempDir::new(), calls: "" }
    }

    /// As fast as the real one; every [`DiskCall`] can fail.
    #[must_use]
    pub fn failing() -> Self {
        Self { temp: TempDir::new(), calls: "pwrite64,pwritev,ftruncate,fallocate,openat" }
    }

    /// From now on every flush takes so much longer, to the millisecond.
    pub fn delay(&self, delay: Duration) {
        self.write("delay", u64::try_from(delay.as_millis()).unwrap());
    }

    /// From now on every such call fails, until it is [mended](Self::mend).
    pub fn fail(&self, call: DiskCall, error: Errno) {
        for name in call.names() {
            self.write(&format!("fail/{name}"), u64::from(error.raw_os_error().unsigned_abs()));
        }
    }

    /// The next flush fails, those after it do not.
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
        // Readers see the old number or the new one.
        let new = self.temp.file("new", &number.to_string());
        let place = self.temp.path().join(name);
        std::fs::create_dir_all(place.parent().unwrap()).unwrap();
        std::fs::rename(new, place).unwrap();
    }

    /// The command with this disk under it; to the system it is the same process.
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
