//! The protobuf envelope of kube-apiserver, in which built-in kinds are stored. It is written with the media type of
//! `--storage-media-type`, in the storage version; every media type and every version of the kind is read, since
//! another server or an earlier release may have written it.

use std::borrow::Cow;

use binnacle_meta::{GroupVersion, GroupVersionKind, go_quote};
use binnacle_schema::{Message, MessageRef, Object, Value, canonical, decode, defaults, json, proto, yaml};
use bytes::Bytes;

use super::{Codec, LIMITS, MAX_STORED_DEPTH, MediaType, StoredKind};

/// The protobuf envelope.
#[derive(Clone, Copy, Debug)]
pub struct Envelope;

impl Codec for Envelope {
    fn write(&self, kind: &StoredKind<'_>, media_type: MediaType, object: &Value) -> Vec<u8> {
        let stored = match media_type {
            // Only custom resources are ever stored in CBOR.
            MediaType::Protobuf | MediaType::Cbor => {
                proto::wrap(kind.api_version, kind.kind, |raw| proto::encode(object, kind.message, raw))
            }
            MediaType::Json => {
                let mut out = Vec::with_capacity(1024);
                json::write(&with_type_meta(kind, object), &mut out);
                out.push(b'\n');
                out
            }
            MediaType::Yaml => {
                let mut out = Vec::with_capacity(1024);
                yaml::write(&with_type_meta(kind, object), &mut out);
                out
            }
        };
        // About ten nanoseconds for each byte of short values.
        binnacle_work::pace(stored.len() as u64 / 2);
        stored
    }

    fn read(&self, kind: &StoredKind<'_>, stored: &[u8]) -> Result<Value, String> {
        let value = envelope(kind, stored)?;
        let envelope = proto::unwrap(&value).map_err(|error| error.to_string())?;
        proto::decode_object(envelope.raw, kind.message, kind.api_version, kind.kind, MAX_STORED_DEPTH)
            .map_err(|error| error.to_string())
    }

    fn narrow(&self, message: &MessageRef, paths: &[&[&str]]) -> Message {
        proto::narrow(message, paths)
    }

    fn index(
        &self,
        kind: &StoredKind<'_>,
        narrowed: &Message,
        stored: &Bytes,
    ) -> Result<(Value, Option<Bytes>), String> {
        let (value, cached) = match envelope(kind, stored)? {
            Cow::Borrowed(_) => (stored.clone(), None),
            Cow::Owned(envelope) => {
                let envelope = Bytes::from(envelope);
                (envelope.clone(), Some(envelope))
            }
        };
        let envelope = proto::unwrap(&value).map_err(|error| error.to_string())?;
        let object = proto::decode(envelope.raw, narrowed, MAX_STORED_DEPTH).map_err(|error| error.to_string())?;
        Ok((object, cached))
    }

    fn to_json(&self, kind: &StoredKind<'_>, cached: &[u8], resource_version: &str) -> Result<Vec<u8>, String> {
        let mut out = Vec::with_capacity(cached.len() * 3 / 2 + 64);
        let envelope = proto::unwrap(cached).map_err(|error| error.to_string())?;
        let overrides = proto::Overrides { resource_version: Some(resource_version) };
        proto::to_json(envelope.raw, kind.message, kind.api_version, kind.kind, overrides, &mut out)
            .map_err(|error| error.to_string())?;
        out.shrink_to_fit();
        Ok(out)
    }

    fn to_protobuf(&self, cached: &[u8], resource_version: &str) -> Result<Bytes, String> {
        let envelope = proto::unwrap(cached).map_err(|error| error.to_string())?;
        proto::splice_resource_version(envelope.raw, resource_version).map_err(|error| error.to_string())
    }

    fn canonicalize(&self, message: &MessageRef, object: &mut Value) {
        canonical::canonicalize(object, message);
    }

    fn set(&self, message: &MessageRef, members: &mut Object, name: &str, value: Value) {
        canonical::set(members, message, name, value);
    }

    fn set_resource_version(&self, message: &MessageRef, metadata: &mut Object, version: String) {
        if let Some(message) = message.get("metadata").and_then(|field| field.ty.message()) {
            canonical::set(metadata, message, "resourceVersion", version);
        }
    }

    fn names_items(&self) -> bool {
        false
    }
}

