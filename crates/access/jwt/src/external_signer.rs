//! Service account tokens signed by another process (`--service-account-signing-endpoint`): it has the private keys,
//! and this server only requests signatures and the public keys from it (`externaljwt/v1`, gRPC on a unix socket).
//!
//! Independent of the meaning of claims.

mod header;
mod keys;
mod messages;
mod metrics;
mod signer;

pub use keys::{KeySet, VerificationKey};
pub use metrics::SignerMetrics;
pub use signer::{ExternalSigner, SignerError};
