//! Typed handles of the fields of all built-in kinds, generated from the field tables.
//!
//! An object is a tree of [`Value`]s. A rule reads it through a [`FieldRef`], which yields a field's value and its path
//! for errors in one call, and writes it through a [`FieldMut`]. Each message of the API is a type with a [`Field`] for
//! each of its fields, so that a misspelt field, a field of another message, and a value of the wrong type do not
//! compile:
//!
//! ```
//! use binnacle_fields::FieldRef;
//! use binnacle_fields::apps::v1::{Deployment, DeploymentSpec};
//! use binnacle_schema::value;
//!
//! let object = value!({"spec": {"replicas": (-1i64)}});
//! let deployment = FieldRef::<Deployment>::root(&object);
//! let spec = deployment.at(Deployment::SPEC);
//! let replicas = spec.at(DeploymentSpec::REPLICAS);
//! assert_eq!(replicas.int(), Some(-1));
//! let error = replicas.invalid("must be greater than or equal to 0");
//! assert_eq!(error.to_string(), "spec.replicas: Invalid value: -1: must be greater than or equal to 0");
//! ```
//!
//! A field of another message does not compile:
//!
//! ```compile_fail
//! # use binnacle_fields::FieldRef;
//! # use binnacle_fields::apps::v1::{Deployment, StatefulSetSpec};
//! # let object = binnacle_schema::Value::Null;
//! FieldRef::<Deployment>::root(&object).at(StatefulSetSpec::REPLICAS);
//! ```
//!
//! [`messages!`](crate::messages) declares handles of messages that are in no table, such as configuration files.
//!
//! This crate is independent of the rules of kinds.

mod messages;
mod path;
mod read;
mod route;
pub mod types;
mod write;

use std::marker::PhantomData;

use binnacle_schema::Value;

use meta::v1::{ObjectMeta, PartialObjectMetadata};

pub use path::Path;
pub use read::{FieldRef, of_named_type};
pub use route::{Route, Step};
pub use types::Message;
pub use write::FieldMut;

/// A field of the message `M` with the type `T`.
pub struct Field<M, T> {
    name: &'static str,
    marker: PhantomData<fn() -> (M, T)>,
}

impl<M, T> Field<M, T> {
    /// Use [`messages!`](crate::messages) for fields that are in no table.
    #[doc(hidden)]
    pub const fn new(name: &'static str) -> Self {
        Self { name, marker: PhantomData }
    }

    /// Returns the JSON name.
    pub const fn name(&self) -> &'static str {
        self.name
    }
}

impl<M, T> Clone for Field<M, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<M, T> Copy for Field<M, T> {}

/// The value of absent fields.
static NULL: Value = Value::Null;

/// Returns the metadata of an object of any kind, without its path.
pub fn metadata(object: &Value) -> FieldRef<'static, '_, ObjectMeta> {
    FieldRef::<PartialObjectMetadata>::root(object).at(PartialObjectMetadata::METADATA).detached()
}

include!(concat!(env!("OUT_DIR"), "/handles.rs"));
