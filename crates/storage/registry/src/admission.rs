//! Admission control, as the verbs call it before they write. The plugins are in the admission crates.

use std::time::Instant;

use binnacle_meta::{GroupVersionKind, GroupVersionResource, Status, Text};
use binnacle_request::{BoxFuture, User};
use binnacle_schema::Value;

use crate::notes::RequestNotes;
use crate::write_object::WriteObject;

mod options;

pub use options::{OperationOptions, WriteOptions};

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operation {
    Create,
    Update,
    Delete,
    Connect,
}

impl Operation {
    /// Returns the name in rules, reviews and metrics.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Create => "CREATE",
            Self::Update => "UPDATE",
            Self::Delete => "DELETE",
            Self::Connect => "CONNECT",
        }
    }
}

/// The attributes of an operation, without the objects.
#[derive(Clone, Debug)]
pub struct Attributes {
    pub operation: Operation,
    pub kind: GroupVersionKind,
    pub resource: GroupVersionResource,
    /// Empty for the resource itself.
    pub subresource: Text,
    pub namespace: Text,
    /// Empty if the name has not been generated yet, and for deletes of a collection.
    pub name: Text,
    pub user: User,
    pub dry_run: bool,
    pub options: OperationOptions,
    /// The deadline of the request, if it has one. Plugins do not wait for remote servers beyond it.
    pub deadline: Option<Instant>,
    /// True for a request of the server itself, which no client can make.
    pub by_server: bool,
}

/// The admission plugins of a server. Objects are in the storage version of their kind.
pub trait Admission: Send + Sync + 'static {
    /// Mutates the object. `old` is present on update and delete; on delete `object` is null.
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a mut WriteObject,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>>;

    /// Validates the object, and may reject the request.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a WriteObject,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>>;
}

/// Admission control without plugins.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn mutate<'a>(
        &'a self,
        _: &'a Attributes,
        _: &'a mut WriteObject,
        _: Option<&'a Value>,
        _: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(
        &'a self,
        _: &'a Attributes,
        _: &'a WriteObject,
        _: Option<&'a Value>,
        _: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }
}
