//! A model of the contract that is too simple to be wrong, random work for it, and a disk that fails when told to.

#![allow(dead_code, reason = "each test program uses its part")]

pub(crate) mod crash_disk;
pub(crate) mod model;
pub(crate) mod work;
