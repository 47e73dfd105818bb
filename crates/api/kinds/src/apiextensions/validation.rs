//! Validation of a definition.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{
    self, CustomResourceColumnDefinition as Column, CustomResourceConversion as Conversion,
    CustomResourceDefinitionNames as Names, CustomResourceDefinitionSpec as Spec,
    CustomResourceDefinitionStatus as Status, CustomResourceDefinitionVersion as Version,
};
use binnacle_fields::types::List;
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Message, Value, json};
use binnacle_structural::defaults::{self, DefaultRules};
use binnacle_structural::{Interner, Structural};
use binnacle_validation::metadata::shown;
use binnacle_validation::names as dns;
use binnacle_validation::{checks, repeated};

use super::definition::Definition;
use super::expressions::{self, Existing, Subject};
use super::list_types::{items_of_maps_and_sets, non_atomic_item};
use super::names::{column, label, subresources, validate_names};
use super::open_api::{self, Rules, TYPES};
use super::webhook::{self, Leniency};
use super::{approval, schema, structural};
use crate::checks::{immutable_value, member, one_of, present, spec_path};
use crate::prepare::semantically_equal;
use crate::tables;

const SELECTABLE_MAX: usize = 8;
const WARNING_MAX: usize = 256;

/// The checks of a definition. An update skips those that the old definition fails.
struct RequiredChecks<'a> {
    rules: Rules,
    schemas: bool,
    structural: bool,
    /// True if defaults may not have members that their schema does not specify.
    pruned_defaults: bool,
    existing: Existing,
    leniency: Leniency,
    old: Option<&'a Value>,
}

impl<'a> RequiredChecks<'a> {
    fn of(old: Option<&'a Value>) -> Self {
        let Some(old) = old else {
            return Self {
                rules: Rules { valid_types: true, atomic_sets: true, map_keys: true },
                schemas: true,
                structural: true,
                pruned_defaults: true,
                existing: Existing::default(),
                leniency: Leniency { unknown_versions: false, any_bundle: true },
                old: None,
            };
        };
        let definition = Definition::of(old);
        let any = |holds: &mut dyn FnMut(&Value) -> bool| definition.schemas().any(|s| schema::any(s, holds));
        let spec = FieldRef::<Spec>::root(definition.spec);
        let conversion = spec.at(Spec::CONVERSION);
        let rules = Rules {
            valid_types: !any(&mut |s| schema::is_set(s, "type") && !TYPES.contains(&s.str_at(&["type"]))),
            atomic_sets: !any(&mut |s| non_atomic_item(s).is_some()),
            map_keys: !any(&mut |s| {
                let mut errors = FieldErrors::new();
                items_of_maps_and_sets(s, &FieldPath::new(""), &mut errors);
                !errors.is_empty()
            }),
        };
        Self {
            rules,
            schemas: has_all_schemas(&definition),
            structural: definition.schemas().all(|s| structural_schema(s).is_some()),
            pruned_defaults: !definition.schemas().any(has_unpruned_defaults),
            existing: Existing::of(&definition),
            leniency: Leniency {
                unknown_versions: webhook::lacks_known_version(conversion),
                any_bundle: !is_established(old) || webhook::has_invalid_bundle(conversion),
            },
            old: Some(old),
        }
    }

    /// Returns true if the old definition has the same schema for this version.
    fn is_unchanged(&self, version: &Value) -> bool {
        let Some(old) = self.old else { return false };
        let name = version.str_at(&["name"]);
        let mut versions = old.list_at(&["spec", "versions"]).iter();
        let old = versions.find(|old| old.str_at(&["name"]) == name);
        old.is_some_and(|old| semantically_equal(version.get("schema"), old.get("schema")))
    }

    /// Returns true if the old definition has the same selectable fields, even if they are above the limit.
    fn may_select(&self, fields: &[Value], version: &str) -> bool {
        let Some(old) = self.old else { return false };
        let definition = Definition::of(old);
        let old_fields = match version {
            "" => definition.shared("selectableFields"),
            _ => {
                let old = definition.versions.iter().find(|old| old.str_at(&["name"]) == version);
                old.and_then(|old| definition.own(old, "selectableFields"))
            }
        };
        old_fields.and_then(Value::as_list).is_some_and(|old| old.len() > SELECTABLE_MAX && old == fields)
    }
}

fn is_established(definition: &Value) -> bool {
    let conditions = definition.list_at(&["status", "conditions"]);
    conditions.iter().any(|c| c.str_at(&["type"]) == "Established" && c.str_at(&["status"]) == "True")
}

