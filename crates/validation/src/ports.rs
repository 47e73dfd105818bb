//! Ports: their numbers and names.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};

use crate::names::inclusive_range_error;

const NAME_MAX: usize = 15;

/// The rule for a port number.
pub fn number(path: &FieldPath, value: i64, errors: &mut FieldErrors) {
    if !(1..=65535).contains(&value) {
        errors.push(FieldError::invalid(path, value, inclusive_range_error(1, 65535)));
    }
}

/// What is wrong with the name of a port.
pub fn name(value: &str) -> Vec<String> {
    let mut messages = Vec::new();
    if value.len() > NAME_MAX {
        messages.push(format!("must be no more than {NAME_MAX} characters"));
    }
    if value.is_empty() || !value.bytes().all(|b| matches!(b, b'-' | b'a'..=b'z' | b'0'..=b'9')) {
        messages.push("must contain only alpha-numeric characters (a-z, 0-9), and hyphens (-)".to_owned());
    }
    if !value.bytes().any(|b| b.is_ascii_lowercase()) {
        messages.push("must contain at least one letter (a-z)".to_owned());
    }
    if value.contains("--") {
        messages.push("must not contain consecutive hyphens".to_owned());
    }
    if value.starts_with('-') || value.ends_with('-') {
        messages.push("must not begin or end with a hyphen".to_owned());
    }
    messages
}
