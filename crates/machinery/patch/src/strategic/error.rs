//! Errors of strategic merge patches, with kube-apiserver's messages.

use binnacle_meta::Status;
use binnacle_schema::{Object, Value};

use super::format::{go_print, go_print_object, go_string, go_type};

/// An error, which displays kube-apiserver's text; [`StrategicError::to_status`] is the response.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{message}")]
pub struct StrategicError {
    kind: ErrorKind,
    message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ErrorKind {
    /// A malformed directive: 400.
    Format,
    /// 422, without the reason.
    Unprocessable,
    /// Any other error: 500.
    Other,
}

impl StrategicError {
    pub fn to_status(&self) -> Status {
        match self.kind {
            ErrorKind::Format => Status::bad_request(self.message.clone()),
            ErrorKind::Unprocessable => Status::unprocessable(),
            ErrorKind::Other => Status::unknown(500, &self.message),
        }
    }

    pub(super) fn other(message: impl Into<String>) -> Self {
        Self { kind: ErrorKind::Other, message: message.into() }
    }

    fn format(message: &str) -> Self {
        Self { kind: ErrorKind::Format, message: message.to_owned() }
    }

    pub(super) fn bad_deletion_list() -> Self {
        Self::format("invalid patch format of primitive list")
    }

    pub(super) fn bad_retain_keys() -> Self {
        Self::format("invalid patch format of retainKeys")
    }

    pub(super) fn bad_element_order() -> Self {
        Self::format("invalid patch format of setElementOrder list")
    }

    pub(super) fn list_of_lists() -> Self {
        Self { kind: ErrorKind::Unprocessable, message: "lists of lists are not supported".to_owned() }
    }

    pub(super) fn unknown_directive(directive: &Value, map: &Object) -> Self {
        let directive = go_string(directive);
        Self::other(format!("unknown patch type: {directive} in map: {}", go_print_object(map)))
    }

    pub(super) fn no_merge_key(map: &Object, key: &str) -> Self {
        Self::other(format!("map: {} does not contain declared merge key: {key}", go_print_object(map)))
    }

    pub(super) fn not_a_map(found: &Value) -> Self {
        Self::bad_type("map[string]interface {}", found)
    }

    pub(super) fn not_a_list(found: &Value) -> Self {
        Self::bad_type("[]interface {}", found)
    }

    fn bad_type(expected: &str, found: &Value) -> Self {
        Self::other(format!("expected a {expected}, but received a {}", go_type(found)))
    }

    pub(super) fn mixed_elements(original: &[Value], patch: &[Value]) -> Self {
        let print = |items: &[Value]| go_print(&Value::List(items.to_vec()));
        Self::other(format!("list element types are not identical: [{} {}]", print(original), print(patch)))
    }

    pub(super) fn order_mismatch(patch: &[Value], order: &[Value]) -> Self {
        let print = |items: &[Value]| go_print(&Value::List(items.to_vec()));
        Self::other(format!(
            "The order in patch list:\n{}\n doesn't match $setElementOrder list:\n{}\n",
            print(patch),
            print(order)
        ))
    }
}
