//! A disk whose flushes take as long as a test says, for any program.

use std::process::{Command, Stdio};
use std::sync::OnceLock;
use std::time::Duration;

use crate::TempDir;

/// Programs that run on it wait at every flush. Needs `python3` and a Linux that lets one process watch another's calls.
pub struct SlowDisk {
    temp: TempDir,
}

const SCRIPT: &str = include_str!("slow_disk.py");
const DELAY: &str = "delay";

impl SlowDisk {
    /// Whether programs can be run so here. Says so when not: the test does without.
    #[must_use]
    pub fn available() -> bool {
        static AVAILABLE: OnceLock<bool> = OnceLock::new();
        *AVAILABLE.get_or_init(|| {
            let mut probe = Command::new("python3");
            probe.args(["-c", SCRIPT, "/dev/null", "true"]).stdin(Stdio::null()).stderr(Stdio::null());
            let available = probe.status().is_ok_and(|status| status.success());
            if !available {
                eprintln!("no slow disk: python3 or seccomp's user notification is missing");
            }
            available
        })
    }

    /// As fast as the real one.
    #[must_use]
    #[expect(clippy::new_without_default, reason = "making one touches the disk")]
    pub fn new() -> Self {
        let disk = Self { temp: TempDir::new() };
        disk.delay(Duration::ZERO);
        disk
    }

    /// From now on every flush takes so much longer, to the millisecond.
    pub fn delay(&self, delay: Duration) {
        // Readers see the old number or the new one.
        let new = self.temp.file("new", &delay.as_millis().to_string());
        std::fs::rename(new, self.temp.path().join(DELAY)).unwrap();
    }

    /// The command with this disk under it; to the system it is the same process.
    #[must_use]
    pub(crate) fn under(&self, command: &Command) -> Command {
        let mut slowed = Command::new("python3");
        slowed.args(["-c", SCRIPT, &self.temp.join(DELAY)]).arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => slowed.env(name, value),
                None => slowed.env_remove(name),
            };
        }
        slowed.stdin(Stdio::null());
        slowed
    }
}
