//! The field tables, compared with the documents that kube-apiserver publishes and the objects that it writes.
//!
//! Recorded facts are in the folder `shared` beside the project or in `BINNACLE_SHARED`.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "tables/conversions.rs"]
mod conversions;
#[path = "tables/openapi.rs"]
mod openapi;
#[path = "tables/roundtrip.rs"]
mod roundtrip;
#[path = "tables/spot_checks.rs"]
mod spot_checks;
#[path = "tables/support.rs"]
mod support;
