//! Errors of requests.

use crate::target::DialError;

/// Errors of sending a request.
#[derive(Debug, thiserror::Error)]
pub enum SendError {
    #[error(transparent)]
    Dial(#[from] DialError),
    /// The server closed the connection or does not speak HTTP.
    #[error("{0}")]
    Broken(String),
}
