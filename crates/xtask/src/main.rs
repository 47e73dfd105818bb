//! Repository tasks: import-api.
fn main() {}
