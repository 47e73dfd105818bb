//! The annotation of client-side `kubectl apply`. Server-side apply by the manager `kubectl` owns the fields in it, so
//! that users can migrate without conflicts, and updates it, so that they can migrate back.

use binnacle_schema::{Limits, Object, Value, json};

use super::conflict::FieldConflict;
use super::shape::Shape;
use super::{Update, compare, field_set, validate};

const ANNOTATION: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// The size limit for all annotations of an object, in bytes.
const MAX_ANNOTATIONS: usize = 256 * 1024;

/// The only manager with this annotation.
const KUBECTL: &str = "kubectl";

/// Returns the conflicts, except those over fields with the annotation's value, which `kubectl` owns.
pub(super) fn without_last_applied(
    update: &Update<'_>,
    live: &Value,
    conflicts: Vec<FieldConflict>,
) -> Vec<FieldConflict> {
    if update.manager != KUBECTL {
        return conflicts;
    }
    let shape = Shape::of_message(update.message);
    let text = live.str_at(&["metadata", "annotations", ANNOTATION]);
    let Ok(config) = json::parse(text.as_bytes(), &Limits::default()) else { return conflicts };
    if config.str_at(&["apiVersion"]) != update.api_version || validate::validate(shape, &config).is_err() {
        return conflicts;
    }
    let Ok(differences) = compare::objects(shape, &config, live, &[]) else { return conflicts };
    let mut applied = field_set::of_value(shape, &config);
    applied.subtract(&differences.changed);
    applied.subtract(&differences.removed);
    conflicts.into_iter().filter(|found| !applied.has(&found.path)).collect()
}

/// Updates the annotation, if the object has it.
pub(super) fn update_annotation(update: &Update<'_>, config: &Value, object: &mut Value) {
    if update.manager != KUBECTL {
        return;
    }
    let Some(annotations) = object.at_mut(&["metadata", "annotations"]).and_then(Value::as_object_mut) else { return };
    if annotations.get(ANNOTATION).and_then(Value::as_str).is_none_or(str::is_empty) {
        return;
    }
    let mut config = config.clone();
    if let Some(applied) = config.at_mut(&["metadata", "annotations"]).and_then(Value::as_object_mut) {
        applied.remove(ANNOTATION);
    }
    binnacle_schema::sort_free_form(&mut config);
    let mut text = json::to_string(&config);
    text.push('\n');
    annotations.insert(ANNOTATION, text);
    if size(annotations) > MAX_ANNOTATIONS {
        annotations.remove(ANNOTATION);
    }
}

fn size(annotations: &Object) -> usize {
    annotations.iter().map(|(name, value)| name.len() + value.as_str().map_or(0, str::len)).sum()
}
