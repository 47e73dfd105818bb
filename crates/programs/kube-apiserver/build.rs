//! Linker options of the program, and which of its tests can run here.

use std::env;

use binnacle_test_requirements::{Requirement, declare};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    declare(&[Requirement::Etcd, Requirement::Go]);
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // At a fixed address, as in Go: a position-independent program relocates its pointer tables at every start, so each
    // process has a private copy of them, two megabytes of memory.
    if is("PROFILE", "release") && is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-no-pie");
    }
}
