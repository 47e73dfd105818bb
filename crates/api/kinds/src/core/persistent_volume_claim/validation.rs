//! Validation of claims, and of the claim templates of ephemeral volumes and stateful sets.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Quantity};
use binnacle_schema::Value;
use binnacle_validation::metadata::{self, shown};
use binnacle_validation::{checks, names, resource_names, selectors};

use crate::equality::equal_as;
use crate::tree_names::member;
use crate::{diff, tree_names as tree};
use binnacle_validation::pod_resources::quantity;

const ACCESS_MODES: [&str; 4] = ["ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod"];

/// The annotation of the storage class, from before there was a field for it.
const CLASS_ANNOTATION: &str = "volume.beta.kubernetes.io/storage-class";

const RESIZE_STATUSES: [&str; 5] = [
    "ControllerResizeInProgress",
    "ControllerResizeInfeasible",
    "NodeResizeInProgress",
    "NodeResizeInfeasible",
    "NodeResizePending",
];

const DEFINITION: &str = "io.k8s.api.core.v1.PersistentVolumeClaimSpec";

/// Rules that an update relaxes for invalid values of the old claim.
#[derive(Clone, Copy, Default)]
struct ClaimValidationOptions {
    any_selector_value: bool,
    any_api_group: bool,
}

pub(super) fn validate(object: &Value, old: Option<&Value>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = object.get("spec").unwrap_or(&Value::Null);
    let options = old.map(ClaimValidationOptions::for_update).unwrap_or_default();
    spec_rules(spec, options, &FieldPath::new("spec"), &mut errors);
    errors
}

/// Validates the spec of a new claim.
pub(crate) fn validate_spec(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    spec_rules(spec, ClaimValidationOptions::default(), path, errors);
}

/// Validates the claim template of an ephemeral volume.
pub(crate) fn validate_template(template: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    template_metadata(template, path, errors);
    validate_spec(template.get("spec").unwrap_or(&Value::Null), &path.child("spec"), errors);
}

/// Validates the metadata of a template: labels and annotations only.
pub(crate) fn template_metadata(template: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("metadata");
    let null = Value::Null;
    let given = template.get("metadata").unwrap_or(&null);
    metadata::annotations(given.get("annotations"), &at.child("annotations"), errors);
    metadata::labels(given.get("labels"), &at.child("labels"), errors);
    // In the order of the Go struct, with its case of initials.
    let fields = [
        ("name", "name"),
        ("generateName", "generateName"),
        ("namespace", "namespace"),
        ("selfLink", "selfLink"),
        ("uid", "uID"),
        ("resourceVersion", "resourceVersion"),
        ("generation", "generation"),
        ("creationTimestamp", "creationTimestamp"),
        ("deletionTimestamp", "deletionTimestamp"),
        ("deletionGracePeriodSeconds", "deletionGracePeriodSeconds"),
        ("ownerReferences", "ownerReferences"),
        ("finalizers", "finalizers"),
        ("managedFields", "managedFields"),
    ];
    for (field, shown) in fields {
        if member(given, field).is_some() {
            errors.push(FieldError::forbidden(&at.child(shown), "cannot be set"));
        }
    }
}

/// Validates access modes: known ones, and ReadWriteOncePod only alone.
pub(crate) fn access_modes(modes: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let (mut alone, mut others) = (false, false);
    for mode in errors.while_room(modes.iter().filter_map(Value::as_str)) {
        checks::one_of(path, mode, &ACCESS_MODES, errors);
        alone |= mode == "ReadWriteOncePod";
        others |= mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode);
    }
    if alone && others {
        errors.push(FieldError::forbidden(path, "may not use ReadWriteOncePod with other access modes"));
    }
}

