//! Validation of `metadata`, the same for every kind.

use std::collections::HashSet;

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{ManagedFieldsEntry, ObjectMeta, OwnerReference};
use binnacle_fields::types::{List, Map, Str};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath, Location};
use binnacle_schema::{Value, json};

use crate::checks::{self, IMMUTABLE, invalid_for, of_named_type};
use crate::names;
use crate::options::field_manager;

/// The maximum size of all annotations of an object together, in bytes.
const ANNOTATIONS_MAX: usize = 256 * 1024;
const SUBRESOURCE_MAX: usize = 256;

/// Validates `metadata` on create; `name_rule` is the kind's rule for names, called with `true` for a prefix.
pub fn validate(
    metadata: &Value,
    namespaced: bool,
    name_rule: impl Fn(&str, bool) -> Vec<String>,
    path: &FieldPath,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let metadata = FieldRef::<ObjectMeta>::located(metadata, path);
    let prefix = metadata.at(ObjectMeta::GENERATE_NAME);
    if !prefix.is_empty() {
        invalid_for(&prefix, prefix.str(), name_rule(prefix.str(), true), &mut errors);
    }
    let name = metadata.at(ObjectMeta::NAME);
    if name.is_empty() {
        errors.push(name.required("name or generateName is required"));
    } else {
        invalid_for(&name, name.str(), name_rule(name.str(), false), &mut errors);
    }
    common(metadata, namespaced, &mut errors);
    errors
}

/// Validates a change of `metadata` from `old`, in addition to [`validate`].
pub fn validate_update(new: &Value, old: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (new, old) = (FieldRef::<ObjectMeta>::located(new, path), FieldRef::<ObjectMeta>::located(old, path));
    if old.at(ObjectMeta::DELETION_TIMESTAMP).is_set() {
        no_new_finalizers(new.at(ObjectMeta::FINALIZERS), old.at(ObjectMeta::FINALIZERS), &mut errors);
    }
    let version = new.at(ObjectMeta::RESOURCE_VERSION);
    if version.is_empty() {
        errors.push(version.invalid_as("", "must be specified for an update"));
    }
    let generation = new.at(ObjectMeta::GENERATION);
    if generation.int_or_zero() < old.at(ObjectMeta::GENERATION).int_or_zero() {
        errors.push(generation.invalid_as(generation.int_or_zero(), "must not be decremented"));
    }
    for field in [ObjectMeta::NAME, ObjectMeta::NAMESPACE] {
        let (new, old) = (new.at(field), old.at(field));
        checks::immutable(&new, new.str() == old.str(), new.str(), &mut errors);
    }
    let (uid, old_uid) = (new.at(ObjectMeta::UID), old.at(ObjectMeta::UID));
    checks::immutable(&uid, uid.str() == old_uid.str(), of_named_type(uid.str()), &mut errors);
    immutable(new.at(ObjectMeta::CREATION_TIMESTAMP), old.at(ObjectMeta::CREATION_TIMESTAMP), &mut errors);
    immutable(new.at(ObjectMeta::DELETION_TIMESTAMP), old.at(ObjectMeta::DELETION_TIMESTAMP), &mut errors);
    let grace_period = ObjectMeta::DELETION_GRACE_PERIOD_SECONDS;
    immutable(new.at(grace_period), old.at(grace_period), &mut errors);
    validate_labels(new.at(ObjectMeta::LABELS), &mut errors);
    validate_annotations(new.at(ObjectMeta::ANNOTATIONS), &mut errors);
    owner_references(new.at(ObjectMeta::OWNER_REFERENCES), &mut errors);
    managed_fields(new.at(ObjectMeta::MANAGED_FIELDS), &mut errors);
    errors
}

fn immutable<T>(new: FieldRef<T>, old: FieldRef<T>, errors: &mut FieldErrors) {
    if new.value() != old.value() {
        errors.push(new.invalid_as(new.value(), IMMUTABLE));
    }
}

/// Validates the labels of an object or a pod template.
pub fn validate_labels(labels: FieldRef<Map<Str>>, errors: &mut FieldErrors) {
    for (key, value) in errors.while_room(labels.entries()) {
        invalid_for(&labels, key, names::label_key(key), errors);
        invalid_for(&labels, value.str(), names::label_value(value.str()), errors);
    }
}

