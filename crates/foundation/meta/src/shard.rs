//! Shard selectors, which select objects by ranges of a hash of their UID or namespace (KEP 5866).

use std::fmt;

/// Selects the objects whose hash is in one of the ranges.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShardSelector {
    pub key: ShardKey,
    pub ranges: Vec<ShardRange>,
}

/// The field that is hashed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ShardKey {
    Uid,
    Namespace,
}

/// The hashes from `start` up to, but excluding, `end`, which may be 2^64.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShardRange {
    pub start: u128,
    pub end: u128,
}

impl ShardSelector {
    /// Returns true if an object with this key is selected.
    pub fn selects(&self, value: &str) -> bool {
        let hash = u128::from(fnv1a(value));
        self.ranges.iter().any(|range| (range.start..range.end).contains(&hash))
    }
}

/// Formats the selector as it appears in the metadata of lists.
impl fmt::Display for ShardSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, ShardRange { start, end }) in self.ranges.iter().enumerate() {
            let between = if i == 0 { "" } else { " || " };
            write!(f, "{between}shardRange({}, '{start:#018x}', '{end:#018x}')", self.key.path())?;
        }
        Ok(())
    }
}

impl ShardKey {
    pub const ALL: [Self; 2] = [Self::Uid, Self::Namespace];

    /// Returns the path as it appears in a selector.
    pub fn path(self) -> &'static str {
        match self {
            Self::Uid => "object.metadata.uid",
            Self::Namespace => "object.metadata.namespace",
        }
    }
}

/// The 64-bit FNV-1a hash.
fn fnv1a(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hashes_with_fnv1a() {
        for (text, want) in
            [("", 0xcbf2_9ce4_8422_2325), ("a", 0xaf63_dc4c_8601_ec8c), ("foobar", 0x8594_4171_f739_67e8)]
        {
            assert_eq!(fnv1a(text), want, "{text}");
        }
    }

    #[test]
    fn selects_by_hash_range() {
        let half = |start, end| ShardSelector { key: ShardKey::Uid, ranges: vec![ShardRange { start, end }] };
        let (low, high) = (half(0, 1 << 63), half(1 << 63, 1 << 64));
        assert_eq!((low.selects("a"), high.selects("a")), (false, true));
        assert_eq!(low.to_string(), "shardRange(object.metadata.uid, '0x0000000000000000', '0x8000000000000000')");
        let both = ShardSelector { key: ShardKey::Namespace, ranges: [low.ranges, high.ranges].concat() };
        assert!(both.selects("a") && both.selects(""));
        assert_eq!(
            both.to_string(),
            "shardRange(object.metadata.namespace, '0x0000000000000000', '0x8000000000000000') || \
             shardRange(object.metadata.namespace, '0x8000000000000000', '0x10000000000000000')"
        );
    }
}
