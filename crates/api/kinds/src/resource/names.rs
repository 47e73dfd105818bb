//! Names and bounded lists that the kinds of this group share.

use std::collections::HashSet;
use std::hash::Hash;

use binnacle_fields::FieldRef;
use binnacle_fields::resource::v1::{Device, DeviceClaim, DeviceRequest, DeviceSubRequest};
use binnacle_fields::types::{List, Str};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, Location};
use binnacle_schema::Value;
use binnacle_validation::{checks, names};

use crate::storage::driver_name;

pub(super) const REQUESTS_MAX: usize = 32;

const POOL_MAX: usize = 253;
const ID_MAX: usize = 32;

/// Validates the name of a pool: subdomains separated by slashes.
pub(super) fn pool_name(pool: FieldRef<Str>, errors: &mut FieldErrors) {
    if pool.is_empty() {
        errors.push(pool.required(""));
        return;
    }
    if pool.str().len() > POOL_MAX {
        errors.push(pool.too_long(POOL_MAX));
    }
    pool.str().split('/').for_each(|part| checks::subdomain(&pool, part, errors));
}

/// Validates a UUID in its canonical form.
pub(super) fn uid(field: FieldRef<Str>, errors: &mut FieldErrors) {
    let uid = field.str();
    if let Some(problem) = uuid_problem(uid) {
        errors.push(field.invalid_as(uid, format!("error validating uid: {problem}")));
    } else if uid.len() != 36 || uid != uid.to_lowercase() {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        errors.push(field.invalid(detail));
    }
}

/// Returns the error of a UUID in any of its forms: plain, in braces, as a URN, without dashes.
fn uuid_problem(uid: &str) -> Option<String> {
    const URN: &str = "urn:uuid:";
    let inner = match uid.len() {
        36 => uid,
        45 => match uid.get(..9) {
            Some(prefix) if prefix.eq_ignore_ascii_case(URN) => &uid[9..],
            prefix => {
                return Some(format!("invalid urn prefix: {}", binnacle_meta::go_quote(prefix.unwrap_or_default())));
            }
        },
        38 => match uid.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')) {
            Some(inner) => inner,
            None => return Some("invalid bracketed UUID format".to_owned()),
        },
        32 => {
            let hex = uid.bytes().all(|b| b.is_ascii_hexdigit());
            return (!hex).then(|| "invalid UUID format".to_owned());
        }
        length => return Some(format!("invalid UUID length: {length}")),
    };
    let well_formed = inner.bytes().enumerate().all(|(i, b)| match i {
        8 | 13 | 18 | 23 => b == b'-',
        _ => b.is_ascii_hexdigit(),
    });
    (!well_formed).then(|| "invalid UUID format".to_owned())
}

/// Validates the name of an attribute or a capacity: an identifier, after a domain and a slash if it is not the
/// driver's.
pub(super) fn qualified_name(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [id] => identifier(path, id, errors),
        [domain, id] => {
            if domain.is_empty() {
                errors.push(FieldError::invalid(path, "", "the domain must not be empty"));
            } else {
                driver_name(domain, &path.path(), errors);
            }
            if id.is_empty() {
                errors.push(FieldError::invalid(path, "", "the name must not be empty"));
            } else {
                identifier(path, id, errors);
            }
        }
        _ => {}
    }
}

/// A [`qualified_name`] with its domain.
pub(super) fn fully_qualified_name(field: FieldRef<Str>, errors: &mut FieldErrors) {
    qualified_name(&field, field.str(), errors);
    if !field.str().contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(field.invalid_as(field.shown_as_json(), detail));
    }
}

fn identifier(path: &dyn Location, id: &str, errors: &mut FieldErrors) {
    if id.len() > ID_MAX {
        errors.push(FieldError::too_long(path, ID_MAX));
    }
    let starts = id.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if !starts || !id.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
        let message = "a valid C identifier must start with alphabetic character or '_', followed by a string of alphanumeric characters or '_'";
        let examples = &["my_name", "MY_NAME", "MyName"];
        errors.push(FieldError::invalid(path, id, names::regex_error(message, "[A-Za-z_][A-Za-z0-9_]*", examples)));
    }
}

