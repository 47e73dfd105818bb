//! Validation of policies for requests of a shared device's capacity.

use binnacle_fields::FieldRef;
use binnacle_fields::resource::v1::{CapacityRequestPolicy as Policy, CapacityRequestPolicyRange as Range};
use binnacle_meta::{FieldErrors, Quantity};

use super::names::{bounded, duplicates};

const OPTIONS_MAX: usize = 10;

/// Validates a request policy for a capacity of `max`.
pub(super) fn request_policy(policy: FieldRef<Policy>, max: &str, errors: &mut FieldErrors) {
    let (values, range) = (policy.at(Policy::VALID_VALUES), policy.at(Policy::VALID_RANGE));
    let field = match (!values.is_empty(), range.is_set()) {
        (true, true) => {
            let detail = "exactly one policy can be specified, cannot specify \"validValues\" and \"validRange\" at the same time";
            errors.push(policy.forbidden(detail));
            return;
        }
        (true, false) => Policy::VALID_VALUES.name(),
        (false, true) => Policy::VALID_RANGE.name(),
        (false, false) => return,
    };
    let default = policy.at(Policy::DEFAULT);
    let Some(default) = default.get_str() else {
        errors.push(default.required(format!("required when {field} is defined")));
        return;
    };
    if range.is_set() {
        valid_range(range, default, max, errors);
    } else {
        valid_values(policy, default, max, errors);
    }
}

fn valid_values(policy: FieldRef<Policy>, default: &str, max: &str, errors: &mut FieldErrors) {
    let values = policy.at(Policy::VALID_VALUES);
    for (option, next) in errors.while_room(values.items().zip(values.items().skip(1))) {
        if quantity(option.str()) > quantity(next.str()) {
            errors.push(next.invalid("values must be sorted in ascending order"));
        }
    }
    let options = bounded(values, OPTIONS_MAX, errors);
    for option in errors.while_room(options.items()) {
        if quantity(option.str()) > quantity(max) {
            errors.push(option.invalid(format!("option is larger than capacity value: {max}")));
        }
    }
    duplicates(options, |option| value(option.str()).to_string(), errors);
    if !options.items().any(|option| quantity(option.str()) == quantity(default)) {
        errors.push(values.invalid_as(default, "default value is not valid according to the requestPolicy"));
    }
}

fn valid_range(range: FieldRef<Range>, default: &str, max: &str, errors: &mut FieldErrors) {
    let (min, top, step) = (range.at(Range::MIN), range.at(Range::MAX), range.at(Range::STEP));
    let Some(least) = min.get_str() else {
        errors.push(min.required("required when validRange is defined"));
        return;
    };
    if quantity(least) > quantity(max) {
        errors.push(min.invalid(format!("min is larger than capacity value: {max}")));
    }
    if quantity(default) < quantity(least) {
        errors.push(min.invalid_as(default, format!("default is less than min: {least}")));
    }
    if let Some(most) = top.get_str() {
        if quantity(least) > quantity(most) {
            errors.push(top.invalid_as(least, format!("min is larger than max: {most}")));
        }
        if quantity(most) > quantity(max) {
            errors.push(top.invalid(format!("max is larger than capacity value: {max}")));
        }
        if quantity(default) > quantity(most) {
            errors.push(top.invalid_as(default, format!("default is more than max: {most}")));
        }
    }
    let (Some(first), Some(step_quantity)) = (quantity(least), step.get_str().and_then(quantity)) else { return };
    let mut one_step = first;
    one_step.add(&step_quantity);
    if Some(&one_step) > quantity(max).as_ref() {
        errors.push(step.invalid(format!("one step {one_step} is larger than capacity value: {max}")));
    }
    for reached in [Some(default), top.get_str()].into_iter().flatten() {
        let distance = value(reached).saturating_sub(value(least));
        // No number is a multiple of zero; in kube-apiserver the request fails with a division by zero.
        if distance.checked_rem(step_quantity.value()).is_none_or(|rest| rest != 0) {
            let detail = format!("value is not a multiple of a given step ({}) from ({least})", step.str());
            errors.push(step.invalid_as(reached, detail));
        }
    }
}

fn quantity(text: &str) -> Option<Quantity> {
    Quantity::parse(text).ok()
}

fn value(text: &str) -> i64 {
    quantity(text).map_or(0, |quantity| quantity.value())
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_meta::FieldPath;
    use binnacle_schema::value;

    #[test]
    fn validates_request_policies() {
        for (policy, want) in [
            (value!({}), vec![]),
            (
                value!({"validValues": ["1", "2"]}),
                vec!["p.default: Required value: required when validValues is defined"],
            ),
            (value!({"default": "1", "validValues": ["1", "2"]}), vec![]),
            (
                value!({"default": "3", "validValues": ["2", "1", "20"]}),
                vec![
                    "p.validValues[1]: Invalid value: \"1\": values must be sorted in ascending order",
                    "p.validValues[2]: Invalid value: \"20\": option is larger than capacity value: 10",
                    "p.validValues: Invalid value: \"3\": default value is not valid according to the requestPolicy",
                ],
            ),
            (
                value!({"default": "3", "validRange": {"min": "1", "max": "9", "step": "5"}}),
                vec![
                    "p.validRange.step: Invalid value: \"3\": value is not a multiple of a given step (5) from (1)",
                    "p.validRange.step: Invalid value: \"9\": value is not a multiple of a given step (5) from (1)",
                ],
            ),
        ] {
            let mut errors = FieldErrors::new();
            request_policy(FieldRef::located(&policy, &FieldPath::new("p")), "10", &mut errors);
            assert_eq!(errors.iter().map(ToString::to_string).collect::<Vec<_>>(), want);
        }
    }
}
