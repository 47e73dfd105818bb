//! Makes Rust statics from the field tables, so that the program parses nothing when it starts.

fn main() {
    binnacle_tables::build("data/v1.36", |_| true);
}
