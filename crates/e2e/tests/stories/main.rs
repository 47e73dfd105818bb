//! The real program as its users see it, a module for each story.
//!
//! Every test starts a server of its own on a free port; those with kubectl are skipped, with a printed line, where it
//! is not installed.

#![allow(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

mod manifests;

mod kubectl_apply;
mod kubectl_changes;
mod kubectl_cluster;
mod kubectl_objects;
mod kubectl_restart;
mod kubectl_rollout;
mod kubectl_watch;
