//! Detects which tests can run in this build.

use binnacle_test_requirements::{Requirement, declare};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    declare(&[Requirement::Shared]);
}
