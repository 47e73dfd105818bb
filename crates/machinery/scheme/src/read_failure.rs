//! Errors of stored objects that cannot be read.

/// The error of a stored object that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ReadFailure {
    /// The object exceeds the server's limits for one object.
    TooLarge(String),
    Invalid(String),
}

impl From<String> for ReadFailure {
    fn from(why: String) -> Self {
        Self::Invalid(why)
    }
}

impl ReadFailure {
    pub fn into_text(self) -> String {
        match self {
            Self::TooLarge(why) | Self::Invalid(why) => why,
        }
    }
}