/// Returns a schema as a tree of nodes, if it is structural.
fn structural_schema(schema: &Value) -> Option<Arc<Structural>> {
    let parsed = Structural::parse(schema, &Interner::new()).ok()?;
    structural::validate(schema, &FieldPath::new("")).is_empty().then_some(parsed)
}

pub(super) fn object_meta() -> Option<&'static Message> {
    tables::message("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta")
}

fn has_unpruned_defaults(schema: &Value) -> bool {
    let has_defaults = schema::any(schema, &mut |s| present(s, "default").is_some());
    has_defaults
        && structural_schema(schema)
            .zip(object_meta())
            .is_some_and(|(schema, object_meta)| defaults::has_unpruned(&schema, object_meta))
}

fn open_api_schema(schema: Option<&Value>) -> Option<&Value> {
    schema.and_then(|schema| present(schema, "openAPIV3Schema"))
}

fn has_all_schemas(definition: &Definition<'_>) -> bool {
    open_api_schema(definition.shared("schema")).is_some()
        || definition.versions.iter().all(|v| open_api_schema(definition.own(v, "schema")).is_some())
}

/// Validates a definition that is created or changed.
pub(super) fn validate(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if old.is_none() {
        name(object, &mut errors);
    }
    spec(object, &RequiredChecks::of(old), &mut errors);
    if let Some(old) = old {
        let (new_spec, old_spec, path) = (member(object, "spec"), member(old, "spec"), spec_path());
        let mut fixed = |names: &[&str]| {
            let at = names.iter().fold(path.clone(), |path, name| path.child(name));
            immutable_value(&at, new_spec.at(names), old_spec.at(names), &mut errors);
        };
        if is_established(old) {
            fixed(&["scope"]);
            fixed(&["names", "kind"]);
        }
        fixed(&["group"]);
        fixed(&["names", "plural"]);
    }
    status(object, &mut errors);
    stored_versions(object, &mut errors);
    approval::validate(object, old, &mut errors);
    let preserves = |object: &Value| object.bool_at(&["spec", "preserveUnknownFields"]);
    if preserves(object) && !old.is_some_and(preserves) {
        let detail =
            "cannot set to true, set x-kubernetes-preserve-unknown-fields to true in spec.versions[*].schema instead";
        errors.push(FieldError::invalid(&spec_path().child("preserveUnknownFields"), true, detail));
    }
    errors
}

/// Validates the status.
pub(super) fn status(object: &Value, errors: &mut FieldErrors) {
    let definition = FieldRef::<v1::CustomResourceDefinition>::root(object);
    let status = definition.at(v1::CustomResourceDefinition::STATUS);
    validate_names(status.at(Status::ACCEPTED_NAMES), errors);
}

/// Validates the name of a definition, which must be made of the names in its spec.
fn name(object: &Value, errors: &mut FieldErrors) {
    let spec = member(object, "spec");
    let required = format!("{}.{}", spec.str_at(&["names", "plural"]), spec.str_at(&["group"]));
    let metadata = member(object, "metadata");
    let prefix = metadata.str_at(&["generateName"]);
    for (field, name) in [("generateName", prefix), ("name", metadata.str_at(&["name"]))] {
        if !name.is_empty() && (field == "generateName" || name != required) {
            let at = FieldPath::new("metadata").child(field);
            errors.push(FieldError::invalid(&at, name, "must be spec.names.plural+\".\"+spec.group"));
        }
    }
}

fn stored_versions(object: &Value, errors: &mut FieldErrors) {
    let stored = object.at(&["status", "storedVersions"]);
    let names = object.list_at(&["status", "storedVersions"]);
    let path = FieldPath::new("status").child("storedVersions");
    if names.is_empty() {
        errors.push(FieldError::invalid(&path, shown(stored), "must have at least one stored version"));
        return;
    }
    let versions = object.list_at(&["spec", "versions"]);
    // As in kube-apiserver, a second version of the same name is not found.
    let mut left: HashSet<&str> = names.iter().filter_map(Value::as_str).collect();
    for version in errors.while_room(versions.iter()) {
        let name = version.str_at(&["name"]);
        if !left.remove(name) && version.bool_at(&["storage"]) {
            let detail = format!("must have the storage version {name}");
            errors.push(FieldError::invalid(&path, shown(stored), detail));
        }
    }
    let known: HashSet<&str> = versions.iter().map(|version| version.str_at(&["name"])).collect();
    let last: HashMap<&str, usize> =
        names.iter().enumerate().map(|(i, stored)| (stored.as_str().unwrap_or_default(), i)).collect();
    for (i, stored) in errors.while_room(names.iter().enumerate()) {
        let name = stored.as_str().unwrap_or_default();
        if last.get(name) == Some(&i) && !known.contains(name) {
            let detail = format!(
                "missing from spec.versions; {name} was previously a storage version, and must remain in spec.versions until a storage migration ensures no data remains persisted in {name} and removes {name} from status.storedVersions"
            );
            errors.push(FieldError::invalid(&path.index(i), name, detail));
        }
    }
}

