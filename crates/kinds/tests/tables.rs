//! The field tables against what kube-apiserver publishes and what it writes.
//!
//! Recorded facts are found in the folder `shared` beside the project or where `BINNACLE_SHARED` says, round-trip
//! fixtures there or where `BINNACLE_ROUNDTRIP_DIR` says.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tables/conversions.rs"]
mod conversions;
#[path = "tables/openapi.rs"]
mod openapi;
#[path = "tables/roundtrip.rs"]
mod roundtrip;
#[path = "tables/spots.rs"]
mod spots;
#[path = "tables/support.rs"]
mod support;
