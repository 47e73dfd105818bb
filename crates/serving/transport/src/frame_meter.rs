//! Accounting of the frames of an HTTP/2 client. Each frame that causes work but carries no data (pings, settings,
//! priorities, empty data, small window updates, resets, unknown types) is charged to an account, which is refilled
//! over time and by bytes sent to the client. A client that exceeds its credit loses the connection. The library itself
//! limits other floods: resets of unprocessed requests, streams that the server must reset, endless headers and small
//! data frames.
//!
//! The bytes of request heads are counted too, because a head may be received for long before it is complete.

use std::time::Instant;

use crate::connections::HeadMemory;

/// The length of the connection preface, which is not a frame.
const PREFACE: usize = 24;
const HEAD: usize = 9;
/// The flag of the last frame of a body, which may be empty.
const END_STREAM: u8 = 1;

/// The flag of the last frame of a head.
const END_HEADERS: u8 = 4;

/// The bytes of heads after which the requests must be processed before more is read. Compressed headers take up to a
/// hundred times as much memory.
const HEAD_TURN: usize = 32 << 10;

/// The cost of a frame without data.
const CONTROL_COST: u64 = 8;
/// The increment below which a window update has the same cost.
const SMALL_WINDOW: u32 = 64;
/// The initial and maximum credit: 25,000 pings, or the window updates for 800 MB read in chunks of 4 KiB.
const MAX_CREDIT: u64 = 200_000;
/// The credit earned per second: 1,000 pings.
const CREDIT_PER_SECOND: u64 = 1000 * CONTROL_COST;
/// The bytes sent to the client that earn one credit.
const BYTES_PER_CREDIT: u64 = 64;

/// The limit on streams that the client resets, that is, on requests that it starts and cancels.
const RESETS: ResetLimit = ResetLimit { max: 1000, per_second: 100 };
/// The limit on resets before the connection is authenticated.
const UNAUTHENTICATED_RESETS: ResetLimit = ResetLimit { max: 50, per_second: 5 };

struct ResetLimit {
    max: u64,
    per_second: u64,
}

/// The reason why a connection is closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Flood {
    #[error("too many frames that carry nothing")]
    Frames,
    #[error("too many streams reset")]
    Resets,
    #[error("too many large request heads")]
    Heads,
}

/// The account of one connection.
pub(crate) struct FrameMeter {
    /// The header of the current frame.
    head: [u8; HEAD + 4],
    received: usize,
    /// The number of missing bytes of the header and of a window's increment.
    needed: usize,
    /// The number of bytes of the preface or a payload to skip.
    skip: usize,
    /// True while a part of a head is skipped, and whether it is the last part.
    is_head: bool,
    ends_head: bool,
    /// The bytes of heads in this turn.
    heads_in_turn: usize,
    credit: u64,
    written: u64,
    resets: u64,
    refilled_at: Instant,
}

