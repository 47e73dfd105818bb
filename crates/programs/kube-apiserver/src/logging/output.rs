//! Outputs of the log: standard error for all lines, or standard output, with a bounded buffer, for all but errors.

use std::io::{Stderr, Stdout, Write};

use parking_lot::Mutex;

/// The maximum size of the buffer, regardless of the flag.
const MAX_CAPACITY: usize = 2 << 30;

/// The outputs of the log.
pub(super) struct Output {
    /// True if lines other than errors go to standard output.
    split: bool,
    /// The buffer for these lines.
    buffer: Mutex<LineBuffer<Stdout>>,
    errors: Stderr,
}

impl Output {
    pub(super) fn new(split: bool, capacity: u64) -> Self {
        let capacity = usize::try_from(capacity).unwrap_or(MAX_CAPACITY).min(MAX_CAPACITY);
        let buffer = Mutex::new(LineBuffer { lines: Vec::new(), capacity, to: std::io::stdout() });
        Self { split, buffer, errors: std::io::stderr() }
    }

    pub(super) fn is_buffered(&self) -> bool {
        self.split && self.buffer.lock().capacity > 0
    }

    /// Writes a line with its end. Errors are ignored: an output may be closed.
    pub(super) fn write(&self, line: &[u8], information: bool) {
        if self.split && information {
            self.buffer.lock().write(line);
        } else {
            let _ = self.errors.lock().write_all(line);
        }
    }

    pub(super) fn flush(&self) {
        if self.split {
            self.buffer.lock().flush();
        }
    }
}

/// Buffered lines of an output.
struct LineBuffer<W> {
    lines: Vec<u8>,
    capacity: usize,
    to: W,
}

impl<W: Write> LineBuffer<W> {
    fn write(&mut self, line: &[u8]) {
        if self.lines.len() + line.len() > self.capacity {
            self.flush();
        }
        if line.len() > self.capacity {
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
    fn buffers_lines_up_to_capacity() {
        let mut buffer = LineBuffer { lines: Vec::new(), capacity: 8, to: Vec::new() };
        for (line, want) in [
            ("one\n", ""),
            ("two\n", ""),
            ("three\n", "one\ntwo\n"),
            ("a long line\n", "one\ntwo\nthree\na long line\n"),
        ] {
            buffer.write(line.as_bytes());
            assert_eq!(String::from_utf8_lossy(&buffer.to), want, "{line}");
        }
        buffer.write(b"x\n");
        buffer.flush();
        assert!(buffer.to.ends_with(b"x\n"));
    }

    #[test]
    fn writes_at_once_without_capacity() {
        let mut buffer = LineBuffer { lines: Vec::new(), capacity: 0, to: Vec::new() };
        buffer.write(b"one\n");
        assert_eq!(buffer.to, b"one\n");
    }
}
