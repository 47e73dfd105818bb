//! Preparation steps that most strategies share: they restore fields that an endpoint does not write.

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::Kind;
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_schema::Value;

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

/// Sets the generation to the old one, increased if something has changed.
pub(crate) fn count_generation_if<K: Kind>(has_changed: bool, object: &mut FieldMut<K>, old: FieldRef<K>) {
    let (mut metadata, old) = (object.entry(K::METADATA), old.at(K::METADATA));
    if has_changed {
        metadata.set(ObjectMeta::GENERATION, old.at(ObjectMeta::GENERATION).int_or_zero() + 1);
    } else {
        metadata.keep(old, ObjectMeta::GENERATION);
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
    use binnacle_fields::apps::v1::Deployment;
    use binnacle_schema::value;

    #[test]
    fn treats_null_and_empty_lists_as_equal() {
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
    fn increments_generation_if_spec_changes() {
        let old = value!({"metadata": {"generation": 4i64}, "spec": {"replicas": 1i64}});
        for (spec, want) in [(value!({"replicas": 1i64}), 4), (value!({"replicas": 2i64}), 5)] {
            let mut object = old.clone();
            object.make_object().insert("spec", spec);
            count_generation(&mut FieldMut::root(&mut object), FieldRef::root(&old), Deployment::SPEC);
            assert_eq!(object.int_at(&["metadata", "generation"]), Some(want));
        }
    }
}