/// Returns the envelope in the storage version; stored bytes that are already in that form are not copied.
fn envelope<'v>(kind: &StoredKind<'_>, stored: &'v [u8]) -> Result<Cow<'v, [u8]>, String> {
    if stored.starts_with(proto::MAGIC) {
        let envelope = proto::unwrap(stored).map_err(|error| error.to_string())?;
        if envelope.api_version == kind.api_version && envelope.kind == kind.kind {
            return Ok(completed(kind, envelope.raw)?.map_or(Cow::Borrowed(stored), Cow::Owned));
        }
        let found = kind_of(&envelope.api_version, &envelope.kind)?;
        let message = registered_message(kind, &found)?;
        let object =
            proto::decode_object(envelope.raw, message, &envelope.api_version, &envelope.kind, MAX_STORED_DEPTH)
                .map_err(|error| error.to_string())?;
        return rewritten(kind, &found, message, object).map(Cow::Owned);
    }
    let text = match stored.iter().find(|byte| !byte.is_ascii_whitespace()) {
        Some(b'{') => Cow::Borrowed(stored),
        Some(_) => {
            let (value, _) = yaml::parse(stored, &LIMITS).map_err(|error| error.to_string())?;
            let mut text = Vec::with_capacity(stored.len());
            json::write(&value, &mut text);
            Cow::Owned(text)
        }
        None => return Err("empty data".to_owned()),
    };
    let type_meta = json::type_meta(&text, &LIMITS).map_err(|error| error.to_string())?;
    let found = kind_of(&type_meta.api_version, &type_meta.kind)?;
    let message = registered_message(kind, &found)?;
    let object = decode::json(&text, message, &LIMITS).map_err(|error| error.to_string())?.value;
    rewritten(kind, &found, message, object).map(Cow::Owned)
}

/// Returns the envelope with the defaults that the stored object lacks; `None` if it is complete.
fn completed(kind: &StoredKind<'_>, raw: &[u8]) -> Result<Option<Vec<u8>>, String> {
    if !kind.strategy.completes_stored() {
        return Ok(None);
    }
    let mut object = proto::decode_object(raw, kind.message, kind.api_version, kind.kind, MAX_STORED_DEPTH)
        .map_err(|error| error.to_string())?;
    if !kind.strategy.complete_stored(&mut object) {
        return Ok(None);
    }
    canonical::canonicalize(&mut object, kind.message);
    Ok(Some(Envelope.write(kind, MediaType::Protobuf, &object)))
}

/// Encodes an object in the storage version, with the defaults of the version that was found and converted from it.
fn rewritten(
    kind: &StoredKind<'_>,
    found: &GroupVersionKind,
    message: &Message,
    mut object: Value,
) -> Result<Vec<u8>, String> {
    // The writer may have been an older version without some of them.
    defaults::apply_constants(&mut object, message);
    kind.strategy.set_defaults(&found.version, &mut object);
    if (found.group.as_str(), found.version.as_str()) != (kind.group, kind.version) {
        let unknown = || format!("there is no conversion of {} {}", found.api_version(), found.kind);
        let conversion = kind.kinds.conversion(&found.group, &found.version, &found.kind).ok_or_else(unknown)?;
        (conversion.to_stored)(&mut object);
    }
    kind.strategy.complete_stored(&mut object);
    canonical::canonicalize(&mut object, kind.message);
    Ok(Envelope.write(kind, MediaType::Protobuf, &object))
}

fn registered_message<'a>(kind: &StoredKind<'a>, found: &GroupVersionKind) -> Result<&'a Message, String> {
    let message = kind.kinds.kind(&found.group, &found.version, &found.kind).filter(|_| found.kind == kind.kind);
    message.ok_or_else(|| format!("it is a {} of {}, which is not known here", found.kind, found.api_version()))
}

fn with_type_meta(kind: &StoredKind<'_>, object: &Value) -> Value {
    let mut object = object.clone();
    let members = object.make_object();
    members.insert("kind", kind.kind);
    members.insert("apiVersion", kind.api_version);
    canonical::canonicalize(&mut object, kind.message);
    object
}

fn kind_of(api_version: &str, kind: &str) -> Result<GroupVersionKind, String> {
    match GroupVersion::parse(api_version) {
        Some(version) => Ok(GroupVersionKind::new(version.group, version.version, kind)),
        None => Err(format!("unexpected apiVersion {}", go_quote(api_version))),
    }
}
