//! Encryption at rest, as with kube-apiserver's `--encryption-provider-config`: the same file, the same bytes in the
//! store.
//!
//! [`EncryptedStore`] wraps an engine. Encrypted values begin with `k8s:enc:`, the provider, and the name of the key;
//! values of any configured key can be read.

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
pub use reload::{LoadedTransformers, check, follow, load};
pub use resources::{KmsCheck, Transformers};
pub use store::{EncryptedStore, Encryption};
