//! Bytes in several pieces. Lists and watch events consist of pieces that all readers share; they are not copied before
//! TLS encrypts them.

use std::collections::VecDeque;
use std::io::IoSlice;

use bytes::{Buf, Bytes};

/// The ordered pieces of a body frame. The common case of a single piece does not allocate.
#[derive(Clone, Debug, Default)]
pub struct Pieces {
    /// Empty only if all pieces are.
    first: Bytes,
    /// None of these is empty.
    rest: VecDeque<Bytes>,
    /// The length of `rest`.
    behind: usize,
}

impl Pieces {
    pub fn push(&mut self, piece: Bytes) {
        if self.first.is_empty() {
            self.first = piece;
        } else if !piece.is_empty() {
            self.behind += piece.len();
            self.rest.push_back(piece);
        }
    }

    pub fn len(&self) -> usize {
        self.first.len() + self.behind
    }

    pub fn is_empty(&self) -> bool {
        self.first.is_empty()
    }

    /// Iterates over the pieces, skipping empty ones.
    pub fn iter(&self) -> impl Iterator<Item = &Bytes> {
        std::iter::once(&self.first).chain(&self.rest).filter(|piece| !piece.is_empty())
    }

    /// Removes and returns the first `count` bytes.
    #[must_use]
    pub fn split_to(&mut self, count: usize) -> Self {
        if count >= self.len() {
            return std::mem::take(self);
        }
        let mut taken = Self::default();
        let mut left = count;
        while left >= self.first.len() {
            left -= self.first.len();
            taken.push(std::mem::take(&mut self.first));
            // There is another piece, because `count` is less than the total length.
            self.first = self.rest.pop_front().unwrap_or_default();
            self.behind -= self.first.len();
        }
        taken.push(self.first.split_to(left));
        taken
    }

    /// Returns the bytes as one piece, copying if there are several.
    pub fn into_bytes(mut self) -> Bytes {
        if self.rest.is_empty() { self.first } else { self.copy_to_bytes(self.len()) }
    }
}

/// Equal if the bytes are equal, regardless of the piece boundaries.
impl PartialEq for Pieces {
    fn eq(&self, other: &Self) -> bool {
        self.len() == other.len() && self.iter().flatten().eq(other.iter().flatten())
    }
}

impl Eq for Pieces {}

impl From<Bytes> for Pieces {
    fn from(first: Bytes) -> Self {
        Self { first, ..Self::default() }
    }
}

impl Buf for Pieces {
    fn remaining(&self) -> usize {
        self.len()
    }

    fn chunk(&self) -> &[u8] {
        &self.first
    }

    fn chunks_vectored<'a>(&'a self, slices: &mut [IoSlice<'a>]) -> usize {
        let mut filled = 0;
        for (slice, piece) in slices.iter_mut().zip(self.iter()) {
            *slice = IoSlice::new(piece);
            filled += 1;
        }
        filled
    }

    fn advance(&mut self, mut count: usize) {
        while count >= self.first.len() {
            count -= self.first.len();
            let Some(next) = self.rest.pop_front() else {
                assert!(count == 0, "advanced beyond the end");
                self.first.clear();
                return;
            };
            self.behind -= next.len();
            self.first = next;
        }
        self.first.advance(count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn filled(sizes: &[usize]) -> Pieces {
        let mut pieces = Pieces::default();
        let mut value = 0;
        for size in sizes {
            pieces.push(
                (0..*size)
                    .map(|_| {
                        value += 1;
                        value as u8
                    })
                    .collect(),
            );
        }
        pieces
    }

    #[test]
    fn reads_pieces_as_one_buffer() {
        for sizes in [&[][..], &[0], &[3], &[0, 3], &[3, 0, 2], &[1, 1, 1, 300], &[300, 1, 0, 0, 7]] {
            let total: usize = sizes.iter().sum();
            let want: Vec<u8> = (1..=total).map(|value| value as u8).collect();
            for step in [1, 2, 3, total.max(1)] {
                let (mut pieces, mut read) = (filled(sizes), Vec::new());
                while !pieces.is_empty() {
                    assert_eq!(pieces.remaining(), total - read.len());
                    let mut slices = [IoSlice::new(&[]); 16];
                    let count = pieces.chunks_vectored(&mut slices);
                    let all: Vec<u8> = slices[..count].iter().flat_map(|slice| slice.to_vec()).collect();
                    assert_eq!(all, want[read.len()..]);
                    assert!(slices[..count].iter().all(|slice| !slice.is_empty()));
                    let step = step.min(pieces.remaining());
                    read.extend_from_slice(&all[..step]);
                    pieces.advance(step);
                }
                assert_eq!(read, want);
                let (mut pieces, mut split) = (filled(sizes), Vec::new());
                while !pieces.is_empty() {
                    split.extend_from_slice(&pieces.split_to(step).into_bytes());
                    assert_eq!(pieces.len(), total - split.len());
                }
                assert_eq!(split, want);
                assert_eq!(filled(sizes).into_bytes(), want);
                assert_eq!(pieces.chunks_vectored(&mut [IoSlice::new(&[])]), 0);
            }
        }
    }
}
