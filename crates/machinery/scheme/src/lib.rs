//! Resource types: the description, rules, conversion and table of each resource. Providers (built-in kinds, custom
//! resources) create these values; the code that serves resources reads them and does not depend on providers.
//!
//! Independent of HTTP, of the store and of particular kinds.
//!
//! # The types of a resource
//!
//! Each type holds those before it, and adds what its users need. The last ones have a store, and are in the registry.
//!
//! | type | one for | made from | adds |
//! | --- | --- | --- | --- |
//! | [`Storage`] | resource | | key prefix; group, version and kind of stored objects |
//! | [`ResourceDescription`] | resource and version | [`Storage`] | names, verbs, subresources, lifecycle |
//! | [`GroupDescription`], [`VersionDescription`] | release | [`ResourceDescription`] | all groups and versions, served or not |
//! | [`StoredType`] | resource | [`Storage`] | schema, [`Strategy`], [`Columns`] and [`CustomSchema`] of stored objects |
//! | [`StoredKind`] | call of a codec | [`StoredType`] | nothing: it borrows what a [`Codec`] needs |
//! | [`ResourceType`] | resource and version | [`ResourceDescription`], [`StoredType`] | schema of the version, [`Conversion`] to the stored one |
//! | [`ServedResources`], [`ServedGroup`], [`ServedVersion`], [`Resources`] | change of what is served | [`ResourceDescription`], [`RemoteResource`] | order of preference |
//! | [`RegisteredKind`] | kind of the program | | the schema of a kind that need not be a resource |
//! | `ResourceStore` (registry) | resource and server | [`StoredType`] | store, cache, hooks, admission |
//! | `Resource` (registry) | resource, version and server | [`ResourceType`], `ResourceStore` | the verbs; encodings of the version |
//! | `Snapshot` (registry) | change of what is served | `Resource`, [`ServedResources`] | all resources by name |

mod codec;
mod columns;
mod conversion;
mod custom_schema;
mod description;
pub mod fields;
mod kinds;
mod lifecycle;
mod published;
mod read_failure;
mod resource_type;
mod served;
mod shared;
mod strategy;
mod verbs;

pub use codec::{
    Codec, Envelope, Growth, JsonText, MAX_STORED_DEPTH, MediaType, StoredKind, text_length, too_large,
    too_large_reason, within_object_limits,
};
pub use columns::Columns;
pub use conversion::Conversion;
pub use custom_schema::{
    ConversionFuture, Converter, CustomConversion, CustomDefaults, CustomPruning, CustomSchema, CustomSource,
    CustomVersion, PruneResult,
};
pub use description::{
    Deletion, GarbageCollection, GroupDescription, ResourceDescription, Storage, SubresourceDescription,
    SubresourceKind, SubresourceRole, VersionDescription,
};
pub use fields::{FieldLabels, FieldValue, SelectableField, UnknownLabel};
pub use kinds::{Kinds, NoKinds, RegisteredKind};
pub use lifecycle::{Lifecycle, Release};
pub use published::{OpenApiDefinitions, OpenApiVersion};
pub use read_failure::ReadFailure;
pub use resource_type::{ResourceType, ScaleFields, StoredType, WriteVersion};
pub use served::{
    CUSTOM_RESOURCE_PRIORITIES, RemoteResource, RemoteSubresource, Resources, ServedGroup, ServedResources,
    ServedVersion, scope,
};
pub use shared::Shared;
pub use strategy::{
    DefaultStrategy, DeleteGrace, MetadataCheck, MetadataChecks, Strategy, StrategyContext, spec_generation,
};
pub use verbs::{Verb, VerbOrder, Verbs};
