//! The built-in kinds: field tables, computed defaults, validation, what create and update reset.
//!
//! Knows nothing of storage, of HTTP or of who is asking.

mod strategy;
pub mod tables;

pub use strategy::{DeleteGrace, Plain, Situation, Strategy, spec_generation};
