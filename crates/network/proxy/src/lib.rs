//! Forwarding of requests to other servers: kubelets, pods, and servers of aggregated APIs.
//!
//! A [`Target`] is dialed for each request; a [`Pool`] keeps connections between them. [`forward`] forwards requests
//! and responses, [`pass_through`] upgraded connections; [`translate`] and [`tunnel`] turn a client's WebSocket into
//! the SPDY that kubelets speak, and [`as_messages`] and [`as_events`] send a body on a WebSocket, [`push`] texts. All of them have
//! backpressure: they read no faster than the receiver does.
//!
//! Nothing here depends on resources.

mod certificates;
mod client;
mod content_type;
mod ending;
mod forward;
mod go_client;
mod headers;
#[cfg(test)]
mod hostile;
mod identity;
mod lenient;
mod messages;
mod metered;
mod outcome;
mod path;
mod pool;
mod relay;
mod remote_command;
mod resend;
mod rewrite;
#[cfg(test)]
mod shutdowns;
pub mod spdy;
mod target;
mod throttled;
mod tls;
mod translate;
mod tunnel;
mod upgrade;
mod websocket;

pub use certificates::{CertificateMetrics, Flaws, register_webhook_certificates, webhook_certificates};
pub use client::{Answer, AnswerBody, SendError, send};
pub use ending::{Broken, until_stopped};
pub use forward::{Forward, forward};
pub use headers::{is_upgrade, is_websocket, settle_connection};
pub use identity::{ClientIdentity, IdentityError};
pub use messages::{as_events, as_messages, push};
pub use metered::{Meter, Metered};
pub use path::{clean, encode_query, escape, escape_path, rest_path};
pub use pool::{Pool, PooledAnswer, PooledBody};
pub use relay::{Relay, relay};
pub use remote_command::Streams;
pub use resend::is_unprocessed;
pub use target::{DialError, Target, Way, is_global_unicast, resolve};
pub use tls::{
    Verification, any_server, bundle_verifier, client_config, explain, key_of_first_version, known_server,
    tls12_signature, tls13_signature, verify_first_version,
};
pub use translate::{translate, wants_translation};
pub use tunnel::{tunnel, wants_tunnel};
pub use upgrade::pass_through;
