//! `ConfigMap`: configuration as keys and values.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::{checks, names};

use super::secret::decoded_len;
use crate::{MetadataChecks, Strategy, StrategyContext};

/// The limit on the total size of the values of a config map or secret, in bytes.
pub(super) const DATA_MAX: usize = 1024 * 1024;

/// The message for changes of an immutable object; `immutable` itself cannot be unset.
pub(super) const IMMUTABLE_SET: &str = "field is immutable when `immutable` is set";

pub(super) struct ConfigMap;

impl Strategy for ConfigMap {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let none = Object::new();
        let data = object.object_at(&["data"]).unwrap_or(&none);
        let binary = object.object_at(&["binaryData"]).unwrap_or(&none);
        let mut size = 0;
        for (key, value) in errors.while_room(data.iter()) {
            let path = || FieldPath::new("data").key(key);
            key_rules(key, path, &mut errors);
            if binary.contains(key) {
                errors.push(FieldError::invalid(&path(), key, "duplicate of key present in binaryData"));
            }
            size += value.as_str().map_or(0, str::len);
        }
        for (key, value) in errors.while_room(binary.iter()) {
            key_rules(key, || FieldPath::new("binaryData").key(key), &mut errors);
            size += decoded_len(value);
        }
        if size > DATA_MAX {
            errors.push(FieldError::too_long(&FieldPath::root().key(""), DATA_MAX));
        }
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = unchanged_if_immutable(object, old, &["data", "binaryData"]);
        errors.extend(self.validate(situation, object));
        errors
    }
}

/// Reports changes of the data or of `immutable` in an immutable object.
pub(super) fn unchanged_if_immutable(object: &Value, old: &Value, members: &[&str]) -> FieldErrors {
    let mut errors = FieldErrors::new();
    if !old.bool_at(&["immutable"]) {
        return errors;
    }
    if !object.bool_at(&["immutable"]) {
        errors.push(FieldError::forbidden(&FieldPath::new("immutable"), IMMUTABLE_SET));
    }
    let changed = |member: &&&str| !crate::equality::equal_maps(object.get(member), old.get(member));
    let forbidden = |member: &&str| FieldError::forbidden(&FieldPath::new(member), IMMUTABLE_SET);
    errors.extend(members.iter().filter(changed).map(forbidden));
    errors
}

/// Validates a key, which becomes the name of a file.
pub(super) fn key_rules(key: &str, path: impl Fn() -> FieldPath, errors: &mut FieldErrors) {
    let messages = names::config_map_key(key);
    if !messages.is_empty() {
        checks::invalid_for(&path(), key, messages, errors);
    }
}
