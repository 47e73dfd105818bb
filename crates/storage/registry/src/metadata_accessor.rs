//! The metadata of custom objects that admission has changed, as read by Go's metadata accessors: a member of the wrong
//! type counts as absent. Other objects have been decoded, so their members have the right types.

use std::borrow::Cow;

use binnacle_fields::meta::v1::OwnerReference as Owner;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::Time;
use binnacle_schema::{Object, Value};

use crate::object;
use crate::write_object::WriteObject;

/// Returns the object with the metadata that the metadata rules apply to.
pub(crate) fn with_accessor_metadata(object: &WriteObject) -> Cow<'_, Value> {
    let value = object.for_validation();
    if !object.is_unpruned() {
        return value;
    }
    let mut object = value.into_owned();
    let metadata = object::metadata_mut(&mut object);
    let members = std::mem::take(metadata);
    for (name, value) in members {
        if let Some(value) = accessor_value(&name, value) {
            metadata.insert(name, value);
        }
    }
    Cow::Owned(object)
}

/// Returns a member of the metadata, or `None` where an accessor finds nothing.
fn accessor_value(name: &str, value: Value) -> Option<Value> {
    match name {
        "labels" | "annotations" => texts_by_key(value),
        "ownerReferences" => owners(&value),
        "finalizers" => Some(value).filter(|list| items(list, |item| item.as_str().is_some())),
        "managedFields" => Some(value).filter(|list| items(list, |item| item.as_object().is_some())),
        "generation" | "deletionGracePeriodSeconds" => Some(value).filter(|number| number.as_i64().is_some()),
        "creationTimestamp" | "deletionTimestamp" => {
            Some(value).filter(|time| time.as_str().is_some_and(|text| Time::parse(text).is_ok()))
        }
        _ => Some(value).filter(|text| text.as_str().is_some()),
    }
}

fn items(list: &Value, predicate: impl Fn(&Value) -> bool) -> bool {
    list.as_list().is_some_and(|items| items.iter().all(predicate))
}

/// Nulls are empty strings.
fn texts_by_key(value: Value) -> Option<Value> {
    let Value::Object(members) = value else { return None };
    let text = |(key, value): (_, Value)| match value {
        Value::Null => Some((key, Value::from(""))),
        value => value.as_str().is_some().then_some((key, value)),
    };
    let texts: Option<Object> = members.into_iter().map(text).collect();
    texts.map(Value::Object)
}

/// If one owner reference is not an object, there are no owner references at all.
fn owners(list: &Value) -> Option<Value> {
    let owner = |owner: &Value| -> Option<Value> {
        owner.as_object()?;
        let field_ref = FieldRef::<Owner>::root(owner);
        let mut read = Value::Object(Object::new());
        let mut owner = FieldMut::<Owner>::root(&mut read);
        for field in [Owner::API_VERSION, Owner::KIND, Owner::NAME, Owner::UID] {
            owner.set(field, field_ref.at(field).str());
        }
        for field in [Owner::CONTROLLER, Owner::BLOCK_OWNER_DELETION] {
            if let Some(value) = field_ref.at(field).get_bool() {
                owner.set(field, value);
            }
        }
        Some(read)
    };
    let owners: Option<Vec<Value>> = list.as_list()?.iter().map(owner).collect();
    owners.map(Value::List)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn treats_members_of_wrong_type_as_absent() {
        let owner = value!({"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "u"});
        for (name, value, want) in [
            ("name", value!("a"), Some(value!("a"))),
            ("name", value!(5), None),
            ("labels", value!({"a": "b", "c": null}), Some(value!({"a": "b", "c": ""}))),
            ("labels", value!({"a": "b", "c": 5}), None),
            ("annotations", value!("x"), None),
            ("finalizers", value!(["a/b"]), Some(value!(["a/b"]))),
            ("finalizers", value!(["a/b", 5]), None),
            ("ownerReferences", value!([(owner.clone())]), Some(value!([(owner.clone())]))),
            ("ownerReferences", value!([(owner.clone()), null]), None),
            ("ownerReferences", value!([null]), None),
            (
                "ownerReferences",
                value!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": 5, "controller": "yes", "zz": 1}]),
                Some(value!([{"apiVersion": "v1", "kind": "Pod", "name": "p", "uid": ""}])),
            ),
            ("managedFields", value!([5]), None),
            ("generation", value!("x"), None),
            ("deletionGracePeriodSeconds", value!(5), Some(value!(5))),
            ("deletionTimestamp", value!("x"), None),
            ("deletionTimestamp", value!("2020-01-01T00:00:00Z"), Some(value!("2020-01-01T00:00:00Z"))),
        ] {
            assert_eq!(accessor_value(name, value.clone()), want, "{name}: {value:?}");
        }
    }
}
