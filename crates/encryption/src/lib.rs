//! Encryption at rest, as `--encryption-provider-config` of kube-apiserver: the same file, the same bytes in the store.
//!
//! [`EncryptedStore`] stands between everything above and an engine. What it writes begins with `k8s:enc:`, the
//! provider, and the name of the key; what it reads may have been written under any of the configured keys.

mod ciphers;
mod config;
mod keys;
mod kms;
mod metrics;
mod reload;
mod resources;
mod store;
mod transform;
mod validate;

pub use config::{ConfigError, Configuration};
pub use keys::StorageKeys;
pub use metrics::Metrics;
pub use reload::{Loaded, check, follow, load};
pub use resources::{KmsCheck, Transformers};
pub use store::{EncryptedStore, Encryption};
