//! The `EncryptedObject` message: a value with the encrypted seed of its key.

use std::collections::BTreeMap;

use binnacle_meta::{FieldErrors, FieldPath, aggregate};
use binnacle_validation::domains::fully_qualified_domain_name;
use prost::Message;

use crate::transform_result::TransformError;

const MAX_ANNOTATIONS: usize = 32 * 1024;
const MAX_KEY_ID: usize = 1024;
const MAX_SOURCE: usize = 1024;

/// The source types: the data key itself, or a seed.
pub(crate) const SOURCE_KEY: i32 = 0;

pub(crate) const SOURCE_SEED: i32 = 1;

#[derive(Clone, PartialEq, Message)]
pub(crate) struct EncryptedObject {
    #[prost(bytes = "vec", tag = "1")]
    pub encrypted_data: Vec<u8>,
    #[prost(string, tag = "2")]
    pub key_id: String,
    #[prost(bytes = "vec", tag = "3")]
    pub source: Vec<u8>,
    #[prost(btree_map = "string, bytes", tag = "4")]
    pub annotations: BTreeMap<String, Vec<u8>>,
    #[prost(int32, tag = "5")]
    pub source_type: i32,
}

impl EncryptedObject {
    /// Validates an object as kube-apiserver does on every read and write.
    pub(crate) fn validate(&self) -> Result<(), TransformError> {
        let invalid = |why: String| Err(TransformError::new(why));
        if ![SOURCE_KEY, SOURCE_SEED].contains(&self.source_type) {
            return invalid(format!("unknown encryptedDEKSourceType: {}", self.source_type));
        }
        if self.encrypted_data.is_empty() {
            return invalid("encrypted data is empty".to_owned());
        }
        self.validate_source()
    }

    /// Validates everything except the data, like [`Self::validate`].
    pub(crate) fn validate_source(&self) -> Result<(), TransformError> {
        let invalid = |why: String| Err(TransformError::new(why));
        match self.source.len() {
            0 => return invalid("failed to validate encrypted DEK source: encrypted DEK source is empty".to_owned()),
            size if size > MAX_SOURCE => {
                return invalid(format!(
                    "failed to validate encrypted DEK source: encrypted DEK source is {size} bytes, which exceeds the \
                     max size of {MAX_SOURCE}"
                ));
            }
            _ => {}
        }
        if let Err(why) = validate_key_id(&self.key_id) {
            return invalid(format!("failed to validate key id: {why}"));
        }
        let mut why = Vec::new();
        for name in self.annotations.keys() {
            let mut errors = FieldErrors::default();
            fully_qualified_domain_name(&FieldPath::new("annotations"), name, &mut errors);
            let errors: Vec<_> = errors.iter().map(ToString::to_string).collect();
            if !errors.is_empty() {
                why.push(aggregate(&errors));
            }
        }
        let size: usize = self.annotations.iter().map(|(name, value)| name.len() + value.len()).sum();
        if size > MAX_ANNOTATIONS {
            why.push(format!("total size of annotations is {size}, which exceeds the max size of {MAX_ANNOTATIONS}"));
        }
        if !why.is_empty() {
            return invalid(format!("failed to validate annotations: {}", aggregate(&why)));
        }
        Ok(())
    }

    /// Returns the source under which the data key is cached.
    pub(super) fn source_of_key(&self) -> Source {
        Source {
            source_type: self.source_type,
            source: self.source.clone(),
            key_id: self.key_id.clone(),
            annotations: self.annotations.clone(),
        }
    }
}

pub(crate) fn validate_key_id(key_id: &str) -> Result<(), String> {
    match key_id.len() {
        0 => Err("keyID is empty".to_owned()),
        size if size > MAX_KEY_ID => Err(format!("keyID is {size} bytes, which exceeds the max size of {MAX_KEY_ID}")),
        _ => Ok(()),
    }
}

#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Source {
    source_type: i32,
    source: Vec<u8>,
    key_id: String,
    annotations: BTreeMap<String, Vec<u8>>,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Validates a value whose fields are valid except for the changed ones.
    fn check(change: impl FnOnce(&mut EncryptedObject), want: &str) {
        let mut object = EncryptedObject {
            encrypted_data: b"data".to_vec(),
            key_id: "1".to_owned(),
            source: b"source".to_vec(),
            annotations: BTreeMap::new(),
            source_type: SOURCE_SEED,
        };
        change(&mut object);
        assert_eq!(object.validate().map_err(|error| error.to_string()).err().unwrap_or_default(), want);
    }

    fn annotate(name: &str, size: usize) -> impl FnOnce(&mut EncryptedObject) {
        let annotations = [(name.to_owned(), vec![0; size])].into();
        move |object| object.annotations = annotations
    }

    #[test]
    fn limits_sizes_and_types_of_stored_values() {
        let source = "failed to validate encrypted DEK source: encrypted DEK source";
        check(|_| {}, "");
        check(|object| object.source_type = SOURCE_KEY, "");
        check(|object| object.source_type = 2, "unknown encryptedDEKSourceType: 2");
        check(|object| object.encrypted_data.clear(), "encrypted data is empty");
        check(|object| object.source.clear(), &format!("{source} is empty"));
        check(|object| object.source = vec![0; 1024], "");
        let too_large = format!("{source} is 1025 bytes, which exceeds the max size of 1024");
        check(|object| object.source = vec![0; 1025], &too_large);
        check(|object| object.key_id.clear(), "failed to validate key id: keyID is empty");
        check(|object| object.key_id = "k".repeat(1024), "");
        let too_long = "failed to validate key id: keyID is 1025 bytes, which exceeds the max size of 1024";
        check(|object| object.key_id = "k".repeat(1025), too_long);
    }

    #[test]
    fn validates_names_and_total_size_of_annotations() {
        let invalid = "failed to validate annotations: ";
        check(annotate("a.example.com", 32 * 1024 - 13), "");
        let total = format!("{invalid}total size of annotations is 32769, which exceeds the max size of 32768");
        check(annotate("a.example.com", 32 * 1024 - 12), &total);
        let name =
            "annotations: Invalid value: \"example\": should be a domain with at least two segments separated by dots";
        check(annotate("example", 0), &format!("{invalid}{name}"));
    }
}
