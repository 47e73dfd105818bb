//! The basic types of the Kubernetes API: plain values that all other crates use.
//!
//! Has nothing to do with sockets, clocks or particular kinds of objects.

mod address;
mod aggregate;
mod base64;
mod duration;
mod field;
mod gvk;
mod int_error;
mod int_or_string;
mod io_error;
mod media;
mod quantity;
mod quote;
mod selector;
mod semantic_version;
mod shard;
mod status;
mod time;
mod version;

pub use address::effective_address;
pub use aggregate::aggregate;
pub use base64::Base64;
pub use duration::{GoDuration, ParseDurationError, human_duration, short_human_duration};
pub use field::{BoundedIter, ErrorValue, FieldError, FieldErrorType, FieldErrors, FieldPath, Location, bounded_text};
pub use gvk::{GroupKind, GroupResource, GroupVersion, GroupVersionKind, GroupVersionResource};
pub use int_error::int_error;
pub use int_or_string::{IntOrString, ScaleError};
pub use io_error::{io_error, read_error};
pub use media::{AcceptClause, Encoding, Encodings, accept_clauses, accept_names, content_type_names};
pub use quantity::{Format, ParseQuantityError, Quantity};
pub use quote::go_quote;
pub use selector::{FieldSelector, FieldTerm, LabelSelector, MAX_SELECTOR_BYTES, Operator, Requirement, SelectorError};
pub use semantic_version::SemanticVersion;
pub use shard::{ShardKey, ShardRange, ShardSelector};
pub use status::{ForeignStatus, Status, StatusCause, StatusDetails, StatusReason};
pub use time::{MicroTime, ParseTimeError, Time};
pub use version::compare_kube_versions;

/// A short immutable string for field names, map keys and object names. Up to 23 bytes are inline, longer ones shared.
pub type Text = smol_str::SmolStr;
