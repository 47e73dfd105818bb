//! Embedded resources in the defaults of a definition.

use binnacle_schema::Value;
use binnacle_structural::{Interner, Structural, defaults};

use super::{schema, validation};
use crate::checks::present;

/// Coerces the metadata of embedded resources in the defaults of all schemas.
pub(super) fn coerce(object: &mut Value) {
    let Some(object_meta) = validation::object_meta() else { return };
    let versions = object.at_mut(&["spec", "versions"]).and_then(Value::as_list_mut);
    for version in versions.into_iter().flatten() {
        let Some(schema) = version.at_mut(&["schema", "openAPIV3Schema"]) else { continue };
        if !schema::any(schema, &mut |s| present(s, "default").is_some_and(has_members)) {
            continue;
        }
        if let Ok(parsed) = Structural::parse(schema, &Interner::new()) {
            defaults::coerce(schema, &parsed, object_meta);
        }
    }
}

/// Returns true for objects and lists that are not empty: only these can hold metadata.
fn has_members(default: &Value) -> bool {
    default.as_object().is_some_and(|object| !object.is_empty())
        || default.as_list().is_some_and(|list| !list.is_empty())
}
