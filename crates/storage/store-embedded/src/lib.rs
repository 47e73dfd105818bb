//! The embedded storage engine: one committer, durable history, compaction, recovery.
//!
//! Live objects and the revisions of their history are held in memory; earlier values are read from disk. A single
//! thread combines concurrent transactions into one durable write. `docs/store-format.md` describes the bytes on disk
//! and why the order of writes is safe.

mod check;
mod check_report;
mod command;
mod committer;
mod compaction;
mod digest_count;
mod digests;
mod directory;
pub mod disk;
mod error;
pub mod files;
mod history;
mod hub;
mod index;
mod lease;
mod lock;
pub mod log;
mod marker;
mod offline;
mod options;
mod queue;
mod record;
mod recovery;
mod replay;
mod salvage;
mod salvage_mark;
mod shared;
mod span;
mod store;
mod watch;

pub use check::{check, check_in};
pub use check_report::{CheckReport, DamagedObject, Remains};
pub use directory::is_store;
pub use error::OpenError;
pub use offline::OfflineStore;
pub use options::{EmbeddedOptions, OnFailure, OnReading, WatchOptions};
pub use replay::Tally;
pub use salvage::Salvage;
pub use salvage_mark::mark_salvaged;
pub use store::EmbeddedStore;
