//! Paths inside of containers and volumes that must not lead out of them.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};

/// A relative path that stays below where it starts.
pub(crate) fn descending(path: &FieldPath, value: &str, errors: &mut FieldErrors) {
    if value.starts_with('/') {
        errors.push(FieldError::invalid(path, value, "must be a relative path"));
    }
    no_backsteps(path, value, errors);
}

/// A path without `..`; one error makes the point.
pub(crate) fn no_backsteps(path: &FieldPath, value: &str, errors: &mut FieldErrors) {
    if has_backsteps(value) {
        errors.push(FieldError::invalid(path, value, "must not contain '..'"));
    }
}

pub(crate) fn has_backsteps(value: &str) -> bool {
    value.split('/').any(|part| part == "..")
}

/// A path for a file that a volume makes: names with two dots in front are the volume's own.
pub(crate) fn descending_not_reserved(path: &FieldPath, value: &str, errors: &mut FieldErrors) {
    descending(path, value, errors);
    if value.starts_with("..") && !value.starts_with("../") {
        errors.push(FieldError::invalid(path, value, "must not start with '..'"));
    }
}
