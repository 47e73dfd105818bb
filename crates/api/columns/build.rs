//! Sets the cfg flags of the tests that can run here.

use binnacle_test_requirements::{Requirement, declare};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    declare(&[Requirement::Shared]);
}
