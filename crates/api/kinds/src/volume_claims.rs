//! Validation of claims, and of the claim templates of ephemeral volumes and stateful sets.

use binnacle_fields::core::v1::{
    PersistentVolumeClaim as Claim, PersistentVolumeClaimSpec as Spec, PersistentVolumeClaimStatus as Status,
    PersistentVolumeClaimTemplate as Template, TypedObjectReference as Reference,
    VolumeResourceRequirements as Resources,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{self, List, Map, Str};
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, Location};
use binnacle_schema::{Object, Value};
use binnacle_validation::checks::IMMUTABLE;
use binnacle_validation::metadata;
use binnacle_validation::pod_resources::quantity;
use binnacle_validation::{checks, names, resource_names, selectors};

use crate::checks::immutable_enum;
use crate::diff;
use crate::equality::equal;

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

/// Rules that an update relaxes for invalid values of the old claim.
#[derive(Clone, Copy, Default)]
struct ClaimValidationOptions {
    any_selector_value: bool,
    any_api_group: bool,
}

pub(crate) fn validate(claim: FieldRef<Claim>, old: Option<FieldRef<Claim>>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let options = old.map(ClaimValidationOptions::for_update).unwrap_or_default();
    spec_rules(claim.at(Claim::SPEC), options, &mut errors);
    errors
}

/// Validates the spec of a new claim.
pub(crate) fn validate_spec(spec: FieldRef<Spec>, errors: &mut FieldErrors) {
    spec_rules(spec, ClaimValidationOptions::default(), errors);
}

/// Validates the claim template of an ephemeral volume.
pub(crate) fn validate_template(template: FieldRef<Template>, errors: &mut FieldErrors) {
    template_metadata(template.at(Template::METADATA), errors);
    spec_rules(template.at(Template::SPEC), ClaimValidationOptions::default(), errors);
}

/// Validates the metadata of a template, of claims or other objects: labels and annotations only.
pub(crate) fn template_metadata(metadata: FieldRef<ObjectMeta>, errors: &mut FieldErrors) {
    let (annotations, labels) = (metadata.at(ObjectMeta::ANNOTATIONS), metadata.at(ObjectMeta::LABELS));
    metadata::validate_annotations(annotations, errors);
    metadata::validate_labels(labels, errors);
    // In the order of the Go struct, with its case of initials.
    cannot_be_set(metadata.at(ObjectMeta::NAME), errors);
    cannot_be_set(metadata.at(ObjectMeta::GENERATE_NAME), errors);
    cannot_be_set(metadata.at(ObjectMeta::NAMESPACE), errors);
    cannot_be_set(metadata.at(ObjectMeta::SELF_LINK), errors);
    cannot_be_set(metadata.at(ObjectMeta::UID).reported_as("uID"), errors);
    cannot_be_set(metadata.at(ObjectMeta::RESOURCE_VERSION), errors);
    cannot_be_set(metadata.at(ObjectMeta::GENERATION), errors);
    cannot_be_set(metadata.at(ObjectMeta::CREATION_TIMESTAMP), errors);
    cannot_be_set(metadata.at(ObjectMeta::DELETION_TIMESTAMP), errors);
    cannot_be_set(metadata.at(ObjectMeta::DELETION_GRACE_PERIOD_SECONDS), errors);
    cannot_be_set(metadata.at(ObjectMeta::OWNER_REFERENCES), errors);
    cannot_be_set(metadata.at(ObjectMeta::FINALIZERS), errors);
    cannot_be_set(metadata.at(ObjectMeta::MANAGED_FIELDS), errors);
}

fn cannot_be_set<T>(field: FieldRef<T>, errors: &mut FieldErrors) {
    if field.is_set() {
        errors.push(field.forbidden("cannot be set"));
    }
}

/// Validates access modes: known ones, and ReadWriteOncePod only alone.
pub(crate) fn access_modes(modes: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    let (mut alone, mut others) = (false, false);
    for mode in errors.while_room(modes.strs()) {
        checks::one_of(&modes, mode, &ACCESS_MODES, errors);
        alone |= mode == "ReadWriteOncePod";
        others |= mode != "ReadWriteOncePod" && ACCESS_MODES.contains(&mode);
    }
    if alone && others {
        errors.push(modes.forbidden("may not use ReadWriteOncePod with other access modes"));
    }
}

