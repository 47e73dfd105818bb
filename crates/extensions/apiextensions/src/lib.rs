//! Custom resources: from a CustomResourceDefinition to the resources that the server serves.
//!
//! [`Definition`] reads a definition, [`names::evaluate`] decides on its names, and [`types()`] builds the types of its
//! versions, which are installed like those of built-in kinds. The controller ([`definition_controller`]) does so for
//! every definition: it writes the status, updates the catalog, and removes the objects of a deleted definition.
//! [`ConversionMetrics`] counts the calls of conversion webhooks.
//!
//! Independent of HTTP.

/// The allocator of the program. A test measures the memory in use, and the system's allocator does not return freed
/// memory.
#[cfg(test)]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

mod columns;
mod controller;
mod definition;
mod definition_types;
pub mod names;
mod published;
mod registrar;
mod schema;
mod schemas;
mod source;
mod strategy;
mod types;

pub use controller::{ConversionMetrics, CustomResources, DefinitionRules, definition_controller};
pub use definition::{Definition, Names, Version};
pub use definition_types::DefinitionTypes;
pub use registrar::VersionRegistrar;
pub use schemas::{Schemas, StructuralRules};
pub use source::{SchemaOrigin, SchemaReader, SchemaSource};
pub use types::{CustomKinds, types};
