//! Checks of writes that need more than the written object: what the author may do, and what else is stored.
//!
//! Each is a set of [`Hooks`](binnacle_registry::hooks::Hooks) for a kind; the server installs them with its resources.

mod certificates;
mod device_claims;
mod escalation;
mod policy_params;

pub use certificates::{CertificateDurations, RequesterOfCertificates, SignersOfPodCertificates};
pub use device_claims::DeviceClaims;
pub use escalation::escalation_hooks;
pub use policy_params::policy_hooks;
