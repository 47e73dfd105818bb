//! Names of webhooks, controllers, signers and drivers, which are or begin with a domain.

use binnacle_meta::{FieldError, FieldErrors, Location};

use crate::names;

const HTTP_PATH: &str = "[A-Za-z0-9/\\-._~%!$&'()*+,;=:]+";

/// Checks a domain of at least three segments.
pub fn fully_qualified_name(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let messages = names::dns1123_subdomain(name);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, name, messages.join(",")));
    } else if name.split('.').count() < 3 {
        let detail = "should be a domain with at least three segments separated by dots";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// Checks a domain of at least two segments, which must be labels; a trailing dot is allowed.
pub fn fully_qualified_domain_name(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let name = name.strip_suffix('.').unwrap_or(name);
    let messages = names::dns1123_subdomain(name);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, name, messages.join(",")));
        return;
    }
    if name.split('.').count() < 2 {
        let detail = "should be a domain with at least two segments separated by dots";
        errors.push(FieldError::invalid(path, name, detail));
        return;
    }
    for label in errors.while_room(name.split('.')) {
        let messages = names::dns1123_label(label);
        if !messages.is_empty() {
            errors.push(FieldError::invalid(path, label, messages.join(",")));
            return;
        }
    }
}

/// Checks a domain, a slash and a path: `acme.io/foo`.
pub fn domain_prefixed_path(path: &dyn Location, value: &str, errors: &mut FieldErrors) {
    if value.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let Some((host, rest)) = value.split_once('/').filter(|(host, rest)| !host.is_empty() && !rest.is_empty()) else {
        let detail = "must be a domain-prefixed path (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(path, value, detail));
        return;
    };
    errors.extend(names::dns1123_subdomain(host).iter().map(|m| FieldError::invalid(path, host, m)));
    let allowed = |b: u8| b.is_ascii_alphanumeric() || b"/-._~%!$&'()*+,;=:".contains(&b);
    if !rest.bytes().all(allowed) {
        errors.push(FieldError::invalid(path, rest, names::regex_error("Invalid path", HTTP_PATH, &[])));
    }
}

/// Checks a label key with a domain: `acme.io/foo`.
pub fn domain_prefixed_key(path: &dyn Location, key: &str, errors: &mut FieldErrors) {
    if key.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    let messages = names::label_key(key);
    errors.extend(messages.iter().map(|m| FieldError::invalid(path, key, m)));
    if messages.is_empty() && !key.contains('/') {
        let detail = "must be a domain-prefixed key (such as \"acme.io/foo\")";
        errors.push(FieldError::invalid(path, key, detail));
    }
}
