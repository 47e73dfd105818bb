//! Service account tokens signed by another process (`--service-account-signing-endpoint`): the signer has the private
//! keys, and this server only requests signatures and public keys from it (`externaljwt/v1`, gRPC on a unix socket).
//!
//! This module does not interpret claims.

mod header;
mod keys;
mod messages;
mod metrics;
mod signer;

pub use keys::{KeySet, VerificationKey};
pub use metrics::SignerMetrics;
pub use signer::{ExternalSigner, SignerError};
