//! Encryption with keys that a KMS plugin guards (version 2 of the plugin API, KEP-3299).
//!
//! The plugin encrypts only a seed, which the server makes; from the seed comes a key for each value. So the plugin is
//! asked when the server starts, when its key changes, and for seeds of values that others wrote.

mod client;
mod envelope;
mod plugin;
mod seed;

pub(crate) use envelope::Envelope;
pub(crate) use plugin::Plugin;
