//! Field managers of the `scale` subresource: a scale has only the managers of the replicas, and its managers are
//! mapped back to the object.

use binnacle_schema::Value;

use super::element::PathElement;
use super::managed::{self, Entry, OwnedFields};
use super::set::Set;
use super::track::reset_fields;

/// The relation between the managers of an object and of its scale.
#[derive(Clone, Copy, Debug)]
pub struct Scale<'a> {
    /// The version of the object in the request's path.
    pub api_version: &'a str,
    /// The path of the replicas in each version of the kind, dotted: `("apps/v1", Some("spec.replicas"))`. Versions of
    /// custom resources may have none. Entries of other versions are dropped.
    pub replicas: &'a [(&'a str, Option<&'a str>)],
}

/// The version of the scale.
const SCALE: &str = "autoscaling/v1";

impl Scale<'_> {
    /// Returns `metadata.managedFields` of the scale: the managers that own the replicas of the object.
    pub fn to_scale(&self, object_list: &[Value]) -> Option<Value> {
        let mut entries = managed::decode(object_list, true).ok()?;
        entries.retain_mut(|entry| match self.path(&entry.api_version) {
            Some(Some(path)) if entry.set().has(&path) => {
                entry.api_version = SCALE.into();
                entry.owned = OwnedFields::Set(reset_fields(&["spec.replicas"]));
                true
            }
            _ => false,
        });
        managed::encode(entries)
    }

    /// Returns `metadata.managedFields` of the object after a write of the scale: a manager that the scale's list no
    /// longer has loses the replicas, and a new one gains them.
    pub fn to_object(&self, object_list: &[Value], scale_list: &[Value]) -> Option<Value> {
        let of_object = managed::decode(object_list, true).ok()?;
        let mut of_scale = managed::decode(scale_list, true).ok()?;
        // kube-apiserver takes the timestamp of a scale's entry from an entry of the object, which usually does not
        // exist.
        let times: Vec<Entry> =
            of_object.iter().map(|entry| Entry { owned: OwnedFields::Set(Set::default()), ..entry.clone() }).collect();
        let mut entries = Vec::with_capacity(of_object.len() + of_scale.len());
        for mut entry in of_object {
            let Some(path) = self.path(&entry.api_version) else { continue };
            if let Some(path) = path.filter(|path| entry.set().has(path)) {
                // As in kube-apiserver, only appliers are matched with entries of the scale: entries of updates differ
                // in their version.
                match of_scale.iter().position(|other| other.is_same(&entry)) {
                    Some(at) => _ = of_scale.remove(at),
                    None => entry.take(&single(&path), None),
                }
            }
            if !entry.owns_nothing() {
                entries.push(entry);
            }
        }
        let Some(Some(path)) = self.path(self.api_version) else { return managed::encode(entries) };
        let in_scale = [PathElement::Field("spec".into()), PathElement::Field("replicas".into())];
        for mut entry in of_scale {
            if entry.set().has(&in_scale) {
                entry.time = times.iter().find(|other| other.is_same(&entry)).and_then(|other| other.time.clone());
                entries.retain(|other: &Entry| !other.is_same(&entry));
                entry.api_version = self.api_version.into();
                entry.owned = OwnedFields::Set(single(&path));
                entries.push(entry);
            }
        }
        managed::encode(entries)
    }

    /// Returns the path of the replicas in a version; `None` for an unknown version.
    fn path(&self, api_version: &str) -> Option<Option<Vec<PathElement>>> {
        let (_, path) = self.replicas.iter().find(|(version, _)| *version == api_version)?;
        Some(
            path.map(|path| {
                path.trim_start_matches('.').split('.').map(|name| PathElement::Field(name.into())).collect()
            }),
        )
    }
}

