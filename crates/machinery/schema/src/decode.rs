//! Decoding by a schema: bytes or a free-form tree become, in one pass, the tree that Go's typed structs would encode.
//!
//! As in `sigs.k8s.io/json` there are three kinds of problems. Malformed documents and values that a type's own decoder
//! rejects (a quantity, a time) end decoding; the first member with the wrong JSON type is the error after the whole
//! document was read; unknown and duplicate members are findings, which the caller evaluates.

mod base64;
mod build;
mod cbor;
mod converted;
mod empty_fields;
mod from_json;
mod from_value;
mod go;
mod scalar;

pub use cbor::{cbor, cbor_type_meta};
pub use converted::convert_numbers;
pub use empty_fields::EmptyFields;
pub use from_json::json;
pub use from_value::{converted, value, value_within};
pub use scalar::show_numbers;

use crate::cbor::CborError;
use crate::findings::Findings;
use crate::json::JsonError;
use crate::yaml::YamlError;
use crate::{Limits, Message, TooManyElements, Value};

/// A decoded object and the findings of strict decoding.
#[derive(Clone, Debug)]
pub struct DecodedObject {
    pub value: Value,
    pub findings: Findings,
    /// The explicitly empty lists and maps of the document that the value omits. Validation can distinguish them from
    /// absent ones.
    pub empty_fields: EmptyFields,
}

/// An error of a document that cannot be decoded; its text is kube-apiserver's.
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
    /// Returns the error of a document with too many elements, from any of the decoders.
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
pub fn yaml(bytes: &[u8], message: &Message, limits: &Limits) -> Result<DecodedObject, DecodeError> {
    let tree = crate::yaml::parse_with(bytes, limits, crate::yaml::LargeIntegers::Digits);
    let (tree, found) = tree.map_err(DecodeError::Yaml)?;
    let mut decoded = value_within(tree, message, limits)?;
    if let Some(found) = found {
        let mut findings = Findings::default();
        findings.push(found);
        findings.extend(decoded.findings.iter().cloned());
        decoded.findings = findings;
    }
    Ok(decoded)
}

/// The problems found while decoding: the first of each kind.
#[derive(Debug, Default)]
pub(crate) struct DecodeProblems {
    /// An error that ends decoding in Go.
    fatal: Option<String>,
    /// An error that Go returns at the end of decoding.
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
