//! Preparation steps that most strategies share: they restore fields that an endpoint does not write.

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::Kind;
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_schema::{Object, Value};

/// Restores a member to its stored state, present or absent.
pub(crate) fn put_back(object: &mut Value, old: &Value, member: &'static str) {
    let members = object.make_object();
    match old.get(member) {
        Some(value) => {
            members.insert(member, value.clone());
        }
        None => {
            members.remove(member);
        }
    }
}

/// Sets the generation of a new object to 1.
pub(crate) fn start_generation<K: Kind>(object: &mut FieldMut<K>) {
    object.entry(K::METADATA).set(ObjectMeta::GENERATION, 1i64);
}

/// Increases the generation if a field has changed.
pub(crate) fn count_generation<K: Kind, T>(object: &mut FieldMut<K>, old: FieldRef<K>, field: Field<K, T>) {
    let has_changed = !semantically_equal(Some(object.get(field)), Some(old.at(field).value()));
    count_generation_if(has_changed, object, old);
}

/// Like [`count_generation`], for kinds whose strategy compares like Go's `reflect`: an empty list is different from an
/// absent one.
pub(crate) fn count_generation_exact<K: Kind, T>(object: &mut FieldMut<K>, old: FieldRef<K>, field: Field<K, T>) {
    let has_changed = !exactly_equal(Some(object.get(field)), Some(old.at(field).value()));
    count_generation_if(has_changed, object, old);
}

/// Increases the generation if something has changed.
pub(crate) fn count_generation_if<K: Kind>(has_changed: bool, object: &mut FieldMut<K>, old: FieldRef<K>) {
    if has_changed {
        let generation = old.at(K::METADATA).at(ObjectMeta::GENERATION).int_or_zero() + 1;
        object.entry(K::METADATA).set(ObjectMeta::GENERATION, generation);
    }
}

/// Restores the metadata that `status` endpoints of newer kinds do not write: nearly all except system fields.
pub(crate) fn keep_metadata<K: Kind>(object: &mut FieldMut<K>, old: FieldRef<K>) {
    let mut metadata = object.entry(K::METADATA);
    let old = old.at(K::METADATA);
    metadata.keep(old, ObjectMeta::DELETION_TIMESTAMP);
    metadata.keep(old, ObjectMeta::GENERATION);
    metadata.keep(old, ObjectMeta::LABELS);
    metadata.keep(old, ObjectMeta::ANNOTATIONS);
    metadata.keep(old, ObjectMeta::FINALIZERS);
    metadata.keep(old, ObjectMeta::OWNER_REFERENCES);
}

/// Sets the generation of a new object to 1.
pub(crate) fn first_generation(object: &mut Value) {
    object.make_at(&["metadata"]).insert("generation", 1i64);
}

/// Increases the generation if one of these members has changed.
pub(crate) fn next_generation(object: &mut Value, old: &Value, members: &[&str]) {
    if members.iter().any(|member| !semantically_equal(object.get(member), old.get(member))) {
        let generation = old.int_at(&["metadata", "generation"]).unwrap_or(0) + 1;
        object.make_at(&["metadata"]).insert("generation", generation);
    }
}

fn exactly_equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    match (a.filter(|value| !value.is_null()), b.filter(|value| !value.is_null())) {
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            binnacle_work::pace(2 * a.len() as u64);
            a.iter().all(|(name, value)| exactly_equal(Some(value), b.get(name)))
                && b.iter().all(|(name, value)| a.contains(name) || exactly_equal(None, Some(value)))
        }
        (Some(Value::List(a)), Some(Value::List(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| exactly_equal(Some(a), Some(b)))
        }
        (a, b) => a == b,
    }
}

/// Sets a member that is absent.
pub(crate) fn default_to(members: &mut Object, name: &'static str, value: impl Into<Value>) {
    if members.get(name).is_none_or(Value::is_null) {
        members.insert(name, value);
    }
}

/// Sets a member that is absent or has the zero value of a text, number or list.
pub(crate) fn default_zero_to(members: &mut Object, name: &'static str, value: impl Into<Value>) {
    let zero = match members.get(name) {
        None | Some(Value::Null) => true,
        Some(Value::Str(text)) => text.is_empty(),
        Some(Value::Int(n)) => *n == 0,
        Some(Value::List(items)) => items.is_empty(),
        Some(_) => false,
    };
    if zero {
        members.insert(name, value);
    }
}

/// Returns true if two values are equal; an absent list equals an empty one, as in kube-apiserver's semantic
/// comparison.
pub(crate) fn semantically_equal(a: Option<&Value>, b: Option<&Value>) -> bool {
    let something = |value: &&Value| !matches!(value, Value::Null) && value.as_list() != Some(&[]);
    match (a.filter(something), b.filter(something)) {
        (None, None) => true,
        (Some(Value::Object(a)), Some(Value::Object(b))) => {
            a.iter().all(|(name, value)| semantically_equal(Some(value), b.get(name)))
                && b.iter().all(|(name, value)| a.contains(name) || semantically_equal(None, Some(value)))
        }
        (Some(Value::List(a)), Some(Value::List(b))) => {
            a.len() == b.len() && a.iter().zip(b).all(|(a, b)| semantically_equal(Some(a), Some(b)))
        }
        (a, b) => a == b,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn equality() {
        for (a, b, equal) in [
            (value!({"a": [], "b": null}), value!({}), true),
            (value!({"a": {"x": []}}), value!({"a": {}}), true),
            (value!({"a": {}}), value!({}), false),
            (value!({"a": [{"x": null}]}), value!({"a": [{}]}), true),
            (value!({"a": [1i64]}), value!({"a": [2i64]}), false),
            (value!({"a": 0i64}), value!({}), false),
        ] {
            assert_eq!(semantically_equal(Some(&a), Some(&b)), equal, "{a:?} {b:?}");
            assert_eq!(semantically_equal(Some(&b), Some(&a)), equal, "{b:?} {a:?}");
        }
    }

    #[test]
    fn generations() {
        let old = value!({"metadata": {"generation": 4i64}, "spec": {"a": 1i64}});
        for (spec, want) in [(value!({"a": 1i64}), 4), (value!({"a": 2i64}), 5)] {
            let mut object = old.clone();
            object.make_object().insert("spec", spec);
            next_generation(&mut object, &old, &["spec"]);
            assert_eq!(object.int_at(&["metadata", "generation"]), Some(want));
        }
    }
}
