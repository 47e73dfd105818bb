//! Configuration files of the server, which are API objects: [`Format`] reads one strictly by its owner's schema,
//! [`Followed`] notices when it changes, [`ReloadMetrics`] count the outcomes.
//!
//! The meaning of a file and its validation are its owner's business.

mod followed;
mod format;
mod metrics;

pub use followed::Followed;
pub use format::{Format, ReadError, Types, check_type, list, text};
pub use metrics::{ReloadMetrics, hash};
