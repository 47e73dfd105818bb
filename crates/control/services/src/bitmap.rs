//! A bitmap of taken numbers in kube-apiserver's storage format: the big-endian bytes of one large number, whose bit
//! *i* is set if number *i* is taken.

/// A bitmap of fixed length.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bitmap {
    bits: Vec<bool>,
}

impl Bitmap {
    pub(crate) fn new(len: usize) -> Self {
        Self { bits: vec![false; len] }
    }

    /// Reads a bitmap; bits beyond its length are dropped.
    pub(crate) fn from_bytes(bytes: &[u8], len: usize) -> Self {
        let bit = |i: usize| {
            let byte = bytes.len().checked_sub(1 + i / 8).and_then(|at| bytes.get(at)).copied().unwrap_or(0);
            byte >> (i % 8) & 1 == 1
        };
        Self { bits: (0..len).map(bit).collect() }
    }

    /// Returns the bytes without leading zeros.
    pub(crate) fn to_bytes(&self) -> Vec<u8> {
        let Some(top) = self.bits.iter().rposition(|bit| *bit) else { return Vec::new() };
        let mut bytes = vec![0u8; top / 8 + 1];
        let last = bytes.len() - 1;
        for (i, _) in self.bits.iter().enumerate().filter(|(_, bit)| **bit) {
            bytes[last - i / 8] |= 1 << (i % 8);
        }
        bytes
    }

    pub(crate) fn len(&self) -> usize {
        self.bits.len()
    }

    pub(crate) fn has(&self, i: usize) -> bool {
        self.bits.get(i).copied().unwrap_or(false)
    }

    /// Sets a bit; one beyond the length is ignored.
    pub(crate) fn set(&mut self, i: usize, taken: bool) {
        if let Some(bit) = self.bits.get_mut(i) {
            *bit = taken;
        }
    }

    /// Returns the taken numbers.
    pub(crate) fn taken(&self) -> impl Iterator<Item = usize> {
        self.bits.iter().enumerate().filter(|(_, bit)| **bit).map(|(i, _)| i)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodes_as_big_endian_number() {
        for (taken, bytes) in [
            (vec![], vec![]),
            (vec![0], vec![1]),
            (vec![3, 8], vec![1, 8]),
            (vec![0, 16], vec![1, 0, 1]),
            (vec![99], [vec![8], vec![0; 12]].concat()),
        ] {
            let mut bitmap = Bitmap::new(100);
            taken.iter().for_each(|i| bitmap.set(*i, true));
            assert_eq!(bitmap.to_bytes(), bytes);
            assert_eq!(Bitmap::from_bytes(&bytes, 100), bitmap);
            assert_eq!(bitmap.taken().collect::<Vec<_>>(), taken);
        }
        assert!(!Bitmap::from_bytes(&[0xff; 4], 3).has(3));
    }
}
