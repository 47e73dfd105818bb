//! Codecs convert objects to stored bytes, and stored bytes to responses. There are two: the protobuf envelope for
//! built-in kinds, and JSON for custom resources.

mod cached;
mod envelope;
mod text;

use std::str::FromStr;

use binnacle_schema::{Limits, Message, MessageRef, Object, Value};
use bytes::Bytes;

use crate::{CustomSchema, Kinds, Strategy};

pub use cached::{Growth, text_length, too_large, too_large_reason, within_object_limits};
pub use envelope::Envelope;
pub use text::JsonText;

/// Encoding and decoding of a kind's objects. *Cached* bytes are the bytes in the watch cache: the stored bytes, or the
/// result of [`Codec::index`].
pub trait Codec: Send + Sync + 'static {
    /// Encodes a canonical object for the store.
    fn write(&self, kind: &StoredKind<'_>, media_type: MediaType, object: &Value) -> Vec<u8>;

    /// Decodes stored bytes to an object in the storage version.
    fn read(&self, kind: &StoredKind<'_>, stored: &[u8]) -> Result<Value, String>;

    /// Decodes cached bytes, which [`Codec::index`] has already read.
    fn read_cached(&self, kind: &StoredKind<'_>, cached: &[u8]) -> Result<Value, String> {
        self.read(kind, cached)
    }

    /// Like [`Codec::read`], for a delete: an object that is too large to be read is returned as it is stored.
    fn read_to_delete(&self, kind: &StoredKind<'_>, stored: &[u8]) -> Result<Value, String> {
        self.read(kind, stored)
    }

    /// Narrows a kind's message to the fields on these paths.
    fn narrow(&self, message: &MessageRef, paths: &[&[&str]]) -> Message;

    /// Decodes the part of an object that a narrowed message has, and returns it with the bytes to cache, if they
    /// differ from the stored bytes.
    fn index(
        &self,
        kind: &StoredKind<'_>,
        narrowed: &Message,
        stored: &Bytes,
    ) -> Result<(Value, Option<Bytes>), String>;

    /// Converts cached bytes to compact JSON, in the storage version.
    fn to_json(&self, kind: &StoredKind<'_>, cached: &[u8], resource_version: &str) -> Result<Vec<u8>, String>;

    /// Converts cached bytes to a protobuf message without an envelope.
    fn to_protobuf(&self, cached: &[u8], resource_version: &str) -> Result<Bytes, String>;

    /// Converts an object to its canonical form, in which it is written.
    fn canonicalize(&self, message: &MessageRef, object: &mut Value);

    /// Sets a member of a canonical object of this message, which stays canonical.
    fn set(&self, message: &MessageRef, members: &mut Object, name: &str, value: Value);

    /// Sets the resourceVersion in the canonical metadata of an object of this message.
    fn set_resource_version(&self, message: &MessageRef, metadata: &mut Object, version: String);

    /// Returns true if each item of a list in JSON has a kind and apiVersion.
    fn names_items(&self) -> bool;
}

/// The media type of stored objects.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MediaType {
    #[default]
    Protobuf,
    Json,
    Yaml,
    /// For custom resources only.
    Cbor,
}

/// The part of a [`StoredType`](crate::StoredType) that a [`Codec`] needs: borrowed, with the `apiVersion` of the storage version, or with
/// [`WriteVersion`](crate::WriteVersion) in place of that version.
#[derive(Clone, Copy)]
pub struct StoredKind<'a> {
    pub group: &'a str,
    pub version: &'a str,
    pub kind: &'a str,
    pub api_version: &'a str,
    pub message: &'a MessageRef,
    pub strategy: &'a dyn Strategy,
    pub kinds: &'a dyn Kinds,
    pub custom: Option<&'a dyn CustomSchema>,
}

/// The maximum nesting of a stored object.
pub const MAX_STORED_DEPTH: usize = 256;
/// The limits of stored objects, which are no larger than etcd's maximum request size, unless etcd is configured with a
/// larger one.
const LIMITS: Limits =
    Limits { max_bytes: 64 << 20, max_depth: MAX_STORED_DEPTH, max_yaml_nodes: 4 << 20, max_memory: usize::MAX };

impl FromStr for MediaType {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        match text {
            "application/vnd.kubernetes.protobuf" => Ok(Self::Protobuf),
            "application/json" => Ok(Self::Json),
            "application/yaml" => Ok(Self::Yaml),
            _ => Err(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Field, Presence, Ty, json, value};

    use super::*;
    use crate::{DefaultStrategy, NoKinds};

    fn message() -> MessageRef {
        let field = |tag, name: &'static str, ty| Field { tag, presence: Presence::OmitZero, ..Field::new(name, ty) };
        let metadata =
            Message::new("x.Meta", vec![field(1, "name", Ty::String), field(6, "resourceVersion", Ty::String)]);
        let metadata = Ty::Message(MessageRef::Shared(metadata.into()));
        MessageRef::Shared(
            Message::new(
                "x.Thing",
                vec![
                    field(0, "kind", Ty::String),
                    field(0, "apiVersion", Ty::String),
                    field(1, "metadata", metadata),
                    field(2, "size", Ty::Int64),
                ],
            )
            .into(),
        )
    }

