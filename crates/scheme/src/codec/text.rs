//! JSON stored as JSON, with sorted members: for kinds whose schema is created at run time. An object names its own
//! version, and responses are the stored text with the resourceVersion inserted.
//!
//! An object stored as CBOR is kept as JSON too, unless it has numbers that JSON does not tell from integers.

use binnacle_schema::{Limits, Message, MessageRef, Object, Value, canonical, cbor, decode, json};
use bytes::Bytes;

use super::{Codec, LIMITS, MediaType, Named, StoredKind};

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

    /// Returns the version and kind that a stored object names.
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
        let mut object = Self::tree(stored, &LIMITS)?;
        if let Some(custom) = kind.custom {
            custom.read_stored(&mut object)?;
        }
        canonical::sort_free_form(&mut object);
        Ok(object)
    }

    /// The defaults of this version are not set again: an object that is stored in another one has those of that.
    fn read_kept(&self, _: &StoredKind<'_>, kept: &[u8]) -> Result<Value, String> {
        let mut object = Self::tree(kept, &LIMITS)?;
        canonical::sort_free_form(&mut object);
        Ok(object)
    }

    /// Returns an empty message: objects are read whole.
    fn narrow(&self, _: &MessageRef, _: &[&[&str]]) -> Message {
        Message::new("", Vec::new())
    }

    fn index(&self, kind: &StoredKind<'_>, _: &Message, stored: &Bytes) -> Result<(Value, Option<Bytes>), String> {
        let object = self.read(kind, stored)?;
        let written = match is_cbor(stored) && cbor::has_whole_floats(&object) {
            true => self.write(kind, MediaType::Cbor, &object),
            false => text(&object),
        };
        let kept = (written != *stored).then(|| Bytes::from(written));
        Ok((object, kept))
    }

    fn to_json(&self, _: &Named<'_>, kept: &[u8], resource_version: &str) -> Result<Vec<u8>, String> {
        let read;
        let kept = if is_cbor(kept) {
            let mut tree = Self::tree(kept, &LIMITS)?;
            canonical::sort_free_form(&mut tree);
            read = text(&tree);
            &read
        } else {
            kept
        };
        let text = kept.strip_suffix(b"\n").unwrap_or(kept);
        json::with_text_member(text, "metadata", "resourceVersion", resource_version)
            .ok_or_else(|| "it is no object with metadata".to_owned())
    }

    fn to_protobuf(&self, _: &[u8], _: &str) -> Result<Bytes, String> {
        Err("it has no form in protobuf".to_owned())
    }

    fn canonicalize(&self, _: &MessageRef, object: &mut Value) {
        canonical::sort_free_form(object);
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
