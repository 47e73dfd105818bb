//! Digests of ranges, which show whether two copies of a range hold the same objects.

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

/// The sums of the fingerprints of all objects of a range. They do not depend on the order of additions and removals,
/// so a digest is updated in constant time.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Digest {
    objects: u64,
    versions: u128,
    values: u128,
}

/// The digest of the range of a watch, as the engine computes it.
#[derive(Clone, Copy, Debug)]
pub struct RangeDigest {
    pub digest: Digest,
    /// The digest applies to a reader of the watch after the event with this revision (0: before the first one).
    pub last_event: Revision,
    /// False if the reader sees other values than the engine, for example because they are encrypted. Only keys and
    /// revisions can be compared in that case.
    pub has_values: bool,
    /// True if events up to `last_event` may still be waiting for a read or a conversion before they are delivered.
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
    pub fn add(&mut self, fingerprint: Fingerprint) {
        self.objects = self.objects.wrapping_add(1);
        self.versions = self.versions.wrapping_add(fingerprint.version);
        self.values = self.values.wrapping_add(fingerprint.value);
    }

    pub fn remove(&mut self, fingerprint: Fingerprint) {
        self.objects = self.objects.wrapping_sub(1);
        self.versions = self.versions.wrapping_sub(fingerprint.version);
        self.values = self.values.wrapping_sub(fingerprint.value);
    }

    /// Returns the number of objects.
    pub fn objects(&self) -> u64 {
        self.objects
    }
}

// === impl RangeDigest ===

impl RangeDigest {
    /// Returns true if a reader with the digest `own` has the same objects, as far as they can be compared.
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

    fn fingerprint(path: &str, revision: u64, value: &str) -> Fingerprint {
        Fingerprint::new(path.as_bytes(), Revision(revision), ValueHash::of(value.as_bytes()))
    }

    fn digest(objects: &[Fingerprint]) -> Digest {
        let mut digest = Digest::default();
        objects.iter().for_each(|fingerprint| digest.add(*fingerprint));
        digest
    }

    #[test]
    fn digest_is_independent_of_order() {
        let (a, b, c) = (fingerprint("a", 2, "1"), fingerprint("b", 3, "2"), fingerprint("c", 4, "3"));
        let mut other = digest(&[c, b, a]);
        assert_eq!(digest(&[a, b, c]), other);
        other.remove(b);
        assert_eq!(digest(&[a, c]), other);
        // A sum may be negative for a while: a removal may be applied before its addition.
        let mut early = Digest::default();
        early.remove(b);
        early.add(b);
        assert_eq!(early, Digest::default());
    }

    #[test]
    fn digest_depends_on_path_revision_and_value() {
        let digests =
            [fingerprint("a", 2, "1"), fingerprint("b", 2, "1"), fingerprint("a", 3, "1"), fingerprint("a", 2, "2")]
                .map(|o| digest(&[o]));
        for (at, one) in digests.iter().enumerate() {
            assert!(digests[at + 1..].iter().all(|other| other != one));
        }
        // Two objects with exchanged values.
        let straight = digest(&[fingerprint("a", 2, "1"), fingerprint("b", 2, "2")]);
        assert_ne!(straight, digest(&[fingerprint("a", 2, "2"), fingerprint("b", 2, "1")]));
    }

    #[test]
    fn ignores_values_unless_reader_sees_them() {
        let (stored, read) = (digest(&[fingerprint("a", 2, "sealed")]), digest(&[fingerprint("a", 2, "open")]));
        let of = |has_values| RangeDigest { digest: stored, last_event: Revision(2), has_values, is_delayed: true };
        assert!(of(false).matches(&read));
        assert!(!of(true).matches(&read));
    }
}
