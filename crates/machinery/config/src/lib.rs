//! Configuration files of the server, which are API objects: [`Format`] reads one strictly by its owner's schema,
//! [`Followed`] detects changes, [`ReloadMetrics`] counts their results.
//!
//! The owner of a file interprets and validates it.

mod followed;
mod format;
mod metrics;

pub use followed::Followed;
pub use format::{Format, ReadError, Types, check_type, list, text};
pub use metrics::{ReloadMetrics, hash};
