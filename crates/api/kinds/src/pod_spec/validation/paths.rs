//! Validation of paths inside of containers and volumes, which must not lead out of them.

use binnacle_meta::{FieldError, FieldErrors, Location};

/// Requires a relative path without `..`.
pub(crate) fn descending(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be a relative path"));
    }
    no_backsteps(path, value, errors);
}

/// Reports a path with `..`, once.
pub(crate) fn no_backsteps(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    if has_backsteps(value) {
        errors.push(FieldError::invalid(path, value, "must not contain '..'"));
    }
}

pub(crate) fn has_backsteps(value: &str) -> bool {
    value.split('/').any(|part| part == "..")
}

/// Validates the path of a file in a volume: names that begin with two dots are reserved for the volume.
pub(crate) fn descending_not_reserved(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    descending(path, value, errors);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.push(FieldError::invalid(path, value, "must not start with '..'"));
    }
}
