//! Progress of long work: a bar on a terminal, an occasional line elsewhere.

use std::io::{IsTerminal, Write};
use std::time::{Duration, Instant};

/// Reports progress on standard error.
pub(crate) struct Progress {
    terminal: bool,
    begun: Instant,
    told: Option<Instant>,
    /// True if the current line has a bar.
    open: bool,
}

const WIDTH: usize = 30;
const TERMINAL_PAUSE: Duration = Duration::from_millis(100);
const LINE_PAUSE: Duration = Duration::from_secs(5);

// === impl Progress ===

impl Progress {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), begun: Instant::now(), told: None, open: false }
    }

    /// Prints a message.
    pub(crate) fn say(&mut self, text: &str) {
        self.close();
        eprintln!("{text}");
    }

    /// Resets the counters.
    pub(crate) fn begin(&mut self) {
        self.close();
        (self.begun, self.told) = (Instant::now(), None);
    }

    /// Reports `done` of `all`, if it is due.
    pub(crate) fn step(&mut self, what: &str, done: u64, all: u64) {
        if self.due() || (done == all && self.open) {
            self.tell(&line(what, done, all, self.begun.elapsed(), self.terminal));
        }
    }

    /// Reports the state of work without a known end.
    pub(crate) fn state(&mut self, text: impl FnOnce() -> String) {
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
            eprintln!("{text}");
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

fn line(what: &str, done: u64, all: u64, took: Duration, bar: bool) -> String {
    let share = if all == 0 { 1.0 } else { (done as f64 / all as f64).min(1.0) };
    let rate = done as f64 / took.as_secs_f64().max(0.001);
    let rest = match done {
        0 => String::new(),
        _ => format!(", {} s left", (all.saturating_sub(done) as f64 / rate).ceil()),
    };
    let text = format!("{what}: {done} of {all} ({:.0} %), {rate:.0}/s{rest}", share * 100.0);
    if !bar {
        return text;
    }
    let full = (share * WIDTH as f64).round() as usize;
    format!("[{}{}] {text}", "#".repeat(full), "-".repeat(WIDTH - full))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines() {
        let took = Duration::from_secs(2);
        assert_eq!(line("copying", 50, 200, took, false), "copying: 50 of 200 (25 %), 25/s, 6 s left");
        assert_eq!(line("copying", 0, 0, took, false), "copying: 0 of 0 (100 %), 0/s");
        assert_eq!(
            line("copying", 200, 200, took, true),
            "[##############################] copying: 200 of 200 (100 %), 100/s, 0 s left"
        );
    }
}
