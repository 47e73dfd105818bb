//! Progress of long work: a bar on a terminal, otherwise an occasional line. Short work shows neither.

use std::io::IsTerminal;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, ProgressBar, ProgressDrawTarget, ProgressStyle};

/// Reports progress on standard error.
pub struct Progress {
    bar: ProgressBar,
    /// Writes the lines, unless standard error is a terminal.
    line: fn(&str),
    is_terminal: bool,
    started_at: Instant,
    last_line: Option<Instant>,
    /// True once the bar was drawn.
    is_shown: bool,
}

/// The unit of a count.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Unit {
    Items,
    Bytes,
}

/// A callback with the current count and its end, for any thread.
pub type Report = Arc<dyn Fn(u64, u64) + Send + Sync>;

/// Shorter work shows no bar.
const QUIET: Duration = Duration::from_millis(100);
/// The time until the first line, and until each further one.
const FIRST_LINE: Duration = Duration::from_millis(500);
const LINE_INTERVAL: Duration = Duration::from_secs(5);

impl Progress {
    /// Returns a progress whose lines go to standard error.
    #[allow(clippy::new_without_default, reason = "a start of work is no default")]
    pub fn new() -> Self {
        Self::with_lines(|line| eprintln!("{line}"))
    }

    /// Returns a progress whose lines go to a log.
    pub fn with_lines(line: fn(&str)) -> Self {
        let bar = ProgressBar::with_draw_target(Some(0), ProgressDrawTarget::stderr());
        let is_terminal = std::io::stderr().is_terminal();
        Self { bar, line, is_terminal, started_at: Instant::now(), last_line: None, is_shown: false }
    }

    /// Returns a function that reports bytes of `task`. Its first call begins the work.
    pub fn report(self, task: &'static str) -> Report {
        let progress = Mutex::new((self, false));
        Arc::new(move |done, all| {
            // A panic of another reporter leaves no inconsistent state.
            let mut locked = progress.lock().unwrap_or_else(PoisonError::into_inner);
            let (progress, has_begun) = &mut *locked;
            if !std::mem::replace(has_begun, true) {
                progress.begin();
            }
            progress.step(Unit::Bytes, task, done, all);
        })
    }

    /// Prints a message.
    pub fn say(&mut self, text: &str) {
        let line = self.line;
        if self.is_shown { self.bar.suspend(|| line(text)) } else { line(text) }
    }

    /// Resets the counters.
    pub fn begin(&mut self) {
        if self.is_shown {
            self.bar.reset();
        }
        (self.started_at, self.last_line) = (Instant::now(), None);
    }

    /// Reports `done` of `all`.
    pub fn step(&mut self, unit: Unit, task: &str, done: u64, all: u64) {
        if !self.is_terminal {
            if self.is_line_due() {
                (self.line)(&line(unit, task, done, all, self.started_at.elapsed()));
            }
        } else if self.started_at.elapsed() >= QUIET {
            self.is_shown = true;
            self.bar.set_length(all);
            self.bar.set_position(done);
            self.bar.set_style(style(unit));
            self.bar.set_message(task.to_owned());
            if done == all {
                self.bar.finish();
            }
        }
    }

    /// Reports the state of work without a known end.
    pub fn state(&mut self, text: impl FnOnce() -> String) {
        if !self.is_terminal {
            if self.is_line_due() {
                (self.line)(&text());
            }
        } else if self.started_at.elapsed() >= QUIET {
            self.is_shown = true;
            self.bar.set_style(ProgressStyle::default_spinner());
            self.bar.set_message(text());
        }
    }

    fn is_line_due(&mut self) -> bool {
        let is_due = match self.last_line {
            Some(last) => last.elapsed() >= LINE_INTERVAL,
            None => self.started_at.elapsed() >= FIRST_LINE,
        };
        if is_due {
            self.last_line = Some(Instant::now());
        }
        is_due
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.is_shown && !self.bar.is_finished() {
            self.bar.abandon();
        }
    }
}

fn style(unit: Unit) -> ProgressStyle {
    let template = match unit {
        Unit::Items => "[{bar:30}] {msg}: {human_pos} of {human_len} ({percent} %), {per_sec}, {eta} left",
        Unit::Bytes => {
            "[{bar:30}] {msg}: {binary_bytes} of {binary_total_bytes} ({percent} %), {binary_bytes_per_sec}, {eta} left"
        }
    };
    // The templates are constant, and a test formats both.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar()).progress_chars("#>-")
}

fn line(unit: Unit, task: &str, done: u64, all: u64, took: Duration) -> String {
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
    format!("{task}: {done} of {all} ({:.0} %), {rate}/s{rest}", share * 100.0)
}

/// Formats a size, such as `10.00 KiB`.
pub fn bytes(size: u64) -> String {
    HumanBytes(size).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_show_share_rate_and_time_left() {
        let took = Duration::from_secs(2);
        let items = |done, all| line(Unit::Items, "copying", done, all, took);
        assert_eq!(items(50, 200), "copying: 50 of 200 (25 %), 25/s, 6 s left");
        assert_eq!(items(0, 0), "copying: 0 of 0 (100 %), 0/s");
        assert_eq!(
            line(Unit::Bytes, "reading", 50 << 20, 200 << 20, took),
            "reading: 50.00 MiB of 200.00 MiB (25 %), 25.00 MiB/s, 6 s left"
        );
    }

    #[test]
    fn bar_templates_are_valid() {
        for unit in [Unit::Items, Unit::Bytes] {
            let bar = ProgressBar::with_draw_target(Some(4), ProgressDrawTarget::hidden()).with_style(style(unit));
            bar.set_position(2);
            assert_eq!(bar.position(), 2);
        }
    }
}
