//! The results of transformers: values, and errors.

use bytes::Bytes;

/// The reason why a value cannot be read or written, with kube-apiserver's message. It contains no keys or values.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{why}")]
pub(crate) struct TransformError {
    why: String,
    /// The code of the failed call to a KMS plugin, if that is the reason.
    code: Option<binnacle_egress::plugin::Code>,
}

impl TransformError {
    pub(crate) fn new(why: impl Into<String>) -> Self {
        Self { why: why.into(), code: None }
    }

    pub(crate) fn from_call(why: impl Into<String>, code: binnacle_egress::plugin::Code) -> Self {
        Self { why: why.into(), code: Some(code) }
    }

    pub(crate) fn code(&self) -> Option<binnacle_egress::plugin::Code> {
        self.code
    }
}

/// A value that was read.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct PlainValue {
    pub value: Bytes,
    /// True if it would be written differently now, so that an update should write it even if it is unchanged.
    pub stale: bool,
}
