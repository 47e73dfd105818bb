//! Replays recorded responses of kube-apiserver that depend only on an object and a patch or update.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

mod applies;
mod cases;
mod patches;
mod updates;
