//! The error of a cluster that was not created or deleted.

use std::fmt;
use std::io;
use std::path::PathBuf;

/// The reason why a cluster was not created or deleted.
#[derive(Debug)]
#[non_exhaustive]
pub enum ClusterError {
    /// A cluster with this name exists.
    Exists {
        /// The name.
        name: String,
    },
    /// The server does not have the flag `--logical-clusters`.
    NotHosted,
    /// The server refused the cluster, or cannot start it.
    Refused {
        /// The name, if it is not generated.
        name: Option<String>,
        /// The server's message.
        message: String,
    },
    /// The server does not answer.
    Connection(Box<dyn std::error::Error + Send + Sync>),
    /// A file with a kubeconfig could not be written.
    File {
        /// The file.
        path: PathBuf,
        /// The reason.
        error: io::Error,
    },
}

impl fmt::Display for ClusterError {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exists { name } => write!(to, "a logical cluster with the name {name} exists already"),
            Self::NotHosted => {
                to.write_str("the server hosts no logical clusters: start it with the flag --logical-clusters")
            }
            Self::Refused { name: Some(name), message } => write!(to, "the logical cluster {name}: {message}"),
            Self::Refused { name: None, message } => write!(to, "a logical cluster: {message}"),
            Self::Connection(error) => write!(to, "the server does not answer: {error}"),
            Self::File { path, error } => write!(to, "{}: {error}", path.display()),
        }
    }
}

impl std::error::Error for ClusterError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Connection(error) => Some(&**error),
            Self::File { error, .. } => Some(error),
            Self::Exists { .. } | Self::NotHosted | Self::Refused { .. } => None,
        }
    }
}
