//! The embedded storage engine: one committer, durable history, compaction, recovery.
//!
//! Live objects and the revisions of their history are held in memory; earlier values are read from disk. A single
//! thread combines concurrent transactions into one durable write. `docs/store-format.md` describes the bytes on disk
//! and why the order of writes is safe.

mod check;
mod committer;
mod compaction;
mod digests;
pub mod disk;
mod error;
pub mod files;
mod history;
mod index;
mod lease;
mod lock;
pub mod log;
mod offline;
mod options;
mod queue;
mod record;
mod recovery;
mod replay;
mod salvage;
mod shared;
mod store;
mod watch;

pub use check::{CheckReport, DamagedObject, Remains, check, check_in};
pub use error::OpenError;
pub use offline::{OfflineStore, is_store};
pub use options::{EmbeddedOptions, OnFailure, OnReading, WatchOptions};
pub use salvage::{Salvage, mark_salvaged};
pub use store::EmbeddedStore;
