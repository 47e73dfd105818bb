//! The durable marker by which the next start recognizes an interrupted or damaged compaction.

use bytes::{BufMut, Bytes, BytesMut};
use xxhash_rust::xxh3::xxh3_64;

use crate::index::VersionDigest;

/// The durable marker of a compaction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Marker {
    pub(crate) revision: u64,
    /// The digest of the kept versions at or before `revision`.
    pub(crate) kept: VersionDigest,
}

pub(crate) const MARKER_KEY: &[u8] = b"compacted";

impl Marker {
    pub(crate) fn fact(&self) -> (Bytes, Option<Bytes>) {
        let mut value = BytesMut::with_capacity(32);
        value.put_u64_le(self.revision);
        value.put_u64_le(self.kept.count);
        value.put_u64_le(self.kept.sum);
        value.put_u64_le(xxh3_64(&value));
        (Bytes::from_static(MARKER_KEY), Some(value.freeze()))
    }

    pub(crate) fn parse(value: &[u8]) -> Option<Self> {
        let (body, checksum) = value.split_at_checked(24)?;
        if xxh3_64(body).to_le_bytes() != checksum {
            return None;
        }
        let number = |at: usize| Some(u64::from_le_bytes(body.get(at..at + 8)?.try_into().ok()?));
        Some(Self { revision: number(0)?, kept: VersionDigest { count: number(8)?, sum: number(16)? } })
    }
}
