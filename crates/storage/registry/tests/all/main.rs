//! Tests of the verbs on built-in resources with an in-memory store. Each rule is a row of a table.

#![allow(clippy::unwrap_used, reason = "tests panic on errors")]

mod create;
mod delete;
mod list;
mod remote;
mod support;
mod update;