pub(crate) fn validate_update(claim: FieldRef<Claim>, old_claim: FieldRef<Claim>) -> FieldErrors {
    let mut errors = validate(claim, Some(old_claim));
    let (spec, old_spec) = (claim.at(Claim::SPEC), old_claim.at(Claim::SPEC));
    let (mut new, mut old) = (spec.value().clone(), old_spec.value().clone());
    let (mut new, mut old) = (FieldMut::<Spec>::root(&mut new), FieldMut::<Spec>::root(&mut old));
    // Claims that older versions stored lack one of the two data sources.
    normalize_data_sources(&mut old);

    // A claim can be bound to a volume once.
    if old.str(Spec::VOLUME_NAME).is_empty() {
        old.keep(spec, Spec::VOLUME_NAME);
    }
    update_class(claim, old_claim, &mut new, old.read(), &mut errors);
    if claim.at(Claim::STATUS).at(Status::PHASE).str() == "Bound" {
        let size = old.read().at(Spec::RESOURCES).at(Resources::REQUESTS).key("storage").get().cloned();
        if let Some(mut resources) = new.structure(Spec::RESOURCES)
            && let Some(requests) = resources.map(Resources::REQUESTS)
        {
            requests.insert("storage", size.unwrap_or_else(|| "0".into()));
        }
        new.keep(old.read(), Spec::VOLUME_ATTRIBUTES_CLASS_NAME);
    }
    if !equal(new.read(), old.read()) {
        let difference = diff::between(old.read(), new.read());
        let why = format!(
            "spec is immutable after creation except resources.requests and volumeAttributesClassName for bound claims\n{difference}"
        );
        errors.push(spec.forbidden(why));
    }
    size_change(claim, old_claim, &mut errors);
    // kube-apiserver reports the mode as a field of the claim.
    let bare = FieldRef::<Spec>::root(spec.value());
    immutable_enum(bare.at(Spec::VOLUME_MODE), old_spec.at(Spec::VOLUME_MODE), &mut errors);
    attributes_class(claim, old_claim, &mut errors);
    errors
}

pub(crate) fn validate_status(claim: FieldRef<Claim>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = claim.at(Claim::SPEC).reported_as("Spec");
    let modes = spec.at(Spec::ACCESS_MODES);
    if modes.is_empty() {
        errors.push(modes.required(""));
    }
    let status = claim.at(Claim::STATUS);
    let capacity = status.at(Status::CAPACITY);
    for (_, amount) in errors.while_room(capacity.entries()) {
        not_below_zero(amount, &mut errors);
    }
    let statuses = status.at(Status::ALLOCATED_RESOURCE_STATUSES);
    for (name, value) in errors.while_room(statuses.entries()) {
        resource_key(name, &statuses, &mut errors);
        if !RESIZE_STATUSES.contains(&value.str()) {
            errors.push(FieldError::not_supported(&statuses, checks::of_named_type(name), &RESIZE_STATUSES));
        }
    }
    let allocated = status.at(Status::ALLOCATED_RESOURCES);
    for (name, amount) in errors.while_room(allocated.entries()) {
        let before = errors.len();
        resource_key(name, &allocated, &mut errors);
        if errors.len() == before {
            not_below_zero(amount, &mut errors);
        }
        if errors.len() == before {
            resource_names::amount(&amount, "storage", amount.str(), &mut errors);
        }
    }
    errors
}

impl ClaimValidationOptions {
    fn for_update(old: FieldRef<Claim>) -> Self {
        let spec = old.at(Claim::SPEC);
        Self {
            any_selector_value: selectors::is_invalid(spec.at(Spec::SELECTOR).get()),
            any_api_group: data_sources(&spec).iter().any(|source| source.at(Reference::API_GROUP).is_set()),
        }
    }
}

/// Returns `dataSource` and `dataSourceRef`. The latter's type has all fields of the other, and a namespace.
fn data_sources<'p, 'v>(spec: &'p FieldRef<'_, 'v, Spec>) -> [FieldRef<'p, 'v, Reference>; 2] {
    [spec.at(Spec::DATA_SOURCE).cast(), spec.at(Spec::DATA_SOURCE_REF)]
}

