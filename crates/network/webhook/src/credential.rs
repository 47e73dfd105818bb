//! Credentials of calls.

use std::fmt;
use std::path::PathBuf;

/// The `Authorization` header of calls.
#[derive(Clone, Default)]
pub enum Credential {
    #[default]
    None,
    Bearer(String),
    /// A file with a token. The file is read again periodically.
    BearerFile(PathBuf),
    Basic {
        username: String,
        password: String,
    },
}

// Tokens must not appear in logs.
impl fmt::Debug for Credential {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::None => "None",
            Self::Bearer(_) => "Bearer",
            Self::BearerFile(_) => "BearerFile",
            Self::Basic { .. } => "Basic",
        })
    }
}
