//! Structural schemas of custom resources, parsed at run time from the `openAPIV3Schema` of a version of a
//! CustomResourceDefinition, and validation of objects, which are trees of [`binnacle_schema::Value`].
//!
//! An [`Interner`] creates schemas whose equal parts share memory. [`Structural::parse`] parses one;
//! [`resource::ResourceSchema`] holds it with everything derived from it, for servers:
//!
//! ```
//! use std::sync::Arc;
//! use binnacle_meta::FieldErrors;
//! use binnacle_schema::{Field, Message, MessageRef, Ty, value};
//! use binnacle_structural::{Interner, Structural};
//! use binnacle_structural::resource::{Part, CoercionOptions, ResourceSchema};
//!
//! let interner = Interner::new();
//! let schema = value!({"type": "object", "properties": {"spec": {"type": "object", "properties": {
//!     "size": {"type": "integer", "default": 1i64, "maximum": 5i64},
//! }}}});
//! let schema = Structural::parse(&schema, &interner).unwrap();
//! // A server takes the message of its own tables.
//! let metadata = Message::new("ObjectMeta", vec![Field::new("name", Ty::String)]);
//! let resource = ResourceSchema::new(Some(schema), MessageRef::Shared(Arc::new(metadata)));
//!
//! let mut object = value!({"metadata": {"name": "a"}, "spec": {"size": 6i64, "odd": true}});
//! let options = CoercionOptions { report_unknown: true, ..CoercionOptions::default() };
//! let unknown = resource.read(&mut object, options).unwrap();
//! assert_eq!(unknown, ["spec.odd"]);
//! resource.set_defaults(&mut object);
//! let verdict = resource.validate(&object, None, Part::Whole, FieldErrors::new());
//! assert_eq!(
//!     verdict.errors[0].to_string(),
//!     "spec.size: Invalid value: 6: spec.size in body should be less than or equal to 5"
//! );
//! ```
//!
//! The steps can also be used separately: [`pruning`], [`defaulting`], [`embedded`] resources, [`validation`],
//! [`list_types`], [`rules`]. [`defaults`] validates the defaults of definitions, [`message()`] returns the view for
//! patches.
//!
//! This crate is independent of HTTP, storage and kinds.

pub mod correlation;
pub mod defaulting;
pub mod defaults;
pub mod embedded;
mod error_value;
mod field_path;
mod footprint;
mod format;
mod interner;
pub mod list_types;
mod message;
mod metrics;
pub mod openapi;
mod parse;
mod path;
mod pattern;
pub mod pruning;
pub mod resource;
pub mod rules;
mod scale;
mod structural;
pub mod validation;
mod weight;

pub use correlation::{ComparisonCache, CorrelatedObject};
pub use field_path::FoundField;
pub use footprint::footprint;
pub use format::{Format, SupportedFormat};
pub use interner::Interner;
pub use message::{SchemaScope, message};
pub use metrics::register_metrics;
pub use parse::{UnsupportedKeyword, check};
pub use pattern::Pattern;
pub use scale::ScalePaths;
pub use structural::{
    AdditionalProperties, Alternatives, ListType, MapType, Numbers, Rule, SchemaType, Size, Structural, Values,
};
pub use weight::Weight;
