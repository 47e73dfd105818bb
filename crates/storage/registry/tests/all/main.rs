//! The verbs on built-in resources with a store in memory; each rule is a row of a table.

#![allow(clippy::unwrap_used, reason = "a test may break off")]

mod create;
mod delete;
mod list;
mod support;
mod update;
