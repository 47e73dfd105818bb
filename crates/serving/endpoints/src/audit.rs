//! The objects in audit events: decoded request objects, and response objects.

use std::borrow::Cow;

use binnacle_meta::{GroupVersion, Text};
use binnacle_registry::object;
use binnacle_request::{AuditLevel, AuditedObject, Record};
use binnacle_schema::{Limits, Value, cbor, json, proto, yaml};
use binnacle_scheme::Kinds;
use bytes::Bytes;

use crate::negotiate::Encoding;
use crate::patch_type::{ApplyFormat, PatchType};

/// Records the request object with its defaults, before any further step.
pub fn record_request_object(record: &Record, object: &Value) {
    let Some(notes) = record.audit() else { return };
    let text = |name: &str| object.str_at(&["metadata", name]).into();
    let reference = AuditedObject {
        namespace: text("namespace"),
        name: object::name(object).into(),
        uid: object::uid(object).into(),
        resource_version: text("resourceVersion"),
    };
    let is_recorded = notes.level() >= Some(AuditLevel::Request);
    let omit = notes.noted().omit_managed_fields;
    let json = is_recorded.then(|| encode_json(object, omit));
    notes.note(|noted| {
        noted.object = reference;
        noted.request_object = json;
    });
}

/// Records a patch as sent by the client.
pub(crate) fn record_patch(record: &Record, patch: &[u8], kind: PatchType) {
    let Some(notes) = record.audit().filter(|notes| notes.level() >= Some(AuditLevel::Request)) else { return };
    let limits = Limits::default();
    let value = match kind {
        PatchType::Apply(ApplyFormat::Yaml) => yaml::parse(patch, &limits).ok().map(|(value, _)| value),
        PatchType::Apply(ApplyFormat::Cbor) => cbor::parse(patch, &limits).ok(),
        _ => json::parse(patch, &limits).ok(),
    };
    let Some(value) = value else { return };
    notes.note(|noted| noted.request_object = Some(encode_json(&value, false)));
}

/// Returns the JSON of the API object in a body of any encoding; `None` if the body has none.
pub fn read_object(kinds: &dyn Kinds, media_type: &str, body: &Bytes, omit_managed_fields: bool) -> Option<Bytes> {
    let limits = Limits { max_bytes: usize::MAX, ..Limits::default() };
    let essence = media_type.split(';').next().unwrap_or_default().trim();
    let value = if essence == Encoding::Json.media_type() {
        json::parse(body, &limits).ok()?
    } else if essence == Encoding::Yaml.media_type() {
        yaml::parse(body, &limits).ok()?.0
    } else if essence == Encoding::Cbor.media_type() {
        cbor::parse(body, &limits).ok()?
    } else if essence == Encoding::Protobuf.media_type() {
        let envelope = proto::unwrap(body).ok()?;
        let version = GroupVersion::parse(&envelope.api_version)?;
        let message = kinds.kind(&version.group, &version.version, &envelope.kind)?;
        let mut value = proto::decode(envelope.raw, message, limits.max_depth).ok()?;
        let members = value.make_object();
        members.insert("kind", &*envelope.kind);
        members.insert("apiVersion", &*envelope.api_version);
        value
    } else {
        return None;
    };
    if value.str_at(&["kind"]).is_empty() {
        return None;
    }
    Some(encode_json(&value, omit_managed_fields))
}

fn encode_json(object: &Value, omit_managed_fields: bool) -> Bytes {
    let mut out = Vec::with_capacity(1024);
    let mut object = Cow::Borrowed(object);
    if omit_managed_fields {
        remove_managed_fields(object.to_mut());
    }
    // A kind and version that the client omitted are appended to the other members.
    let added = object.as_object().is_some_and(|members| {
        members.get("kind").is_some() && members.iter().next().is_some_and(|(name, _)| name != "kind")
    });
    if added && let Some(members) = object.to_mut().as_object_mut() {
        let first = ["kind", "apiVersion"].map(|name| (Text::new_static(name), members.remove(name)));
        let first = first.into_iter().filter_map(|(name, value)| Some((name, value?)));
        *members = first.chain(std::mem::take(members)).collect();
    }
    json::write(&object, &mut out);
    out.into()
}

