//! The cost of the frames of an HTTP/2 client. Each frame that causes work and carries no data (pings, settings,
//! priorities, empty data, small window updates, resets, unknown kinds) is charged to an account, which time and the
//! bytes sent to the client refill. A client that overdraws it loses the connection. The library itself bounds other
//! floods: resets of unprocessed requests, streams that the client makes the server reset, endless headers and small
//! pieces of data.

use std::time::Instant;

/// The length of the connection preface, which is not a frame.
const PREFACE: usize = 24;
const HEAD: usize = 9;
/// The flag of the last frame of a body, which may be empty.
const END_STREAM: u8 = 1;

/// The cost of a frame without data.
const CONTROL: u64 = 8;
/// A window update below this size costs the same.
const SMALL_WINDOW: u32 = 64;
/// The initial and maximum credit: 25,000 pings, or the window updates for 800 MB read in pieces of 4 KiB.
const FULL: u64 = 200_000;
/// The credit earned per second: 1,000 pings.
const BY_SECOND: u64 = 1000 * CONTROL;
/// The bytes sent to the client that earn one credit.
const BYTES_FOR_ONE: u64 = 64;

/// The limit on streams that the client resets, that is, requests that it begins and then cancels.
const RESETS: Resets = Resets { full: 1000, by_second: 100 };
/// The limit on resets before the connection is authenticated.
const UNKNOWN_RESETS: Resets = Resets { full: 50, by_second: 5 };

struct Resets {
    full: u64,
    by_second: u64,
}

/// The reason why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flood {
    #[error("too many frames that carry nothing")]
    Frames,
    #[error("too many streams reset")]
    Resets,
}

/// The accounts of one connection.
pub(crate) struct FrameMeter {
    /// The head of the frame that is being read.
    head: [u8; HEAD + 4],
    have: usize,
    /// The number of bytes to read of the head, and of a window's increment.
    want: usize,
    /// The number of bytes to skip of the preface or a payload.
    skip: usize,
    credit: u64,
    written: u64,
    resets: u64,
    filled: Instant,
}

