//! The storage engine on etcd.
//!
//! All watches of a server share one watch at etcd, which the hub follows and hands out: an event travels
//! once however many resources there are, and one position answers every consistent read. The messages are in `api`,
//! whom to ask and what to do when nobody answers in `cluster`. A [`Sequence`] fills etcd in a given order.

mod api;
mod cluster;
mod connector;
mod error;
mod hub;
mod metrics;
mod options;
mod sequence;
mod serve;
mod store;
mod stream;
mod watcher;

/// The name of the socket at which a server offers its embedded store, in the store's directory.
pub const ADMIN_SOCKET: &str = "admin.sock";

pub use hub::WatchLimits;
pub use metrics::{KeyOwner, Metrics};
pub use options::{ConnectError, Options, TlsPaths};
pub use sequence::Sequence;
pub use serve::serve;
pub use store::EtcdStore;
