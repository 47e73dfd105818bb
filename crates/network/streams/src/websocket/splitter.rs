//! Splits the long messages of a client's WebSocket.
//!
//! The WebSocket library allocates a whole frame as soon as its length is announced, and buffers the fragments of a
//! message until the last one. A client could claim that memory with few bytes. The Kubernetes streaming protocols do
//! not depend on message boundaries, so long and fragmented messages are forwarded in parts as they arrive.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf, BufMut, BytesMut};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// The maximum size of a frame that is forwarded unchanged.
pub(super) const PIECE: usize = 64 << 10;
/// The number of bytes that are read at once.
const SLICE: usize = 8 << 10;

const FIN: u8 = 0x80;
const OPCODE: u8 = 0x0f;
const CONTINUATION: u8 = 0;
const TEXT: u8 = 1;
const BINARY: u8 = 2;
const MASKED: u8 = 0x80;

/// The meaning of the client's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    /// The first byte of a message is the channel number.
    Channels,
    /// Messages are consecutive parts of one stream.
    Bytes,
    /// Messages are discarded.
    Ignored,
}

pub(super) struct MessageSplitter<S> {
    stream: S,
    content: Content,
    /// The maximum size of a frame that the client may send.
    max_frame: u64,
    part: Part,
    /// The opcode of a fragmented message whose last fragment has not been read.
    open: Option<u8>,
    /// The channel of the current message, once its first byte has been read.
    channel: Option<u8>,
    /// Frames that are ready for the library.
    ready: BytesMut,
}

/// The next part of a frame to read.
enum Part {
    /// The head; these bytes of it have been read.
    Head(Vec<u8>),
    /// The rest of a frame that is forwarded unchanged.
    Unchanged(u64),
    /// The payload of a frame that is split.
    Payload(Payload),
}

struct Payload {
    opcode: u8,
    is_last: bool,
    mask: [u8; 4],
    /// The number of payload bytes that have been read.
    at: u64,
    left: u64,
}

/// The head of a frame.
struct Head {
    first: u8,
    mask: Option<[u8; 4]>,
    length: u64,
}

impl Head {
    /// Returns the head, or `None` if it is incomplete.
    fn parse(bytes: &[u8]) -> Option<Self> {
        let (&first, &second) = (bytes.first()?, bytes.get(1)?);
        let mut rest = bytes.get(2..)?;
        let length = match second & !MASKED {
            126 => rest.try_get_u16().ok()?.into(),
            127 => rest.try_get_u64().ok()?,
            short => short.into(),
        };
        let mask = match second & MASKED {
            0 => None,
            _ => Some(*rest.first_chunk()?),
        };
        Some(Self { first, mask, length })
    }
}

impl<S> MessageSplitter<S> {
    pub(super) fn new(stream: S, content: Content, max_frame: usize) -> Self {
        let part = Part::Head(Vec::new());
        Self { stream, content, max_frame: max_frame as u64, part, open: None, channel: None, ready: BytesMut::new() }
    }

