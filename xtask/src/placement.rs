//! The function order of release builds: first the functions that run at startup, then those that only requests run,
//! then other profiled ones, and finally those that never ran. Within the first part, functions that requests run, too,
//! come first. An idle server has the first part in memory; a busy one has its beginning and the second part. Without
//! the order, each function would be adjacent to some that never run, which would be in memory as well: Linux maps 64
//! KB for each page fault.

use std::collections::HashSet;
use std::path::Path;
use std::process::Command;

use crate::process::output;

/// The share of all counts that the functions have that requests run, in thousandths.
const HOT: u64 = 995;

/// Returns the names of the functions in the order in which they are placed, one in a line. `counted` is a profile that
/// `llvm-profdata` merged, and `started` what the start of a server runs.
pub(crate) fn order(profdata: &Path, counted: &Path, started: &HashSet<String>) -> Result<String, String> {
    let counted = output(Command::new(profdata).args(["show", "--all-functions", "--counts"]).arg(counted))?;
    Ok(place(functions(&counted), started))
}

fn place<'t>(mut functions: Vec<Function<'t>>, started: &'t HashSet<String>) -> String {
    // By name where counts are equal, so that the same counts make the same file.
    functions.sort_by(|a, b| b.most.cmp(&a.most).then(a.name.cmp(b.name)));
    let total: u64 = functions.iter().map(|function| function.sum).sum();
    let mut seen = 0;
    let mut placed: Vec<(Part, &str)> = Vec::with_capacity(functions.len());
    let mut uncounted: HashSet<&str> = started.iter().map(String::as_str).collect();
    for function in &functions {
        let part = match (started.contains(function.name), seen * 1000 < total * HOT) {
            (true, true) => Part::Always,
            (true, false) => Part::Start,
            (false, true) => Part::Requests,
            (false, false) => Part::Others,
        };
        seen += function.sum;
        uncounted.remove(function.name);
        placed.push((part, function.name));
    }
    let mut uncounted: Vec<&str> = uncounted.into_iter().collect();
    uncounted.sort_unstable();
    placed.extend(uncounted.into_iter().map(|name| (Part::Start, name)));
    // The order within a part stays.
    placed.sort_by_key(|(part, _)| *part);
    placed.into_iter().flat_map(|(_, name)| [name, "\n"]).collect()
}

/// A part of the program, in the order in which they lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Part {
    Always,
    Start,
    Requests,
    Others,
}

/// How many of the functions that were counted a program has under the names that they had, and under others.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Age {
    pub(crate) same: usize,
    pub(crate) renamed: usize,
}

/// Compares the names in an [order] with those in a program. Functions that the program has no more, or that became part of
/// others, are not counted.
pub(crate) fn age<'t>(order: &str, program: impl Iterator<Item = &'t str>) -> Age {
    let names: HashSet<&str> = program.collect();
    let plain: HashSet<&str> = names.iter().filter_map(|name| without_hash(name)).collect();
    let mut age = Age { same: 0, renamed: 0 };
    for name in order.lines() {
        if names.contains(name) {
            age.same += 1;
        } else if without_hash(name).is_some_and(|name| plain.contains(name)) {
            age.renamed += 1;
        }
    }
    age
}

/// Returns a mangled name without the hash of its crate and its types.
fn without_hash(name: &str) -> Option<&str> {
    let (plain, hash) = name.strip_suffix('E')?.rsplit_once("17h")?;
    (hash.len() == 16).then_some(plain)
}

/// A function with the greatest count of its blocks and their sum.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Function<'t> {
    name: &'t str,
    most: u64,
    sum: u64,
}

/// Reads what `llvm-profdata show` writes of functions that ran.
fn functions(text: &str) -> Vec<Function<'_>> {
    let mut functions = Vec::new();
    let mut name = "";
    for line in text.lines() {
        if let Some(counts) = line.strip_prefix("    Block counts: [") {
            let counts = counts.trim_end_matches(']').split(", ").filter_map(|count| count.parse::<u64>().ok());
            let (most, sum) = counts.fold((0, 0u64), |(most, sum), count| (count.max(most), sum.saturating_add(count)));
            if sum > 0 {
                functions.push(Function { name, most, sum });
            }
        } else if let Some(named) = line.strip_prefix("  ").and_then(|line| line.strip_suffix(':'))
            && !named.starts_with(' ')
        {
            // Functions that their unit keeps to itself have its name before theirs.
            name = named.rsplit(';').next().unwrap_or(named);
        }
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_functions_with_unchanged_and_changed_names() {
        let hash = |name: &str, hash: char| format!("_ZN{name}17h{}E", hash.to_string().repeat(16));
        let order = [hash("1a", 'a'), hash("1b", 'b'), hash("1c", 'c'), "memcpy".to_owned()].join("\n");
        let program = [hash("1a", 'a'), hash("1b", 'd'), hash("1b", 'e'), "memcpy".to_owned()];
        assert_eq!(age(&order, program.iter().map(String::as_str)), Age { same: 2, renamed: 1 });
    }

    #[test]
    fn places_functions_of_the_start_first() {
        let functions = [("rare", 1), ("hot", 9000), ("start", 2), ("always", 8000)];
        let functions = functions.map(|(name, count)| Function { name, most: count, sum: count }).to_vec();
        let started = ["start", "always", "uncounted"].map(str::to_owned).into();
        assert_eq!(place(functions, &started), "always\nstart\nuncounted\nhot\nrare\n");
    }

    #[test]
    fn reads_functions_that_ran() {
        let text = "Counters:\n  meta.1-cgu.0;_ZN4meta3gvkE:\n    Hash: 0x02\n    Counters: 2\n    Block counts: [6123, 1661]\n  \
                    _ZN2h2E:\n    Hash: 0x0d\n    Counters: 2\n    Block counts: [0, 0]\n  _ZN1aE:\n    Hash: 0x0d\n    Counters: 1\n    \
                    Block counts: [7]\nInstrumentation level: IR\nFunctions shown: 3\n";
        let found = [("_ZN4meta3gvkE", 6123, 7784), ("_ZN1aE", 7, 7)];
        assert_eq!(functions(text), found.map(|(name, most, sum)| Function { name, most, sum }));
    }
}
