//! Connections through egress proxies (`--egress-selector-config-file`, KEP-1281), and calls to [plugins](plugin) on
//! unix sockets.
//!
//! Independent of the contents of connections.

mod config;
mod connect;
mod dialer;
mod executor;
pub mod grpc_transport;
mod konnectivity;
mod metrics;
mod network;
pub mod paced;
pub mod plugin;

use tokio::io::{AsyncRead, AsyncWrite};

pub use config::EgressError;
pub use dialer::{Dialer, Egress};
pub use executor::RelayExecutor;
pub use metrics::DialMetrics;
pub use network::Network;

/// A connection through a proxy.
pub trait Tunnel: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static {}

impl<T: AsyncRead + AsyncWrite + Send + Sync + Unpin + 'static> Tunnel for T {}