    /// An object stored as CBOR is decoded like JSON, and cached as JSON.
    #[test]
    fn decodes_stored_cbor() {
        let message = message();
        let kind = StoredKind {
            group: "x.test",
            version: "v1",
            kind: "Thing",
            api_version: "x.test/v1",
            message: &message,
            strategy: &DefaultStrategy,
            kinds: &NoKinds,
            custom: None,
        };
        let object = value!({"apiVersion": "x.test/v1", "kind": "Thing", "metadata": {"name": "a"}, "size": 3i64});
        let [text, stored] = [MediaType::Json, MediaType::Cbor].map(|form| JsonText.write(&kind, form, &object));
        assert_eq!(
            stored,
            b"\xd9\xd9\xf7\xa4\x44kind\x45Thing\x44size\x03\x48metadata\xa1\x44name\x41a\x4aapiVersion\x49x.test/v1"
        );
        let stored = Bytes::from(stored);
        let (indexed, cached) = JsonText.index(&kind, &message, &stored).expect("what was written");
        assert_eq!((indexed, cached.as_deref()), (JsonText.read(&kind, &text).expect("JSON"), Some(&text[..])));
        let json = [&text[..], &stored[..]].map(|cached| JsonText.to_json(&kind, cached, "7").expect("it is shown"));
        assert_eq!(json[0], json[1]);
        let meta = JsonText::type_meta(&stored, &LIMITS).expect("it says what it is");
        assert_eq!((meta.api_version.as_str(), meta.kind.as_str()), ("x.test/v1", "Thing"));
        assert!(JsonText.read(&kind, &stored[..20]).is_err());
    }

    /// An object with floating point numbers that JSON cannot distinguish from integers is cached as CBOR.
    #[test]
    fn stores_whole_floats_as_cbor() {
        let message = message();
        let kind = StoredKind {
            group: "x.test",
            version: "v1",
            kind: "Thing",
            api_version: "x.test/v1",
            message: &message,
            strategy: &DefaultStrategy,
            kinds: &NoKinds,
            custom: None,
        };
        let object = value!({"kind": "Thing", "metadata": {"name": "a"}, "size": (Value::Float(3.0))});
        let stored = Bytes::from(JsonText.write(&kind, MediaType::Cbor, &object));
        let (indexed, cached) = JsonText.index(&kind, &message, &stored).expect("what was written");
        assert_eq!((indexed.get("size"), cached), (Some(&Value::Float(3.0)), None));
        let json = JsonText.to_json(&kind, &stored, "7").expect("it is shown");
        assert!(json.ends_with(b",\"size\":3}"), "{}", String::from_utf8_lossy(&json));
    }

    /// A written object decodes to the same value, is cached unchanged, and has the given resourceVersion.
    #[test]
    fn round_trips_objects() {
        let message = message();
        let kind = StoredKind {
            group: "x.test",
            version: "v1",
            kind: "Thing",
            api_version: "x.test/v1",
            message: &message,
            strategy: &DefaultStrategy,
            kinds: &NoKinds,
            custom: None,
        };
        let plain = value!({"metadata": {"name": "a"}, "size": 3i64});
        let named = value!({"apiVersion": "x.test/v1", "kind": "Thing", "metadata": {"name": "a"}, "size": 3i64});
        for (codec, object, has_protobuf) in [(&Envelope as &dyn Codec, &plain, true), (&JsonText, &named, false)] {
            let stored = Bytes::from(codec.write(&kind, MediaType::Protobuf, object));
            let mut read = codec.read(&kind, &stored).expect("what was written");
            assert_eq!((read.str_at(&["kind"]), read.int_at(&["size"])), ("Thing", Some(3)));
            codec.canonicalize(&message, &mut read);
            assert_eq!(codec.write(&kind, MediaType::Protobuf, &read), stored, "nothing changes");
            let narrowed = codec.narrow(&message, &[&["metadata", "name"]]);
            let (indexed, cached) = codec.index(&kind, &narrowed, &stored).expect("what was written");
            assert_eq!((indexed.str_at(&["metadata", "name"]), cached), ("a", None));
            let text = codec.to_json(&kind, &stored, "7").expect("what was written");
            let shown = json::parse(&text, &LIMITS).expect("it is JSON");
            assert_eq!((shown.str_at(&["metadata", "resourceVersion"]), shown.str_at(&["kind"])), ("7", "Thing"));
            assert_eq!(codec.to_protobuf(&stored, "7").is_ok(), has_protobuf);
            assert!(codec.read(&kind, b"").is_err() && codec.read(&kind, b"?").is_err());
        }
    }
}
