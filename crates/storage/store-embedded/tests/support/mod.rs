//! A very simple model of the contract, random work for it, and files that fail on demand.

#![allow(dead_code, reason = "each test program uses a part of the module")]

pub(crate) mod model;
pub(crate) mod recording;
#[path = "../../../../testing/testkit/src/seccomp.rs"]
pub(crate) mod seccomp;
pub(crate) mod sim_files;
pub(crate) mod small_disk;
pub(crate) mod turnstile;
pub(crate) mod victim;
pub(crate) mod work;
