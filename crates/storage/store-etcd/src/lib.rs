//! The storage engine on etcd.
//!
//! All watches of a server share one watch of etcd, which the hub distributes: etcd sends each event once for all
//! resources, and one position answers every consistent read. The module `api` has the messages, `cluster` the members
//! and retries. A [`Sequence`] writes to etcd in a given order.

mod api;
mod calls;
mod cluster;
mod connector;
mod error;
mod hub;
mod metrics;
mod options;
mod range_stream;
mod sequence;
mod serve;
mod shared_read;
mod store;
mod stream;
mod stream_support;
mod watch_limits;
mod watch_receiver;
mod watcher;

/// The name of the socket of a server's embedded store, in the store's directory.
pub const ADMIN_SOCKET: &str = "admin.sock";

pub use metrics::{KeyOwner, Metrics};
pub use options::{ConnectError, EtcdOptions, TlsPaths};
pub use sequence::Sequence;
pub use serve::serve;
pub use store::EtcdStore;
pub use watch_limits::WatchLimits;