fn spec(object: &Value, asked: &RequiredChecks<'_>, errors: &mut FieldErrors) {
    let definition = Definition::of(object);
    let (spec, path) = (definition.spec, spec_path());
    let (group, at) = (spec.str_at(&["group"]), path.child("group"));
    let messages = dns::dns1123_subdomain(group);
    if group.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else if !messages.is_empty() {
        errors.push(FieldError::invalid(&at, group, messages.join(",")));
    } else if !group.contains('.') {
        errors.push(FieldError::invalid(&at, group, "should be a domain with at least one dot"));
    }
    let (scope, at) = (spec.str_at(&["scope"]), path.child("scope"));
    if scope.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        one_of(&at, scope, &["Cluster", "Namespaced"], errors);
    }
    let preserve = spec.bool_at(&["preserveUnknownFields"]);
    missing_schemas(&definition, asked, preserve, &path, errors);
    let has_defaults = definition.schemas().any(|s| schema::any(s, &mut |s| present(s, "default").is_some()));
    if has_defaults && preserve {
        let detail = "must be false in order to use defaults in the schema";
        errors.push(FieldError::invalid(&path.child("preserveUnknownFields"), true, detail));
    }
    let structural = asked.structural || !preserve || has_defaults || definition.schemas().any(has_extensions);
    let status = status_by_name(definition.versions);
    for (i, version) in errors.while_room(definition.versions.iter().enumerate()) {
        let at = path.child("versions").index(i);
        let name = version.str_at(&["name"]);
        label(&at.child("name"), name, "", name, errors);
        let has_status = status.get(name).is_some_and(|has_status| *has_status);
        validate_version(&definition, version, has_status, asked, structural, &at, errors);
    }
    whole_versions(&definition, &path, errors);
    let spec = FieldRef::<Spec>::located(spec, &path);
    let names = spec.at(Spec::NAMES);
    for field in [Names::PLURAL, Names::SINGULAR, Names::KIND, Names::LIST_KIND] {
        let name = names.at(field);
        checks::required(&name, name.str(), errors);
    }
    validate_names(names, errors);
    let any_status = definition.versions.iter().any(|version| has_status(present(version, "subresources")));
    let shared = definition.shared("schema");
    let unchanged = definition.versions.first().is_some_and(|first| asked.is_unchanged(first));
    validate_schema(shared, any_status, asked, structural, unchanged, &path.child("validation"), errors);
    // Fields that all versions share are reported as fields of the spec, which has them in Go's internal form.
    let at = path.child("subresources");
    subresources(FieldRef::located(definition.shared("subresources").unwrap_or(&Value::Null), &at), errors);
    let at = path.child("additionalPrinterColumns");
    let columns = definition.shared("additionalPrinterColumns").unwrap_or(&Value::Null);
    for item in errors.while_room(FieldRef::<List<Column>>::located(columns, &at).items()) {
        column(item, errors);
    }
    if let Some(fields) = definition.shared("selectableFields").and_then(Value::as_list) {
        match shared.filter(|_| !fields.is_empty()) {
            Some(shared) => selectable_fields(fields, open_api_schema(Some(shared)), asked, "", &path, errors),
            None if fields.is_empty() => {}
            None => {
                let detail = "may only be set when validations.schema is included";
                errors.push(FieldError::invalid(&path.child("selectableFields"), "", detail));
            }
        }
    }
    if let Some(conversion) = spec.at(Spec::CONVERSION).set() {
        let strategy = conversion.at(Conversion::STRATEGY);
        if strategy.str() != "None" && preserve {
            errors.push(strategy.invalid("must be None if spec.preserveUnknownFields is true"));
        }
        webhook::conversion(conversion, &asked.leniency, errors);
    }
}

