//! The selectors of a review (KEP-4601): validation, and their text.

use binnacle_fields::FieldRef;
use binnacle_fields::authorization::v1::{
    FieldSelectorAttributes as FieldAttributes, LabelSelectorAttributes as LabelAttributes, ResourceAttributes,
};
use binnacle_fields::meta::v1::{FieldSelectorRequirement as OfField, LabelSelectorRequirement as OfLabel};
use binnacle_meta::{FieldErrors, FieldSelector, FieldTerm, LabelSelector, Operator, Requirement, Text};
use binnacle_schema::Value;
use binnacle_validation::names;
use binnacle_work::pace;

/// The text of a selector, without requirements that could not be parsed.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct ParsedSelector {
    pub(super) text: String,
    pub(super) failed: bool,
}

/// Validates `fieldSelector` and `labelSelector`.
pub(super) fn validate(resource: FieldRef<ResourceAttributes>, errors: &mut FieldErrors) {
    // Both selectors and their requirements have the same fields.
    let fields = resource.at(ResourceAttributes::FIELD_SELECTOR).cast();
    let labels = resource.at(ResourceAttributes::LABEL_SELECTOR);
    for (selector, of_requirement) in
        [(fields, field_requirement as fn(FieldRef<OfLabel>, &mut FieldErrors)), (labels, label_requirement)]
    {
        let Some(selector) = selector.set() else { continue };
        let raw = selector.at(LabelAttributes::RAW_SELECTOR);
        let requirements = selector.at(LabelAttributes::REQUIREMENTS);
        if !raw.is_empty() && !requirements.is_empty() {
            errors.push(raw.invalid("may not specified at the same time as requirements"));
        }
        if raw.is_empty() && requirements.is_empty() {
            let path = selector.path();
            let detail = format!("when {path} is specified, requirements or rawSelector is required");
            errors.push(requirements.required(detail));
        }
        for requirement in errors.while_room(requirements.items()) {
            of_requirement(requirement, errors);
        }
    }
}

/// Validates an operator. Unknown ones, perhaps from newer servers, are allowed; their requirements are ignored.
fn operator(requirement: FieldRef<OfLabel>, errors: &mut FieldErrors) {
    let values = requirement.at(OfLabel::VALUES);
    pace(steps(values.len()));
    match requirement.at(OfLabel::OPERATOR).str() {
        "In" | "NotIn" if values.is_empty() => {
            errors.push(values.required("must be specified when `operator` is 'In' or 'NotIn'"));
        }
        "Exists" | "DoesNotExist" if !values.is_empty() => {
            errors.push(values.forbidden("may not be specified when `operator` is 'Exists' or 'DoesNotExist'"));
        }
        _ => {}
    }
}

fn label_requirement(requirement: FieldRef<OfLabel>, errors: &mut FieldErrors) {
    operator(requirement, errors);
    let (key, values) = (requirement.at(OfLabel::KEY), requirement.at(OfLabel::VALUES));
    errors.extend(names::label_key(key.str()).iter().map(|m| key.invalid_as(key.str(), m)));
    for value in errors.while_room(values.items()) {
        errors.extend(names::label_value(value.str()).iter().map(|m| value.invalid(m)));
    }
}

fn field_requirement(requirement: FieldRef<OfLabel>, errors: &mut FieldErrors) {
    let key = requirement.at(OfLabel::KEY);
    if key.is_empty() {
        errors.push(key.required("must be specified"));
    }
    operator(requirement, errors);
}

/// Returns the steps for parsing a requirement with this number of values.
fn steps(values: usize) -> u64 {
    10 + 10 * values as u64
}

/// Returns the text of `labelSelector`.
pub(super) fn labels(resource: FieldRef<ResourceAttributes>) -> ParsedSelector {
    let selector = resource.at(ResourceAttributes::LABEL_SELECTOR);
    let requirements = selector.at(LabelAttributes::REQUIREMENTS);
    if requirements.is_empty() {
        let raw = selector.at(LabelAttributes::RAW_SELECTOR).str();
        pace(raw.len() as u64);
        return match LabelSelector::parse(raw) {
            Ok(parsed) => ParsedSelector { text: parsed.to_string(), failed: false },
            Err(_) => ParsedSelector { failed: true, ..ParsedSelector::default() },
        };
    }
    let (mut valid, mut failed) = (Vec::new(), false);
    for requirement in requirements.items() {
        let values = requirement.at(OfLabel::VALUES);
        pace(steps(values.len()));
        let operator = match requirement.at(OfLabel::OPERATOR).str() {
            "In" => Some(Operator::In),
            "NotIn" => Some(Operator::NotIn),
            "Exists" => Some(Operator::Exists),
            "DoesNotExist" => Some(Operator::DoesNotExist),
            _ => None,
        };
        let values = values.strs().map(Text::from).collect();
        match operator.map(|operator| Requirement::new(requirement.at(OfLabel::KEY).str(), operator, values)) {
            Some(Ok(requirement)) => valid.push(requirement),
            _ => failed = true,
        }
    }
    let text = if valid.is_empty() { String::new() } else { LabelSelector::new(valid).to_string() };
    ParsedSelector { text, failed }
}

/// Returns the text of `fieldSelector`.
pub(super) fn fields(resource: FieldRef<ResourceAttributes>) -> ParsedSelector {
    let selector = resource.at(ResourceAttributes::FIELD_SELECTOR);
    let requirements = selector.at(FieldAttributes::REQUIREMENTS);
    if requirements.is_empty() {
        let raw = selector.at(FieldAttributes::RAW_SELECTOR).str();
        pace(raw.len() as u64);
        return match FieldSelector::parse(raw) {
            Ok(parsed) => ParsedSelector { text: parsed.to_string(), failed: false },
            Err(_) => ParsedSelector { failed: true, ..ParsedSelector::default() },
        };
    }
    let (mut valid, mut failed) = (Vec::new(), false);
    for requirement in requirements.items() {
        let values = requirement.at(OfField::VALUES).list();
        pace(steps(values.len()));
        let negated = match requirement.at(OfField::OPERATOR).str() {
            "In" => Some(false),
            "NotIn" => Some(true),
            // Field selectors have no other operators.
            _ => None,
        };
        match (negated, values) {
            (Some(negated), [Value::Str(value)]) => {
                let field = requirement.at(OfField::KEY).str().into();
                valid.push(FieldTerm { field, value: value.clone(), negated });
            }
            _ => failed = true,
        }
    }
    let text = if valid.is_empty() { String::new() } else { FieldSelector::new(valid).to_string() };
    ParsedSelector { text, failed }
}
