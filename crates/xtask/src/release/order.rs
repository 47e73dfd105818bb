//! The order of functions in the program.

use std::collections::HashSet;

/// Names of functions, a line each: those of the program that ran while it started, and those of which nobody counted
/// whether they did (the standard library and C), which are few. `symbols` is what `llvm-nm --format=posix` writes, `ran`
/// and `known` what `llvm-profdata show` writes, of `--covered` and of `--all-functions`.
pub(super) fn of_start(symbols: &str, ran: &str, known: &str) -> String {
    let ran: HashSet<&str> = ran.lines().map(function).collect();
    let named = known.lines().filter_map(|line| line.strip_prefix("  ")?.strip_suffix(':'));
    let known: HashSet<&str> = named.filter(|line| !line.starts_with(' ')).map(function).collect();
    let mut order = String::new();
    for line in symbols.lines() {
        let mut words = line.split(' ');
        let (Some(symbol), Some("t" | "T")) = (words.next(), words.next()) else { continue };
        let name = symbol.split(PROMOTED).next().unwrap_or_default();
        if ran.contains(name) || !known.contains(name) {
            order.push_str(symbol);
            order.push('\n');
        }
    }
    order
}

/// What follows the name of a function that was private to its module until modules were optimized together.
const PROMOTED: &str = ".llvm.";

/// Private functions are written with their module in front.
fn function(name: &str) -> &str {
    name.rsplit(';').next().unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_and_what_nobody_counted() {
        let known = "Counters:\n  main:\n    Hash: 0x0\n    Counters: 1\n  module.cgu.1;private:\n    Hash: 0x1\n  later:\n    Hash: 0x2\n  other:\n";
        let symbols = "later T 1 1\nmain T 2 1\nmalloc T 3 1\nother.llvm.1 t 4 1\nprivate.llvm.77 t 5 1\ntable D 6 1\n";
        assert_eq!(
            of_start(symbols, "main\nmodule.cgu.1;private\ninlined\n", known),
            "main\nmalloc\nprivate.llvm.77\n"
        );
    }
}
