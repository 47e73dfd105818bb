//! Replays recorded responses of kube-apiserver, as far as they follow from an object and a patch or update.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod applies;
mod cases;
mod patches;
mod updates;
