//! Encryption at rest, compatible with kube-apiserver's `--encryption-provider-config`: it uses the same configuration
//! file and stores the same bytes.
//!
//! [`EncryptedStore`] wraps an engine. Encrypted values begin with `k8s:enc:`, the provider, and the name of the key.
//! Values that were encrypted with any configured key can be read.

mod ciphers;
mod config;
mod config_error;
mod config_values;
mod keys;
mod kms;
mod metrics;
mod reload;
mod resources;
mod store;
mod transform;
mod transform_result;
mod validate;

pub use config::Configuration;
pub use config_error::ConfigError;
pub use keys::StorageKeys;
pub use metrics::Metrics;
pub use reload::{LoadedTransformers, check, load, reload_on_change};
pub use resources::{KmsCheck, Transformers};
pub use store::{EncryptedStore, Encryption};