fn has_status(subresources: Option<&Value>) -> bool {
    subresources.is_some_and(|subresources| present(subresources, "status").is_some())
}

/// Returns which versions have the subresource `status`. As in kube-apiserver, the first of two versions with one name
/// decides for both.
fn status_by_name(versions: &[Value]) -> HashMap<&str, bool> {
    let of_version = |version| has_status(present(version, "subresources"));
    versions.iter().rev().map(|version| (version.str_at(&["name"]), of_version(version))).collect()
}

fn has_extensions(schema: &Value) -> bool {
    schema::any(schema, &mut |s| {
        ["x-kubernetes-embedded-resource", "x-kubernetes-int-or-string"].iter().any(|name| s.bool_at(&[name]))
            || ["x-kubernetes-preserve-unknown-fields", "x-kubernetes-list-type"]
                .iter()
                .any(|n| present(s, n).is_some())
            || ["x-kubernetes-list-map-keys", "x-kubernetes-validations"].iter().any(|n| !s.list_at(&[n]).is_empty())
    })
}

fn missing_schemas(
    definition: &Definition<'_>,
    asked: &RequiredChecks<'_>,
    preserve: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    if open_api_schema(definition.shared("schema")).is_some() || (!asked.schemas && preserve) {
        return;
    }
    for (i, version) in errors.while_room(definition.versions.iter().enumerate()) {
        let at = path.child("versions").index(i).child("schema").child("openAPIV3Schema");
        if open_api_schema(definition.own(version, "schema")).is_some() {
        } else if asked.schemas {
            errors.push(FieldError::required(&at, ""));
        } else if version.bool_at(&["served"]) {
            errors.push(FieldError::required(&at, "because otherwise all fields are pruned"));
        }
    }
}

/// Validates a version, without the members that it shares with all others.
fn validate_version(
    definition: &Definition<'_>,
    version: &Value,
    has_status: bool,
    asked: &RequiredChecks<'_>,
    structural: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let own = |name| present(version, name).filter(|_| definition.own(version, name).is_some());
    deprecation_warning(version, path, errors);
    let schema = own("schema");
    let unchanged = asked.is_unchanged(version);
    validate_schema(schema, has_status, asked, structural, unchanged, &path.child("schema"), errors);
    let handle = FieldRef::<Version>::located(version, path);
    if own("subresources").is_some() {
        subresources(handle.at(Version::SUBRESOURCES), errors);
    }
    if own("additionalPrinterColumns").is_some() {
        for item in errors.while_room(handle.at(Version::ADDITIONAL_PRINTER_COLUMNS).items()) {
            column(item, errors);
        }
    }
    let fields = own("selectableFields").and_then(Value::as_list).unwrap_or_default();
    if fields.is_empty() {
        return;
    }
    match open_api_schema(schema) {
        Some(schema) => selectable_fields(fields, Some(schema), asked, version.str_at(&["name"]), path, errors),
        None => {
            let detail = "may only be set when `version.schema.openAPIV3Schema` is not included";
            errors.push(FieldError::invalid(&path.child("selectableFields"), "", detail));
        }
    }
}

fn deprecation_warning(version: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(warning) = present(version, "deprecationWarning").and_then(Value::as_str) else { return };
    let path = path.child("deprecationWarning");
    // In Go the text is a pointer, so messages show it as JSON.
    let shown = || ErrorValue::raw(json::to_string(&Value::from(warning)));
    let mut refuse = |detail: &str| errors.push(FieldError::invalid(&path, shown(), detail));
    if !version.bool_at(&["deprecated"]) {
        refuse("can only be set for deprecated versions");
        return;
    }
    if warning.len() > WARNING_MAX {
        refuse("must be <= 256 characters long");
    }
    if warning.is_empty() {
        refuse("must not be an empty string");
    }
    // The only white space among Go's printable characters is the space.
    let unprintable = |c: char| c.is_control() || (c.is_whitespace() && c != ' ');
    if let Some((i, _)) = warning.char_indices().find(|(_, c)| unprintable(*c)) {
        refuse(&format!("must only contain printable UTF-8 characters; non-printable character found at index {i}"));
    }
}

