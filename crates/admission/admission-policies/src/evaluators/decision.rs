//! The results of policy evaluations.

use std::time::Duration;

use binnacle_admission_matching::expressions::MatchEvaluation;
use binnacle_meta::{StatusReason, Text};

/// The result of evaluating a policy for a request and parameter object.
#[derive(Debug, Default)]
pub(crate) struct PolicyEvaluation<'p> {
    /// `None` if the policy has no match conditions.
    pub(crate) conditions: Option<MatchEvaluation<'p>>,
    /// One per validation, or a single error for all of them.
    pub(crate) decisions: Vec<Decision>,
    pub(crate) annotations: Vec<Annotation<'p>>,
}

/// The result of a validation.
#[derive(Clone, Debug)]
pub(crate) struct Decision {
    pub(crate) denies: bool,
    pub(crate) evaluation: Evaluation,
    pub(crate) message: String,
    /// `None` for errors.
    pub(crate) reason: Option<StatusReason>,
    pub(crate) elapsed: Duration,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Evaluation {
    Admit,
    Deny,
    Error,
}

/// An audit annotation: its value, if there is one, or the error of its expression.
#[derive(Debug)]
pub(crate) struct Annotation<'p> {
    pub(crate) key: &'p Text,
    pub(crate) value: Result<Option<String>, Decision>,
}

impl Decision {
    pub(crate) fn admit() -> Self {
        Self {
            denies: false,
            evaluation: Evaluation::Admit,
            message: String::new(),
            reason: None,
            elapsed: Duration::ZERO,
        }
    }

    /// Returns the decision for an error; the failure policy decides whether it denies.
    pub(crate) fn error(message: String, denies: bool, elapsed: Duration) -> Self {
        Self { denies, evaluation: Evaluation::Error, message, reason: None, elapsed }
    }

    pub(crate) fn is_error(&self) -> bool {
        self.evaluation == Evaluation::Error
    }
}
