//! HTTP/2 as frames, for misbehaving clients.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use rustls_pki_types::ServerName;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::https::Handshake;

pub const DATA: u8 = 0;
pub const HEADERS: u8 = 1;
pub const RST_STREAM: u8 = 3;
pub const SETTINGS: u8 = 4;
pub const PING: u8 = 6;
pub const GOAWAY: u8 = 7;
pub const WINDOW_UPDATE: u8 = 8;

pub const END_STREAM: u8 = 1;
pub const ACK: u8 = 1;
const END_HEADERS: u8 = 4;

/// The setting of a stream's initial window.
pub const INITIAL_WINDOW: u16 = 4;

/// One frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Frame {
    pub kind: u8,
    pub flags: u8,
    pub stream: u32,
    pub payload: Vec<u8>,
}

impl Frame {
    #[must_use]
    pub fn new(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Self {
        Self { kind, flags, stream, payload: payload.to_vec() }
    }

    #[must_use]
    pub fn ends_stream(&self) -> bool {
        matches!(self.kind, DATA | HEADERS) && self.flags & END_STREAM != 0
    }

    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let length = u32::try_from(self.payload.len()).unwrap().to_be_bytes();
        let mut bytes = vec![length[1], length[2], length[3], self.kind, self.flags];
        bytes.extend(self.stream.to_be_bytes());
        bytes.extend(&self.payload);
        bytes
    }

    /// Makes the head of a request.
    #[must_use]
    pub fn request(stream: u32, method: &str, path: &str, headers: &[(&str, &str)], ends: bool) -> Self {
        let mut block = Vec::new();
        let fixed = [(":method", method), (":scheme", "https"), (":authority", "localhost"), (":path", path)];
        for (name, value) in fixed.iter().chain(headers) {
            // A literal field without indexing, with a literal name.
            block.push(0);
            for text in [name, value] {
                let length = u8::try_from(text.len()).unwrap();
                assert!(length < 127, "{text}");
                block.push(length);
                block.extend(text.as_bytes());
            }
        }
        Self::new(HEADERS, END_HEADERS | if ends { END_STREAM } else { 0 }, stream, &block)
    }
}

/// A connection.
pub struct Frames {
    stream: TlsStream<TcpStream>,
    read: Vec<u8>,
}

impl Frames {
    /// Opens an HTTP/2 connection with these settings. If the server closes it at once, as after a long delay of this
    /// process, [`Frames::next`] returns `None`.
    pub async fn connect(address: SocketAddr, handshake: &Handshake, settings: &[(u16, u32)]) -> Self {
        let tcp = TcpStream::connect(address).await.unwrap();
        tcp.set_nodelay(true).unwrap();
        let connector = TlsConnector::from(Arc::new(handshake.clone().alpn(&["h2"]).config()));
        let stream = connector.connect(ServerName::try_from(handshake.name).unwrap(), tcp).await.unwrap();
        let mut frames = Self { stream, read: Vec::new() };
        let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let mut payload = Vec::new();
        for (name, value) in settings {
            payload.extend(name.to_be_bytes());
            payload.extend(value.to_be_bytes());
        }
        bytes.extend(Frame::new(SETTINGS, 0, 0, &payload).bytes());
        let _ = frames.write(&bytes).await;
        frames
    }

    pub async fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.stream.write_all(bytes).await?;
        self.stream.flush().await
    }

    pub async fn send(&mut self, frame: &Frame) -> std::io::Result<()> {
        self.write(&frame.bytes()).await
    }

    /// Returns the next frame; `None` when the connection has ended, orderly or not.
    pub async fn next(&mut self) -> Option<Frame> {
        loop {
            if let [a, b, c, kind, flags, rest @ ..] = self.read.as_slice() {
                let length = usize::from(*a) << 16 | usize::from(*b) << 8 | usize::from(*c);
                if rest.len() >= 4 + length {
                    let stream = u32::from_be_bytes([rest[0], rest[1], rest[2], rest[3]]);
                    let frame = Frame::new(*kind, *flags, stream, &rest[4..4 + length]);
                    self.read.drain(..9 + length);
                    return Some(frame);
                }
            }
            let mut piece = [0; 16 * 1024];
            match self.stream.read(&mut piece).await {
                Ok(count) if count > 0 => self.read.extend_from_slice(&piece[..count]),
                _ => return None,
            }
        }
    }

    /// Returns the next frame, except those that keep the connection alive, which are answered.
    pub async fn next_answering(&mut self) -> Option<Frame> {
        loop {
            let frame = self.next().await?;
            match frame.kind {
                PING | SETTINGS if frame.flags & ACK != 0 => {}
                PING => drop(self.send(&Frame::new(PING, ACK, 0, &frame.payload)).await),
                SETTINGS => drop(self.send(&Frame::new(SETTINGS, ACK, 0, &[])).await),
                _ => return Some(frame),
            }
        }
    }

    /// Reads until no frame arrives within `patience`.
    pub async fn read_for(&mut self, patience: Duration) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Ok(Some(frame)) = tokio::time::timeout(patience, self.next_answering()).await {
            frames.push(frame);
        }
        frames
    }

    /// Reads until the connection ends, and returns the frames.
    pub async fn rest(&mut self) -> Vec<Frame> {
        let mut frames = Vec::new();
        while let Some(frame) = self.next_answering().await {
            frames.push(frame);
        }
        frames
    }

    /// Sends the same bytes until the connection ends, at most `times` times; returns true if it has ended. Received
    /// bytes are discarded.
    pub async fn flood(self, bytes: &[u8], times: usize) -> bool {
        let (mut read, mut write) = tokio::io::split(self.stream);
        let reading = tokio::spawn(async move {
            let mut piece = [0; 16 * 1024];
            while matches!(read.read(&mut piece).await, Ok(count) if count > 0) {}
        });
        for _ in 0..times {
            if reading.is_finished() || write.write_all(bytes).await.is_err() {
                break;
            }
        }
        let _ = write.flush().await;
        // The server still has to read the bytes that were sent.
        tokio::time::timeout(crate::TIMEOUT, reading).await.is_ok()
    }
}
