//! Encryption with keys from a KMS plugin (version 2 of the plugin API, KEP-3299).
//!
//! The plugin only encrypts a seed that the server generates; the key of each value is derived from the seed. The
//! plugin is therefore only called when the server starts, when the plugin's key changes, and for the seeds of values
//! that other servers wrote.

mod client;
mod encrypted_object;
mod envelope;
mod plugin;
mod seed;

pub(crate) use envelope::Envelope;
pub(crate) use plugin::Plugin;
