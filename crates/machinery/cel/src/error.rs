//! Errors of evaluations.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use binnacle_work::BudgetError;

/// The reason why an expression has no value. The operators `&&` and `||` absorb errors if the other side decides; an
/// exceeded cost limit is never absorbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Arc<ErrorKind>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ErrorKind {
    Message(Cow<'static, str>),
    CostLimit,
    Exceeded(BudgetError),
}

impl Error {
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(Arc::new(ErrorKind::Message(message.into())))
    }

    pub(crate) fn cost_limit() -> Self {
        Self(Arc::new(ErrorKind::CostLimit))
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// Returns true if no overload of a function or operator accepts the arguments.
    pub(crate) fn is_no_such_overload(&self) -> bool {
        *self == Self::no_such_overload()
    }

    /// Returns true if the evaluation was aborted: it exceeded the cost limit or the work budget.
    pub fn is_cost_limit(&self) -> bool {
        !matches!(*self.0, ErrorKind::Message(_))
    }
}

impl From<BudgetError> for Error {
    fn from(exceeded: BudgetError) -> Self {
        Self(Arc::new(ErrorKind::Exceeded(exceeded)))
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.0 {
            ErrorKind::Message(message) => message,
            ErrorKind::CostLimit => "operation cancelled: actual cost limit exceeded",
            ErrorKind::Exceeded(exceeded) => return exceeded.fmt(f),
        })
    }
}

impl std::error::Error for Error {}