impl FrameMeter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            head: [0; HEAD + 4],
            have: 0,
            want: HEAD,
            skip: PREFACE,
            credit: FULL,
            written: 0,
            resets: 0,
            filled: now,
        }
    }

    pub(crate) fn wrote(&mut self, count: usize) {
        self.written += count as u64;
    }

    pub(crate) fn read(&mut self, bytes: &[u8], known: bool) -> Result<(), Flood> {
        self.read_at(bytes, known, Instant::now)
    }

    fn read_at(&mut self, mut bytes: &[u8], known: bool, now: impl Fn() -> Instant) -> Result<(), Flood> {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if bytes.is_empty() {
                return Ok(());
            }
            let part = (self.want - self.have).min(bytes.len());
            self.head[self.have..self.have + part].copy_from_slice(&bytes[..part]);
            self.have += part;
            bytes = &bytes[part..];
            if self.have < self.want {
                return Ok(());
            }
            let length = usize::from(self.head[0]) << 16 | usize::from(self.head[1]) << 8 | usize::from(self.head[2]);
            let kind = self.head[3];
            const WINDOW_UPDATE: u8 = 8;
            if kind == WINDOW_UPDATE && length == 4 && self.want == HEAD {
                self.want = HEAD + 4;
                continue;
            }
            let cost = match kind {
                // Data and headers. The library counts small pieces of data.
                0 if length > 0 => 0,
                0 if self.head[4] & END_STREAM != 0 => 1,
                1 | 9 => 1,
                3 => {
                    self.resets += 1;
                    1
                }
                WINDOW_UPDATE if self.want > HEAD => {
                    let increment = u32::from_be_bytes([self.head[9], self.head[10], self.head[11], self.head[12]]);
                    if increment & 0x7fff_ffff < SMALL_WINDOW { CONTROL } else { 1 }
                }
                _ => CONTROL,
            };
            self.skip = if self.want > HEAD { 0 } else { length };
            (self.have, self.want) = (0, HEAD);
            let resets = if known { RESETS } else { UNKNOWN_RESETS };
            if cost > self.credit || self.resets > resets.full {
                self.refill(now(), &resets);
            }
            if self.resets > resets.full {
                return Err(Flood::Resets);
            }
            self.credit = self.credit.checked_sub(cost).ok_or(Flood::Frames)?;
        }
    }

    /// Adds the credit earned since the last call. Only called when credit is needed, so that few connections read the
    /// clock.
    fn refill(&mut self, now: Instant, resets: &Resets) {
        let passed = now.saturating_duration_since(self.filled).as_millis() as u64;
        let earned = (passed * BY_SECOND / 1000).saturating_add(self.written / BYTES_FOR_ONE);
        self.credit = self.credit.saturating_add(earned).min(FULL);
        self.resets = self.resets.saturating_sub(passed * resets.by_second / 1000);
        self.written = 0;
        self.filled = now;
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![0, (payload.len() >> 8) as u8, payload.len() as u8, kind, 0, 0, 0, 0, 1];
        frame.extend(payload);
        frame
    }

    /// Returns the number of frames that a client may send at once, split into pieces of this size, and the error after
    /// that.
    fn allowed(frame: &[u8], known: bool, piece: usize) -> (usize, Flood) {
        let began = Instant::now();
        let mut meter = FrameMeter::new(began);
        meter.read_at(&[0; PREFACE], known, || began).unwrap();
        for count in 0.. {
            for part in frame.chunks(piece) {
                if let Err(flood) = meter.read_at(part, known, || began) {
                    return (count, flood);
                }
            }
        }
        unreachable!()
    }

    #[test]
    fn floods() {
        let cheap = FULL as usize;
        let dear = cheap / CONTROL as usize;
        for (frame, known, want) in [
            (frame(6, &[0; 8]), true, (dear, Flood::Frames)),
            (frame(4, &[]), true, (dear, Flood::Frames)),
            (frame(0, &[]), true, (dear, Flood::Frames)),
            (frame(2, &[0; 5]), true, (dear, Flood::Frames)),
            (frame(200, &[0; 300]), true, (dear, Flood::Frames)),
            (frame(8, &[0, 0, 0, 1]), true, (dear, Flood::Frames)),
            (frame(8, &[0, 0, 16, 0]), true, (cheap, Flood::Frames)),
            (frame(1, &[0; 30]), true, (cheap, Flood::Frames)),
            (frame(3, &[0; 4]), true, (1000, Flood::Resets)),
            (frame(3, &[0; 4]), false, (50, Flood::Resets)),
        ] {
            for piece in [1, 7, 4096] {
                assert_eq!(allowed(&frame, known, piece), want, "{frame:?}");
            }
        }
    }

    #[test]
    fn who_reads_and_takes_time_may_go_on() {
        let began = Instant::now();
        let mut meter = FrameMeter::new(began);
        meter.read_at(&[0; PREFACE], true, || began).unwrap();
        let window = frame(8, &[0, 0, 16, 0]);
        for _ in 0..3 * FULL {
            meter.wrote(4096);
            meter.read_at(&window, true, || began).unwrap();
        }
        // A thousand pings and fifty cancelled requests per second.
        let (ping, reset) = (frame(6, &[0; 8]), frame(3, &[0; 4]));
        for second in 0..2000 {
            let now = || began + Duration::from_secs(second);
            (0..999).for_each(|_| meter.read_at(&ping, true, now).unwrap());
            (0..50).for_each(|_| meter.read_at(&reset, true, now).unwrap());
        }
        // Data is free.
        for _ in 0..3 * FULL {
            meter.read_at(&frame(0, b"x"), true, || began).unwrap();
        }
    }
}
