//! `ConfigMap`: configuration as keys and values.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1;
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;

use super::keyed_data::{DATA_MAX, decoded_len, key_rules, stays_immutable, unchanged};
use crate::{Strategy, StrategyContext};

pub(super) struct ConfigMap;

impl Strategy for ConfigMap {
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
        errors.extend(self.validate_whole_metadata(ctx, object));
        errors.extend(self.validate(ctx, object));
        errors
    }
}
