//! Patches and responses in audit events.

use binnacle_meta::GroupVersion;
use binnacle_registry::audited_json;
use binnacle_request::{AuditLevel, Record};
use binnacle_schema::{Limits, cbor, json, proto, yaml};
use binnacle_scheme::Kinds;
use bytes::Bytes;

use crate::negotiate::Encoding;
use crate::patch_type::{ApplyFormat, PatchType};

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
    notes.note(|noted| noted.request_object = Some(audited_json(&value, false)));
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
    Some(audited_json(&value, omit_managed_fields))
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
    fn records_patches_by_audit_level() {
        let record = Record::open(Method::POST, "/".into(), None, None);
        record.begin_audit().decide(AuditLevel::Metadata, false);
        record_patch(&record, b"{}", PatchType::Merge);
        assert_eq!(record.begin_audit().noted().request_object, None);
        record.begin_audit().decide(AuditLevel::Request, false);
        for (patch, format) in [(&b"a: [1]"[..], ApplyFormat::Yaml), (b"\xa1\x41a\x81\x01", ApplyFormat::Cbor)] {
            record_patch(&record, patch, PatchType::Apply(format));
            assert_eq!(record.begin_audit().noted().request_object.as_deref(), Some(&br#"{"a":[1]}"#[..]));
        }
    }
}
