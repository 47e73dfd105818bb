//! Makes Rust statics from the field tables, so that the program parses nothing when it starts, and finds out
//! which of the tests can run here.

use binnacle_test_requirements::{Requirement, declare};

fn main() {
    binnacle_tables::build("data/v1.36", |_| true);
    declare(&[Requirement::Shared]);
}
