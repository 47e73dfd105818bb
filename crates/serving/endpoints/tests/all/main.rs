//! Tests of the endpoints of built-in resources with an in-memory store. Each rule is a row of a table.

#![allow(clippy::unwrap_used, reason = "a test may break off")]

mod managers;
mod negotiation;
mod patches;
mod support;
mod writes;