/// Returns the list, or reports a list that is too long and returns an empty one.
pub(super) fn bounded<'p, 'v, T>(
    list: FieldRef<'p, 'v, List<T>>,
    max: usize,
    errors: &mut FieldErrors,
) -> FieldRef<'p, 'v, List<T>> {
    if list.len() <= max {
        return list;
    }
    errors.push(list.too_many(max));
    FieldRef::root(&Value::Null)
}

/// Reports items whose key an earlier item has.
pub(super) fn duplicates<'v, T, K: AsRef<str> + Eq + Hash>(
    list: FieldRef<'_, 'v, List<T>>,
    key: impl Fn(FieldRef<'_, 'v, T>) -> K,
    errors: &mut FieldErrors,
) {
    let mut seen = HashSet::new();
    for item in errors.while_room(list.items()) {
        if let Some(key) = seen.replace(key(item)) {
            errors.push(FieldError::duplicate(&item, key.as_ref()));
        }
    }
}

/// Validates the conditions before binding and the conditions of failed binding: both or neither must be given.
pub(super) fn binding_conditions(
    conditions: FieldRef<List<Str>>,
    failures: FieldRef<List<Str>>,
    errors: &mut FieldErrors,
) {
    const MAX: usize = 4;
    const NAMES: [&str; 2] = [Device::BINDING_CONDITIONS.name(), Device::BINDING_FAILURE_CONDITIONS.name()];
    for list in [conditions, failures] {
        for condition in bounded(list, MAX, errors).items() {
            checks::qualified_name(&condition, condition.str(), errors);
        }
    }
    let expected: HashSet<&str> = conditions.strs().collect();
    for (list, excluded) in [(conditions, &HashSet::new()), (failures, &expected)] {
        let mut seen = HashSet::new();
        for condition in errors.while_room(list.items()) {
            if !seen.insert(condition.str()) {
                errors.push(condition.duplicate());
            }
            if excluded.contains(condition.str()) {
                errors.push(condition.invalid("bindingFailureConditions must not overlap with bindingConditions"));
            }
        }
    }
    for (missing, present, [name, other]) in
        [(conditions, failures, NAMES), (failures, conditions, [NAMES[1], NAMES[0]])]
    {
        if missing.is_empty() && !present.is_empty() {
            errors.push(missing.invalid_as(ErrorValue::raw("null"), format!("{name} are required to use {other}")));
        }
    }
}

/// Validates a reference to a device request of the claim: `request` or `request/alternative`.
pub(super) fn request_reference(reference: FieldRef<Str>, claim: FieldRef<DeviceClaim>, errors: &mut FieldErrors) {
    const DETAIL: &str =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let segments: Vec<&str> = reference.str().split('/').collect();
    if segments.len() > 2 {
        errors.push(reference.invalid(DETAIL));
        return;
    }
    segments.iter().for_each(|segment| checks::label(&reference, segment, errors));
    // Of several requests with one name the last one counts.
    let requests = claim.at(DeviceClaim::REQUESTS);
    let request = requests.items().rev().find(|request| request.at(DeviceRequest::NAME).str() == segments[0]);
    let is_known = request.is_some_and(|request| {
        let alternatives = request.at(DeviceRequest::FIRST_AVAILABLE);
        segments.len() == 1
            || alternatives.items().any(|alternative| alternative.at(DeviceSubRequest::NAME).str() == segments[1])
    });
    if !is_known {
        errors.push(reference.invalid_as(reference.str(), DETAIL));
    }
}

/// Validates a list of references to requests, which must be unique.
pub(super) fn request_references(
    references: FieldRef<List<Str>>,
    claim: FieldRef<DeviceClaim>,
    errors: &mut FieldErrors,
) {
    let references = bounded(references, REQUESTS_MAX, errors);
    for reference in errors.while_room(references.items()) {
        request_reference(reference, claim, errors);
    }
    duplicates(references, |reference| reference.str(), errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_uids() {
        for (text, want) in [
            ("11111111-1111-1111-1111-11111111111a", None),
            ("{11111111-1111-1111-1111-111111111111}", None),
            ("urn:uuid:11111111-1111-1111-1111-111111111111", None),
            ("11111111111111111111111111111111", None),
            ("x", Some("invalid UUID length: 1")),
            ("11111111-1111-1111-1111-11111111111g", Some("invalid UUID format")),
            ("x11111111-1111-1111-1111-111111111111x", Some("invalid bracketed UUID format")),
        ] {
            assert_eq!(uuid_problem(text).as_deref(), want, "{text}");
        }
    }
}
