//! `metav1.LabelSelector`.

use binnacle_fields::FieldRef;
use binnacle_fields::meta::v1::{LabelSelector as Selector, LabelSelectorRequirement as SelectorRequirement};
use binnacle_meta::{
    FieldError, FieldErrors, LabelSelector, Location, Operator, Requirement, SelectorError, Text, go_quote,
};
use binnacle_schema::Value;

use crate::{checks, metadata, names};

/// Validates a label selector. `any_value` accepts invalid label values, for old objects with such values.
pub fn validate(selector: FieldRef<Selector>, any_value: bool, errors: &mut FieldErrors) {
    metadata::validate_labels(selector.at(Selector::MATCH_LABELS), errors);
    let requirements = selector.at(Selector::MATCH_EXPRESSIONS);
    for item in errors.while_room(requirements.items()) {
        requirement(item, any_value, errors);
    }
}

/// Returns the error for an unknown operator in a selector requirement.
pub fn unknown_operator(path: &dyn Location, operator: &str) -> FieldError {
    FieldError::invalid(path, binnacle_fields::of_named_type(operator), "not a valid selector operator")
}

fn requirement(requirement: FieldRef<SelectorRequirement>, any_value: bool, errors: &mut FieldErrors) {
    let (operator, values) =
        (requirement.at(SelectorRequirement::OPERATOR), requirement.at(SelectorRequirement::VALUES));
    match operator.str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        "In" | "NotIn" | "Exists" | "DoesNotExist" => {}
        unknown => errors.push(unknown_operator(&operator, unknown)),
    }
    let key = requirement.at(SelectorRequirement::KEY);
    checks::qualified_name(&key, key.str(), errors);
    for value in errors.while_room(values.items().filter(|_| !any_value)) {
        checks::invalid_for(&value, value.str(), names::label_value(value.str()), errors);
    }
}

/// Converts to a [`LabelSelector`]. An absent selector matches nothing, an empty one matches everything.
///
/// Returns the errors of client-go's `LabelSelectorAsSelector`.
pub fn parse(selector: Option<&Value>) -> Result<LabelSelector, SelectorError> {
    let selector = FieldRef::<Selector>::root(selector.unwrap_or(&Value::Null));
    if !selector.is_set() {
        return Ok(LabelSelector::nothing());
    }
    let mut requirements = Vec::new();
    for (key, value) in selector.at(Selector::MATCH_LABELS).entries() {
        requirements.push(Requirement::new(key, Operator::Equals, vec![value.str().into()])?);
    }
    for expression in selector.at(Selector::MATCH_EXPRESSIONS).items() {
        let operator = match expression.at(SelectorRequirement::OPERATOR).str() {
            "In" => Operator::In,
            "NotIn" => Operator::NotIn,
            "Exists" => Operator::Exists,
            "DoesNotExist" => Operator::DoesNotExist,
            other => {
                let quoted = go_quote(other);
                return Err(SelectorError::new(format!("{quoted} is not a valid label selector operator")));
            }
        };
        let values = expression.at(SelectorRequirement::VALUES).strs().map(Text::from).collect();
        requirements.push(Requirement::new(expression.at(SelectorRequirement::KEY).str(), operator, values)?);
    }
    Ok(LabelSelector::new(requirements))
}

/// Returns true if a selector is invalid, so that an update may keep it.
pub fn is_invalid(selector: Option<&Value>) -> bool {
    let mut errors = FieldErrors::new();
    validate(FieldRef::root(selector.unwrap_or(&Value::Null)), false, &mut errors);
    !errors.is_empty()
}