pub(super) fn validate_update(object: &Value, old: &Value) -> FieldErrors {
    let mut errors = validate(object, Some(old));
    let (mut new_spec, mut old_spec) =
        (object.get("spec").cloned().unwrap_or_default(), old.get("spec").cloned().unwrap_or_default());
    // Claims that older versions stored lack one of the two data sources.
    super::normalize_data_sources(old_spec.make_object());

    // A claim can be bound to a volume once.
    if old_spec.str_at(&["volumeName"]).is_empty() {
        tree::keep_at(&mut old_spec, &new_spec.clone(), &["volumeName"]);
    }
    settle_class(object, old, &mut new_spec, &old_spec, &mut errors);
    if object.str_at(&["status", "phase"]) == "Bound" {
        if new_spec.object_at(&["resources", "requests"]).is_some() {
            let size = old_spec.at(&["resources", "requests", "storage"]).cloned().unwrap_or_else(|| "0".into());
            new_spec.make_at(&["resources", "requests"]).insert("storage", size);
        }
        tree::keep_at(&mut new_spec, &old_spec, &["volumeAttributesClassName"]);
    }
    if !equal_as(DEFINITION, Some(&new_spec), Some(&old_spec)) {
        let difference = diff::of(DEFINITION, Some(&old_spec), Some(&new_spec));
        let why = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{difference}"
        );
        errors.push(FieldError::forbidden(&FieldPath::new("spec"), why));
    }
    size_change(object, old, &mut errors);
    let mode = |object: &Value| object.at(&["spec", "volumeMode"]).cloned();
    let at = FieldPath::new("volumeMode");
    checks::immutable(&at, mode(object) == mode(old), shown(mode(object).as_ref()), &mut errors);
    attributes_class(object, old, &mut errors);
    errors
}

pub(super) fn validate_status(object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if object.list_at(&["spec", "accessModes"]).is_empty() {
        errors.push(FieldError::required(&FieldPath::new("Spec").child("accessModes"), ""));
    }
    let status = FieldPath::new("status");
    let amounts = |field: &str| object.object_at(&["status", field]).into_iter().flat_map(|list| list.iter());
    for (name, value) in errors.while_room(amounts("capacity")) {
        not_below_zero(value, &status.child("capacity").key(name), &mut errors);
    }
    let at = status.child("allocatedResourceStatuses");
    for (name, value) in errors.while_room(amounts("allocatedResourceStatuses")) {
        resource_key(name, &at, &mut errors);
        if !RESIZE_STATUSES.contains(&value.as_str().unwrap_or("")) {
            errors.push(FieldError::not_supported(&at, name, &RESIZE_STATUSES));
        }
    }
    let at = status.child("allocatedResources");
    for (name, value) in errors.while_room(amounts("allocatedResources")) {
        let before = errors.len();
        resource_key(name, &at, &mut errors);
        if errors.len() == before {
            not_below_zero(value, &at.key(name), &mut errors);
        }
        if errors.len() == before {
            resource_names::amount(&at.key(name), "storage", value.as_str().unwrap_or(""), &mut errors);
        }
    }
    errors
}

impl ClaimValidationOptions {
    fn for_update(old: &Value) -> Self {
        let sources = ["dataSource", "dataSourceRef"];
        Self {
            any_selector_value: selectors::is_invalid(old.at(&["spec", "selector"])),
            any_api_group: sources
                .iter()
                .any(|source| old.at(&["spec", source, "apiGroup"]).is_some_and(|group| !group.is_null())),
        }
    }
}

fn spec_rules(spec: &Value, options: ClaimValidationOptions, path: &FieldPath, errors: &mut FieldErrors) {
    let modes = spec.list_at(&["accessModes"]);
    let at = path.child("accessModes");
    if modes.is_empty() {
        errors.push(FieldError::required(&at, "at least 1 access mode is required"));
    }
    let selector_at = path.child("selector");
    selectors::label_selector(spec.get("selector"), options.any_selector_value, &selector_at, errors);
    access_modes(modes, &at, errors);
    let at = path.child("resources").key("storage");
    match spec.at(&["resources", "requests", "storage"]).and_then(quantity) {
        None => errors.push(FieldError::required(&at, "")),
        Some(size) if size.sign() <= 0 => {
            errors.push(FieldError::invalid(&at, size.to_string().as_str(), "must be greater than zero"));
        }
        Some(size) => resource_names::amount(&at, "storage", &size.to_string(), errors),
    }
    let class = |field: &str, errors: &mut FieldErrors| {
        if let Some(name) = spec.get(field).and_then(Value::as_str).filter(|name| !name.is_empty()) {
            checks::subdomain(&path.child(field), name, errors);
        }
    };
    class("storageClassName", errors);
    if let Some(mode) = spec.get("volumeMode").and_then(Value::as_str) {
        checks::one_of(&path.child("volumeMode"), mode, &["Block", "Filesystem"], errors);
    }
    let sources = ["dataSource", "dataSourceRef"].map(|field| member(spec, field));
    for (field, source) in ["dataSource", "dataSourceRef"].into_iter().zip(sources) {
        if let Some(source) = source {
            data_source(source, options, &path.child(field), errors);
        }
    }
    if let [Some(source), Some(reference)] = sources {
        let text = |source: &Value, field: &str| source.get(field).and_then(Value::as_str).map(str::to_owned);
        let same = ["apiGroup", "kind", "name"].iter().all(|field| text(source, field) == text(reference, field));
        let why = if !reference.str_at(&["namespace"]).is_empty() {
            Some("may not be specified when dataSourceRef.namespace is specified")
        } else {
            (!same).then_some("must match dataSourceRef")
        };
        // The value in kube-apiserver's message is the path, which is shown as an empty struct.
        errors.extend(why.map(|why| FieldError::invalid(path, binnacle_meta::ErrorValue::raw("{}"), why)));
    }
    class("volumeAttributesClassName", errors);
}

