//! Errors of invalid messages, with the texts of Go's generated code.

use std::fmt;

use crate::TooManyElements;

/// An error of an invalid message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ProtoError {
    /// A record extends beyond the end.
    UnexpectedEof,
    /// A number has more than ten bytes.
    IntOverflow,
    NegativeLength,
    UnexpectedEndOfGroup,
    /// Messages are nested deeper than the caller's limit.
    TooDeep,
    /// The message is longer than the maximum.
    TooLarge,
    TooManyElements(TooManyElements),
    /// Any error with details, such as a field name.
    InvalidJson(Box<str>),
}

impl ProtoError {
    pub(super) fn malformed(text: impl Into<Box<str>>) -> Self {
        Self::InvalidJson(text.into())
    }

    #[cold]
    pub(super) fn wrong_wire_type(wire: u8, json_name: &str) -> Self {
        Self::malformed(format!("proto: wrong wireType = {wire} for field {}", go_field_name(json_name)))
    }

    #[cold]
    pub(super) fn end_group(message: &str) -> Self {
        Self::malformed(format!("proto: {}: wiretype end group for non-group", go_type_name(message)))
    }

    #[cold]
    pub(super) fn illegal_tag(message: &str, tag: i32, wire: u64) -> Self {
        Self::malformed(format!("proto: {}: illegal tag {tag} (wire type {wire})", go_type_name(message)))
    }
}

impl From<TooManyElements> for ProtoError {
    fn from(error: TooManyElements) -> Self {
        Self::TooManyElements(error)
    }
}

impl fmt::Display for ProtoError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::UnexpectedEof => "unexpected EOF",
            Self::IntOverflow => "proto: integer overflow",
            Self::NegativeLength => "proto: negative length found during unmarshaling",
            Self::UnexpectedEndOfGroup => "proto: unexpected end of group",
            Self::TooDeep => "proto: exceeded max depth",
            Self::TooLarge => "proto: message too large",
            Self::TooManyElements(error) => return error.fmt(f),
            Self::InvalidJson(text) => text,
        })
    }
}

impl std::error::Error for ProtoError {}

/// Returns `ObjectMeta` for `io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`.
fn go_type_name(definition: &str) -> &str {
    definition.rsplit('.').next().unwrap_or(definition)
}

/// Returns the name of the Go struct's field: the JSON name with a capital letter, or with a capitalized first word if
/// that is an initialism.
fn go_field_name(json: &str) -> String {
    const INITIALISMS: &[&str] = &[
        "api", "cidr", "csi", "dns", "fqdn", "fs", "id", "ip", "json", "nfs", "rbd", "tls", "ttl", "uid", "uri", "url",
    ];
    let word = json.find(|c: char| !c.is_ascii_lowercase()).unwrap_or(json.len());
    let (first, rest) = json.split_at(word);
    match INITIALISMS.contains(&first) {
        true => first.to_ascii_uppercase() + rest,
        false => json.chars().take(1).map(|c| c.to_ascii_uppercase()).chain(json.chars().skip(1)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn converts_names_to_go_names() {
        for (json, go) in [("name", "Name"), ("uid", "UID"), ("apiVersion", "APIVersion"), ("podIP", "PodIP"), ("", "")]
        {
            assert_eq!(go_field_name(json), go);
        }
        assert_eq!(go_type_name("io.k8s.api.core.v1.Pod"), "Pod");
    }
}