/// Validates all versions together.
fn whole_versions(definition: &Definition<'_>, path: &FieldPath, errors: &mut FieldErrors) {
    let versions = definition.versions;
    let mut refuse =
        |detail| errors.push(FieldError::invalid(&path.child("versions"), definition.shown_versions(), detail));
    let names: Vec<&str> = versions.iter().map(|version| version.str_at(&["name"])).collect();
    if repeated(&names, |name| *name).contains(&true) {
        refuse("must contain unique version names");
    }
    if versions.iter().filter(|version| version.bool_at(&["storage"])).count() != 1 {
        refuse("must have exactly one version marked as storage version");
    }
    if let Some(first) = names.first().filter(|name| !name.is_empty()) {
        label(&path.child("version"), first, "", first, errors);
    }
}

/// Validates a schema, its defaults and its expressions. `unchanged` is true if the old definition has the same schema.
fn validate_schema(
    schema: Option<&Value>,
    has_status: bool,
    asked: &RequiredChecks<'_>,
    structural: bool,
    unchanged: bool,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let Some(schema) = open_api_schema(schema) else { return };
    let path = path.child("openAPIV3Schema");
    let before = errors.len();
    if has_status {
        open_api::root_with_status(schema, &path, errors);
    }
    if schema.bool_at(&["nullable"]) {
        errors.push(FieldError::forbidden(&path.child("nullable"), "nullable cannot be true at the root"));
    }
    let parsed = structural.then(|| Structural::parse(schema, &Interner::new()));
    let (parsed, unsupported) = match parsed {
        Some(Ok(parsed)) => (Some(parsed), None),
        Some(Err(problem)) => (None, Some(problem)),
        None => (None, None),
    };
    let mut sound = None;
    if let Some(parsed) = parsed {
        let mut found = structural::validate(schema, &path);
        if found.is_empty()
            && let Some(object_meta) = object_meta()
        {
            let rules = DefaultRules { object_meta, pruned: asked.pruned_defaults };
            defaults::validate(&parsed, rules, &path, &mut found);
        }
        if found.is_empty() {
            sound = Some(parsed);
        }
        errors.extend(found);
    }
    let before_words = errors.len();
    open_api::validate(schema, &asked.rules, &path, errors);
    if let Some(parsed) = sound {
        let subject = Subject {
            schema,
            structural: &parsed,
            rules: &asked.rules,
            existing: &asked.existing,
            has_errors: errors.len() > before_words,
            unchanged,
        };
        expressions::validate(&subject, &path, errors);
    }
    if let Some(problem) = unsupported.filter(|_| errors.len() == before) {
        errors.push(FieldError::invalid(&path, "", problem.to_string()));
    }
}

/// Validates selectable fields: those of `version`, or of all versions if it is empty.
fn selectable_fields(
    fields: &[Value],
    schema: Option<&Value>,
    asked: &RequiredChecks<'_>,
    version: &str,
    path: &FieldPath,
    errors: &mut FieldErrors,
) {
    let schema = match Structural::parse(schema.unwrap_or(&Value::Null), &Interner::new()) {
        Ok(schema) => schema,
        Err(problem) => {
            let at = path.child("schema").child("openAPIV3Schema");
            errors.push(FieldError::invalid(&at, "", problem.to_string()));
            // The paths themselves are still validated, beside a schema without fields.
            Arc::default()
        }
    };
    let path = path.child("selectableFields");
    let mut unique: Vec<String> = Vec::new();
    for (i, field) in fields.iter().enumerate() {
        let (json_path, at) = (field.str_at(&["jsonPath"]), path.index(i).child("jsonPath"));
        if json_path.is_empty() {
            errors.push(FieldError::required(&at, ""));
            continue;
        }
        let found = match schema.find_field(json_path, false) {
            Ok(found) => found,
            Err(problem) => {
                errors.push(FieldError::invalid(&at, json_path, format!("is an invalid path: {problem}")));
                continue;
            }
        };
        if found.root == "metadata" {
            errors.push(FieldError::invalid(&at, json_path, "must not point to fields in metadata"));
        }
        let kind = found.schema.map_or("", Structural::type_name);
        if !matches!(kind, "string" | "boolean" | "integer") {
            let detail = "must point to a field of type string, boolean or integer. Enum string fields and strings with formats are allowed.";
            errors.push(FieldError::invalid(&at, json_path, detail));
        }
        if unique.contains(&found.path) {
            errors.push(FieldError::duplicate(&at, json_path));
        } else {
            unique.push(found.path);
        }
    }
    if unique.len() > SELECTABLE_MAX && !asked.may_select(fields, version) {
        errors.push(FieldError::too_many(&path, unique.len(), SELECTABLE_MAX));
    }
}
