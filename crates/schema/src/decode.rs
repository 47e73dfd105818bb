//! Decoding against a schema: bytes or a free-form tree become the tree that the Go server's typed structs would
//! encode, in one pass.
//!
//! As in `sigs.k8s.io/json` there are three kinds of trouble. Malformed documents and values that a type refuses by
//! itself (a quantity, a time) end decoding; of all members with the wrong JSON type the first one is the error once
//! the document has been read; unknown and repeated members are findings that the caller judges.

mod base64;
mod build;
mod cbor;
mod converted;
mod empties;
mod from_json;
mod from_value;
mod go;
mod path;
mod scalar;

pub use cbor::{cbor, cbor_type_meta};
pub use converted::convert_numbers;
pub use empties::Empties;
pub use from_json::json;
pub use from_value::{value, value_within};
pub(crate) use path::Path;

use crate::cbor::CborError;
use crate::findings::Findings;
use crate::json::JsonError;
use crate::yaml::YamlError;
use crate::{Limits, Message, TooManyElements, Value};

pub(crate) use build::{absent_value, is_zero, zero_value};

/// A decoded object and what strict decoding would refuse about it.
#[derive(Clone, Debug)]
pub struct Decoded {
    pub value: Value,
    pub findings: Findings,
    /// What of the document is not in the value although the rules of a kind can tell.
    pub empties: Empties,
}

/// Why nothing could be decoded; displays itself in kube-apiserver's words.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DecodeError {
    #[error(transparent)]
    Json(JsonError),
    #[error(transparent)]
    Yaml(YamlError),
    #[error(transparent)]
    Cbor(CborError),
    /// Well formed, with a value that its field cannot hold.
    #[error("{0}")]
    Value(String),
    #[error(transparent)]
    TooManyElements(#[from] TooManyElements),
}

impl DecodeError {
    /// The refusal of a document for the number of its elements, whatever decoder found it.
    pub fn too_many_elements(&self) -> Option<TooManyElements> {
        match self {
            Self::TooManyElements(error)
            | Self::Json(JsonError::TooManyElements(error))
            | Self::Yaml(YamlError::TooManyElements(error))
            | Self::Cbor(CborError::TooManyElements(error)) => Some(*error),
            _ => None,
        }
    }
}

/// Decodes a YAML document: [`crate::yaml::parse`], then [`value`].
pub fn yaml(bytes: &[u8], message: &Message, limits: &Limits) -> Result<Decoded, DecodeError> {
    let (tree, found) = crate::yaml::parse(bytes, limits).map_err(DecodeError::Yaml)?;
    let mut decoded = value_within(tree, message, limits)?;
    if let Some(found) = found {
        let mut findings = Findings::default();
        findings.push(found);
        findings.extend(decoded.findings.iter().cloned());
        decoded.findings = findings;
    }
    Ok(decoded)
}

/// The trouble met on the way: the first of each kind.
#[derive(Debug, Default)]
pub(crate) struct DecodeProblems {
    /// Ends decoding in Go.
    fatal: Option<String>,
    /// Is kept in Go until the end.
    saved: Option<String>,
}

impl DecodeProblems {
    fn fatal(&mut self, text: impl FnOnce() -> String) {
        self.fatal.get_or_insert_with(text);
    }

    fn saved(&mut self, text: impl FnOnce() -> String) {
        self.saved.get_or_insert_with(text);
    }

    fn into_result(self) -> Result<(), DecodeError> {
        self.fatal.or(self.saved).map_or(Ok(()), |text| Err(DecodeError::Value(text)))
    }
}
