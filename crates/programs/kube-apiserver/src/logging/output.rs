//! Outputs of the log: standard error for all lines, or standard output, with a bounded buffer, for all but errors.

use std::io::{Stderr, Stdout, Write};

use parking_lot::Mutex;

/// The maximum size of the buffer, regardless of the flag.
const MOST_BUFFERED: usize = 2 << 30;

/// The outputs of the log.
pub(super) struct Output {
    /// True if lines other than errors go to standard output.
    split: bool,
    /// The buffer for these lines.
    held: Mutex<Held<Stdout>>,
    errors: Stderr,
}

impl Output {
    pub(super) fn new(split: bool, buffer: u64) -> Self {
        let most = usize::try_from(buffer).unwrap_or(MOST_BUFFERED).min(MOST_BUFFERED);
        let held = Mutex::new(Held { lines: Vec::new(), most, to: std::io::stdout() });
        Self { split, held, errors: std::io::stderr() }
    }

    pub(super) fn is_buffered(&self) -> bool {
        self.split && self.held.lock().most > 0
    }

    /// Writes a line with its end. Errors are ignored: an output may be closed.
    pub(super) fn write(&self, line: &[u8], information: bool) {
        if self.split && information {
            self.held.lock().write(line);
        } else {
            let _ = self.errors.lock().write_all(line);
        }
    }

    pub(super) fn flush(&self) {
        if self.split {
            self.held.lock().flush();
        }
    }
}

/// Buffered lines of an output.
struct Held<W> {
    lines: Vec<u8>,
    most: usize,
    to: W,
}

impl<W: Write> Held<W> {
    fn write(&mut self, line: &[u8]) {
        if self.lines.len() + line.len() > self.most {
            self.flush();
        }
        if line.len() > self.most {
            let _ = self.to.write_all(line).and_then(|()| self.to.flush());
        } else {
            self.lines.extend_from_slice(line);
        }
    }

    fn flush(&mut self) {
        let _ = self.to.write_all(&self.lines).and_then(|()| self.to.flush());
        self.lines.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_held_back_up_to_the_bound() {
        let mut held = Held { lines: Vec::new(), most: 8, to: Vec::new() };
        for (line, want) in [
            ("one\n", ""),
            ("two\n", ""),
            ("three\n", "one\ntwo\n"),
            ("a long line\n", "one\ntwo\nthree\na long line\n"),
        ] {
            held.write(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(&held.to), want, "{line}");
        }
        held.write(b"x\n");
        held.flush();
        assert!(held.to.ends_with(b"x\n"));
    }

    #[test]
    fn without_a_bound_nothing_is_held_back() {
        let mut held = Held { lines: Vec::new(), most: 0, to: Vec::new() };
        held.write(b"one\n");
        assert_eq!(held.to, b"one\n");
    }
}
