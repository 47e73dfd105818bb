//! `metav1.Condition`.

use std::collections::HashSet;

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::Condition;
use binnacle_meta::{FieldError, FieldErrors};

use crate::{checks, names};

const REASON_MAX: usize = 1024;
const MESSAGE_MAX: usize = 32 * 1024;
const REASON: &str = "[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?";
const REASON_MESSAGE: &str = "a condition reason must start with alphabetic character, optionally followed by a string of alphanumeric characters or '_,:', and must end with an alphanumeric character or '_'";

/// Validates the items of a list of conditions; types must be unique.
pub fn validate<'p, 'v>(conditions: impl Iterator<Item = FieldRef<'p, 'v, Condition>>, errors: &mut FieldErrors) {
    let mut seen = HashSet::new();
    for item in errors.while_room(conditions) {
        let kind = item.at(Condition::TYPE);
        if !seen.insert(kind.str()) {
            errors.push(FieldError::duplicate(&kind, kind.str()));
        }
        condition(item, errors);
    }
}

fn condition(condition: FieldRef<Condition>, errors: &mut FieldErrors) {
    let kind = condition.at(Condition::TYPE);
    checks::qualified_name(&kind, kind.str(), errors);
    let status = condition.at(Condition::STATUS);
    checks::one_of(&status, status.str(), &["False", "True", "Unknown"], errors);
    let generation = condition.at(Condition::OBSERVED_GENERATION);
    if generation.int_or_zero() < 0 {
        errors.push(generation.invalid("must be greater than or equal to zero"));
    }
    let changed = condition.at(Condition::LAST_TRANSITION_TIME);
    if !changed.is_set() {
        errors.push(changed.required(""));
    }
    let reason = condition.at(Condition::REASON);
    if reason.is_empty() {
        errors.push(reason.required(""));
    } else {
        if !is_reason(reason.str()) {
            let examples = &["my_name", "MY_NAME", "MyName", "ReasonA,ReasonB", "ReasonA:ReasonB"];
            errors.push(reason.invalid(names::regex_error(REASON_MESSAGE, REASON, examples)));
        }
        if reason.str().len() > REASON_MAX {
            errors.push(reason.too_long(REASON_MAX));
        }
    }
    let message = condition.at(Condition::MESSAGE);
    if message.str().len() > MESSAGE_MAX {
        errors.push(message.too_long(MESSAGE_MAX));
    }
}

fn is_reason(reason: &str) -> bool {
    let word = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
    reason.bytes().next().is_some_and(|b| b.is_ascii_alphabetic())
        && reason.bytes().all(|b| word(b) || b == b',' || b == b':')
        && reason.bytes().next_back().is_some_and(word)
}
