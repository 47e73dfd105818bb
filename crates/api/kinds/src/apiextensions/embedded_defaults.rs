//! Embedded resources in the defaults of a definition.

use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition as Definition, CustomResourceDefinitionSpec as Spec,
    CustomResourceDefinitionVersion as Version, CustomResourceValidation as Validation, JSONSchemaProps as Props,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_schema::Value;
use binnacle_structural::{Interner, Structural, defaults};

use super::{schema, structural};

/// Coerces the metadata of embedded resources in the defaults of all schemas.
pub(super) fn coerce(mut definition: FieldMut<Definition>) {
    let Some(object_meta) = structural::object_meta() else { return };
    let Some(mut spec) = definition.structure(Definition::SPEC) else { return };
    for mut version in spec.items(Spec::VERSIONS) {
        let Some(mut validation) = version.structure(Version::SCHEMA) else { continue };
        let Some(schema) = validation.get_mut(Validation::OPEN_APIV3_SCHEMA) else { continue };
        if !schema::any(FieldRef::root(schema), &mut |s| has_members(s.at(Props::DEFAULT).value())) {
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
