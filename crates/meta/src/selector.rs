//! Label and field selectors: which objects a list or a watch is about.
//!
//! Grammar, messages and text forms are those of apimachinery's `labels` and `fields` packages.

mod fields;
mod label_lexer;
mod label_parser;
mod label_syntax;
mod labels;

pub use fields::{FieldSelector, FieldTerm};
pub use labels::{LabelSelector, Operator, Requirement};

/// The longest selector text that is looked at. A URL cannot carry more, so only a caller that is not HTTP meets it.
pub const MAX_SELECTOR_BYTES: usize = 64 * 1024;

/// The most terms, the values of sets counted, that a selector may have: each is kept for as long as a watch lasts.
pub(crate) const MAX_SELECTOR_TERMS: usize = 1024;

/// Why a selector was refused, in kube-apiserver's words.
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
