//! Schemas of custom resources, and the validation of objects by them.

use binnacle_meta::FieldErrors;
use binnacle_schema::{Limits, MessageRef, Value, json};
use binnacle_structural::resource::{CoercionOptions, Part, ResourceSchema};
use binnacle_structural::{Interner, Structural, check};

use crate::objects;

/// The input is a schema, a line break and an object.
pub fn structural(data: &[u8]) {
    let Some((schema, object)) = objects::two(data) else { return };
    let interner = Interner::new();
    let parsed = Structural::parse(&schema, &interner);
    assert_eq!(check(&schema).is_ok(), parsed.is_ok(), "what is checked is what can be read");
    let Ok(parsed) = parsed else { return };
    let metadata = objects::message("v1", "Pod").get("metadata").and_then(|field| field.ty.message());
    let metadata = metadata.map(MessageRef::Static).expect("pods have metadata");
    let resource = ResourceSchema::new(Some(parsed), metadata);
    resource.message();
    let Ok(mut object @ Value::Object(_)) = json::parse(object, &Limits::default()) else { return };
    let old = object.clone();
    let reading = CoercionOptions { report_unknown: true, ..CoercionOptions::default() };
    if resource.read(&mut object, reading).is_err() {
        return;
    }
    let mut again = object.clone();
    let unknown = resource.read(&mut again, reading);
    assert!(unknown.is_ok_and(|unknown| unknown.is_empty()), "what is pruned has nothing unknown");
    assert_eq!(objects::sorted(&again), objects::sorted(&object), "pruning again changes nothing");
    resource.set_defaults(&mut object);
    let mut again = object.clone();
    assert!(!resource.set_defaults(&mut again), "defaults are set once");
    resource.validate(&object, None, Part::Whole, FieldErrors::new());
    resource.validate(&object, Some(&old), Part::Whole, FieldErrors::new());
    resource.validate(&object, Some(&object), Part::Status, FieldErrors::new());
}
