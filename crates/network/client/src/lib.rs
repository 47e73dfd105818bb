//! Connections to other servers: kubelets, pods, webhooks, and servers of aggregated APIs.
//!
//! A [`Target`] is dialed for each request that is [sent](send); a [`Pool`] reuses connections. TLS verification
//! reports errors with Go's messages ([`client_config`]), and a [`Meter`] limits the bytes that a server may send
//! besides data.
//!
//! ```no_run
//! # async fn example() -> Result<(), binnacle_client::SendError> {
//! use binnacle_client::{Target, send};
//! use binnacle_request::Body;
//!
//! let target = Target::of_address("10.0.0.1:8080", None, None)?;
//! let answer = send(&target, http::Request::new(Body::empty())).await?;
//! println!("{}", answer.status());
//! # Ok(())
//! # }
//! ```
//!
//! Independent of the contents of requests.

mod certificates;
mod error;
mod exchange;
mod go_client;
#[cfg(test)]
mod goaway_tests;
#[cfg(test)]
mod hostile_tests;
mod identity;
mod lenient;
mod limits;
mod metered;
pub mod path;
mod pool;
mod replay;
mod target;
mod tls;

pub use certificates::{CertificateMetrics, Flaws, register_webhook_certificates, webhook_certificates};
pub use error::SendError;
pub use exchange::{Answer, AnswerBody, send};
pub use identity::{ClientIdentity, IdentityError, IssuedIdentity};
pub use metered::{Meter, MeteredStream};
pub use pool::{Pool, PooledAnswer, PooledBody};
pub use replay::is_unprocessed;
pub use target::{ConnectionOptions, DialError, Target, is_global_unicast, resolve};
pub use tls::{
    Verification, any_server, bundle_verifier, client_config, explain, known_server, tls12_signature, tls13_signature,
    v1_public_key, verify_v1_certificate,
};
