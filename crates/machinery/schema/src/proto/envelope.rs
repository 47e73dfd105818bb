//! The bytes around messages: the envelope with the kind, the frames of a watch, the head of a list whose items are
//! already encoded.

use std::borrow::Cow;
use std::ops::Range;

use super::error::ProtoError;
use super::scalars;
use super::wire::{DELIMITED, Reader, VARINT, put_bytes, put_delimited, put_key, put_varint, varint_len};

/// The first bytes of every enveloped message.
pub const MAGIC: &[u8; 4] = b"k8s\0";

/// A parsed envelope: `runtime.Unknown`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Envelope<'a> {
    pub api_version: Cow<'a, str>,
    pub kind: Cow<'a, str>,
    /// The message.
    pub raw: &'a [u8],
    pub content_encoding: Cow<'a, str>,
    pub content_type: Cow<'a, str>,
}

/// Wraps a message in an envelope; `raw` appends the message.
pub fn wrap(api_version: &str, kind: &str, raw: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut out = Vec::with_capacity(64);
    wrap_into(api_version, kind, raw, &mut out);
    out
}

/// Like [`wrap`], at the end of a buffer.
pub fn wrap_into(api_version: &str, kind: &str, raw: impl FnOnce(&mut Vec<u8>), out: &mut Vec<u8>) {
    head(api_version, kind, out);
    put_key(2, DELIMITED, out);
    put_delimited(out, raw);
    out.extend_from_slice(TAIL);
}

/// Parses an envelope.
pub fn unwrap(data: &[u8]) -> Result<Envelope<'_>, ProtoError> {
    if data.is_empty() {
        return Err(ProtoError::malformed("empty data"));
    }
    let Some(data) = data.strip_prefix(MAGIC) else {
        return Err(ProtoError::malformed(
            "provided data does not appear to be a protobuf message, expected prefix [107 56 115 0]",
        ));
    };
    if data.is_empty() {
        return Err(ProtoError::malformed("empty body"));
    }
    let mut envelope = Envelope::default();
    let mut reader = Reader::new(data);
    while let Some(key) = reader.key("Unknown")? {
        match key.tag {
            1 => {
                let mut meta = Reader::new(scalars::delimited(key, &mut reader, "typeMeta")?);
                while let Some(key) = meta.key("TypeMeta")? {
                    match key.tag {
                        1 => envelope.api_version = scalars::text(scalars::delimited(key, &mut meta, "apiVersion")?),
                        2 => envelope.kind = scalars::text(scalars::delimited(key, &mut meta, "kind")?),
                        _ => meta.skip(key)?,
                    }
                }
            }
            2 => envelope.raw = scalars::delimited(key, &mut reader, "raw")?,
            3 => envelope.content_encoding = scalars::text(scalars::delimited(key, &mut reader, "contentEncoding")?),
            4 => envelope.content_type = scalars::text(scalars::delimited(key, &mut reader, "contentType")?),
            _ => reader.skip(key)?,
        }
    }
    Ok(envelope)
}

/// The bytes after the message: an empty encoding and an empty content type, which are always written.
const TAIL: &[u8; 4] = &[0x1a, 0, 0x22, 0];

fn head(api_version: &str, kind: &str, out: &mut Vec<u8>) {
    out.extend_from_slice(MAGIC);
    put_key(1, DELIMITED, out);
    put_delimited(out, |out| {
        put_key(1, DELIMITED, out);
        put_bytes(api_version.as_bytes(), out);
        put_key(2, DELIMITED, out);
        put_bytes(kind.as_bytes(), out);
    });
}

// === Lists ===

/// The metadata of a list.
#[derive(Clone, Copy, Debug, Default)]
pub struct ListMeta<'a> {
    pub resource_version: &'a str,
    pub continue_token: &'a str,
    pub remaining_item_count: Option<i64>,
    /// The shard selector of the list; empty if it is not a shard.
    pub shard: &'a str,
}

/// Appends the beginning of an enveloped list, up to its first item. `items_len` is the sum of [`list_item_len`] of all
/// items: protobuf writes a list's length before its contents.
pub fn list_head(api_version: &str, kind: &str, meta: ListMeta<'_>, items_len: usize, out: &mut Vec<u8>) {
    let mut metadata = Vec::with_capacity(64);
    put_key(1, DELIMITED, &mut metadata);
    put_delimited(&mut metadata, |out| {
        // The self link, which servers no longer set.
        put_key(1, DELIMITED, out);
        put_bytes(b"", out);
        put_key(2, DELIMITED, out);
        put_bytes(meta.resource_version.as_bytes(), out);
        put_key(3, DELIMITED, out);
        put_bytes(meta.continue_token.as_bytes(), out);
        if let Some(remaining) = meta.remaining_item_count {
            put_key(4, VARINT, out);
            put_varint(remaining as u64, out);
        }
        if !meta.shard.is_empty() {
            put_key(5, DELIMITED, out);
            put_delimited(out, |out| {
                put_key(1, DELIMITED, out);
                put_bytes(meta.shard.as_bytes(), out);
            });
        }
    });
    head(api_version, kind, out);
    put_key(2, DELIMITED, out);
    put_varint((metadata.len() + items_len) as u64, out);
    out.extend_from_slice(&metadata);
}

