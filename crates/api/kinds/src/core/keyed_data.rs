//! Rules for the data of config maps and secrets.

use binnacle_fields::FieldRef;
use binnacle_fields::types::{Bool, Map};
use binnacle_meta::{FieldErrors, Location};
use binnacle_validation::{checks, names};

use crate::equality::equal_maps;

/// The limit on the total size of the values of a config map or secret, in bytes.
pub(super) const DATA_MAX: usize = 1024 * 1024;

/// The message for changes of an immutable object; `immutable` itself cannot be unset.
const IMMUTABLE_SET: &str = "field is immutable when `immutable` is set";

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

/// Returns the length in bytes of decoded base64 text.
pub(super) fn decoded_len(text: &str) -> usize {
    let padding = text.bytes().rev().take_while(|c| *c == b'=').count();
    (text.len() / 4 * 3).saturating_sub(padding)
}
