//! Digests of contents: they are equal for equal objects, whatever the order, the revisions and the prefix of the keys.

use std::fmt;

use xxhash_rust::xxh3::Xxh3;

/// The part of a [`ContentDigest`] that one object contributes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Content {
    // Bytes, because tools hold one of these for each key.
    hash: [u8; 16],
    bytes: u32,
}

/// The number, the bytes and the sum of the hashes of objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContentDigest {
    pub objects: u64,
    /// The bytes of all keys and values.
    pub bytes: u64,
    sum: u128,
}

// === impl Content ===

impl Content {
    /// Returns the content of a key. Its first `prefix` bytes do not count.
    pub fn of(key: &[u8], prefix: usize, value: &[u8]) -> Self {
        let path = key.get(prefix..).unwrap_or_default();
        let mut hash = Xxh3::new();
        hash.update(&(path.len() as u64).to_le_bytes());
        hash.update(path);
        hash.update(value);
        let bytes = u32::try_from(key.len() + value.len()).unwrap_or(u32::MAX);
        Self { hash: hash.digest128().to_le_bytes(), bytes }
    }
}

// === impl ContentDigest ===

impl ContentDigest {
    /// Returns the digest of `objects` objects from its [text](fmt::Display), `None` if it is not one.
    pub fn parse(objects: u64, bytes: u64, digest: &str) -> Option<Self> {
        let is_hexadecimal = digest.len() == 32 && digest.bytes().all(|byte| byte.is_ascii_hexdigit());
        let sum = u128::from_str_radix(digest, 16).ok().filter(|_| is_hexadecimal)?;
        Some(Self { objects, bytes, sum })
    }

    pub fn add(&mut self, content: Content) {
        self.objects = self.objects.wrapping_add(1);
        self.bytes = self.bytes.wrapping_add(content.bytes.into());
        self.sum = self.sum.wrapping_add(u128::from_le_bytes(content.hash));
    }

    pub fn remove(&mut self, content: Content) {
        self.objects = self.objects.wrapping_sub(1);
        self.bytes = self.bytes.wrapping_sub(content.bytes.into());
        self.sum = self.sum.wrapping_sub(u128::from_le_bytes(content.hash));
    }

    /// Adds the objects of another digest.
    pub fn merge(&mut self, other: &Self) {
        self.objects = self.objects.wrapping_add(other.objects);
        self.bytes = self.bytes.wrapping_add(other.bytes);
        self.sum = self.sum.wrapping_add(other.sum);
    }

    /// Returns true if both have the same objects. Their bytes differ if the prefixes of their keys do.
    pub fn has_same_objects(&self, other: &Self) -> bool {
        (self.objects, self.sum) == (other.objects, other.sum)
    }
}

/// The digest alone, without the number of objects.
impl fmt::Display for ContentDigest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(objects: &[(&str, &str)]) -> ContentDigest {
        let mut digest = ContentDigest::default();
        for (key, value) in objects {
            digest.add(Content::of(key.as_bytes(), 3, value.as_bytes()));
        }
        digest
    }

    #[test]
    fn depends_on_paths_and_values_alone() {
        let both = digest(&[("/a/x", "1"), ("/a/y", "2")]);
        assert_eq!(both, digest(&[("/b/y", "2"), ("/b/x", "1")]));
        let mut later = digest(&[("/a/x", "1"), ("/a/y", "3"), ("/a/z", "")]);
        later.remove(Content::of(b"/a/z", 3, b""));
        assert!(!later.has_same_objects(&both));
        later.remove(Content::of(b"/a/y", 3, b"3"));
        later.merge(&digest(&[("/a/y", "2")]));
        assert_eq!(later, both);
        assert_eq!((both.objects, both.bytes), (2, 10));
        for others in [[("/a/x", "2"), ("/a/y", "1")], [("/a/x", "1"), ("/a/z", "2")], [("/a/x1", ""), ("/a/y", "2")]] {
            assert!(!digest(&others).has_same_objects(&both), "{others:?}");
        }
        assert_eq!(ContentDigest::parse(2, 10, &both.to_string()), Some(both));
        for text in ["", "+0000000000000000000000000000001", "1", &"g".repeat(32), &"0".repeat(33)] {
            assert_eq!(ContentDigest::parse(2, 10, text), None, "{text}");
        }
    }
}
