//! Checks of writes that depend on more than the written object: on the permissions of the author, and on other stored
//! objects.
//!
//! Each check implements [`Hooks`](binnacle_registry::hooks::Hooks) for a kind; the server installs it with the
//! resource.

mod certificates;
mod device_claims;
mod escalation;
mod policy_params;

pub use certificates::{CertificateDurations, RequesterOfCertificates, SignersOfPodCertificates};
pub use device_claims::DeviceClaims;
pub use escalation::escalation_hooks;
pub use policy_params::policy_hooks;
