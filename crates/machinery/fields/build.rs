//! Generates the marker type and the field handles of each message from the field tables.

fn main() {
    binnacle_tables::build_handles("../../api/kinds/data/v1.36");
}
