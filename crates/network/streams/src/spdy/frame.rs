//! Reads and writes frames.

use std::io;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};

use super::Headers;
use super::error::FrameError;
use super::headers::{Packer, Unpacker};

/// The maximum number of bytes of a data frame that are read at once. Longer frames are split.
const PIECE: usize = 32 * 1024;
/// The maximum size of a control frame. They have a few hundred bytes in practice; the protocol allows 16 MiB.
const MAX_CONTROL: usize = 64 * 1024;

const VERSION: u16 = 3;
const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const HEADERS: u16 = 8;
const FIN: u8 = 1;
const MAX_ID: u32 = 0x7fff_ffff;

/// A frame of either direction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Frame {
    /// Opens a stream. With `fin`, its opener sends no data.
    Open {
        stream: u32,
        fin: bool,
        headers: Headers,
    },
    /// Accepts a stream.
    Reply {
        stream: u32,
        fin: bool,
    },
    /// A chunk of data; with `fin`, the last one.
    Data {
        stream: u32,
        fin: bool,
        data: Bytes,
    },
    /// Ends a stream in both directions.
    Reset {
        stream: u32,
        reason: Reset,
    },
    Ping(u32),
    /// The peer accepts no more streams.
    GoAway,
    /// Further headers of a stream, settings and window updates, which are ignored.
    Other,
}

/// The status code of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reset(pub u32);

impl Reset {
    pub const REFUSED: Self = Self(3);
    pub const CANCEL: Self = Self(5);
}

/// Reads one direction of a connection.
pub struct Reader<R> {
    stream: R,
    unpacker: Unpacker,
    /// The rest of a data frame that is read in chunks: the stream, its `fin`, and the number of remaining bytes.
    rest: Option<(u32, bool, usize)>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    pub fn new(stream: R) -> Self {
        Self { stream, unpacker: Unpacker::new(), rest: None }
    }

    /// Returns the next frame, or `None` at the end of the connection. Not cancel safe: the future must be polled to
    /// completion.
    pub async fn next(&mut self) -> Result<Option<Frame>, FrameError> {
        if let Some((stream, fin, left)) = self.rest.take() {
            return self.data(stream, fin, left).await.map(Some);
        }
        let mut head = [0; 8];
        let first = self.stream.read(&mut head).await?;
        if first == 0 {
            return Ok(None);
        }
        self.stream.read_exact(&mut head[first..]).await?;
        let [a, b, c, d, flags, e, f, g] = head;
        let length = u32::from_be_bytes([0, e, f, g]) as usize;
        if a & 0x80 == 0 {
            let stream = u32::from_be_bytes([a, b, c, d]);
            if stream == 0 {
                return Err(FrameError::Invalid("data without a stream"));
            }
            return self.data(stream, flags & FIN != 0, length).await.map(Some);
        }
        if u16::from_be_bytes([a & 0x7f, b]) != VERSION {
            return Err(FrameError::Invalid("another version"));
        }
        if length > MAX_CONTROL {
            return Err(FrameError::Invalid("too large"));
        }
        let mut payload = vec![0; length];
        self.stream.read_exact(&mut payload).await?;
        self.control(u16::from_be_bytes([c, d]), flags, &payload).map(Some)
    }

    async fn data(&mut self, stream: u32, fin: bool, left: usize) -> Result<Frame, FrameError> {
        let mut data = vec![0; left.min(PIECE)];
        self.stream.read_exact(&mut data).await?;
        let left = left - data.len();
        if left > 0 {
            self.rest = Some((stream, fin, left));
        }
        Ok(Frame::Data { stream, fin: fin && left == 0, data: data.into() })
    }