/// Removes the managed fields of the object, of the items of a list, and of the objects in table rows.
fn remove_managed_fields(object: &mut Value) {
    let drop_from = |object: &mut Value| {
        if let Some(metadata) = object.at_mut(&["metadata"]).and_then(Value::as_object_mut) {
            metadata.remove("managedFields");
        }
    };
    drop_from(object);
    if let Some(items) = object.at_mut(&["items"]).and_then(Value::as_list_mut) {
        items.iter_mut().for_each(drop_from);
    }
    if let Some(rows) = object.at_mut(&["rows"]).and_then(Value::as_list_mut) {
        rows.iter_mut().filter_map(|row| row.get_mut("object")).for_each(drop_from);
    }
}

#[cfg(test)]
mod tests {
    use binnacle_meta::Status;
    use http::Method;

    use binnacle_kinds::BuiltInKinds;

    use super::*;
    use crate::failure;

    #[tokio::test]
    async fn reads_objects_in_every_encoding() {
        let status = Status::unauthorized("Unauthorized");
        for encoding in [Encoding::Json, Encoding::Yaml, Encoding::Protobuf, Encoding::Cbor] {
            let body = failure::of_encoding(&status, encoding, false).into_body().read(10_000).await.unwrap();
            let object = read_object(&BuiltInKinds, encoding.media_type(), &body, false).unwrap();
            let value: serde_json::Value = serde_json::from_slice(&object).unwrap();
            assert_eq!((&value["kind"], &value["code"]), (&"Status".into(), &401.into()), "{encoding:?}");
        }
        for (media_type, body) in
            [("text/plain", "ok"), ("application/json", "{\"major\":\"1\"}"), ("application/json", "x")]
        {
            assert_eq!(read_object(&BuiltInKinds, media_type, &Bytes::from(body), false), None, "{body}");
        }
    }

    #[test]
    fn omits_managed_fields_of_objects_items_and_rows() {
        let metadata = r#""metadata":{"name":"a","managedFields":[1]}"#;
        let body = format!(
            r#"{{"kind":"List",{metadata},"items":[{{{metadata}}}],"rows":[{{"object":{{{metadata}}}}},{{"object":null}}]}}"#
        );
        let object = read_object(&BuiltInKinds, "application/json", &body.clone().into(), true).unwrap();
        let text = String::from_utf8(object.to_vec()).unwrap();
        assert_eq!(text, body.replace(r#","managedFields":[1]"#, ""));
        assert_eq!(read_object(&BuiltInKinds, "application/json", &body.clone().into(), false), Some(body.into()));
    }

    #[test]
    fn records_request_objects_by_audit_level() {
        let object = json::parse(br#"{"metadata":{"name":"a","uid":"u"}}"#, &Limits::default()).unwrap();
        let record = Record::open(Method::POST, "/".into(), None, None);
        record_request_object(&record, &object);
        assert!(record.audit().is_none());
        record.begin_audit().decide(AuditLevel::Metadata, false);
        record_request_object(&record, &object);
        record_patch(&record, b"{}", PatchType::Merge);
        let noted = record.begin_audit().noted();
        assert_eq!((noted.object.name.as_str(), noted.object.uid.as_str()), ("a", "u"));
        assert_eq!(noted.request_object, None);
        record.begin_audit().decide(AuditLevel::Request, false);
        let object = json::parse(br#"{"spec":{},"apiVersion":"v1","kind":"Pod"}"#, &Limits::default()).unwrap();
        record_request_object(&record, &object);
        let noted = record.begin_audit().noted().request_object;
        assert_eq!(noted.as_deref(), Some(&br#"{"kind":"Pod","apiVersion":"v1","spec":{}}"#[..]));
        for (patch, format) in [(&b"a: [1]"[..], ApplyFormat::Yaml), (b"\xa1\x41a\x81\x01", ApplyFormat::Cbor)] {
            record_patch(&record, patch, PatchType::Apply(format));
            assert_eq!(record.begin_audit().noted().request_object.as_deref(), Some(&br#"{"a":[1]}"#[..]));
        }
    }
}
