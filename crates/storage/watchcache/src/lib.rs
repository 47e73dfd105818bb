//! The watch cache: for each resource, an immutable snapshot that reflects the store, and watchers grouped by
//! selection.
//!
//! It is independent of HTTP and of kinds: an [`Indexer`] reads the attributes of objects, and the server stores their
//! encodings in the slots of [`Entry`] and [`WatchItem`].
//!
//! One reflector task per cache watches the store. It changes the `state`, passes the events to the `hub`, and then
//! publishes its progress. Readers take [`Snapshot`]s and watchers empty their own mailboxes, so none of them blocks
//! it.

mod attrs;
mod backlog;
mod bucket;
mod cache;
mod check_intervals;
mod compression;
mod compression_queue;
mod consistency;
mod distribution;
mod encodings;
mod entry;
mod error;
mod hub;
mod index;
mod mailbox;
mod reflector;
mod reflector_failure;
mod rewind;
mod selection;
mod shared;
mod snapshot;
mod state;
mod stats;
mod store_history;
mod stored_objects;
mod terms;
mod watcher;
mod window;
mod window_index;

pub use attrs::{Attrs, IndexError, Indexer, Labels};
pub use backlog::Backlog;
pub use cache::{BLOCK_TIMEOUT, Cache};
pub use check_intervals::CheckIntervals;
pub use compression::ValueRef;
pub use distribution::Distribution;
pub use encodings::{EncodingBudget, EncodingId};
pub use entry::{Change, Entry, Event, WatchItem};
pub use error::{CacheError, ReflectorFailure, WatchError};
pub use selection::{Interest, Selection, UID};
pub use snapshot::{Cursor, Snapshot};
pub use stats::{CacheStats, CheckStats, ShardStats};
pub use watcher::{Start, Watcher};
pub use window::WindowLimits;
