//! Forwards requests and responses to pods, services, nodes, and servers of aggregated APIs.
//!
//! [`forward`] serves the `proxy` subresources and rewrites links in pages to lead through this server. [`relay`]
//! serves aggregated APIs over pooled connections, with unchanged paths. Upgraded connections are passed through.
//!
//! Independent of resources.

mod content_type;
mod forward;
mod headers;
mod metered;
mod relay;
mod rewrite;
mod until_shutdown;

pub use forward::{Forward, forward};
pub use relay::{Relay, relay};
pub use until_shutdown::{OnBodyError, until_shutdown};
