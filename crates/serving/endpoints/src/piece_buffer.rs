//! Buffers the unsent parts of a response: small pieces are copied together, large ones are shared.

use binnacle_request::Pieces;
use bytes::Bytes;

/// The number of bytes that are sent together.
const FLUSH_SIZE: usize = 64 * 1024;
/// The size above which copying a piece is more expensive than a reference.
const SHARE_THRESHOLD: usize = 2048;
/// The usual bytes between two objects of a list in JSON.
const ITEM_SEPARATOR: &[u8] = b",{";

#[derive(Default)]
pub(crate) struct PieceBuffer {
    pieces: Pieces,
    /// The bytes after the pieces.
    pub small: Vec<u8>,
}

impl From<Vec<u8>> for PieceBuffer {
    fn from(small: Vec<u8>) -> Self {
        Self { small, ..Self::default() }
    }
}

impl PieceBuffer {
    /// Adds bytes, by reference if they are large.
    pub(crate) fn share(&mut self, bytes: Bytes) {
        if bytes.len() < SHARE_THRESHOLD {
            self.small.extend_from_slice(&bytes);
            return;
        }
        self.pieces.push(match &*self.small {
            ITEM_SEPARATOR => Bytes::from_static(ITEM_SEPARATOR),
            small => Bytes::copy_from_slice(small),
        });
        self.small.clear();
        self.pieces.push(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.small.is_empty()
    }

    pub(crate) fn is_full(&self) -> bool {
        self.pieces.len() + self.small.len() >= FLUSH_SIZE
    }

    /// Returns all bytes and empty_fields the buffer.
    pub(crate) fn take(&mut self) -> Pieces {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.push(Bytes::from(std::mem::take(&mut self.small)));
        pieces
    }
}