/// Returns the size in a list of an item whose message has `len` bytes.
pub fn list_item_len(len: usize) -> usize {
    1 + varint_len(len as u64) + len
}

/// Appends the bytes before the message of an item.
pub fn list_item_header(len: usize, out: &mut Vec<u8>) {
    put_key(2, DELIMITED, out);
    put_varint(len as u64, out);
}

/// Appends the end of a list after [`list_head`] and its items.
pub fn list_tail(out: &mut Vec<u8>) {
    out.extend_from_slice(TAIL);
}

// === Watches ===

/// Appends the frame of a watch event up to its object, an enveloped message of `len` bytes that must follow.
pub fn watch_frame_head(event_type: &str, len: usize, out: &mut Vec<u8>) {
    let extension = 1 + varint_len(len as u64) + len;
    let start = out.len();
    out.extend_from_slice(&[0; 4]);
    put_key(1, DELIMITED, out);
    put_bytes(event_type.as_bytes(), out);
    put_key(2, DELIMITED, out);
    put_varint(extension as u64, out);
    put_key(1, DELIMITED, out);
    put_varint(len as u64, out);
    let frame = out.len() - start - 4 + len;
    // Frames of 4 GiB are not possible: objects have a much lower limit.
    out[start..start + 4].copy_from_slice(&(frame as u32).to_be_bytes());
}

/// Appends the frame of a watch event with its enveloped object.
pub fn watch_frame(event_type: &str, object: &[u8], out: &mut Vec<u8>) {
    watch_frame_head(event_type, object.len(), out);
    out.extend_from_slice(object);
}

// === resourceVersion ===

/// The position of the resourceVersion in a stored message, found without decoding: `metadata` is field 1 of every
/// object, and `resourceVersion` is its field 6.
#[derive(Clone, Debug)]
pub struct Splice<'a> {
    raw: &'a [u8],
    /// The record of `metadata`.
    record: Range<usize>,
    /// The contents of that record.
    metadata: Range<usize>,
    /// The record of `resourceVersion`, empty if there is none.
    version: Range<usize>,
}

impl<'a> Splice<'a> {
    pub fn find(raw: &'a [u8]) -> Result<Self, ProtoError> {
        let mut splice = Self { raw, record: 0..0, metadata: 0..0, version: 0..0 };
        let mut reader = Reader::new(raw);
        while let Some(key) = reader.key("object")? {
            if key.tag == 1 {
                let metadata = scalars::delimited(key, &mut reader, "metadata")?;
                let end = reader.position();
                splice.record = key.start..end;
                splice.metadata = end - metadata.len()..end;
                break;
            }
            reader.skip(key)?;
        }
        splice.version = splice.metadata.start..splice.metadata.start;
        let mut reader = Reader::of_range(raw, splice.metadata.clone());
        while let Some(key) = reader.key("ObjectMeta")? {
            reader.skip(key)?;
            match key.tag {
                6 => {
                    splice.version = key.start..reader.position();
                    break;
                }
                ..6 => splice.version = reader.position()..reader.position(),
                _ => {}
            }
        }
        Ok(splice)
    }

    /// Returns the length of the message with this version.
    pub fn spliced_len(&self, version: &str) -> usize {
        self.raw.len() - self.record.len() + list_item_len(self.metadata_len(version))
    }

    /// Appends the message with this version.
    pub fn write(&self, version: &str, out: &mut Vec<u8>) {
        out.reserve(self.spliced_len(version));
        out.extend_from_slice(&self.raw[..self.record.start]);
        put_key(1, DELIMITED, out);
        put_varint(self.metadata_len(version) as u64, out);
        out.extend_from_slice(&self.raw[self.metadata.start..self.version.start]);
        put_key(6, DELIMITED, out);
        put_bytes(version.as_bytes(), out);
        out.extend_from_slice(&self.raw[self.version.end..self.metadata.end]);
        out.extend_from_slice(&self.raw[self.record.end..]);
    }

    fn metadata_len(&self, version: &str) -> usize {
        self.metadata.len() - self.version.len() + list_item_len(version.len())
    }
}

/// Returns the message with this resourceVersion.
pub fn splice_resource_version(raw: &[u8], version: &str) -> Result<bytes::Bytes, ProtoError> {
    let mut out = Vec::new();
    Splice::find(raw)?.write(version, &mut out);
    Ok(out.into())
}
