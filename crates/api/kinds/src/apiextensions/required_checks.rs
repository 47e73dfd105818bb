//! The checks of a definition, without those that an update skips because the old definition fails them.

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition as Definition, CustomResourceDefinitionCondition as Condition,
    CustomResourceDefinitionSpec as Spec, CustomResourceDefinitionStatus as Status,
    CustomResourceDefinitionVersion as Version, CustomResourceValidation as Validation, JSONSchemaProps as Props,
};
use binnacle_meta::FieldErrors;

use super::expressions::ExistingExpressions;
use super::list_types::{items_of_maps_and_sets, non_atomic_item};
use super::open_api::TYPES;
use super::rules::Rules;
use super::webhook::{self, Leniency};
use super::{definition, schema, structural};
use crate::prepare::semantically_equal;

/// The checks of a definition. An update skips those that the old definition fails.
pub(super) struct RequiredChecks<'a> {
    pub(super) rules: Rules,
    pub(super) schemas: bool,
    pub(super) structural: bool,
    /// True if defaults may not have members that their schema does not specify.
    pub(super) pruned_defaults: bool,
    pub(super) existing: ExistingExpressions,
    pub(super) leniency: Leniency,
    pub(super) old: Option<FieldRef<'a, 'a, Definition>>,
}

impl<'a> RequiredChecks<'a> {
    pub(super) fn of(old: Option<FieldRef<'a, 'a, Definition>>) -> Self {
        let Some(old) = old else {
            return Self {
                rules: Rules { valid_types: true, atomic_sets: true, map_keys: true },
                schemas: true,
                structural: true,
                pruned_defaults: true,
                existing: ExistingExpressions::default(),
                leniency: Leniency { unknown_versions: false, any_bundle: true },
                old: None,
            };
        };
        let spec = old.at(Definition::SPEC);
        let internal = definition::Definition::of(spec);
        let any = |holds: fn(FieldRef<Props>) -> bool| {
            internal.schemas().any(|schema| schema::any(schema, &mut |schema| holds(schema)))
        };
        let conversion = spec.at(Spec::CONVERSION);
        Self {
            rules: Rules {
                valid_types: !any(has_invalid_type),
                atomic_sets: !any(|schema| non_atomic_item(schema).is_some()),
                map_keys: !any(has_invalid_items),
            },
            schemas: has_all_schemas(&internal),
            structural: internal.schemas().all(structural::is_structural),
            pruned_defaults: !internal.schemas().any(structural::has_unpruned_defaults),
            existing: ExistingExpressions::of(&internal),
            leniency: Leniency {
                unknown_versions: webhook::lacks_known_version(conversion),
                any_bundle: !is_established(old) || webhook::has_invalid_bundle(conversion),
            },
            old: Some(old),
        }
    }

    /// Returns true if the old definition has the same schema for this version.
    pub(super) fn is_unchanged(&self, version: FieldRef<Version>) -> bool {
        let Some(old) = self.old else { return false };
        let spec = old.at(Definition::SPEC);
        let old = with_name(spec, version.at(Version::NAME).str());
        old.is_some_and(|old| semantically_equal(version.at(Version::SCHEMA).get(), old.at(Version::SCHEMA).get()))
    }
}

/// Returns the first version with a name.
pub(super) fn with_name<'v>(spec: FieldRef<'_, 'v, Spec>, name: &str) -> Option<FieldRef<'static, 'v, Version>> {
    spec.at(Spec::VERSIONS).values().find(|version| version.at(Version::NAME).str() == name)
}

pub(super) fn is_established(definition: FieldRef<Definition>) -> bool {
    let status = definition.at(Definition::STATUS);
    status.at(Status::CONDITIONS).values().any(|condition| {
        condition.at(Condition::TYPE).str() == "Established" && condition.at(Condition::STATUS).str() == "True"
    })
}

fn has_invalid_type(schema: FieldRef<Props>) -> bool {
    let kind = schema.at(Props::TYPE);
    !kind.is_empty() && !TYPES.contains(&kind.str())
}

fn has_invalid_items(schema: FieldRef<Props>) -> bool {
    let mut errors = FieldErrors::new();
    items_of_maps_and_sets(schema, &mut errors);
    !errors.is_empty()
}

fn has_all_schemas(definition: &definition::Definition<'_, '_>) -> bool {
    let is_there = |validation: FieldRef<Validation>| validation.at(Validation::OPEN_APIV3_SCHEMA).is_set();
    definition.shared(Version::SCHEMA).is_some_and(is_there)
        || definition.versions().values().all(|version| definition.own(&version, Version::SCHEMA).is_some_and(is_there))
}
