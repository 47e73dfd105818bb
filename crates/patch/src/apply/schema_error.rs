//! Where a tree does not follow its schema, in the words of the reference's merge library.

use std::fmt;

use super::element::PathElement;

/// One or more findings, each with the path to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemaErrors(Vec<(String, String)>);

impl SchemaErrors {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(vec![(String::new(), message.into())])
    }

    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// The same findings seen from one step further up.
    pub(super) fn below(mut self, element: &str) -> Self {
        self.0.iter_mut().for_each(|(path, _)| path.insert_str(0, element));
        self
    }

    pub(super) fn push(&mut self, path: &[PathElement], message: impl Into<String>) {
        self.0.push((path.iter().map(ToString::to_string).collect(), message.into()));
    }

    pub(super) fn into_result(self) -> Result<(), Self> {
        if self.0.is_empty() { Ok(()) } else { Err(self) }
    }
}

impl fmt::Display for SchemaErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let one = |(path, message): &(String, String)| match path.as_str() {
            "" => message.clone(),
            path => format!("{path}: {message}"),
        };
        match self.0.as_slice() {
            [error] => f.write_str(&one(error)),
            errors => {
                f.write_str("errors:")?;
                errors.iter().try_for_each(|error| write!(f, "\n  {}", one(error)))
            }
        }
    }
}

impl std::error::Error for SchemaErrors {}
