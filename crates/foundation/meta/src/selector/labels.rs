//! Label selectors: requirements on the labels of an object.

use std::fmt;

use super::{MAX_SELECTOR_BYTES, SelectorError, label_parser, label_syntax};
use crate::{FieldError, FieldPath, Text, aggregate};

/// A list of requirements that must all be met. An empty list selects everything.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct LabelSelector {
    /// Sorted by key.
    requirements: Vec<Requirement>,
    /// True if no object is selected, such as by a null `labelSelector`.
    nothing: bool,
}

impl LabelSelector {
    /// Parses a `labelSelector` parameter.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > MAX_SELECTOR_BYTES {
            return Err(SelectorError::too_long());
        }
        let requirements = label_parser::parse(text)?;
        SelectorError::check_terms(requirements.iter().map(|requirement| requirement.values.len().max(1)).sum())?;
        Ok(Self::new(requirements))
    }

    pub fn new(mut requirements: Vec<Requirement>) -> Self {
        requirements.sort_by(|a, b| a.key.cmp(&b.key));
        Self { requirements, nothing: false }
    }

    pub fn everything() -> Self {
        Self::default()
    }

    pub fn nothing() -> Self {
        Self { requirements: Vec::new(), nothing: true }
    }

    /// Returns true if the selector has no requirements, so that it selects every object.
    pub fn is_everything(&self) -> bool {
        self.requirements.is_empty() && !self.nothing
    }

    /// Returns true for [`LabelSelector::nothing`]. Does not detect other selectors that select no object.
    pub fn is_nothing(&self) -> bool {
        self.nothing
    }

    /// Returns the requirements, sorted by key.
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// Returns true if the selector selects an object, whose labels `lookup` returns.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        !self.nothing && self.requirements.iter().all(|requirement| requirement.matches(lookup(&requirement.key)))
    }

    /// Returns the value of the first requirement on the label `key`, if that requires a single value.
    pub fn requires_exact_match(&self, key: &str) -> Option<&str> {
        self.requirements.iter().find(|requirement| requirement.key == key)?.exact_value()
    }
}

impl fmt::Display for LabelSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, requirement) in self.requirements.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

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

    fn exact_value(&self) -> Option<&str> {
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

#[cfg(test)]
#[path = "labels_tests.rs"]
mod tests;
