//! Custom resources: from a CustomResourceDefinition to the resource types for serving it.
//!
//! [`Definition`] reads a definition, [`names::judge`] decides on its names, and [`types()`] makes the types of its
//! versions, which a server installs like those of built-in kinds.
//!
//! Independent of HTTP, of the store and of when a definition is served.

mod columns;
mod definition;
pub mod names;
mod published;
mod schema;
mod schemas;
mod source;
mod strategy;
mod types;

pub use definition::{Definition, Names, Version};
pub use schemas::{Schemas, StructuralRules};
pub use source::{SchemaOrigin, SchemaReader, SchemaSource};
pub use types::{CustomKinds, types};