impl FrameMeter {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            head: [0; HEAD + 4],
            received: 0,
            needed: HEAD,
            skip: PREFACE,
            is_head: false,
            ends_head: false,
            heads_in_turn: 0,
            credit: MAX_CREDIT,
            written: 0,
            resets: 0,
            refilled_at: now,
        }
    }

    pub(crate) fn add_written(&mut self, count: usize) {
        self.written += count as u64;
    }

    /// Returns true, once, after so many bytes of heads that their requests must be processed before more is read.
    pub(crate) fn ends_turn(&mut self) -> bool {
        let ends = self.heads_in_turn >= HEAD_TURN;
        if ends {
            self.heads_in_turn = 0;
        }
        ends
    }

    pub(crate) fn read(&mut self, bytes: &[u8], is_authenticated: bool, heads: &HeadMemory) -> Result<(), Flood> {
        self.read_at(bytes, is_authenticated, heads, Instant::now)
    }

    fn read_at(
        &mut self,
        mut bytes: &[u8],
        is_authenticated: bool,
        heads: &HeadMemory,
        now: impl Fn() -> Instant,
    ) -> Result<(), Flood> {
        loop {
            let skipped = self.skip.min(bytes.len());
            self.skip -= skipped;
            bytes = &bytes[skipped..];
            if self.is_head {
                self.read_head(skipped, heads)?;
            }
            if bytes.is_empty() {
                return Ok(());
            }
            let part = (self.needed - self.received).min(bytes.len());
            self.head[self.received..self.received + part].copy_from_slice(&bytes[..part]);
            self.received += part;
            bytes = &bytes[part..];
            if self.received < self.needed {
                return Ok(());
            }
            let length = usize::from(self.head[0]) << 16 | usize::from(self.head[1]) << 8 | usize::from(self.head[2]);
            let kind = self.head[3];
            const WINDOW_UPDATE: u8 = 8;
            if kind == WINDOW_UPDATE && length == 4 && self.needed == HEAD {
                self.needed = HEAD + 4;
                continue;
            }
            self.is_head = matches!(kind, 1 | 9);
            self.ends_head = self.head[4] & END_HEADERS != 0;
            let cost = match kind {
                // Data and headers. The library limits small data frames.
                0 if length > 0 => 0,
                0 if self.head[4] & END_STREAM != 0 => 1,
                1 | 9 => 1,
                3 => {
                    self.resets += 1;
                    1
                }
                WINDOW_UPDATE if self.needed > HEAD => {
                    let increment = u32::from_be_bytes([self.head[9], self.head[10], self.head[11], self.head[12]]);
                    if increment & 0x7fff_ffff < SMALL_WINDOW { CONTROL_COST } else { 1 }
                }
                _ => CONTROL_COST,
            };
            self.skip = if self.needed > HEAD { 0 } else { length };
            (self.received, self.needed) = (0, HEAD);
            let resets = if is_authenticated { RESETS } else { UNAUTHENTICATED_RESETS };
            if cost > self.credit || self.resets > resets.max {
                self.refill(now(), &resets);
            }
            if self.resets > resets.max {
                return Err(Flood::Resets);
            }
            self.credit = self.credit.checked_sub(cost).ok_or(Flood::Frames)?;
        }
    }

    /// Counts bytes of a head.
    fn read_head(&mut self, count: usize, heads: &HeadMemory) -> Result<(), Flood> {
        self.heads_in_turn += count;
        if !heads.receive(count) {
            return Err(Flood::Heads);
        }
        if self.skip == 0 {
            self.is_head = false;
            if self.ends_head {
                heads.complete();
            }
        }
        Ok(())
    }

    /// Adds the credit earned since the last call. It is only called when credit is needed, so that few connections
    /// read the clock.
    fn refill(&mut self, now: Instant, resets: &ResetLimit) {
        let passed = now.saturating_duration_since(self.refilled_at).as_millis() as u64;
        let earned = (passed * CREDIT_PER_SECOND / 1000).saturating_add(self.written / BYTES_PER_CREDIT);
        self.credit = self.credit.saturating_add(earned).min(MAX_CREDIT);
        self.resets = self.resets.saturating_sub(passed * resets.per_second / 1000);
        self.written = 0;
        self.refilled_at = now;
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

    /// Returns the frame of a complete head.
    fn head(payload: &[u8]) -> Vec<u8> {
        let mut frame = frame(1, payload);
        frame[4] = END_HEADERS;
        frame
    }

    /// Returns the number of frames that a client may send at once, split into chunks of this size, and the error after
    /// that.
    fn allowed(frame: &[u8], is_authenticated: bool, piece: usize) -> (usize, Flood) {
        let (began, heads) = (Instant::now(), HeadMemory::default());
        let mut meter = FrameMeter::new(began);
        meter.read_at(&[0; PREFACE], is_authenticated, &heads, || began).unwrap();
        for count in 0.. {
            for part in frame.chunks(piece) {
                if let Err(flood) = meter.read_at(part, is_authenticated, &heads, || began) {
                    return (count, flood);
                }
            }
        }
        unreachable!()
    }

    #[test]
    fn rejects_floods() {
        let cheap = MAX_CREDIT as usize;
        let expensive = cheap / CONTROL_COST as usize;
        for (frame, is_authenticated, want) in [
            (frame(6, &[0; 8]), true, (expensive, Flood::Frames)),
            (frame(4, &[]), true, (expensive, Flood::Frames)),
            (frame(0, &[]), true, (expensive, Flood::Frames)),
            (frame(2, &[0; 5]), true, (expensive, Flood::Frames)),
            (frame(200, &[0; 300]), true, (expensive, Flood::Frames)),
            (frame(8, &[0, 0, 0, 1]), true, (expensive, Flood::Frames)),
            (frame(8, &[0, 0, 16, 0]), true, (cheap, Flood::Frames)),
            (head(&[0; 30]), true, (cheap, Flood::Frames)),
            (frame(3, &[0; 4]), true, (1000, Flood::Resets)),
            (frame(3, &[0; 4]), false, (50, Flood::Resets)),
        ] {
            for piece in [1, 7, 4096] {
                assert_eq!(allowed(&frame, is_authenticated, piece), want, "{frame:?}");
            }
        }
    }

    #[test]
    fn accepts_frames_at_a_sustainable_rate() {
        let (began, heads) = (Instant::now(), HeadMemory::default());
        let mut meter = FrameMeter::new(began);
        meter.read_at(&[0; PREFACE], true, &heads, || began).unwrap();
        let window = frame(8, &[0, 0, 16, 0]);
        for _ in 0..3 * MAX_CREDIT {
            meter.add_written(4096);
            meter.read_at(&window, true, &heads, || began).unwrap();
        }
        // 1,000 pings and 50 cancelled requests per second.
        let (ping, reset) = (frame(6, &[0; 8]), frame(3, &[0; 4]));
        for second in 0..2000 {
            let now = || began + Duration::from_secs(second);
            (0..999).for_each(|_| meter.read_at(&ping, true, &heads, now).unwrap());
            (0..50).for_each(|_| meter.read_at(&reset, true, &heads, now).unwrap());
        }
        // Data is free.
        for _ in 0..3 * MAX_CREDIT {
            meter.read_at(&frame(0, b"x"), true, &heads, || began).unwrap();
        }
    }

    #[test]
    fn counts_heads_that_are_incomplete_or_large() {
        let began = Instant::now();
        let heads = HeadMemory::default();
        let mut meter = FrameMeter::new(began);
        let mut read = |kind: u8, flags: u8, size: usize| {
            let mut bytes = frame(kind, &vec![0; size]);
            bytes[4] = flags;
            let read = bytes.chunks(1000).try_for_each(|part| meter.read_at(part, true, &heads, || began));
            (read, meter.ends_turn())
        };
        // The preface has the length of a frame with 15 bytes.
        assert_eq!(read(0, 0, PREFACE - HEAD), (Ok(()), false));
        // Small heads and data do not count once they are complete.
        for _ in 0..4000 {
            assert_eq!(read(1, END_HEADERS, 16_384), (Ok(()), false));
            assert_eq!(read(1, 0, 16_384), (Ok(()), true));
            assert_eq!(read(9, END_HEADERS, 0), (Ok(()), false));
            assert_eq!(read(0, 0, 16_384), (Ok(()), false));
        }
        assert!(!heads.has_large());
        // A large one counts, with those that follow.
        let mut parts = 0;
        let refused = loop {
            let (result, _) =
                read(if parts % 60 == 0 { 1 } else { 9 }, if parts % 60 == 59 { END_HEADERS } else { 0 }, 16_384);
            parts += 1;
            if result.is_err() {
                break result;
            }
        };
        assert!(heads.has_large());
        assert_eq!(refused, Err(Flood::Heads));
        assert_eq!(parts, ((64 << 20) + (64 << 10)) / 16_384 + 1, "the parts of the large heads");
    }
}
