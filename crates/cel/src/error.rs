//! Errors of evaluations.

use std::borrow::Cow;
use std::fmt;

/// The reason why an expression has no value. The operators `&&` and `||` absorb errors if the other side decides; an
/// exceeded cost limit is never absorbed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Error(Box<ErrorKind>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum ErrorKind {
    Message(Cow<'static, str>),
    CostLimit,
}

impl Error {
    pub fn new(message: impl Into<Cow<'static, str>>) -> Self {
        Self(Box::new(ErrorKind::Message(message.into())))
    }

    pub(crate) fn cost_limit() -> Self {
        Self(Box::new(ErrorKind::CostLimit))
    }

    pub(crate) fn no_such_overload() -> Self {
        Self::new("no such overload")
    }

    /// Returns true for values that an operator is not defined for.
    pub(crate) fn is_no_such_overload(&self) -> bool {
        *self == Self::no_such_overload()
    }

    /// Returns true if the evaluation exceeded the cost limit.
    pub fn is_cost_limit(&self) -> bool {
        *self.0 == ErrorKind::CostLimit
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match &*self.0 {
            ErrorKind::Message(message) => message,
            ErrorKind::CostLimit => "operation cancelled: actual cost limit exceeded",
        })
    }
}

impl std::error::Error for Error {}
