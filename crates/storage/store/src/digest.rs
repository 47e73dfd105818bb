//! Digests of ranges, which tell whether two copies of a range hold the same objects.

use xxhash_rust::xxh3::{xxh3_64, xxh3_128, xxh3_128_with_seed};

use crate::Revision;

/// A hash of a stored value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ValueHash(u64);

/// The part of a digest that one object contributes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fingerprint {
    version: u128,
    value: u128,
}

/// The sums of the fingerprints of all objects of a range. They do not depend on the order in which objects came and
/// went, so that a digest is kept up to date in constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    objects: u64,
    versions: u128,
    values: u128,
}

/// The digest of the range of a watch, as its engine counts it.
#[derive(Clone, Copy, Debug)]
pub struct RangeDigest {
    pub digest: Digest,
    /// A reader of the watch has this digest after the event with this revision (0: before the first one).
    pub last_event: Revision,
    /// False if the reader sees other values than the engine (they are encrypted, for example): then only keys and
    /// revisions can be compared.
    pub has_values: bool,
    /// True if events up to `last_event` may still be read or converted before they come.
    pub is_delayed: bool,
}

// === impl ValueHash ===

impl ValueHash {
    pub fn of(value: &[u8]) -> Self {
        Self(xxh3_64(value))
    }
}

// === impl Fingerprint ===

impl Fingerprint {
    /// Returns the fingerprint of the object at `path`, which is the key without the start of the range.
    pub fn new(path: &[u8], revision: Revision, value: ValueHash) -> Self {
        let version = xxh3_128_with_seed(path, revision.0);
        let mut both = [0; 24];
        both[..16].copy_from_slice(&version.to_le_bytes());
        both[16..].copy_from_slice(&value.0.to_le_bytes());
        Self { version, value: xxh3_128(&both) }
    }
}

// === impl Digest ===

impl Digest {
    pub fn add(&mut self, object: Fingerprint) {
        self.objects = self.objects.wrapping_add(1);
        self.versions = self.versions.wrapping_add(object.version);
        self.values = self.values.wrapping_add(object.value);
    }

    pub fn remove(&mut self, object: Fingerprint) {
        self.objects = self.objects.wrapping_sub(1);
        self.versions = self.versions.wrapping_sub(object.version);
        self.values = self.values.wrapping_sub(object.value);
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> u64 {
        self.objects
    }
}

// === impl RangeDigest ===

impl RangeDigest {
    /// Returns true if a reader with the digest `own` has the same objects, as far as can be compared.
    pub fn matches(&self, own: &Digest) -> bool {
        let digest = &self.digest;
        digest.objects == own.objects
            && digest.versions == own.versions
            && (!self.has_values || digest.values == own.values)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn object(path: &str, revision: u64, value: &str) -> Fingerprint {
        Fingerprint::new(path.as_bytes(), Revision(revision), ValueHash::of(value.as_bytes()))
    }

    fn digest(objects: &[Fingerprint]) -> Digest {
        let mut digest = Digest::default();
        objects.iter().for_each(|object| digest.add(*object));
        digest
    }

    #[test]
    fn the_order_of_changes_does_not_matter() {
        let (a, b, c) = (object("a", 2, "1"), object("b", 3, "2"), object("c", 4, "3"));
        let mut other = digest(&[c, b, a]);
        assert_eq!(digest(&[a, b, c]), other);
        other.remove(b);
        assert_eq!(digest(&[a, c]), other);
        // A sum may be below zero for a while: a removal that overtook its addition.
        let mut early = Digest::default();
        early.remove(b);
        early.add(b);
        assert_eq!(early, Digest::default());
    }

    #[test]
    fn path_revision_and_value_count() {
        let digests =
            [object("a", 2, "1"), object("b", 2, "1"), object("a", 3, "1"), object("a", 2, "2")].map(|o| digest(&[o]));
        for (at, one) in digests.iter().enumerate() {
            assert!(digests[at + 1..].iter().all(|other| other != one));
        }
        // Two objects that exchanged their values.
        let straight = digest(&[object("a", 2, "1"), object("b", 2, "2")]);
        assert_ne!(straight, digest(&[object("a", 2, "2"), object("b", 2, "1")]));
    }

    #[test]
    fn values_that_have_another_form_are_not_compared() {
        let (stored, read) = (digest(&[object("a", 2, "sealed")]), digest(&[object("a", 2, "open")]));
        let of = |has_values| RangeDigest { digest: stored, last_event: Revision(2), has_values, is_delayed: true };
        assert!(of(false).matches(&read));
        assert!(!of(true).matches(&read));
    }
}
