//! Encryption with keys from a KMS plugin (version 2 of the plugin API, KEP-3299).
//!
//! The plugin encrypts only a seed that the server generates; each value has a key derived from the seed. So the plugin
//! is called when the server starts, when its key changes, and for seeds of values that other servers wrote.

mod client;
mod envelope;
mod plugin;
mod seed;

pub(crate) use envelope::Envelope;
pub(crate) use plugin::Plugin;