    fn control(&mut self, kind: u16, flags: u8, payload: &[u8]) -> Result<Frame, FrameError> {
        let number = |at: usize| {
            let bytes = payload.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
            bytes.map(u32::from_be_bytes).ok_or(FrameError::Invalid("too short"))
        };
        let stream = || match number(0)? & MAX_ID {
            0 => Err(FrameError::Invalid("a control frame without a stream")),
            stream => Ok(stream),
        };
        let fin = flags & FIN != 0;
        Ok(match kind {
            SYN_STREAM => {
                let block = payload.get(10..).ok_or(FrameError::Invalid("too short"))?;
                let headers = self.unpacker.unpack(block)?;
                Frame::Open { stream: stream()?, fin, headers }
            }
            // Ignored blocks must be decompressed too, because compression state spans blocks.
            SYN_REPLY | HEADERS => {
                let block = payload.get(4..).ok_or(FrameError::Invalid("too short"))?;
                self.unpacker.unpack(block)?;
                if kind == SYN_REPLY { Frame::Reply { stream: stream()?, fin } } else { Frame::Other }
            }
            RST_STREAM => Frame::Reset { stream: stream()?, reason: Reset(number(4)?) },
            PING => Frame::Ping(number(0)?),
            GOAWAY => Frame::GoAway,
            _ => Frame::Other,
        })
    }
}

/// Writes one direction of a connection. Each frame is flushed.
pub struct Writer<W> {
    stream: W,
    packer: Packer,
}

impl<W: AsyncWrite + Unpin> Writer<W> {
    pub fn new(stream: W) -> Self {
        Self { stream, packer: Packer::new() }
    }

    /// Writes a frame. Dropping the future before it completes leaves the connection unusable.
    pub async fn write(&mut self, frame: &Frame) -> Result<(), FrameError> {
        let mut bytes = Vec::new();
        match frame {
            Frame::Open { stream, fin, headers } => {
                let block = self.packer.pack(headers)?;
                let mut payload = stream.to_be_bytes().to_vec();
                // No associated stream, the highest priority, no certificate slot.
                payload.extend_from_slice(&[0; 6]);
                payload.extend_from_slice(&block);
                control(&mut bytes, SYN_STREAM, *fin, &payload);
            }
            Frame::Reply { stream, fin } => {
                let block = self.packer.pack(&Headers::new())?;
                let mut payload = stream.to_be_bytes().to_vec();
                payload.extend_from_slice(&block);
                control(&mut bytes, SYN_REPLY, *fin, &payload);
            }
            Frame::Data { stream, fin, data } => {
                let mut pieces = data.chunks(PIECE).peekable();
                let mut piece = pieces.next().unwrap_or_default();
                loop {
                    let last = pieces.peek().is_none();
                    let flags = if *fin && last { FIN } else { 0 };
                    bytes.clear();
                    bytes.extend_from_slice(&stream.to_be_bytes());
                    bytes.extend_from_slice(&((u32::from(flags) << 24) | piece.len() as u32).to_be_bytes());
                    bytes.extend_from_slice(piece);
                    if last {
                        break;
                    }
                    self.stream.write_all(&bytes).await?;
                    piece = pieces.next().unwrap_or_default();
                }
            }
            Frame::Reset { stream, reason } => {
                let payload = [stream.to_be_bytes(), reason.0.to_be_bytes()].concat();
                control(&mut bytes, RST_STREAM, false, &payload);
            }
            Frame::Ping(id) => control(&mut bytes, PING, false, &id.to_be_bytes()),
            Frame::GoAway => control(&mut bytes, GOAWAY, false, &[0; 8]),
            Frame::Other => {}
        }
        self.stream.write_all(&bytes).await?;
        Ok(self.stream.flush().await?)
    }

    pub async fn shutdown(&mut self) -> io::Result<()> {
        self.stream.shutdown().await
    }
}

