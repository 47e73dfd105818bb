//! `flowcontrol.apiserver.k8s.io`: priority and fairness of requests.

mod flow_schema;
mod priority_level;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::repeated;

use crate::all::Entry;
use crate::checks::{items, member};
use crate::prepare::{clear_status, first_generation, next_generation, put_back};

pub(crate) const STRATEGIES: &[Entry] = &[
    ("FlowSchema", &flow_schema::FlowSchema),
    ("PriorityLevelConfiguration", &priority_level::PriorityLevelConfiguration),
];

fn prepare_for_create(object: &mut Value) {
    clear_status(object);
    first_generation(object);
}

fn prepare_for_update(object: &mut Value, old: &Value) {
    next_generation(object, old, &["spec"]);
    put_back(object, old, "status");
}

/// Keeps everything but the status and, of the metadata, the managed fields.
fn prepare_for_status(object: &mut Value, old: &Value) {
    let managed_fields = object.at(&["metadata", "managedFields"]).cloned();
    // The registry has already compared the resourceVersion and needs it unchanged.
    let version = object.at(&["metadata", "resourceVersion"]).cloned();
    put_back(object, old, "metadata");
    put_back(object, old, "spec");
    let metadata = object.make_at(&["metadata"]);
    metadata.remove("managedFields");
    for (name, value) in [("managedFields", managed_fields), ("resourceVersion", version)] {
        if let Some(value) = value {
            metadata.insert(name, value);
        }
    }
}

/// Requires conditions to have a type, which must be unique.
fn status_errors(object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let status = member(object, "status");
    let conditions = status.list_at(&["conditions"]);
    let repeated = repeated(conditions, |condition| condition.str_at(&["type"]));
    for (i, (at, condition)) in errors.while_room(items(status, "conditions", &FieldPath::new("status")).enumerate()) {
        let (kind, at) = (condition.str_at(&["type"]), at.child("type"));
        if repeated[i] {
            errors.push(FieldError::duplicate(&at, kind));
        }
        if kind.is_empty() {
            errors.push(FieldError::required(&at, ""));
        }
    }
    errors
}
