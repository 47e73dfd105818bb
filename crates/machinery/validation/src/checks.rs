//! The basic checks from which most rules are built. Each appends its errors.

pub use binnacle_fields::of_named_type;
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, Location};
use binnacle_schema::Value;

use crate::names;

/// `field is immutable`.
pub const IMMUTABLE: &str = "field is immutable";
pub const NOT_NEGATIVE: &str = "must be greater than or equal to 0";

/// Reports each message as an error of the value.
pub fn invalid_for(path: &dyn Location, value: &str, messages: Vec<String>, errors: &mut FieldErrors) {
    errors.extend(messages.iter().map(|message| FieldError::invalid(path, value, message)));
}

/// Checks that a value of an enumeration is in a set, which must be sorted for the message.
pub fn one_of(path: &dyn Location, value: &str, supported: &[&str], errors: &mut FieldErrors) {
    if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, of_named_type(value), supported));
    }
}

/// Like [`one_of`], for a field that is a plain `string` in Go.
pub fn string_one_of(path: &dyn Location, value: &str, supported: &[&str], errors: &mut FieldErrors) {
    if !supported.contains(&value) {
        errors.push(FieldError::not_supported(path, value, supported));
    }
}

/// Like [`one_of`], and requires a value.
pub fn required_one_of(path: &dyn Location, value: &str, supported: &[&str], errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        one_of(path, value, supported, errors);
    }
}

/// Like [`required_one_of`], for a field that is a plain `string` in Go.
pub fn required_string_one_of(path: &dyn Location, value: &str, supported: &[&str], errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else {
        string_one_of(path, value, supported, errors);
    }
}

/// Checks that a text is not empty.
pub fn required(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
    }
}

/// Checks that a number is not negative; it may be absent.
pub fn not_negative(path: &dyn Location, value: Option<i64>, errors: &mut FieldErrors) {
    if let Some(value) = value
        && value < 0
    {
        errors.push(FieldError::invalid(path, value, NOT_NEGATIVE));
    }
}

/// Checks that a text is a DNS-1123 subdomain, such as a host name.
pub fn subdomain(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    invalid_for(path, value, names::dns1123_subdomain(value), errors);
}

/// Like [`subdomain`], for a text that is a pointer or has a type of its own in Go, see [`of_named_type`].
pub fn typed_subdomain(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    let messages = names::dns1123_subdomain(value);
    errors.extend(messages.iter().map(|message| FieldError::invalid(path, of_named_type(value), message)));
}

pub fn label(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    invalid_for(path, value, names::dns1123_label(value), errors);
}

/// Checks a label in a field with the declared format `k8s-short-name`.
pub fn short_name(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    invalid_for(path, value, names::short_name(value), errors);
}

/// Checks a subdomain in a field with the declared format `k8s-long-name`.
pub fn long_name(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    invalid_for(path, value, names::long_name(value), errors);
}

/// Checks a name with an optional domain before a slash.
pub fn qualified_name(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    invalid_for(path, value, names::label_key(value), errors);
}

/// Checks a port number or the name of a port.
pub fn port_number_or_name(path: &dyn Location, value: Option<&Value>, errors: &mut FieldErrors) {
    match value {
        Some(Value::Str(name)) => invalid_for(path, name, crate::ports::name(name), errors),
        number => crate::ports::number(path, number.and_then(Value::as_i64).unwrap_or(0), errors),
    }
}

/// Checks that a field is unchanged, which the caller has determined (`same`).
pub fn immutable(path: &dyn Location, same: bool, value: impl Into<ErrorValue>, errors: &mut FieldErrors) {
    if !same {
        errors.push(FieldError::invalid(path, value, IMMUTABLE));
    }
}
