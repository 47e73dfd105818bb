//! Tells the linker in which order the functions of the program stand, where there is a list of them: `cargo xtask release`
//! puts together what runs while the server starts, so that little of the program is in memory while it is idle.

fn main() {
    println!("cargo:rerun-if-env-changed=BINNACLE_SYMBOL_ORDER");
    println!("cargo:rerun-if-changed=build.rs");
    if let Ok(list) = std::env::var("BINNACLE_SYMBOL_ORDER") {
        println!("cargo:rustc-link-arg-bins=-Wl,--symbol-ordering-file={list}");
        // Functions that were inlined everywhere are no symbols.
        println!("cargo:rustc-link-arg-bins=-Wl,--no-warn-symbol-ordering");
    }
}
