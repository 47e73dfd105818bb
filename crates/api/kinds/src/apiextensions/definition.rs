//! The spec of a definition in kube-apiserver's internal form: members that are equal in all versions belong to the
//! spec.

use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinitionSpec as Spec, CustomResourceDefinitionVersion as Version,
    CustomResourceValidation as Validation, JSONSchemaProps as Props,
};
use binnacle_fields::types::List;
use binnacle_fields::{Field, FieldMut, FieldRef, Message, Route, route};
use binnacle_meta::ErrorValue;
use binnacle_schema::{Object, Value, json};

use crate::internal;
use crate::prepare::semantically_equal;

/// Members of versions that move to the spec if all versions have equal ones.
const SHARED: [Route<Version>; 4] = [
    route![Version::SUBRESOURCES],
    route![Version::SCHEMA],
    route![Version::ADDITIONAL_PRINTER_COLUMNS],
    route![Version::SELECTABLE_FIELDS],
];

pub(super) struct Definition<'p, 'v> {
    spec: FieldRef<'p, 'v, Spec>,
    /// The first version with the path of the spec, where errors of shared members are reported.
    first: Option<FieldRef<'p, 'v, Version>>,
    /// True for each member of [`SHARED`] that is equal in all versions.
    alike: [bool; SHARED.len()],
}

impl<'p, 'v> Definition<'p, 'v> {
    pub(super) fn of(spec: FieldRef<'p, 'v, Spec>) -> Self {
        let versions = spec.at(Spec::VERSIONS);
        let first = versions.values().next().map(|first| first.located_at(&spec));
        let alike = SHARED.map(|member| {
            let equals = |first: FieldRef<Version>, version: FieldRef<Version>| {
                alike(version.value_at(member), first.value_at(member))
            };
            first.is_some_and(|first| versions.values().all(|version| equals(first, version)))
        });
        Self { spec, first, alike }
    }

    pub(super) fn versions(&self) -> FieldRef<'_, 'v, List<Version>> {
        self.spec.at(Spec::VERSIONS)
    }

    fn is_shared<T>(&self, member: Field<Version, T>) -> bool {
        let is_member = |route: Route<Version>| route.steps().iter().any(|step| step.name == member.name());
        SHARED.into_iter().zip(self.alike).any(|(shared, alike)| alike && is_member(shared))
    }

    /// Returns a member that all versions share, with its path in the spec.
    pub(super) fn shared<T>(&self, member: Field<Version, T>) -> Option<FieldRef<'_, 'v, T>> {
        self.first.as_ref().filter(|_| self.is_shared(member)).and_then(|first| first.at(member).set())
    }

    /// Returns a member of a version that is not shared by all.
    pub(super) fn own<'q, T>(
        &self,
        version: &'q FieldRef<'_, 'v, Version>,
        member: Field<Version, T>,
    ) -> Option<FieldRef<'q, 'v, T>> {
        if self.is_shared(member) { None } else { version.at(member).set() }
    }

    /// Returns all schemas, each once and without its path.
    pub(super) fn schemas(&self) -> impl Iterator<Item = FieldRef<'static, 'v, Props>> {
        let schema =
            |validation: FieldRef<'_, 'v, Validation>| validation.at(Validation::OPEN_APIV3_SCHEMA).detached().set();
        let shared = self.shared(Version::SCHEMA).and_then(schema);
        let own =
            self.versions().values().filter_map(move |version| self.own(&version, Version::SCHEMA).and_then(schema));
        shared.into_iter().chain(own)
    }

    /// Returns the versions as messages show them.
    pub(super) fn shown_versions(&self) -> ErrorValue {
        if !self.versions().is_set() {
            return ErrorValue::raw("null");
        }
        let show = |version: &Value| {
            let mut version = version.clone();
            let mut members = FieldMut::<Version>::root(&mut version);
            members.object();
            SHARED
                .into_iter()
                .zip(self.alike)
                .filter(|(_, alike)| *alike)
                .for_each(|(member, _)| members.remove_at(member));
            internal::internal(Version::DEFINITION, Some(&version))
        };
        ErrorValue::raw(json::to_string(&Value::List(self.versions().list().iter().map(show).collect())))
    }
}

/// Returns true if two members of versions are equal: compared as structs, but as JSON text if they have values in
/// schemas.
fn alike(a: &Value, b: &Value) -> bool {
    const STATED: [&str; 2] = [Props::DEFAULT.name(), Props::EXAMPLE.name()];
    let stated = |schema: &Value| {
        // An empty list of values is none.
        let has_values = !schema.list_at(&[Props::ENUM.name()]).is_empty();
        has_values || schema.as_object().is_some_and(|schema| STATED.iter().any(|name| schema.contains(name)))
    };
    if ![a, b].into_iter().any(|value| any_object(value, &stated)) {
        return semantically_equal(Some(a), Some(b)) || semantically_equal(Some(&bare(a)), Some(&bare(b)));
    }
    a == b
}

/// Returns a tree without the maps of schemas that are empty, which equal absent ones.
fn bare(tree: &Value) -> Value {
    const MAPS: [&str; 4] = [
        Props::PROPERTIES.name(),
        Props::PATTERN_PROPERTIES.name(),
        Props::DEFINITIONS.name(),
        Props::DEPENDENCIES.name(),
    ];
    let is_empty = |value: &Value| value.as_object().is_some_and(Object::is_empty);
    match tree {
        Value::Object(object) => {
            let kept = object.iter().filter(|(name, value)| !(is_empty(value) && MAPS.contains(&name.as_str())));
            Value::Object(kept.map(|(name, value)| (name.clone(), bare(value))).collect())
        }
        Value::List(items) => Value::List(items.iter().map(bare).collect()),
        other => other.clone(),
    }
}

/// Returns true if a predicate holds for an object anywhere in a tree. The tree is not read as a schema: a property may
/// have the name of a field of schemas.
fn any_object(tree: &Value, holds: &dyn Fn(&Value) -> bool) -> bool {
    match tree {
        Value::Object(object) => holds(tree) || object.values().any(|value| any_object(value, holds)),
        Value::List(items) => items.iter().any(|item| any_object(item, holds)),
        _ => false,
    }
}