/// Validates annotations: label keys in any case, and a limited total size.
pub fn validate_annotations(annotations: FieldRef<Map<Str>>, errors: &mut FieldErrors) {
    let mut size = 0;
    for (key, value) in errors.while_room(annotations.entries()) {
        size += key.len() + value.str().len();
        invalid_for(&annotations, key, names::label_key(&key.to_lowercase()), errors);
    }
    if size > ANNOTATIONS_MAX {
        errors.push(annotations.too_long(ANNOTATIONS_MAX));
    }
}

fn common(metadata: FieldRef<ObjectMeta>, namespaced: bool, errors: &mut FieldErrors) {
    let namespace = metadata.at(ObjectMeta::NAMESPACE);
    match (namespaced, namespace.is_empty()) {
        (true, true) => errors.push(namespace.required("")),
        (true, false) => {
            invalid_for(&namespace, namespace.str(), names::dns1123_label_name(namespace.str(), false), errors);
        }
        (false, false) => errors.push(namespace.forbidden("not allowed on this type")),
        (false, true) => {}
    }
    let generation = metadata.at(ObjectMeta::GENERATION);
    checks::not_negative(&generation, generation.int(), errors);
    validate_labels(metadata.at(ObjectMeta::LABELS), errors);
    validate_annotations(metadata.at(ObjectMeta::ANNOTATIONS), errors);
    owner_references(metadata.at(ObjectMeta::OWNER_REFERENCES), errors);
    let names = metadata.at(ObjectMeta::FINALIZERS);
    finalizer_names(names.list(), &names, errors);
    managed_fields(metadata.at(ObjectMeta::MANAGED_FIELDS), errors);
}

fn owner_references(references: FieldRef<List<OwnerReference>>, errors: &mut FieldErrors) {
    let mut controller = String::new();
    // Each error contains all references, so they are formatted once.
    let mut all = None;
    for reference in errors.while_room(references.items()) {
        // Errors of a reference are reported without its index.
        let reference = reference.located_at(&references);
        let api_version = reference.at(OwnerReference::API_VERSION);
        let (kind, name) = (reference.at(OwnerReference::KIND).str(), reference.at(OwnerReference::NAME).str());
        // An apiVersion with more than one slash has no version.
        let version = match api_version.str().split_once('/') {
            Some((_, version)) if version.contains('/') => "",
            Some((_, version)) => version,
            None => api_version.str(),
        };
        if version.is_empty() {
            errors.push(api_version.invalid_as(api_version.str(), "version must not be empty"));
        }
        for field in [OwnerReference::KIND, OwnerReference::NAME, OwnerReference::UID] {
            let field = reference.at(field);
            if field.is_empty() {
                errors.push(field.invalid_as("", "must not be empty"));
            }
        }
        if api_version.str() == "v1" && kind == "Event" {
            errors.push(reference.invalid("/v1, Kind=Event is disallowed from being an owner"));
        }
        if reference.at(OwnerReference::CONTROLLER).bool() {
            let this = format!("{kind}/{name}");
            if controller.is_empty() {
                controller = this;
            } else {
                let detail = format!(
                    "Only one reference can have Controller set to true. Found \"true\" in references for {controller} and {this}"
                );
                let all = all.get_or_insert_with(|| json::to_string(references.value()));
                errors.push(references.invalid_as(ErrorValue::raw(all.as_str()), detail));
                if errors.is_full() {
                    return;
                }
            }
        }
    }
}

/// Validates the names of finalizers, and that `orphan` and `foregroundDeletion` are not both set.
pub fn finalizers(finalizers: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    finalizer_names(finalizers, path, errors);
}

