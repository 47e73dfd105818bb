//! Objects stored as JSON with sorted members, for kinds whose schema is created at run time. An object contains its
//! own version, and responses are the stored text with the resourceVersion inserted.
//!
//! An object stored as CBOR is cached as JSON too, unless it has floating point numbers that JSON cannot distinguish
//! from integers. An object that grows a lot when it is read is cached as it is stored.

use binnacle_schema::{Limits, Message, MessageRef, Object, Value, cbor, decode, json};
use bytes::Bytes;

use super::cached::{CachedBytes, Growth, as_stored, too_large, within_object_limits};
use super::{Codec, LIMITS, MediaType, StoredKind};
use crate::{CustomSchema, ReadFailure};

/// The codec of objects stored as JSON.
#[derive(Clone, Copy, Debug)]
pub struct JsonText;

impl JsonText {
    /// Parses a stored object, which is JSON or CBOR.
    pub fn tree(stored: &[u8], limits: &Limits) -> Result<Value, String> {
        match is_cbor(stored) {
            true => cbor::parse(stored, limits).map_err(|error| error.to_string()),
            false => json::parse(stored, limits).map_err(|error| error.to_string()),
        }
    }

    /// Returns the version and kind of a stored object.
    pub fn type_meta(stored: &[u8], limits: &Limits) -> Result<json::TypeMeta, String> {
        match is_cbor(stored) {
            true => decode::cbor_type_meta(stored, limits).map_err(|error| error.to_string()),
            false => json::type_meta(stored, limits).map_err(|error| error.to_string()),
        }
    }
}

fn is_cbor(stored: &[u8]) -> bool {
    stored.starts_with(&cbor::SELF_DESCRIBED)
}

/// Reads a stored object within the limits of one object.
fn complete(custom: Option<&dyn CustomSchema>, stored: &[u8]) -> Result<Value, ReadFailure> {
    let Some(custom) = custom else { return sorted(stored).map_err(ReadFailure::Invalid) };
    within_object_limits(|| {
        let mut object = JsonText::tree(stored, &LIMITS)?;
        custom.read_stored(&mut object)?;
        binnacle_schema::sort_free_form(&mut object);
        Ok(object)
    })
}

fn sorted(text: &[u8]) -> Result<Value, String> {
    let mut object = JsonText::tree(text, &LIMITS)?;
    binnacle_schema::sort_free_form(&mut object);
    Ok(object)
}

fn text(object: &Value) -> Vec<u8> {
    let mut out = Vec::with_capacity(1024);
    json::write(object, &mut out);
    out.push(b'\n');
    out
}

impl Codec for JsonText {
    fn write(&self, _: &StoredKind<'_>, media_type: MediaType, object: &Value) -> Vec<u8> {
        if media_type != MediaType::Cbor {
            return text(object);
        }
        let mut out = Vec::with_capacity(1024);
        cbor::write_sorted(object, &mut out);
        out
    }

    fn read(&self, kind: &StoredKind<'_>, stored: &[u8]) -> Result<Value, String> {
        match CachedBytes::of(stored) {
            CachedBytes::Text(stored) | CachedBytes::AsStored(stored) => {
                complete(kind.custom, stored).map_err(ReadFailure::into_text)
            }
            CachedBytes::TooLarge { why, .. } => Err(why.to_owned()),
        }
    }

    /// Does not set the defaults of this version again: an object that is stored in another version has the defaults of
    /// that version.
    fn read_cached(&self, kind: &StoredKind<'_>, cached: &[u8]) -> Result<Value, String> {
        match CachedBytes::of(cached) {
            CachedBytes::Text(text) => sorted(text),
            CachedBytes::AsStored(_) | CachedBytes::TooLarge { .. } => self.read(kind, cached),
        }
    }

    fn read_to_delete(&self, kind: &StoredKind<'_>, stored: &[u8]) -> Result<Value, String> {
        let cached = CachedBytes::of(stored);
        let read = match cached {
            CachedBytes::Text(stored) | CachedBytes::AsStored(stored) => complete(kind.custom, stored),
            CachedBytes::TooLarge { .. } => return sorted(cached.stored()),
        };
        match read {
            Err(ReadFailure::TooLarge(_)) => sorted(cached.stored()),
            read => read.map_err(ReadFailure::into_text),
        }
    }

    /// Returns an empty message: objects are read whole.
    fn narrow(&self, _: &MessageRef, _: &[&[&str]]) -> Message {
        Message::new("", Vec::new())
    }

    /// An object that is too large to be read has the attributes of its stored form.
    fn index(&self, kind: &StoredKind<'_>, _: &Message, stored: &Bytes) -> Result<(Value, Option<Bytes>), String> {
        if let CachedBytes::TooLarge { stored, .. } = CachedBytes::of(stored) {
            return Ok((sorted(stored)?, None));
        }
        let stored_text = CachedBytes::of(stored).stored();
        let read = complete(kind.custom, stored_text);
        let grown = read.and_then(|object| match kind.custom {
            Some(_) => Growth::of(&object, stored_text.len()).map(|growth| (object, growth)),
            None => Ok((object, Growth { bytes: 0, is_free: true })),
        });
        let (object, growth) = match grown {
            Ok(read) => read,
            Err(ReadFailure::Invalid(why)) => return Err(why),
            Err(ReadFailure::TooLarge(why)) => return Ok((sorted(stored_text)?, Some(too_large(&why, stored_text)))),
        };
        // Only objects that need no conversion webhook can be completed on each read.
        let converts = || kind.custom.is_some_and(|custom| custom.converter().is_some());
        if !growth.is_free && !converts() {
            return Ok((object, Some(as_stored(stored_text))));
        }
        let written = match is_cbor(stored_text) && cbor::has_whole_floats(&object) {
            true => self.write(kind, MediaType::Cbor, &object),
            false => text(&object),
        };
        let cached = (written != *stored).then(|| Bytes::from(written));
        Ok((object, cached))
    }

    fn to_json(&self, kind: &StoredKind<'_>, cached: &[u8], resource_version: &str) -> Result<Vec<u8>, String> {
        let read;
        let cached = match CachedBytes::of(cached) {
            CachedBytes::Text(cached) if !is_cbor(cached) => cached,
            CachedBytes::Text(cached) => {
                read = text(&sorted(cached)?);
                &read
            }
            CachedBytes::AsStored(stored) => {
                read = text(&complete(kind.custom, stored).map_err(ReadFailure::into_text)?);
                &read
            }
            CachedBytes::TooLarge { why, .. } => return Err(why.to_owned()),
        };
        let text = cached.strip_suffix(b"\n").unwrap_or(cached);
        json::with_text_member(text, "metadata", "resourceVersion", resource_version)
            .ok_or_else(|| "it is no object with metadata".to_owned())
    }

    fn to_protobuf(&self, _: &[u8], _: &str) -> Result<Bytes, String> {
        Err("it has no form in protobuf".to_owned())
    }

    fn canonicalize(&self, _: &MessageRef, object: &mut Value) {
        binnacle_schema::sort_free_form(object);
    }

    fn set(&self, _: &MessageRef, members: &mut Object, name: &str, value: Value) {
        members.insert(name, value);
        members.sort_by_name();
    }

    fn set_resource_version(&self, _: &MessageRef, metadata: &mut Object, version: String) {
        metadata.insert("resourceVersion", version);
        metadata.sort_by_name();
    }

    fn names_items(&self) -> bool {
        true
    }
}
