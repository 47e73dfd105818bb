//! The errors of commands.

use std::fmt::Display;

use binnacle_store::StoreError;
use binnacle_store_embedded::OpenError;
use binnacle_store_etcd::ConnectError;

/// An error for the operator, in one sentence.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct Error(String);

const ON_A_RUNNING_SERVER: &str =
    "stop it first; 'binnacle doctor', 'binnacle sizes' and 'binnacle backup' also work while the server runs";

// === impl Error ===

impl Error {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    /// Returns the error of an action that failed.
    pub(crate) fn context(action: &str, error: impl Display) -> Self {
        Self(format!("{action}: {error}"))
    }
}

impl From<StoreError> for Error {
    fn from(error: StoreError) -> Self {
        Self(error.to_string())
    }
}

impl From<OpenError> for Error {
    fn from(error: OpenError) -> Self {
        match &error {
            OpenError::Locked { .. } => Self(format!("{error}; {ON_A_RUNNING_SERVER}")),
            _ => Self(error.to_string()),
        }
    }
}

impl From<ConnectError> for Error {
    fn from(error: ConnectError) -> Self {
        Self(error.to_string())
    }
}
