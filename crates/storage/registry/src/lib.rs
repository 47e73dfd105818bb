//! The generic verbs of a resource: create, get, list, watch, update, delete. They take the [`Context`] of a request,
//! and return stored objects, entries of the watch cache, or a Status.
//!
//! The crate is independent of HTTP and of particular kinds.

pub mod admission;
mod cache_waits;
mod catalog;
mod context;
mod continue_token;
mod converting_store;
mod counts;
mod create;
mod create_gate;
mod delete;
mod delete_options;
mod encodings;
mod get;
pub mod hooks;
mod index;
mod install;
mod lease_manager;
mod list;
mod metadata_accessor;
mod metrics;
mod names;
mod notes;
pub mod object;
mod pending_conversions;
mod request_store;
mod resource;
mod rewrite;
mod size;
mod storage;
mod stored;
mod time;
mod unreadable;
mod update;
mod watch;
mod write_failure;
mod write_object;

pub use binnacle_scheme::MediaType;
pub use binnacle_watchcache::Distribution;
pub use catalog::{Catalog, Snapshot};
pub use context::Context;
pub use continue_token::ContinueToken;
pub use counts::{CachedLists, Counts, StoredLists};
pub use create::{NAMESPACE_MISMATCH, ensure_namespace};
pub use create_gate::CreateGate;
pub use delete::DeleteOutcome;
pub use delete_options::DeleteOptions;
pub use index::ResourceIndexer;
pub use install::Installer;
pub use lease_manager::LeaseManager;
pub use list::{ListOptions, Match, Page};
pub use metrics::register_metrics;
pub use names::generate as generate_name;
pub use notes::{RequestNotes, Warnings};
pub use request_store::RequestStore;
pub use resource::{MANAGER, ROOT, Resource, ResourceStore};
pub use rewrite::{Preconditions, Rewrite};
pub use size::MAX_STORED;
pub use storage::{StorageOptions, UncachedResources};
pub use stored::{StoredObject, decode_stored, store_failure};
pub use time::{from_seconds, rfc3339};
pub use update::{Change, UpdateOptions, UpdateOutcome};
pub use watch::WatchFrom;
pub use write_object::{RequestObject, WriteObject};
