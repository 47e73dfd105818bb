//! Generates Rust statics from the field tables, so that the program parses nothing at start-up, and sets the cfg flags
//! of the tests that can run here.

use binnacle_test_requirements::{Requirement, declare};

fn main() {
    binnacle_tables::build("data/v1.36", |_| true);
    declare(&[Requirement::Shared]);
}
