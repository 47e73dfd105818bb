//! `ConfigMap`: configuration as keys and values.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1;
use binnacle_fields::types::{Bool, Map};
use binnacle_meta::{FieldError, FieldErrors, FieldPath, Location};
use binnacle_schema::Value;
use binnacle_validation::{checks, names};

use super::secret::decoded_len;
use crate::equality::equal_maps;
use crate::{MetadataChecks, Strategy, StrategyContext};

/// The limit on the total size of the values of a config map or secret, in bytes.
pub(super) const DATA_MAX: usize = 1024 * 1024;

/// The message for changes of an immutable object; `immutable` itself cannot be unset.
const IMMUTABLE_SET: &str = "field is immutable when `immutable` is set";

pub(super) struct ConfigMap;

impl Strategy for ConfigMap {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let map = FieldRef::<v1::ConfigMap>::root(object);
        let (data, binary) = (map.at(v1::ConfigMap::DATA), map.at(v1::ConfigMap::BINARY_DATA));
        let mut size = 0;
        for (key, text) in errors.while_room(data.entries()) {
            key_rules(&text, key, &mut errors);
            if binary.has_key(key) {
                errors.push(text.invalid_as(key, "duplicate of key present in binaryData"));
            }
            size += text.str().len();
        }
        for (key, bytes) in errors.while_room(binary.entries()) {
            key_rules(&bytes, key, &mut errors);
            size += decoded_len(bytes.str());
        }
        if size > DATA_MAX {
            errors.push(FieldError::too_long(&FieldPath::root().key(""), DATA_MAX));
        }
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (new, old) = (FieldRef::<v1::ConfigMap>::root(object), FieldRef::root(old));
        if stays_immutable(new.at(v1::ConfigMap::IMMUTABLE), old.at(v1::ConfigMap::IMMUTABLE), &mut errors) {
            unchanged(new.at(v1::ConfigMap::DATA), old.at(v1::ConfigMap::DATA), &mut errors);
            unchanged(new.at(v1::ConfigMap::BINARY_DATA), old.at(v1::ConfigMap::BINARY_DATA), &mut errors);
        }
        errors.extend(self.validate(ctx, object));
        errors
    }
}

/// Returns true if the old object is immutable, and requires the new one to be immutable then.
pub(super) fn stays_immutable(new: FieldRef<Bool>, old: FieldRef<Bool>, errors: &mut FieldErrors) -> bool {
    if old.bool() && !new.bool() {
        errors.push(new.forbidden(IMMUTABLE_SET));
    }
    old.bool()
}

/// Reports a change of the data of an immutable object.
pub(super) fn unchanged<T>(new: FieldRef<Map<T>>, old: FieldRef<Map<T>>, errors: &mut FieldErrors) {
    if !equal_maps(new.get(), old.get()) {
        errors.push(new.forbidden(IMMUTABLE_SET));
    }
}

/// Validates a key, which becomes the name of a file.
pub(super) fn key_rules(location: &dyn Location, key: &str, errors: &mut FieldErrors) {
    checks::invalid_for(location, key, names::config_map_key(key), errors);
}
