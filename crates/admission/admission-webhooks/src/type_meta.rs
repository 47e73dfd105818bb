//! Tracks `kind` and `apiVersion` that patches removed from built-in objects. In kube-apiserver a patched object lacks
//! them until it is converted to another version, which is visible to later webhooks that are called with the same
//! version. The final object always has its type.

use binnacle_meta::GroupVersionKind;
use binnacle_schema::Value;

const MEMBERS: [&str; 2] = ["kind", "apiVersion"];

/// The type fields of an object that are not sent to later webhooks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct MissingTypeMeta {
    /// The kind in whose version the object was patched; `None` if no fields are missing.
    patched: Option<GroupVersionKind>,
    /// True for each of [`MEMBERS`] that is missing.
    missing: [bool; 2],
}

impl MissingTypeMeta {
    /// Returns the fields that a patched object in the version of `kind` lacks. Go omits empty ones.
    pub(crate) fn of(kind: &GroupVersionKind, patched: &Value) -> Self {
        let missing = MEMBERS.map(|member| patched.str_at(&[member]).is_empty());
        Self { patched: missing.contains(&true).then(|| kind.clone()), missing }
    }

    /// Clears the fields if `kind` is another version: the conversion sets them again.
    pub(crate) fn convert_to(&mut self, kind: &GroupVersionKind) {
        if self.patched.as_ref().is_some_and(|patched| patched != kind) {
            *self = Self::default();
        }
    }

    /// Removes the fields from an object in the version of `kind`.
    pub(crate) fn strip(&self, kind: &GroupVersionKind, object: &mut Value) {
        if self.patched.as_ref() != Some(kind) {
            return;
        }
        let missing = MEMBERS.iter().zip(self.missing).filter(|(_, missing)| *missing);
        let Value::Object(members) = object else { return };
        missing.for_each(|(member, _)| drop(members.remove(member)));
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn omits_removed_members_until_conversion() {
        let [v1, v2] = ["v1", "v2"].map(|version| GroupVersionKind::new("g", version, "K"));
        let whole = value!({"kind": "K", "apiVersion": "g/v1", "a": 1i64});
        for (patched, next, want) in [
            (value!({"kind": "K", "apiVersion": "g/v1"}), &v1, whole.clone()),
            (value!({"apiVersion": "g/v1"}), &v1, value!({"apiVersion": "g/v1", "a": 1i64})),
            (value!({"kind": "", "apiVersion": "g/v1"}), &v1, value!({"apiVersion": "g/v1", "a": 1i64})),
            (value!({"kind": "K", "apiVersion": null}), &v1, value!({"kind": "K", "a": 1i64})),
            (value!({}), &v1, value!({"a": 1i64})),
            (value!({}), &v2, whole.clone()),
        ] {
            let mut missing_type_meta = MissingTypeMeta::of(&v1, &patched);
            missing_type_meta.convert_to(next);
            let mut sent = whole.clone();
            missing_type_meta.strip(next, &mut sent);
            assert_eq!(sent, want, "{patched:?}");
            // Converting back to the first version does not remove them again.
            missing_type_meta.convert_to(&v1);
            let mut sent = whole.clone();
            missing_type_meta.strip(&v1, &mut sent);
            assert_eq!(sent, want, "{patched:?}");
        }
    }
}