fn control(bytes: &mut Vec<u8>, kind: u16, fin: bool, payload: &[u8]) {
    bytes.extend_from_slice(&(0x8000 | VERSION).to_be_bytes());
    bytes.extend_from_slice(&kind.to_be_bytes());
    let flags = if fin { u32::from(FIN) << 24 } else { 0 };
    bytes.extend_from_slice(&(flags | payload.len() as u32).to_be_bytes());
    bytes.extend_from_slice(payload);
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read_all(bytes: &[u8]) -> Result<Vec<Frame>, FrameError> {
        let mut reader = Reader::new(bytes);
        let mut frames = Vec::new();
        while let Some(frame) = reader.next().await? {
            frames.push(frame);
        }
        Ok(frames)
    }

    #[tokio::test]
    async fn round_trips_every_frame() {
        let headers = vec![("streamtype".to_owned(), "error".to_owned())];
        let frames = vec![
            Frame::Open { stream: 1, fin: true, headers: headers.clone() },
            Frame::Open { stream: 3, fin: false, headers },
            Frame::Reply { stream: 1, fin: false },
            Frame::Data { stream: 1, fin: false, data: Bytes::from_static(b"hello") },
            Frame::Data { stream: 1, fin: true, data: Bytes::new() },
            Frame::Reset { stream: 3, reason: Reset::CANCEL },
            Frame::Ping(7),
            Frame::GoAway,
        ];
        let mut writer = Writer::new(Vec::new());
        for frame in &frames {
            writer.write(frame).await.unwrap();
        }
        assert_eq!(read_all(&writer.stream).await.unwrap(), frames);
    }

    #[tokio::test]
    async fn splits_long_data_frames() {
        let data = Bytes::from(vec![7; 3 * PIECE + 1]);
        let mut writer = Writer::new(Vec::new());
        writer.write(&Frame::Data { stream: 5, fin: true, data: data.clone() }).await.unwrap();
        let frames = read_all(&writer.stream).await.unwrap();
        let mut seen = Vec::new();
        for (n, frame) in frames.iter().enumerate() {
            let Frame::Data { stream: 5, fin, data } = frame else { panic!("{frame:?}") };
            assert!(data.len() <= PIECE);
            assert_eq!(*fin, n + 1 == frames.len());
            seen.extend_from_slice(data);
        }
        assert_eq!(seen, data);

        // One frame that is longer than a chunk, as other implementations send it.
        let mut bytes = [0, 0, 0, 5, 1].to_vec();
        bytes.extend_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
        bytes.extend_from_slice(&data);
        let frames = read_all(&bytes).await.unwrap();
        assert_eq!(frames.len(), 4);
        assert!(matches!(frames.last(), Some(Frame::Data { fin: true, .. })));
    }

    #[tokio::test]
    async fn rejects_invalid_and_truncated_frames() {
        for (bytes, want) in [
            (&[0x80, 2, 0, 6, 0, 0, 0, 4, 0, 0, 0, 1][..], "invalid SPDY frame: another version"),
            (&[0x80, 3, 0, 1, 0, 0xff, 0xff, 0xff], "invalid SPDY frame: too large"),
            (&[0x80, 3, 0, 3, 0, 0, 0, 4, 0, 0, 0, 1], "invalid SPDY frame: too short"),
            (
                &[0x80, 3, 0, 3, 0, 0, 0, 8, 0, 0, 0, 0, 0, 0, 0, 1],
                "invalid SPDY frame: a control frame without a stream",
            ),
            (&[0, 0, 0, 0, 0, 0, 0, 0], "invalid SPDY frame: data without a stream"),
            (&[0x80, 3, 0, 1, 0, 0, 0, 12, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 1, 2], "invalid SPDY headers: cut off"),
        ] {
            assert_eq!(read_all(bytes).await.unwrap_err().to_string(), want);
        }
        for cut in [1, 7, 9] {
            let error = read_all(&[0, 0, 0, 1, 0, 0, 0, 9, 1, 2][..cut]).await.unwrap_err();
            assert!(matches!(error, FrameError::Io(_)), "{error}");
        }
    }
}
