//! Service account tokens that another process signs (`--service-account-signing-endpoint`): it has the private keys,
//! this server only asks it for signatures and for the public halves (`externaljwt/v1`, gRPC on a unix socket).
//!
//! Knows nothing of what claims mean.

mod header;
mod keys;
mod messages;
mod metrics;
mod signer;

pub use keys::{KeySet, VerificationKey};
pub use metrics::SignerMetrics;
pub use signer::{ExternalSigner, SignerError};