fn spec_rules(spec: FieldRef<Spec>, options: ClaimValidationOptions, errors: &mut FieldErrors) {
    let modes = spec.at(Spec::ACCESS_MODES);
    if modes.is_empty() {
        errors.push(modes.required("at least 1 access mode is required"));
    }
    let selector = spec.at(Spec::SELECTOR);
    selectors::validate(selector, options.any_selector_value, errors);
    access_modes(modes, errors);
    size(spec.at(Spec::RESOURCES), errors);
    class_name(spec.at(Spec::STORAGE_CLASS_NAME), errors);
    let mode = spec.at(Spec::VOLUME_MODE);
    if let Some(text) = mode.get_str() {
        checks::one_of(&mode, text, &["Block", "Filesystem"], errors);
    }
    let [source, reference] = data_sources(&spec);
    for source in [source, reference].iter().filter(|source| source.is_set()) {
        data_source(*source, options, errors);
    }
    if source.is_set() && reference.is_set() {
        let fields = [Reference::API_GROUP, Reference::KIND, Reference::NAME];
        let why = if !reference.at(Reference::NAMESPACE).is_empty() {
            Some("may not be specified when dataSourceRef.namespace is specified")
        } else {
            let same = fields.into_iter().all(|field| source.at(field).get_str() == reference.at(field).get_str());
            (!same).then_some("must match dataSourceRef")
        };
        // The value in kube-apiserver's message is the path, which is shown as an empty struct.
        errors.extend(why.map(|why| spec.invalid_as(ErrorValue::raw("{}"), why)));
    }
    class_name(spec.at(Spec::VOLUME_ATTRIBUTES_CLASS_NAME), errors);
}

/// Requires a size, which kube-apiserver reports without `requests`.
fn size(resources: FieldRef<Resources>, errors: &mut FieldErrors) {
    let reported = resources.cast::<Map<types::Quantity>>();
    let reported = reported.key("storage");
    match quantity(resources.at(Resources::REQUESTS).key("storage").value()) {
        None => errors.push(reported.required("")),
        Some(size) if size.sign() <= 0 => {
            errors.push(reported.invalid_as(&size.to_string(), "must be greater than zero"));
        }
        Some(size) => resource_names::amount(&reported, "storage", &size.to_string(), errors),
    }
}

fn class_name(name: FieldRef<Str>, errors: &mut FieldErrors) {
    if !name.is_empty() {
        checks::subdomain(&name, name.str(), errors);
    }
}

fn data_source(source: FieldRef<Reference>, options: ClaimValidationOptions, errors: &mut FieldErrors) {
    let (group, kind) = (source.at(Reference::API_GROUP), source.at(Reference::KIND));
    let (name, namespace) = (source.at(Reference::NAME), source.at(Reference::NAMESPACE));
    checks::required(&name, name.str(), errors);
    checks::required(&kind, kind.str(), errors);
    if group.is_empty() && kind.str() != "PersistentVolumeClaim" {
        let why = "must be 'PersistentVolumeClaim' when referencing the default apiGroup";
        errors.push(source.invalid_as(kind.str(), why));
    }
    if !group.is_empty() && !options.any_api_group {
        checks::subdomain(&group, group.str(), errors);
    }
    if !namespace.is_empty() {
        checks::invalid_for(&namespace, namespace.str(), names::dns1123_label_name(namespace.str(), false), errors);
    }
}

/// Accepts a storage class where there was none: moved from the annotation, or set to the default class.
fn update_class(
    claim: FieldRef<Claim>,
    old: FieldRef<Claim>,
    new_spec: &mut FieldMut<Spec>,
    old_spec: FieldRef<Spec>,
    errors: &mut FieldErrors,
) {
    const CLASS: Field<Spec, Str> = Spec::STORAGE_CLASS_NAME;
    let (class, old_class) = (claim.at(Claim::SPEC).at(CLASS).get_str(), old.at(Claim::SPEC).at(CLASS).get_str());
    let (annotations, old) = (claim.at(Claim::METADATA), old.at(Claim::METADATA));
    let (annotations, old) = (annotations.at(ObjectMeta::ANNOTATIONS), old.at(ObjectMeta::ANNOTATIONS));
    let annotation = annotations.key(CLASS_ANNOTATION);
    let (new, old) = (annotation.get_str(), old.key(CLASS_ANNOTATION).get_str());
    let is_moved = old.is_some() && old_class.is_none() && class == old && (new.is_none() || new == old);
    if is_moved {
        new_spec.remove(CLASS);
        return;
    }
    if new.unwrap_or("") != old.unwrap_or("") {
        errors.push(annotation.reported_as(CLASS_ANNOTATION).invalid_as(new.unwrap_or(""), IMMUTABLE));
    }
    if class.is_some() && old_class.is_none() && (old.is_none() || old == class) {
        new_spec.keep(old_spec, CLASS);
    }
}

