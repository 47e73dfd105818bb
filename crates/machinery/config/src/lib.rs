//! Configuration files of the server, most of them API objects: [`read`] reads one up to a limit, [`Format`] decodes it
//! strictly by its owner's schema, [`WatchedFile`] detects changes, [`load`] bounds the memory of loading them,
//! [`ReloadMetrics`] counts their results.
//!
//! The owner of a file interprets and validates it.

mod file;
mod format;
mod load;
mod metrics;
mod watched_file;

pub use file::{MAX_FILE, read};
pub use format::{Format, ReadError, Types, check_type, list, text};
pub use load::load;
pub use metrics::{ReloadMetrics, hash};
pub use watched_file::WatchedFile;
