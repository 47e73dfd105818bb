//! Violations of the schema, with the messages of structured-merge-diff.

use std::fmt;

use binnacle_meta::{FieldErrors, bounded_text};

use super::element::PathElement;

/// The maximum number of displayed errors, as in validation. One more is stored, to indicate that there are more.
const SHOWN: usize = FieldErrors::SHOWN;
/// The maximum length of an error's path and message, in bytes.
const MAX_TEXT: usize = 1 << 10;

/// One or more errors with their paths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct SchemaErrors(Vec<(String, String)>);

impl SchemaErrors {
    pub(super) fn new(message: impl Into<String>) -> Self {
        Self(vec![(String::new(), message.into())])
    }

    pub(super) fn none() -> Self {
        Self(Vec::new())
    }

    /// Prefixes the paths with an element.
    pub(super) fn below(mut self, element: &str) -> Self {
        let element = bounded_text(element, MAX_TEXT);
        for (path, _) in self.0.iter_mut().filter(|(path, _)| path.len() <= 4 * MAX_TEXT) {
            path.insert_str(0, &element);
        }
        self
    }

    pub(super) fn push(&mut self, path: &[PathElement], message: impl Into<String>) {
        if self.0.len() > SHOWN {
            return;
        }
        let mut text = String::new();
        for element in path {
            if text.len() > 4 * MAX_TEXT {
                break;
            }
            text.push_str(&bounded_text(&element.to_string(), MAX_TEXT));
        }
        self.0.push((text, bounded_text(&message.into(), MAX_TEXT).into_owned()));
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
                errors.iter().take(SHOWN).try_for_each(|error| write!(f, "\n  {}", one(error)))?;
                match errors.len() > SHOWN {
                    true => write!(f, "\n  too many errors: only the first {SHOWN} are shown"),
                    false => Ok(()),
                }
            }
        }
    }
}

impl std::error::Error for SchemaErrors {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_error_texts() {
        let mut errors = SchemaErrors::none();
        let long = PathElement::Field("x".repeat(1 << 20).into());
        (0..100_000).for_each(|_| errors.push(std::slice::from_ref(&long), "y".repeat(2000)));
        let text = errors.below(&"z".repeat(1 << 20)).to_string();
        assert!(text.len() < SHOWN * 4 * MAX_TEXT, "{}", text.len());
        assert!(text.ends_with("too many errors: only the first 256 are shown"));
    }
}
