//! Replays what kube-apiserver was recorded to answer, as far as it follows from an object and what changes it.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod applies;
mod cases;
mod patches;
mod updates;