/// Reports a request at or below the capacity. Larger ones may decrease, which reverts a failed expansion (KEP-1790).
fn size_change(claim: FieldRef<Claim>, old: FieldRef<Claim>, errors: &mut FieldErrors) {
    let amount = |field: FieldRef<types::Quantity>| quantity(field.value()).unwrap_or_default();
    let resources = claim.at(Claim::SPEC);
    let resources = resources.at(Spec::RESOURCES);
    let requests = resources.at(Resources::REQUESTS);
    let new_size = amount(requests.key("storage"));
    let old_size = amount(old.at(Claim::SPEC).at(Spec::RESOURCES).at(Resources::REQUESTS).key("storage"));
    if new_size < old_size && new_size <= amount(old.at(Claim::STATUS).at(Status::CAPACITY).key("storage")) {
        // Not `requests[storage]`, as in kube-apiserver.
        let storage = requests.key("storage").reported_as("storage");
        errors.push(storage.forbidden("field can not be less than status.capacity"));
    }
}

fn attributes_class(claim: FieldRef<Claim>, old: FieldRef<Claim>, errors: &mut FieldErrors) {
    let (spec, old_spec) = (claim.at(Claim::SPEC), old.at(Claim::SPEC));
    let (class, old_class) =
        (spec.at(Spec::VOLUME_ATTRIBUTES_CLASS_NAME), old_spec.at(Spec::VOLUME_ATTRIBUTES_CLASS_NAME));
    let current = old.at(Claim::STATUS).at(Status::CURRENT_VOLUME_ATTRIBUTES_CLASS_NAME).is_set();
    if class.value() == old_class.value() || !current {
        return;
    }
    let what = match class.get_str() {
        None => "nil",
        Some("") => "empty string",
        Some(_) => return,
    };
    let why = format!("update to {what} is forbidden when status.currentVolumeAttributesClassName is not nil");
    errors.push(class.forbidden(why));
}

fn resource_key(name: &str, location: &dyn Location, errors: &mut FieldErrors) {
    let before = errors.len();
    checks::qualified_name(location, name, errors);
    if errors.len() == before && resource_names::is_native(name) {
        checks::string_one_of(location, name, &["storage"], errors);
    }
}

fn not_below_zero(amount: FieldRef<types::Quantity>, errors: &mut FieldErrors) {
    if let Some(quantity) = quantity(amount.value())
        && quantity.value() < 0
    {
        errors.push(amount.invalid_as(quantity.value(), "must be a valid resource quantity"));
    }
}

/// Sets the missing one of `dataSource` and `dataSourceRef`.
pub(crate) fn normalize_data_sources(spec: &mut FieldMut<Spec>) {
    match (spec.is_nil(Spec::DATA_SOURCE), spec.is_nil(Spec::DATA_SOURCE_REF)) {
        (false, true) => {
            // `dataSourceRef` has all fields of `dataSource`.
            let copy = source_of(spec.read().at(Spec::DATA_SOURCE).cast());
            spec.set(Spec::DATA_SOURCE_REF, copy);
        }
        (true, false) if !has_namespace(spec.read()) => {
            let copy = source_of(spec.read().at(Spec::DATA_SOURCE_REF));
            spec.set(Spec::DATA_SOURCE, copy);
        }
        _ => {}
    }
}

/// Returns the fields of a reference that `dataSource` has too.
fn source_of(reference: FieldRef<Reference>) -> Value {
    let fields = [Reference::API_GROUP, Reference::KIND, Reference::NAME].into_iter();
    // An absent group is written as null.
    let members = fields.filter_map(|field| Some((field.name(), reference.value().get(field.name())?.clone())));
    members.collect::<Object>().into()
}

pub(crate) fn has_namespace(spec: FieldRef<Spec>) -> bool {
    !spec.at(Spec::DATA_SOURCE_REF).at(Reference::NAMESPACE).is_empty()
}
