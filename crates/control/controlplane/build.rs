//! Declares which tests can run on this machine.

use binnacle_test_requirements::{Requirement, declare};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    declare(&[Requirement::Shared]);
}
