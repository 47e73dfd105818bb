//! Checks that many kinds share: names, labels, ports, immutability, with the messages of the reference server.

pub mod metadata;
pub mod names;
pub mod options;
