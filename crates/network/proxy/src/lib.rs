//! Forwarding of requests and responses: to pods, services and nodes, and to servers of aggregated APIs.
//!
//! [`forward`] is for the `proxy` subresources, whose pages get links that lead through this server again; [`relay`] is for
//! aggregated APIs, with unchanged paths over pooled connections. Upgraded connections are passed through.
//!
//! Independent of resources.

mod content_type;
mod forward;
mod headers;
mod relay;
mod rewrite;
mod until_shutdown;

pub use forward::{Forward, forward};
pub use relay::{Relay, relay};
pub use until_shutdown::{OnBodyError, until_shutdown};
