//! Tolerations of taints.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::Toleration;
use binnacle_fields::types::Str;
use binnacle_meta::FieldErrors;

use crate::{checks, names};

const DECIMAL: &str = "must be a valid decimal integer in canonical form";

/// Validates the items of a list of tolerations. `comparisons` allows the numeric operators `Lt` and `Gt`.
pub fn validate<'p, 'v>(
    tolerations: impl Iterator<Item = FieldRef<'p, 'v, Toleration>>,
    comparisons: bool,
    errors: &mut FieldErrors,
) {
    for item in errors.while_room(tolerations) {
        toleration(item, comparisons, errors);
    }
}

fn toleration(toleration: FieldRef<Toleration>, comparisons: bool, errors: &mut FieldErrors) {
    let (key, operator) = (toleration.at(Toleration::KEY), toleration.at(Toleration::OPERATOR));
    let (value, effect) = (toleration.at(Toleration::VALUE), toleration.at(Toleration::EFFECT));
    if key.is_empty() && operator.str() != "Exists" {
        let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
        errors.push(operator.invalid_as(checks::of_named_type(operator.str()), detail));
    } else if !key.is_empty() {
        checks::qualified_name(&key, key.str(), errors);
    }
    if toleration.at(Toleration::TOLERATION_SECONDS).int().is_some() && effect.str() != "NoExecute" {
        let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
        errors.push(effect.invalid_as(checks::of_named_type(effect.str()), detail));
    }
    match operator.str() {
        // Errors of the value are reported as errors of the operator, except for numbers.
        "Equal" | "" => {
            let messages = names::label_value(value.str());
            if !messages.is_empty() {
                errors.push(operator.invalid_as(value.str(), messages.join(";")));
            }
        }
        "Exists" => {
            if !value.is_empty() {
                errors.push(operator.invalid_as(value.str(), "value must be empty when `operator` is 'Exists'"));
            }
        }
        "Lt" | "Gt" if comparisons => number(value, errors),
        "Lt" | "Gt" => errors.push(operator.not_supported(&["Equal", "Exists", "Lt", "Gt"])),
        _ => errors.push(operator.not_supported(&["Equal", "Exists"])),
    }
    if !matches!(effect.str(), "" | "NoSchedule" | "PreferNoSchedule" | "NoExecute") {
        errors.push(effect.not_supported(&["NoSchedule", "PreferNoSchedule", "NoExecute"]));
    }
}

fn number(field: FieldRef<Str>, errors: &mut FieldErrors) {
    let value = field.str();
    let digits = value.strip_prefix('-').unwrap_or(value);
    let decimal = match digits.as_bytes() {
        [] => false,
        [b'0'] => !value.starts_with('-'),
        [first, rest @ ..] => (b'1'..=b'9').contains(first) && rest.iter().all(u8::is_ascii_digit),
    };
    if !decimal {
        let message = if value.is_empty() { "must be non-empty" } else { DECIMAL };
        errors.push(field.invalid_as(value, message));
    }
    if value.parse::<i64>().is_err() {
        let why = if decimal { "value out of range" } else { "invalid syntax" };
        let detail = format!("strconv.ParseInt: parsing {}: {why}", binnacle_meta::go_quote(value));
        errors.push(field.invalid_as(value, detail));
    }
}
