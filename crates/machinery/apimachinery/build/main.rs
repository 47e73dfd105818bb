//! Generates Rust statics from the field tables of `meta.k8s.io`, which are among those of the built-in kinds, and the
//! texts of [`descriptions`].

mod descriptions;
mod roots;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    println!("cargo::rerun-if-changed=build");
    binnacle_tables::build("../../api/kinds/data/v1.36", |name| matches!(name, "meta.v1.tbl" | "meta.v1beta1.tbl"));
    descriptions::write()
}