fn finalizer_names(finalizers: &[Value], path: &dyn Location, errors: &mut FieldErrors) {
    let has = |name: &str| finalizers.iter().any(|f| f.as_str() == Some(name));
    for finalizer in errors.while_room(finalizers.iter().filter_map(Value::as_str)) {
        checks::qualified_name(path, finalizer, errors);
    }
    if has("orphan") && has("foregroundDeletion") {
        errors.push(FieldError::invalid(
            path,
            shown(Some(&Value::List(finalizers.to_vec()))),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
}

/// Checks that finalizers have a domain, except the system's. Most kinds call this in addition to [`validate`].
pub fn finalizers_have_domains(metadata: &Value, path: &FieldPath) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let metadata = FieldRef::<ObjectMeta>::located(metadata, path);
    let finalizers = metadata.at(ObjectMeta::FINALIZERS);
    for name in errors.while_room(finalizers.items().filter(|name| lacks_domain(name.str()))) {
        errors.push(name.invalid_as(name.str(), NO_DOMAIN));
    }
    errors
}

/// Returns true for a finalizer without a domain that is not a standard finalizer.
pub fn lacks_domain(finalizer: &str) -> bool {
    !finalizer.contains('/') && !["kubernetes", "orphan", "foregroundDeletion"].contains(&finalizer)
}

/// The error for a finalizer that [`lacks_domain`].
pub const NO_DOMAIN: &str = "name is neither a standard finalizer name nor is it fully qualified";

fn no_new_finalizers(new: FieldRef<List<Str>>, old: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    let old: HashSet<&str> = old.strs().collect();
    let mut extra: Vec<&str> = new.strs().filter(|f| !old.contains(f)).collect();
    extra.sort_unstable();
    extra.dedup();
    if !extra.is_empty() {
        let list: Vec<String> = extra.iter().map(|f| binnacle_meta::go_quote(f)).collect();
        errors.push(new.forbidden(format!(
            "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
            list.join(", ")
        )));
    }
}

fn managed_fields(entries: FieldRef<List<ManagedFieldsEntry>>, errors: &mut FieldErrors) {
    for entry in errors.while_room(entries.items()) {
        let operation = entry.at(ManagedFieldsEntry::OPERATION);
        if !matches!(operation.str(), "Apply" | "Update") {
            errors.push(operation.invalid_as(operation.shown_as_json(), "must be `Apply` or `Update`"));
        }
        let fields_type = entry.at(ManagedFieldsEntry::FIELDS_TYPE);
        if !matches!(fields_type.str(), "" | "FieldsV1") {
            errors.push(fields_type.invalid("must be `FieldsV1`"));
        }
        let manager = entry.at(ManagedFieldsEntry::MANAGER);
        field_manager(manager.str(), &manager, errors);
        let subresource = entry.at(ManagedFieldsEntry::SUBRESOURCE);
        if subresource.str().len() > SUBRESOURCE_MAX {
            errors.push(subresource.too_long(SUBRESOURCE_MAX));
        }
    }
}

/// Formats a value for messages; an absent value is null.
pub fn shown(value: Option<&Value>) -> ErrorValue {
    ErrorValue::from(value.unwrap_or(&Value::Null))
}

#[cfg(test)]
mod tests {
    #[test]
    fn detects_finalizers_without_domain() {
        for (name, lacks) in [
            ("a", true),
            ("", true),
            ("a b", true),
            ("x/y", false),
            ("/", false),
            ("kubernetes", false),
            ("orphan", false),
            ("foregroundDeletion", false),
        ] {
            assert_eq!(super::lacks_domain(name), lacks, "{name}");
        }
    }

    use super::*;
    use binnacle_schema::value;

    fn check(metadata: Value, want: &[&str]) {
        let errors = validate(&metadata, true, names::dns1123_subdomain_name, &FieldPath::new("metadata"));
        assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
    }

    #[test]
    fn validates_object_metadata() {
        check(value!({"name": "a", "namespace": "b"}), &[]);
        check(value!({"namespace": "b"}), &["metadata.name: Required value: name or generateName is required"]);
        check(value!({"name": "a"}), &["metadata.namespace: Required value"]);
        check(
            value!({"name": "a", "namespace": "b", "ownerReferences": [{"apiVersion": "v1", "kind": "", "name": "x", "uid": "u"}]}),
            &["metadata.ownerReferences.kind: Invalid value: \"\": must not be empty"],
        );
    }

    #[test]
    fn validates_metadata_updates() {
        let old = value!({"name": "a", "uid": "1", "generation": 3i64, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/y"]});
        let new = value!({"name": "b", "uid": "1", "generation": 2i64, "deletionTimestamp": "2026-01-01T00:00:00Z", "finalizers": ["x/z"]});
        let errors = validate_update(&new, &old, &FieldPath::new("metadata"));
        assert_eq!(
            errors.iter().map(ToString::to_string).collect::<Vec<_>>(),
            [
                "metadata.finalizers: Forbidden: no new finalizers can be added if the object is being deleted, found new finalizers []string{\"x/z\"}",
                "metadata.resourceVersion: Invalid value: \"\": must be specified for an update",
                "metadata.generation: Invalid value: 2: must not be decremented",
                "metadata.name: Invalid value: \"b\": field is immutable",
            ]
        );
    }
}
