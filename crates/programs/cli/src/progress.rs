//! Progress of long work: a bar on a terminal, an occasional line elsewhere. Work that is soon done shows neither.

use std::io::{IsTerminal, Write};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// Reports progress on standard error.
pub struct Progress {
    terminal: bool,
    /// Takes the lines that are not written to a terminal.
    line: fn(&str),
    begun: Instant,
    told: Option<Instant>,
    /// True if the current line has a bar.
    open: bool,
}

/// The unit of a count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Items,
    Bytes,
}

/// Takes a count and its end, from any thread.
pub type Report = Arc<dyn Fn(u64, u64) + Send + Sync>;

const WIDTH: usize = 30;
const TERMINAL_PAUSE: Duration = Duration::from_millis(100);
const LINE_PAUSE: Duration = Duration::from_secs(5);

// === impl Progress ===

impl Progress {
    /// Returns one whose lines go to standard error.
    #[allow(clippy::new_without_default, reason = "a start of work is no default")]
    pub fn new() -> Self {
        Self::with_lines(|line| eprintln!("{line}"))
    }

    /// Returns one whose lines are for a log.
    pub fn with_lines(line: fn(&str)) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { terminal, line, begun: Instant::now(), told: None, open: false }
    }

    /// Returns a function that reports bytes of `what`. Its first call begins the work.
    pub fn report(self, what: &'static str) -> Report {
        let progress = Mutex::new((self, false));
        Arc::new(move |done, all| {
            // A panic of another reporter leaves nothing half done that matters.
            let mut locked = progress.lock().unwrap_or_else(PoisonError::into_inner);
            let (progress, has_begun) = &mut *locked;
            if !std::mem::replace(has_begun, true) {
                progress.begin();
            }
            progress.step(Unit::Bytes, what, done, all);
        })
    }

    /// Prints a message.
    pub fn say(&mut self, text: &str) {
        self.close();
        (self.line)(text);
    }

    /// Resets the counters.
    pub fn begin(&mut self) {
        self.close();
        (self.begun, self.told) = (Instant::now(), None);
    }

    /// Reports `done` of `all`, if it is due.
    pub fn step(&mut self, unit: Unit, what: &str, done: u64, all: u64) {
        if self.due() || (done == all && self.open) {
            self.tell(&line(unit, what, done, all, self.begun.elapsed(), self.terminal));
        }
        if done == all {
            self.close();
        }
    }

    /// Reports the state of work without a known end.
    pub fn state(&mut self, text: impl FnOnce() -> String) {
        if self.due() {
            self.tell(&text());
        }
    }

    fn due(&mut self) -> bool {
        let pause = if self.terminal { TERMINAL_PAUSE } else { LINE_PAUSE };
        let due = self.told.unwrap_or(self.begun).elapsed() >= pause;
        if due {
            self.told = Some(Instant::now());
        }
        due
    }

    fn tell(&mut self, text: &str) {
        if self.terminal {
            let mut out = std::io::stderr().lock();
            // Back to the start of the line, which is cleared.
            let _ = write!(out, "\r\x1b[K{text}").and_then(|()| out.flush());
            self.open = true;
        } else {
            (self.line)(text);
        }
    }

    fn close(&mut self) {
        if std::mem::take(&mut self.open) {
            eprintln!();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.close();
    }
}

fn line(unit: Unit, what: &str, done: u64, all: u64, took: Duration, bar: bool) -> String {
    let share = if all == 0 { 1.0 } else { (done as f64 / all as f64).min(1.0) };
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    let rest = match done {
        0 => String::new(),
        _ => format!(", {} s left", (all.saturating_sub(done) as f64 / rate).ceil()),
    };
    let count = |count: u64| match unit {
        Unit::Items => count.to_string(),
        Unit::Bytes => bytes(count),
    };
    // Whole numbers are exact enough for a rate.
    let (done, all, rate) = (count(done), count(all), count(rate.round() as u64));
    let text = format!("{what}: {done} of {all} ({:.0} %), {rate}/s{rest}", share * 100.0);
    if !bar {
        return text;
    }
    let full = (share * WIDTH as f64).round() as usize;
    format!("[{}{}] {text}", "#".repeat(full), "-".repeat(WIDTH - full))
}

/// Formats a size with three digits.
pub fn bytes(size: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut scaled = size as f64;
    let mut unit = 0;
    while scaled >= 1000.0 && unit + 1 < UNITS.len() {
        scaled /= 1024.0;
        unit += 1;
    }
    match unit {
        0 => format!("{size} B"),
        _ if scaled < 10.0 => format!("{scaled:.2} {}", UNITS[unit]),
        _ if scaled < 100.0 => format!("{scaled:.1} {}", UNITS[unit]),
        _ => format!("{scaled:.0} {}", UNITS[unit]),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let took = Duration::from_secs(2);
        let items = |done, all, bar| line(Unit::Items, "copying", done, all, took, bar);
        assert_eq!(items(50, 200, false), "copying: 50 of 200 (25 %), 25/s, 6 s left");
        assert_eq!(items(0, 0, false), "copying: 0 of 0 (100 %), 0/s");
        assert_eq!(
            items(200, 200, true),
            "[##############################] copying: 200 of 200 (100 %), 100/s, 0 s left"
        );
        assert_eq!(
            line(Unit::Bytes, "reading", 50 << 20, 200 << 20, took, false),
            "reading: 50.0 MiB of 200 MiB (25 %), 25.0 MiB/s, 6 s left"
        );
    }

    #[test]
    fn sizes() {
        for (size, want) in [
            (0, "0 B"),
            (999, "999 B"),
            (1000, "0.98 KiB"),
            (10 << 10, "10.0 KiB"),
            (300 << 10, "300 KiB"),
            (5 << 20, "5.00 MiB"),
            (u64::MAX, "16777216 TiB"),
        ] {
            assert_eq!(bytes(size), want);
        }
    }
}
