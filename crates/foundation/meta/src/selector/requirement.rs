//! The requirements of label selectors.

use std::fmt;

use super::{SelectorError, label_syntax};
use crate::{FieldError, FieldPath, Text, aggregate};

/// A requirement of a selector on one label.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Requirement {
    key: Text,
    operator: Operator,
    /// Sorted, without duplicates.
    values: Vec<Text>,
}

impl Requirement {
    /// Creates a requirement. All errors of key, operator and values are reported together.
    pub fn new(key: &str, operator: Operator, mut values: Vec<Text>) -> Result<Self, SelectorError> {
        let mut errors = Vec::new();
        errors.extend(check_key(key, &FieldPath::new("key")));
        let path = FieldPath::new("values");
        let shown = || {
            let plain: Vec<&str> = values.iter().map(Text::as_str).collect();
            crate::ErrorValue::raw(serde_json::json!(plain).to_string())
        };
        match operator {
            Operator::In | Operator::NotIn if values.is_empty() => {
                errors.push(FieldError::invalid(
                    &path,
                    shown(),
                    "for 'in', 'notin' operators, values set can't be empty",
                ));
            }
            Operator::Equals | Operator::DoubleEquals | Operator::NotEquals if values.len() != 1 => {
                errors.push(FieldError::invalid(&path, shown(), "exact-match compatibility requires one single value"));
            }
            Operator::Exists | Operator::DoesNotExist if !values.is_empty() => {
                let detail = "values set must be empty for exists and does not exist";
                errors.push(FieldError::invalid(&path, shown(), detail));
            }
            Operator::GreaterThan | Operator::LessThan => {
                if values.len() != 1 {
                    let detail = "for 'Gt', 'Lt' operators, exactly one value is required";
                    errors.push(FieldError::invalid(&path, shown(), detail));
                }
                for (index, value) in values.iter().enumerate().filter(|(_, value)| value.parse::<i64>().is_err()) {
                    let detail = "for 'Gt', 'Lt' operators, the value must be an integer";
                    errors.push(FieldError::invalid(&path.index(index), value, detail));
                }
            }
            _ => {}
        }
        for (index, value) in values.iter().enumerate() {
            let wrong = label_syntax::value_errors(value);
            if !wrong.is_empty() {
                errors.push(FieldError::invalid(&path.index(index).key(key), value, wrong.join("; ")));
            }
        }
        if !errors.is_empty() {
            return Err(SelectorError::new(aggregate(&errors)));
        }
        values.sort_unstable();
        values.dedup();
        Ok(Self { key: Text::new(key), operator, values })
    }

    pub fn key(&self) -> &Text {
        &self.key
    }

    pub fn operator(&self) -> Operator {
        self.operator
    }

    /// Returns the values, sorted.
    pub fn values(&self) -> &[Text] {
        &self.values
    }

    /// Returns true if a label with this value meets the requirement; `None` means that the label is absent.
    pub fn matches(&self, value: Option<&str>) -> bool {
        match self.operator {
            Operator::In | Operator::Equals | Operator::DoubleEquals => value.is_some_and(|value| self.has(value)),
            Operator::NotIn | Operator::NotEquals => !value.is_some_and(|value| self.has(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
            Operator::GreaterThan => self.numbers(value).is_some_and(|(value, bound)| value > bound),
            Operator::LessThan => self.numbers(value).is_some_and(|(value, bound)| value < bound),
        }
    }

    /// Returns the values that the label may have, if the operator is an equality or `In`.
    pub fn equal_to_one_of(&self) -> Option<&[Text]> {
        matches!(self.operator, Operator::In | Operator::Equals | Operator::DoubleEquals).then_some(&*self.values)
    }

    pub(super) fn exact_value(&self) -> Option<&str> {
        match self.equal_to_one_of()? {
            [value] => Some(value),
            _ => None,
        }
    }

    fn has(&self, value: &str) -> bool {
        self.values.binary_search_by(|own| own.as_str().cmp(value)).is_ok()
    }

    fn numbers(&self, value: Option<&str>) -> Option<(i64, i64)> {
        Some((value?.parse().ok()?, self.values.first()?.parse().ok()?))
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let joined = self.values.join(",");
        let key = &self.key;
        match self.operator {
            Operator::Exists => write!(f, "{key}"),
            Operator::DoesNotExist => write!(f, "!{key}"),
            Operator::Equals => write!(f, "{key}={joined}"),
            Operator::DoubleEquals => write!(f, "{key}=={joined}"),
            Operator::NotEquals => write!(f, "{key}!={joined}"),
            Operator::GreaterThan => write!(f, "{key}>{joined}"),
            Operator::LessThan => write!(f, "{key}<{joined}"),
            Operator::In => write!(f, "{key} in ({joined})"),
            Operator::NotIn => write!(f, "{key} notin ({joined})"),
        }
    }
}

/// The operator of a requirement, which relates a label to the values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operator {
    DoesNotExist,
    Equals,
    DoubleEquals,
    In,
    NotEquals,
    NotIn,
    Exists,
    GreaterThan,
    LessThan,
}

pub(super) fn check_key(key: &str, path: &FieldPath) -> Option<FieldError> {
    let wrong = label_syntax::key_errors(key);
    (!wrong.is_empty()).then(|| FieldError::invalid(path, key, wrong.join("; ")))
}
