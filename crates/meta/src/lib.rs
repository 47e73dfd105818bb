//! The vocabulary of the Kubernetes API: plain values that every other crate speaks in.
//!
//! Nothing here knows a socket, a clock or a particular kind of object.

mod field;
mod gvk;
mod selector;
mod status;

pub use field::{FieldError, FieldErrorType, FieldErrors, FieldPath, Shown, go_quote};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use selector::{FieldSelector, FieldTerm, LabelSelector, MAX_SELECTOR_BYTES, Operator, Requirement, SelectorError};
pub use status::{Status, StatusCause, StatusDetails, StatusReason};

/// A short immutable string: field names, map keys, names of objects. Up to 23 bytes live inline, longer ones are shared.
pub type Text = smol_str::SmolStr;
