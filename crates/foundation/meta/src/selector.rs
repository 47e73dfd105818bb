//! Label and field selectors, which limit a list or watch to some of the objects.
//!
//! Grammar, messages and notation are those of apimachinery's `labels` and `fields` packages.

mod fields;
mod label_lexer;
mod label_parser;
mod label_syntax;
mod labels;
mod requirement;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::LabelSelector;
pub use requirement::{Operator, Requirement};

/// The maximum length of a selector. URLs are shorter, so only callers that do not use HTTP can exceed it.
pub const MAX_SELECTOR_BYTES: usize = 64 * 1024;

/// The maximum number of terms in a selector, including the values of sets. A watch keeps them as long as it lasts.
pub(crate) const MAX_SELECTOR_TERMS: usize = 1024;

/// An invalid selector, with kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct SelectorError(String);

impl SelectorError {
    pub fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    fn too_long() -> Self {
        Self(format!("selector is too long: may not be more than {MAX_SELECTOR_BYTES} bytes"))
    }

    fn check_terms(terms: usize) -> Result<(), Self> {
        if terms <= MAX_SELECTOR_TERMS {
            return Ok(());
        }
        let message = format!("selector is too long: may not have more than {MAX_SELECTOR_TERMS} terms and values");
        Err(Self(message))
    }
}
