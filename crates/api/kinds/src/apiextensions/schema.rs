//! JSON schemas as trees.

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::JSONSchemaProps as Props;
use binnacle_fields::types::Map;

/// The cost, in steps, of one check of a schema, which takes about half a microsecond.
pub(super) const SCHEMA: u64 = 50;

pub(super) fn has_properties(schema: FieldRef<Props>) -> bool {
    !schema.at(Props::PROPERTIES).is_empty()
}

/// Returns the schema of a property.
pub(super) fn property<'p, 'v>(
    properties: &'p FieldRef<'_, 'v, Map<Props>>,
    name: &'p str,
) -> Option<FieldRef<'p, 'v, Props>> {
    Some(properties.key(name)).filter(|property| property.object().is_some())
}

/// Returns true if a schema or one below it has a default.
pub(super) fn has_defaults(schema: FieldRef<'static, '_, Props>) -> bool {
    any(schema, &mut |schema| schema.at(Props::DEFAULT).is_set())
}

/// Returns true if a predicate holds for a schema or one below it. The schemas have no paths.
pub(super) fn any<'v>(
    schema: FieldRef<'static, 'v, Props>,
    holds: &mut dyn FnMut(FieldRef<'static, 'v, Props>) -> bool,
) -> bool {
    // Fields that take a schema can also be booleans or lists of strings.
    if schema.object().is_none() {
        return false;
    }
    binnacle_work::pace(4);
    if holds(schema) {
        return true;
    }
    let mut below = |schema: FieldRef<'_, 'v, Props>| any(schema.detached(), holds);
    let items = schema.at(Props::ITEMS);
    let lists = [items.schemas(), schema.at(Props::ALL_OF), schema.at(Props::ANY_OF), schema.at(Props::ONE_OF)];
    let single = [
        schema.at(Props::NOT),
        schema.at(Props::ADDITIONAL_PROPERTIES).cast(),
        schema.at(Props::ADDITIONAL_ITEMS).cast(),
    ];
    let maps = [
        schema.at(Props::PROPERTIES),
        schema.at(Props::PATTERN_PROPERTIES),
        schema.at(Props::DEFINITIONS),
        schema.at(Props::DEPENDENCIES).cast(),
    ];
    items.schema().is_some_and(&mut below)
        || lists.iter().any(|list| list.values().any(&mut below))
        || single.into_iter().any(&mut below)
        || maps.iter().any(|map| map.entries().any(|(_, schema)| below(schema)))
}
