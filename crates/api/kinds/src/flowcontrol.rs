//! `flowcontrol.apiserver.k8s.io`: priority and fairness of requests.

mod flow_schema;
mod priority_level;

use std::collections::HashSet;

use binnacle_fields::flowcontrol::v1::{FlowSchemaCondition as Condition, FlowSchemaStatus as Status};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::Kind;
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors};

use crate::Entry;
use crate::prepare::{count_generation, start_generation};

pub(crate) const STRATEGIES: &[Entry] = &[
    ("FlowSchema", &flow_schema::FlowSchema),
    ("PriorityLevelConfiguration", &priority_level::PriorityLevelConfiguration),
];

fn prepare_for_create<K: Kind, T>(mut object: FieldMut<K>, status: Field<K, T>) {
    object.remove(status);
    start_generation(&mut object);
}

fn prepare_for_update<K: Kind, S, T>(
    mut object: FieldMut<K>,
    old: FieldRef<K>,
    spec: Field<K, S>,
    status: Field<K, T>,
) {
    count_generation(&mut object, old, spec);
    object.keep(old, status);
}

/// Keeps everything but the status and, of the metadata, the managed fields.
fn prepare_for_status<K: Kind, S>(mut object: FieldMut<K>, old: FieldRef<K>, spec: Field<K, S>) {
    let mut metadata = object.entry(K::METADATA);
    let managed_fields = metadata.remove(ObjectMeta::MANAGED_FIELDS);
    // The registry has already compared the resourceVersion and needs it unchanged.
    let version = metadata.remove(ObjectMeta::RESOURCE_VERSION);
    object.keep(old, K::METADATA);
    object.keep(old, spec);
    let mut metadata = object.entry(K::METADATA);
    metadata.remove(ObjectMeta::MANAGED_FIELDS);
    if let Some(managed_fields) = managed_fields {
        metadata.set(ObjectMeta::MANAGED_FIELDS, managed_fields);
    }
    if let Some(version) = version {
        metadata.set(ObjectMeta::RESOURCE_VERSION, version);
    }
}

/// Requires conditions to have a type, which must be unique. The status of a priority level has the same fields.
fn status_errors(status: FieldRef<Status>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let mut seen = HashSet::new();
    let conditions = status.at(Status::CONDITIONS);
    for condition in errors.while_room(conditions.items()) {
        let kind = condition.at(Condition::TYPE);
        if !seen.insert(kind.str()) {
            errors.push(FieldError::duplicate(&kind, kind.shown_as_json()));
        }
        if kind.is_empty() {
            errors.push(kind.required(""));
        }
    }
    errors
}