    /// Processes bytes from the client.
    fn take(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            match &mut self.part {
                Part::Head(head) => {
                    head.push(bytes.get_u8());
                    if let Some(parsed) = Head::parse(head) {
                        let head = std::mem::take(head);
                        self.part = self.begin(&parsed, head);
                    }
                }
                Part::Unchanged(left) => {
                    let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    self.ready.put_slice(&bytes[..taken]);
                    bytes.advance(taken);
                    *left -= taken as u64;
                }
                Part::Payload(payload) => {
                    let taken = bytes.len().min(usize::try_from(payload.left).unwrap_or(usize::MAX));
                    let (piece, rest) = bytes.split_at(taken);
                    bytes = rest;
                    let mask = payload.mask;
                    let mut piece: Vec<u8> =
                        piece.iter().zip(payload.at..).map(|(byte, at)| byte ^ mask[(at % 4) as usize]).collect();
                    payload.at += taken as u64;
                    payload.left -= taken as u64;
                    let opcode = payload.opcode;
                    self.emit(opcode, &mut piece);
                }
            }
            self.end();
        }
    }

    /// Returns the part that follows the head of a frame.
    fn begin(&mut self, head: &Head, mut bytes: Vec<u8>) -> Part {
        let opcode = head.first & OPCODE;
        let is_last = head.first & FIN != 0;
        let is_plain = head.first & !(FIN | OPCODE) == 0 && opcode <= BINARY && head.length <= self.max_frame;
        let (Some(mask), true) = (head.mask, is_plain) else {
            // The library handles control frames and errors.
            self.ready.put_slice(&bytes);
            return Part::Unchanged(head.length);
        };
        let opcode = match (self.open, opcode) {
            (Some(open), CONTINUATION) => open,
            (None, TEXT | BINARY) if !is_last || head.length > PIECE as u64 => opcode,
            (None, _) => {
                self.ready.put_slice(&bytes);
                return Part::Unchanged(head.length);
            }
            (Some(_), _) => {
                // A message within another message is as invalid as a continuation without a message.
                bytes[0] &= !OPCODE;
                self.ready.put_slice(&bytes);
                return Part::Unchanged(head.length);
            }
        };
        Part::Payload(Payload { opcode, is_last, mask, at: 0, left: head.length })
    }

    /// Starts the next frame if this one is complete.
    fn end(&mut self) {
        match &self.part {
            Part::Unchanged(0) => {}
            Part::Payload(Payload { left: 0, is_last, opcode, .. }) => {
                self.open = (!is_last).then_some(*opcode);
                if *is_last {
                    self.channel = None;
                }
            }
            _ => return,
        }
        self.part = Part::Head(Vec::new());
    }

    /// Emits part of a payload as a message.
    fn emit(&mut self, opcode: u8, piece: &mut Vec<u8>) {
        let opcode = match self.content {
            Content::Ignored => return,
            Content::Bytes => opcode,
            // A part may end within a UTF-8 sequence.
            Content::Channels => BINARY,
        };
        if self.content == Content::Channels {
            match self.channel {
                Some(channel) => piece.insert(0, channel),
                None => self.channel = piece.first().copied(),
            }
        }
        self.ready.put_u8(FIN | opcode);
        // Parts are as short as reads.
        let length = u16::try_from(piece.len()).unwrap_or(u16::MAX);
        match length {
            0..126 => self.ready.put_u8(MASKED | length as u8),
            _ => {
                self.ready.put_u8(MASKED | 126);
                self.ready.put_u16(length);
            }
        }
        self.ready.put_bytes(0, 4);
        self.ready.put_slice(piece);
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for MessageSplitter<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = &mut *self;
        while this.ready.is_empty() {
            let mut bytes = [0; SLICE];
            let mut read = ReadBuf::new(&mut bytes);
            ready!(Pin::new(&mut this.stream).poll_read(cx, &mut read))?;
            if read.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
            this.take(read.filled());
        }
        let taken = this.ready.len().min(buf.remaining());
        buf.put_slice(&this.ready[..taken]);
        this.ready.advance(taken);
        Poll::Ready(Ok(()))
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for MessageSplitter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns a masked frame of a client.
    fn frame(first: u8, payload: &[u8]) -> Vec<u8> {
        let mut frame = vec![first];
        match payload.len() {
            0..126 => frame.push(MASKED | payload.len() as u8),
            126..0x1_0000 => {
                frame.push(MASKED | 126);
                frame.put_u16(payload.len() as u16);
            }
            _ => {
                frame.push(MASKED | 127);
                frame.put_u64(payload.len() as u64);
            }
        }
        let mask = [1, 2, 3, 4];
        frame.extend_from_slice(&mask);
        frame.extend(payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask));
        frame
    }

    /// Sends frames in slices. Returns opcode and payload of the emitted frames, and the maximum number of buffered
    /// bytes.
    fn through(content: Content, sent: &[u8], slice: usize) -> (Vec<(u8, Vec<u8>)>, usize) {
        let mut pieces = MessageSplitter::new(tokio::io::empty(), content, 1 << 20);
        let (mut got, mut most) = (BytesMut::new(), 0);
        for slice in sent.chunks(slice) {
            pieces.take(slice);
            most = most.max(pieces.ready.capacity());
            got.extend(pieces.ready.split());
        }
        let mut frames = Vec::new();
        while !got.is_empty() {
            let mut at = 2;
            let head = loop {
                match Head::parse(&got[..at]) {
                    Some(head) => break head,
                    None => at += 1,
                }
            };
            let mask = head.mask.expect("a mask");
            got.advance(at);
            let payload = got.split_to(head.length as usize);
            frames
                .push((head.first, payload.iter().zip(mask.iter().cycle()).map(|(byte, mask)| byte ^ mask).collect()));
        }
        (frames, most)
    }

    #[test]
    fn passes_short_messages_through() {
        let close = [0x88, 0x80, 0, 0, 0, 0];
        let sent =
            [frame(FIN | BINARY, b"\x00hello"), frame(FIN | TEXT, b"text"), frame(0x89, b"ping"), close.to_vec()];
        let sent = sent.concat();
        for content in [Content::Channels, Content::Bytes, Content::Ignored] {
            for slice in [1, 3, sent.len()] {
                let mut pieces = MessageSplitter::new(tokio::io::empty(), content, 1 << 20);
                sent.chunks(slice).for_each(|slice| pieces.take(slice));
                assert_eq!(pieces.ready, sent, "{content:?} {slice}");
            }
        }
    }

    #[test]
    fn splits_long_messages() {
        let payload: Vec<u8> = std::iter::once(7).chain((0..200_000u32).map(|n| (n % 251) as u8)).collect();
        let whole = frame(FIN | BINARY, &payload);
        let fragments = [
            frame(BINARY, &payload[..70_000]),
            frame(CONTINUATION, b""),
            frame(0x89, b"ping"),
            frame(CONTINUATION, &payload[70_000..70_001]),
            frame(FIN | CONTINUATION, &payload[70_001..]),
        ]
        .concat();
        for sent in [whole, fragments] {
            for slice in [1000, SLICE] {
                let (frames, most) = through(Content::Channels, &sent, slice);
                assert!(most <= 2 * SLICE + 64, "{most}");
                let messages = frames.iter().filter(|(first, _)| *first == FIN | BINARY);
                let mut got = vec![7];
                for (_, message) in messages {
                    assert_eq!(message[0], 7);
                    got.extend_from_slice(&message[1..]);
                }
                assert!(got == payload);
                let (frames, _) = through(Content::Bytes, &sent, slice);
                let data = frames.into_iter().filter(|(first, _)| *first == FIN | BINARY);
                assert!(data.flat_map(|(_, message)| message).collect::<Vec<_>>() == payload);
                let (frames, _) = through(Content::Ignored, &sent, slice);
                assert!(frames.iter().all(|(first, _)| *first == 0x89), "{frames:?}");
            }
        }
    }

    /// Frames that violate the protocol are left to the library, which closes the connection.
    #[test]
    fn passes_protocol_errors_through() {
        let unmasked = [FIN | BINARY, 1, 7].to_vec();
        let reserved = frame(FIN | 0x40 | BINARY, b"x");
        let stray = frame(FIN | CONTINUATION, b"x");
        for sent in [unmasked, reserved, stray, frame(FIN | 3, b"x")] {
            let mut pieces = MessageSplitter::new(tokio::io::empty(), Content::Channels, 1 << 20);
            pieces.take(&sent);
            assert_eq!(pieces.ready, sent);
        }
        // Only the head of a frame beyond the limit.
        let mut pieces = MessageSplitter::new(tokio::io::empty(), Content::Channels, 1 << 20);
        let long = [&[FIN | BINARY, 0xff][..], &(2u64 << 20).to_be_bytes(), &[0; 4]].concat();
        pieces.take(&long);
        assert_eq!(pieces.ready, long);
        let nested = [frame(BINARY, b"x"), frame(FIN | BINARY, b"y")].concat();
        let (frames, _) = through(Content::Channels, &nested, 100);
        assert_eq!(frames, [(FIN | BINARY, b"x".to_vec()), (FIN | CONTINUATION, b"y".to_vec())]);
    }

    #[test]
    fn does_not_reserve_memory_for_announced_lengths() {
        for (first, length) in [(FIN | BINARY, 1u64 << 20), (BINARY, 1 << 20), (FIN | BINARY, u64::MAX)] {
            let mut pieces = MessageSplitter::new(tokio::io::empty(), Content::Channels, 1 << 20);
            pieces.take(&[&[first, 0xff][..], &length.to_be_bytes(), &[0; 4]].concat());
            assert!(pieces.ready.capacity() < 1024);
        }
        // Endless fragments.
        let mut pieces = MessageSplitter::new(tokio::io::empty(), Content::Ignored, 1 << 20);
        pieces.take(&frame(BINARY, b"x"));
        (0..10_000).for_each(|_| pieces.take(&frame(CONTINUATION, &[0; 1000])));
        assert!(pieces.ready.capacity() < 1024);
    }
}
