//! Which of the tests can run here.

use binnacle_test_requirements::{Requirement, declare};

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    declare(&[Requirement::Dpkg, Requirement::Minisign, Requirement::Objcopy, Requirement::Rpm, Requirement::Skopeo]);
}
