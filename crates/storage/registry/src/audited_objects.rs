//! The request objects in audit events.

use std::borrow::Cow;

use binnacle_meta::Text;
use binnacle_request::{AuditLevel, AuditedObject, Record};
use binnacle_schema::{Value, json};
use bytes::Bytes;

use crate::object;

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
    let json = is_recorded.then(|| audited_json(object, omit));
    notes.note(|noted| {
        noted.object = reference;
        noted.request_object = json;
    });
}

/// Returns the JSON of an object for an audit event. Managed fields are dropped if `omit_managed_fields`.
pub fn audited_json(object: &Value, omit_managed_fields: bool) -> Bytes {
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
    use binnacle_schema::Limits;
    use http::Method;

    use super::*;

    #[test]
    fn records_request_objects_by_audit_level() {
        let object = json::parse(br#"{"metadata":{"name":"a","uid":"u"}}"#, &Limits::default()).unwrap();
        let record = Record::open(Method::POST, "/".into(), None, None);
        record_request_object(&record, &object);
        assert!(record.audit().is_none());
        record.begin_audit().decide(AuditLevel::Metadata, false);
        record_request_object(&record, &object);
        let noted = record.begin_audit().noted();
        assert_eq!((noted.object.name.as_str(), noted.object.uid.as_str()), ("a", "u"));
        assert_eq!(noted.request_object, None);
        record.begin_audit().decide(AuditLevel::Request, false);
        let object = json::parse(br#"{"spec":{},"apiVersion":"v1","kind":"Pod"}"#, &Limits::default()).unwrap();
        record_request_object(&record, &object);
        let noted = record.begin_audit().noted().request_object;
        assert_eq!(noted.as_deref(), Some(&br#"{"kind":"Pod","apiVersion":"v1","spec":{}}"#[..]));
    }
}
