//! Validation of a definition.

use std::collections::{HashMap, HashSet};

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{
    CustomResourceConversion as Conversion, CustomResourceDefinition as Definition,
    CustomResourceDefinitionNames as Names, CustomResourceDefinitionSpec as Spec,
    CustomResourceDefinitionStatus as Status, CustomResourceDefinitionVersion as Version,
};
use binnacle_fields::types::Str;
use binnacle_meta::FieldErrors;
use binnacle_validation::names as dns;
use binnacle_validation::{checks, metadata};

use super::names::validate_names;
use super::required_checks::{RequiredChecks, is_established};
use super::{approval, definition, schema, version_schema, versions, webhook};
use crate::checks::{immutable, immutable_enum};

/// Validates a definition that is created or changed.
pub(super) fn validate(object: FieldRef<Definition>, old: Option<FieldRef<Definition>>) -> FieldErrors {
    let mut errors = if old.is_none() { new_metadata(object) } else { FieldErrors::new() };
    let spec = object.at(Definition::SPEC);
    validate_spec(spec, &RequiredChecks::of(old), &mut errors);
    if let Some(old) = old {
        immutable_fields(spec, old, &mut errors);
    }
    status(object, &mut errors);
    stored_versions(object, &mut errors);
    approval::validate(object, old, &mut errors);
    let preserve = spec.at(Spec::PRESERVE_UNKNOWN_FIELDS);
    let preserved = old.is_some_and(|old| old.at(Definition::SPEC).at(Spec::PRESERVE_UNKNOWN_FIELDS).bool());
    if preserve.bool() && !preserved {
        errors.push(preserve.invalid(
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead",
        ));
    }
    errors
}

fn immutable_fields(spec: FieldRef<Spec>, old: FieldRef<Definition>, errors: &mut FieldErrors) {
    let old_spec = old.at(Definition::SPEC);
    let (names, old_names) = (spec.at(Spec::NAMES), old_spec.at(Spec::NAMES));
    if is_established(old) {
        immutable_enum(spec.at(Spec::SCOPE), old_spec.at(Spec::SCOPE), errors);
        immutable(names.at(Names::KIND), old_names.at(Names::KIND), errors);
    }
    immutable(spec.at(Spec::GROUP), old_spec.at(Spec::GROUP), errors);
    immutable(names.at(Names::PLURAL), old_names.at(Names::PLURAL), errors);
}

/// Validates the status.
pub(super) fn status(definition: FieldRef<Definition>, errors: &mut FieldErrors) {
    let status = definition.at(Definition::STATUS);
    validate_names(status.at(Status::ACCEPTED_NAMES), errors);
}

/// Validates the metadata of a new definition, whose name must be `<plural>.<group>` of its spec.
fn new_metadata(definition: FieldRef<Definition>) -> FieldErrors {
    let (own, spec) = (definition.at(Definition::METADATA), definition.at(Definition::SPEC));
    let required = format!("{}.{}", spec.at(Spec::NAMES).at(Names::PLURAL).str(), spec.at(Spec::GROUP).str());
    let rule = |name: &str, prefix: bool| {
        let mut messages = dns::dns1123_subdomain_name(name, prefix);
        if name != required {
            messages.push("must be spec.names.plural+\".\"+spec.group".to_owned());
        }
        messages
    };
    metadata::validate(own.value(), false, rule, &own.path())
}

fn stored_versions(definition: FieldRef<Definition>, errors: &mut FieldErrors) {
    let (spec, status) = (definition.at(Definition::SPEC), definition.at(Definition::STATUS));
    let (versions, stored) = (spec.at(Spec::VERSIONS), status.at(Status::STORED_VERSIONS));
    if stored.is_empty() {
        errors.push(stored.invalid("must have at least one stored version"));
        return;
    }
    // As in kube-apiserver, a second version of the same name is not found.
    let mut left: HashSet<&str> = stored.strs().collect();
    for version in errors.while_room(versions.values()) {
        let name = version.at(Version::NAME).str();
        if !left.remove(name) && version.at(Version::STORAGE).bool() {
            errors.push(stored.invalid(format!("must have the storage version {name}")));
        }
    }
    let known: HashSet<&str> = versions.values().map(|version| version.at(Version::NAME).str()).collect();
    let last: HashMap<&str, usize> = stored.values().enumerate().map(|(i, name)| (name.str(), i)).collect();
    for (i, item) in errors.while_room(stored.items().enumerate()) {
        let name = item.str();
        if last.get(name) == Some(&i) && !known.contains(name) {
            errors.push(item.invalid(format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            )));
        }
    }
}

fn validate_spec(spec: FieldRef<Spec>, required: &RequiredChecks<'_>, errors: &mut FieldErrors) {
    let definition = definition::Definition::of(spec);
    group(spec.at(Spec::GROUP), errors);
    let scope = spec.at(Spec::SCOPE);
    checks::required_string_one_of(&scope, scope.str(), &["Cluster", "Namespaced"], errors);
    let preserve = spec.at(Spec::PRESERVE_UNKNOWN_FIELDS);
    versions::missing_schemas(&definition, required, preserve.bool(), errors);
    let has_defaults = definition.schemas().any(schema::has_defaults);
    if has_defaults && preserve.bool() {
        errors.push(preserve.invalid("must be false in order to use defaults in the schema"));
    }
    let structural = required.structural
        || !preserve.bool()
        || has_defaults
        || definition.schemas().any(version_schema::has_extensions);
    versions::validate(&definition, required, structural, errors);
    let names = spec.at(Spec::NAMES);
    for field in [Names::PLURAL, Names::SINGULAR, Names::KIND, Names::LIST_KIND] {
        let name = names.at(field);
        checks::required(&name, name.str(), errors);
    }
    validate_names(names, errors);
    versions::validate_shared(&definition, required, structural, errors);
    if let Some(conversion) = spec.at(Spec::CONVERSION).set() {
        let strategy = conversion.at(Conversion::STRATEGY);
        if strategy.str() != "None" && preserve.bool() {
            errors.push(
                strategy.invalid_as(strategy.shown_as_json(), "must be None if spec.preserveUnknownFields is true"),
            );
        }
        webhook::conversion(conversion, &required.leniency, errors);
    }
}

fn group(group: FieldRef<Str>, errors: &mut FieldErrors) {
    let messages = dns::dns1123_subdomain(group.str());
    if group.is_empty() {
        errors.push(group.required(""));
    } else if !messages.is_empty() {
        errors.push(group.invalid(messages.join(",")));
    } else if !group.str().contains('.') {
        errors.push(group.invalid("should be a domain with at least one dot"));
    }
}
