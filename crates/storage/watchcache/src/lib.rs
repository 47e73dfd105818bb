//! The watch cache: for each resource an immutable snapshot that follows the store, and watchers grouped by selection.
//!
//! It is independent of HTTP and of kinds: an [`Indexer`] reads the attributes of objects, and the server puts their
//! wire forms into the slots of [`Entry`] and [`WatchItem`].
//!
//! One task per cache follows the store. It changes the `state`, passes the events to the `hub`, and then publishes its
//! progress; readers take [`Snapshot`]s and watchers empty their own mailboxes, so that none of them blocks it.

mod attrs;
mod backlog;
mod cache;
mod consistency;
mod distribution;
mod entry;
mod error;
mod follow_failure;
mod follower;
mod forms;
mod history;
mod hub;
mod index;
mod mailbox;
mod packing;
mod rewind;
mod selection;
mod shared;
mod snapshot;
mod state;
mod stats;
mod terms;
mod watcher;
mod window;

pub use attrs::{Attrs, IndexError, Indexer, Labels};
pub use backlog::Backlog;
pub use cache::{BLOCK_TIMEOUT, Cache};
pub use consistency::CheckTimes;
pub use distribution::Distribution;
pub use entry::{Change, Entry, Event, WatchItem};
pub use error::{CacheError, WatchError};
pub use follow_failure::FollowFailure;
pub use forms::{FormBudget, FormId};
pub use packing::ValueRef;
pub use selection::{Interest, Selection, UID};
pub use snapshot::{Cursor, Snapshot};
pub use stats::{CacheStats, CheckStats, ShardStats};
pub use watcher::{Start, Watcher};
pub use window::WindowLimits;
