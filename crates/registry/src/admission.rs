//! The seam to admission control: what the verbs ask before they write. The plugins live elsewhere.

use std::time::Instant;

use binnacle_meta::{GroupVersionKind, GroupVersionResource, Status, Text};
use binnacle_request::{BoxFuture, User};
use binnacle_schema::Value;

use crate::notes::RequestNotes;

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
    /// Its name in rules, reviews and metrics.
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
    /// Empty while a name is still to be generated, and for deletes of a collection.
    pub name: Text,
    pub user: User,
    pub dry_run: bool,
    pub options: OperationOptions,
    /// The moment at which the request is answered at the latest, if it has a deadline: plugins that wait for others do so
    /// no longer.
    pub deadline: Option<Instant>,
}

/// All admission plugins as one. Objects are in the storage version of their kind.
pub trait Admission: Send + Sync + 'static {
    /// May change the object. `old` is there on update and delete; on delete `object` is null.
    fn mutate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a mut Value,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>>;

    /// May refuse.
    fn validate<'a>(
        &'a self,
        attributes: &'a Attributes,
        object: &'a Value,
        old: Option<&'a Value>,
        notes: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>>;
}

/// No admission at all.
#[derive(Clone, Copy, Debug, Default)]
pub struct AdmitAll;

impl Admission for AdmitAll {
    fn mutate<'a>(
        &'a self,
        _: &'a Attributes,
        _: &'a mut Value,
        _: Option<&'a Value>,
        _: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    fn validate<'a>(
        &'a self,
        _: &'a Attributes,
        _: &'a Value,
        _: Option<&'a Value>,
        _: &'a RequestNotes,
    ) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }
}