fn data_source(source: &Value, options: ClaimValidationOptions, path: &FieldPath, errors: &mut FieldErrors) {
    for field in ["name", "kind"] {
        checks::required(&path.child(field), source.str_at(&[field]), errors);
    }
    let (group, kind) = (source.str_at(&["apiGroup"]), source.str_at(&["kind"]));
    if group.is_empty() && kind != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(FieldError::invalid(path, kind, why));
    }
    if !group.is_empty() && !options.any_api_group {
        checks::subdomain(&path.child("apiGroup"), group, errors);
    }
    let namespace = source.str_at(&["namespace"]);
    if !namespace.is_empty() {
        checks::invalid_for(&path.child("namespace"), namespace, names::dns1123_label_name(namespace, false), errors);
    }
}

/// Accepts a storage class where there was none: moved from the annotation, or set to the default class.
fn settle_class(object: &Value, old: &Value, new_spec: &mut Value, old_spec: &Value, errors: &mut FieldErrors) {
    let annotation = |object: &Value| {
        object.at(&["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str).map(str::to_owned)
    };
    let (new_annotation, old_annotation) = (annotation(object), annotation(old));
    let class = |object: &Value| object.at(&["spec", "storageClassName"]).and_then(Value::as_str).map(str::to_owned);
    let (new_class, old_class) = (class(object), class(old));
    let moved = old_annotation.is_some()
        && old_class.is_none()
        && new_class == old_annotation
        && new_annotation.as_ref().is_none_or(|new| Some(new) == old_annotation.as_ref());
    if moved {
        tree::remove_at(new_spec, &["storageClassName"]);
        return;
    }
    let (new_text, old_text) = (new_annotation.unwrap_or_default(), old_annotation.clone().unwrap_or_default());
    if new_text != old_text {
        let at = FieldPath::new("metadata").child("annotations").child(CLASS_ANNOTATION);
        errors.push(FieldError::invalid(&at, new_text.as_str(), metadata::IMMUTABLE));
    }
    if new_class.is_some() && old_class.is_none() && old_annotation.is_none_or(|old| Some(old) == new_class) {
        tree::keep_at(new_spec, old_spec, &["storageClassName"]);
    }
}

/// Reports a request at or below the capacity. Larger ones may decrease, which reverts a failed expansion (KEP-1790).
fn size_change(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let amount = |object: &Value, path: &[&str]| object.at(path).and_then(quantity).unwrap_or_else(zero);
    let size = |object: &Value| amount(object, &["spec", "resources", "requests", "storage"]);
    let (new_size, old_size) = (size(object), size(old));
    if new_size < old_size && new_size <= amount(old, &["status", "capacity", "storage"]) {
        let at = FieldPath::new("spec").child("resources").child("requests").child("storage");
        errors.push(FieldError::forbidden(&at, "field can not be less than status.capacity"));
    }
}

fn attributes_class(object: &Value, old: &Value, errors: &mut FieldErrors) {
    let class = |object: &Value| object.at(&["spec", "volumeAttributesClassName"]).cloned().unwrap_or_default();
    let current = old.at(&["status", "currentVolumeAttributesClassName"]).is_some_and(|class| !class.is_null());
    if class(object) == class(old) || !current {
        return;
    }
    let what = match class(object).as_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let at = FieldPath::new("spec").child("volumeAttributesClassName");
    let why = format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(FieldError::forbidden(&at, why));
}

fn resource_key(name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let before = errors.len();
    checks::qualified_name(path, name, errors);
    if errors.len() == before && resource_names::is_native(name) {
        checks::one_of(path, name, &["storage"], errors);
    }
}

fn not_below_zero(value: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(amount) = quantity(value)
        && amount.value() < 0
    {
        errors.push(FieldError::invalid(path, amount.value(), "must be a valid resource quantity"));
    }
}

fn zero() -> Quantity {
    Quantity::default()
}
