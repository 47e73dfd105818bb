//! Names and bounded lists that the kinds of this group share.

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, names, repeated};

use crate::checks::{items, texts};
use crate::storage::driver_name;

const POOL_MAX: usize = 253;
const ID_MAX: usize = 32;

/// Validates the name of a pool: subdomains separated by slashes.
pub(super) fn pool_name(path: &FieldPath, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if name.len() > POOL_MAX {
        errors.push(FieldError::too_long(path, POOL_MAX));
    }
    name.split('/').for_each(|part| checks::subdomain(path, part, errors));
}

/// Validates a UUID in its canonical form.
pub(super) fn uid(path: &FieldPath, uid: &str, errors: &mut FieldErrors) {
    if let Some(problem) = uuid_problem(uid) {
        errors.push(FieldError::invalid(path, uid, format!("error validating uid: {problem}")));
    } else if uid.len() != 36 || uid != uid.to_lowercase() {
        let detail = "uid must be in RFC 4122 normalized form, `xxxxxxxx-xxxx-xxxx-xxxx-xxxxxxxxxxxx` with lowercase hexadecimal characters";
        errors.push(FieldError::invalid(path, uid, detail));
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
pub(super) fn qualified_name(path: &FieldPath, name: &str, errors: &mut FieldErrors) {
    match name.split('/').collect::<Vec<_>>()[..] {
        [id] => identifier(path, id, errors),
        [domain, id] => {
            if domain.is_empty() {
                errors.push(FieldError::invalid(path, "", "the domain must not be empty"));
            } else {
                driver_name(domain, path, errors);
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
pub(super) fn fully_qualified_name(path: &FieldPath, name: &str, errors: &mut FieldErrors) {
    qualified_name(path, name, errors);
    if !name.contains('/') {
        let detail = "a fully qualified name must be a domain and a name separated by a slash";
        errors.push(FieldError::invalid(path, name, detail));
    }
}

fn identifier(path: &FieldPath, id: &str, errors: &mut FieldErrors) {
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

/// Returns the items of a list with their paths, or reports a list that is too long and returns none.
pub(super) fn bounded<'a>(
    object: &'a Value,
    list: &str,
    max: usize,
    path: &FieldPath,
    errors: &mut FieldErrors,
) -> Vec<(FieldPath, &'a Value)> {
    let count = object.list_at(&[list]).len();
    if count > max {
        errors.push(FieldError::too_many(&path.child(list), count, max));
        return Vec::new();
    }
    items(object, list, path).collect()
}

/// Reports items whose key an earlier item has.
pub(super) fn duplicates(items: &[(FieldPath, &Value)], key: impl Fn(&Value) -> String, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for (at, item) in errors.while_room(items) {
        let key = key(item);
        if !seen.insert(key.clone()) {
            errors.push(FieldError::duplicate(at, &key));
        }
    }
}

/// Validates the conditions before binding and the conditions of failed binding: both or neither must be given.
pub(super) fn binding_conditions(object: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const MAX: usize = 4;
    const NAMES: [&str; 2] = ["bindingConditions", "bindingFailureConditions"];
    for name in NAMES {
        for (at, condition) in bounded(object, name, MAX, path, errors) {
            checks::qualified_name(&at, condition.as_str().unwrap_or_default(), errors);
        }
    }
    let [conditions, failures] = NAMES.map(|name| texts(object, name));
    let known: HashSet<&str> = conditions.iter().copied().collect();
    for (name, list) in NAMES.iter().zip([&conditions, &failures]) {
        let repeated = repeated(list, |condition| *condition);
        for (i, condition) in errors.while_room(list.iter().enumerate()) {
            let at = path.child(name).index(i);
            if repeated[i] {
                errors.push(FieldError::duplicate(&at, *condition));
            }
            if *name == NAMES[1] && known.contains(condition) {
                let detail = "bindingFailureConditions must not overlap with bindingConditions";
                errors.push(FieldError::invalid(&at, *condition, detail));
            }
        }
    }
    for (missing, present, i) in [(&conditions, &failures, 0), (&failures, &conditions, 1)] {
        if missing.is_empty() && !present.is_empty() {
            let detail = format!("{} are required to use {}", NAMES[i], NAMES[1 - i]);
            errors.push(FieldError::invalid(&path.child(NAMES[i]), binnacle_meta::ErrorValue::raw("null"), detail));
        }
    }
}

/// Validates a reference to a device request of the claim: `request` or `request/alternative`.
pub(super) fn request_reference(name: &str, claim: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const DETAIL: &str =
        "must be the name of a request in the claim or the name of a request and a subrequest separated by '/'";
    let segments: Vec<&str> = name.split('/').collect();
    if segments.len() > 2 {
        errors.push(FieldError::invalid(path, name, DETAIL));
        return;
    }
    segments.iter().for_each(|segment| checks::label(path, segment, errors));
    let is_named = |item: &&Value, name: &str| item.str_at(&["name"]) == name;
    // Of several requests with one name the last one counts.
    let request = claim.list_at(&["requests"]).iter().rev().find(|request| is_named(request, segments[0]));
    let known = request.is_some_and(|request| {
        segments.len() == 1 || request.list_at(&["firstAvailable"]).iter().any(|sub| is_named(&sub, segments[1]))
    });
    if !known {
        errors.push(FieldError::invalid(path, name, DETAIL));
    }
}

/// Validates a list of references to requests, which must be unique.
pub(super) fn request_references(object: &Value, claim: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let references = bounded(object, "requests", super::claim_validation::REQUESTS_MAX, path, errors);
    for (at, name) in errors.while_room(&references) {
        request_reference(name.as_str().unwrap_or_default(), claim, at, errors);
    }
    duplicates(&references, |name| name.as_str().unwrap_or_default().to_owned(), errors);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uids() {
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
