//! The watch cache: per resource an immutable snapshot that follows the store, and watchers found by what they want.
//!
//! Knows nothing of HTTP and nothing of kinds: what an object is comes from an [`Indexer`], what it looks like on the
//! wire is put into the slots of [`Entry`] and [`WatchItem`] by whoever serves it.
//!
//! One task per cache follows the store. It changes the `state`, then hands the events to the `hub`, then says how
//! far it is; readers take [`Snapshot`]s and watchers empty their own mailboxes, so that nobody holds it up.

mod attrs;
mod backlog;
mod cache;
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
pub use distribution::Distribution;
pub use entry::{Change, Entry, Event, WatchItem};
pub use error::{CacheError, WatchError};
pub use follow_failure::FollowFailure;
pub use forms::{FormBudget, FormId};
pub use selection::{Interest, Selection};
pub use snapshot::{Cursor, Snapshot};
pub use stats::CacheStats;
pub use watcher::{Start, Watcher};
pub use window::WindowLimits;
