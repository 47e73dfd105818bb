//! Parts of an answer that are made but not sent: small pieces are joined, large ones shared with other holders.

use binnacle_request::Pieces;
use bytes::Bytes;

/// About so much leaves together.
const ENOUGH: usize = 64 * 1024;
/// Copying a piece of this size costs more than referring to it.
const LARGE: usize = 2048;
/// The bytes between the objects of a list in JSON, most of the time.
const BETWEEN: &[u8] = b",{";

#[derive(Default)]
pub(crate) struct Gathered {
    pieces: Pieces,
    /// The buffer for the bytes after the pieces.
    pub small: Vec<u8>,
}

impl From<Vec<u8>> for Gathered {
    fn from(small: Vec<u8>) -> Self {
        Self { small, ..Self::default() }
    }
}

impl Gathered {
    /// Adds bytes that others may hold.
    pub(crate) fn share(&mut self, bytes: Bytes) {
        if bytes.len() < LARGE {
            self.small.extend_from_slice(&bytes);
            return;
        }
        self.pieces.push(match &*self.small {
            BETWEEN => Bytes::from_static(BETWEEN),
            small => Bytes::copy_from_slice(small),
        });
        self.small.clear();
        self.pieces.push(bytes);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.pieces.is_empty() && self.small.is_empty()
    }

    pub(crate) fn is_enough(&self) -> bool {
        self.pieces.len() + self.small.len() >= ENOUGH
    }

    /// All of it; what comes next is gathered anew.
    pub(crate) fn take(&mut self) -> Pieces {
        let mut pieces = std::mem::take(&mut self.pieces);
        pieces.push(Bytes::from(std::mem::take(&mut self.small)));
        pieces
    }
}