fn single(path: &[PathElement]) -> Set {
    let mut set = Set::default();
    set.insert(path);
    set
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Object, json};

    use super::*;

    const SCALE: Scale<'static> =
        Scale { api_version: "apps/v1", replicas: &[("apps/v1", Some("spec.replicas")), ("apps/v0", None)] };

    fn entry(manager: &str, operation: &str, version: &str, subresource: &str, time: &str, fields: &str) -> Value {
        let mut object = Object::new();
        for (name, text) in [
            ("manager", manager),
            ("operation", operation),
            ("apiVersion", version),
            ("time", time),
            ("fieldsType", "FieldsV1"),
        ] {
            if !text.is_empty() {
                object.insert(name, text);
            }
        }
        object.insert("fieldsV1", Value::Raw(fields.into()));
        if !subresource.is_empty() {
            object.insert("subresource", subresource);
        }
        Value::Object(object)
    }

    #[test]
    fn maps_managers_to_scale_and_back() {
        let time = "2026-01-02T03:04:05Z";
        let (both, replicas, rest) = (
            r#"{"f:spec":{"f:paused":{},"f:replicas":{}}}"#,
            r#"{"f:spec":{"f:replicas":{}}}"#,
            r#"{"f:spec":{"f:paused":{}}}"#,
        );
        let object = |version: &str, fields: &str| {
            vec![entry("a", "Apply", version, "", time, fields), entry("u", "Update", version, "", time, rest)]
        };
        let shown = SCALE.to_scale(&object("apps/v1", both));
        assert_eq!(shown, Some(Value::List(vec![entry("a", "Apply", "autoscaling/v1", "", time, replicas)])));
        assert_eq!(SCALE.to_scale(&object("apps/v1", rest)), None);
        assert_eq!(SCALE.to_scale(&object("apps/v9", both)), None);
        assert_eq!(SCALE.to_scale(&object("apps/v0", both)), None);
        assert_eq!(SCALE.to_object(&object("apps/v9", both), &[]), None, "a version that is not known is forgotten");
        let object_list = SCALE.to_object(&object("apps/v0", both), &[]);
        assert_eq!(object_list, Some(Value::List(object("apps/v0", both))), "a version without a scale is left alone");

        let written = |entries: Vec<Value>| SCALE.to_object(&object("apps/v1", both), &entries);
        let object_list = written(vec![entry("a", "Apply", "autoscaling/v1", "", time, replicas)]);
        assert_eq!(object_list, Some(Value::List(object("apps/v1", both))), "the applier still owns the replicas");
        let stolen = written(vec![entry("s", "Update", "autoscaling/v1", "scale", time, replicas)]);
        let want = vec![
            entry("a", "Apply", "apps/v1", "", time, rest),
            entry("s", "Update", "apps/v1", "scale", "", replicas),
            entry("u", "Update", "apps/v1", "", time, rest),
        ];
        let updated = SCALE.to_object(
            &[entry("u", "Update", "apps/v1", "", time, both)],
            &[entry("u", "Update", "autoscaling/v1", "", time, replicas)],
        );
        let apart =
            vec![entry("u", "Update", "apps/v1", "", "", replicas), entry("u", "Update", "apps/v1", "", time, rest)];
        assert_eq!(updated, Some(Value::List(apart)), "an update that still owns the replicas becomes two entries");
        let got = stolen.as_ref().map(json::to_string);
        assert_eq!(stolen, Some(Value::List(want)), "somebody else scaled: {got:?}");
    }

    #[test]
    fn keeps_managers_of_other_versions() {
        let scale = Scale {
            api_version: "g/v2",
            replicas: &[("g/v1", Some("spec.count")), ("g/v2", Some("spec.replicas")), ("g/v3", None)],
        };
        let (count, replicas) = (r#"{"f:spec":{"f:count":{},"f:n":{}}}"#, r#"{"f:spec":{"f:replicas":{}}}"#);
        let object = vec![
            entry("a", "Apply", "g/v1", "", "", count),
            entry("b", "Apply", "g/v3", "", "", replicas),
            entry("c", "Apply", "g/v9", "", "", replicas),
        ];
        let shown = entry("a", "Apply", "autoscaling/v1", "", "", replicas);
        assert_eq!(scale.to_scale(&object), Some(Value::List(vec![shown])));
        let written = scale.to_object(&object, &[entry("s", "Update", "autoscaling/v1", "scale", "", replicas)]);
        let want = vec![
            entry("a", "Apply", "g/v1", "", "", r#"{"f:spec":{"f:n":{}}}"#),
            entry("b", "Apply", "g/v3", "", "", replicas),
            entry("s", "Update", "g/v2", "scale", "", replicas),
        ];
        assert_eq!(written, Some(Value::List(want)), "the replicas are taken where the version has them");
    }
}
