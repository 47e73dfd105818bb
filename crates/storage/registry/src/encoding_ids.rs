//! The IDs of the encodings of a version.

use binnacle_watchcache::EncodingId;

/// The encoding IDs of a version: JSON and protobuf for each served version of a resource.
#[derive(Clone, Copy, Debug)]
pub(crate) struct EncodingIds {
    pub(crate) json: EncodingId,
    pub(crate) protobuf: EncodingId,
}

impl EncodingIds {
    /// Returns the IDs of the n-th version of a resource.
    pub(crate) fn of_version(n: usize) -> Self {
        let base = (n * 2) as u16;
        Self { json: EncodingId(base), protobuf: EncodingId(base + 1) }
    }
}
