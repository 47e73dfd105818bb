//! Cycles between the parts of a module: files and folders beside each other that import each other, perhaps through
//! others. A module and its own parts may do so.
//!
//! A path such as `super::Name` counts as an import of the file that defines the name, even if the parent module only
//! re-exports it. Tests do not count.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use self::paths::Paths;
use super::Findings;

mod paths;

/// The path of a module within its crate; the root is empty.
type Module = Vec<String>;

/// The modules that each module imports from.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// The edges between the parts of one module, by name.
type Graph = BTreeMap<String, BTreeSet<String>>;

/// A cycle that may stay.
struct Exception {
    /// The crate, as its folder below `crates`.
    package: &'static str,
    /// The module whose parts import each other.
    module: &'static str,
    parts: &'static [&'static str],
    reason: &'static str,
}

/// The cycles that may stay, each of which is checked to exist.
const EXCEPTIONS: [Exception; 2] = [
    Exception {
        package: "foundation/work",
        module: "",
        parts: &["budget", "memory", "polls", "scope", "turns"],
        reason: "one algorithm: work is charged to a budget in a scope, a charge may wait for memory or a turn, and a \
                 thread that waits leaves the scope meanwhile",
    },
    Exception {
        package: "machinery/cel",
        module: "value",
        parts: &["equality", "list_types"],
        reason: "two mutually recursive algorithms over values: the list type decides when lists are equal, and their \
                 elements are values",
    },
];

/// Checks all crates below a folder.
pub(super) fn check(crates: &Path) -> Result<Findings, String> {
    let mut found = Vec::new();
    for domain in folders(crates)? {
        for package in folders(&domain)? {
            let source = package.join("src");
            if source.is_dir() {
                let name = package.strip_prefix(crates).unwrap_or(&package).display().to_string();
                found.extend(cycles(&imports(&source)?).into_iter().map(|cycle| (name.clone(), cycle)));
            }
        }
    }
    Ok(judge(&found, &EXCEPTIONS))
}

/// Returns the cycles that are not among the exceptions, and the exceptions without a cycle.
fn judge(found: &[(String, Cycle)], exceptions: &[Exception]) -> Findings {
    let is_of = |exception: &Exception, (package, cycle): &(String, Cycle)| {
        exception.package == package && exception.module == cycle.module && cycle.parts == exception.parts
    };
    let cycles = found.iter().filter(|found| !exceptions.iter().any(|exception| is_of(exception, found)));
    let cycles = cycles.map(|(package, cycle)| format!("{package}: {cycle}"));
    let unused = exceptions.iter().filter(|exception| !found.iter().any(|found| is_of(exception, found)));
    let unused = unused.map(|exception| {
        let Exception { package, module, parts, reason } = exception;
        format!(
            "{package}: the parts {} of `{module}` are no cycle, although one may stay ({reason})",
            parts.join(", ")
        )
    });
    cycles.chain(unused).collect()
}

fn folders(path: &Path) -> Result<Vec<PathBuf>, String> {
    let entries = std::fs::read_dir(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut found: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    found.sort();
    Ok(found)
}

/// Returns the imports of all modules of a crate, except for its tests.
fn imports(source: &Path) -> Result<Imports, String> {
    let mut texts = BTreeMap::new();
    read(source, &mut Vec::new(), &mut texts)?;
    let mut files = BTreeMap::new();
    for (module, text) in texts {
        let name = || format!("{}: {}", source.display(), module.join("::"));
        let file = syn::parse_file(&text).map_err(|error| format!("{}: {error}", name()))?;
        files.insert(module.clone(), Paths::of(&module, &file));
    }
    let tests: BTreeSet<Module> = files.values().flat_map(|paths| paths.test_modules.iter().cloned()).collect();
    files.retain(|module, _| !(1..=module.len()).any(|end| tests.contains(&module[..end])));
    let imports = files.iter().map(|(module, paths)| {
        let owners = paths.found.iter().filter_map(|path| owner(&files, path));
        (module.clone(), owners.collect())
    });
    Ok(imports.collect())
}

fn read(folder: &Path, module: &mut Module, files: &mut BTreeMap<Module, String>) -> Result<(), String> {
    let entries = std::fs::read_dir(folder).map_err(|error| format!("cannot read {}: {error}", folder.display()))?;
    for path in entries.filter_map(|entry| Some(entry.ok()?.path())) {
        let name = path.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default().to_owned();
        if matches!(name.as_str(), "tests" | "testing" | "bin") {
            continue;
        }
        let is_root = module.is_empty() && matches!(name.as_str(), "lib" | "main");
        if !is_root {
            module.push(name);
        }
        if path.is_dir() {
            read(&path, module, files)?;
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = std::fs::read_to_string(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            files.insert(module.clone(), text);
        }
        if !is_root {
            module.pop();
        }
    }
    Ok(())
}

/// Returns the module that defines the item of a path, through re-exports.
fn owner(files: &BTreeMap<Module, Paths>, path: &[String]) -> Option<Module> {
    /// Longer chains of re-exports are circular.
    const MAX_EXPORTS: usize = 8;
    let mut path = path.to_vec();
    for _ in 0..MAX_EXPORTS {
        let end = (0..=path.len()).rev().find(|end| files.contains_key(&path[..*end]))?;
        let paths = &files[&path[..end]];
        match path.get(end).and_then(|name| paths.names.get(name)) {
            // The module imports the name.
            Some(target) => path = [target.as_slice(), &path[end + 1..]].concat(),
            None => return Some(path[..end].to_vec()),
        }
    }
    None
}

/// Parts of one module that import each other.
#[derive(Debug, PartialEq, Eq)]
struct Cycle {
    /// The path of the module, empty for the root.
    module: String,
    /// Sorted by name.
    parts: Vec<String>,
}

impl std::fmt::Display for Cycle {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "the parts {} of `{}` import each other", self.parts.join(", "), self.module)
    }
}

/// Returns the largest sets of parts of one module in which each part imports all others, perhaps through others.
fn cycles(imports: &Imports) -> Vec<Cycle> {
    let parents: BTreeSet<&[String]> = imports.keys().flat_map(|m| (0..m.len()).map(|end| &m[..end])).collect();
    let mut found = Vec::new();
    for parent in parents {
        let graph = graph_of(imports, parent);
        let reached: BTreeMap<&String, BTreeSet<&String>> =
            graph.keys().map(|part| (part, reached(&graph, part))).collect();
        let mut seen = BTreeSet::new();
        for (part, others) in &reached {
            let returns = |other: &&&String| reached.get(**other).is_some_and(|reached| reached.contains(part));
            let cycle: BTreeSet<&String> = others.iter().filter(returns).copied().collect();
            if cycle.len() > 1 && seen.insert(cycle.clone()) {
                let parts = cycle.into_iter().cloned().collect();
                found.push(Cycle { module: parent.join("::"), parts });
            }
        }
    }
    found
}

/// Returns the imports between the parts of a module.
fn graph_of(imports: &Imports, parent: &[String]) -> Graph {
    let depth = parent.len();
    let part = |module: &Module| (module.len() > depth && module.starts_with(parent)).then(|| module[depth].clone());
    let mut graph = Graph::new();
    for (module, others) in imports {
        if let Some(from) = part(module) {
            let to = others.iter().filter_map(part).filter(|to| *to != from);
            graph.entry(from.clone()).or_default().extend(to);
        }
    }
    graph
}

/// Returns the parts that a part imports, directly or through others.
fn reached<'g>(graph: &'g Graph, from: &String) -> BTreeSet<&'g String> {
    let mut found = BTreeSet::new();
    let mut open: Vec<&String> = graph.get(from).into_iter().flatten().collect();
    while let Some(next) = open.pop() {
        if found.insert(next) {
            open.extend(graph.get(next).into_iter().flatten());
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("a folder");
            std::fs::write(path, text).expect("a file");
        }
        cycles(&imports(folder.path()).expect("sources")).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn reports_folders_that_import_each_other() {
        let a = ("a/x.rs", "use crate::b::y::Y;\nuse super::A;");
        let root = ("lib.rs", "mod a; mod b; mod c;");
        let cycle = ["the parts a, b of `` import each other"];
        assert_eq!(found(&[root, a, ("b/y.rs", "fn f() { crate::a::x::f() }")]), cycle);
        let in_tests = ("b/y.rs", "#[cfg(test)] mod tests { use crate::a::x; }");
        assert_eq!(found(&[root, a, in_tests, ("c.rs", "use crate::a::x;")]), [""; 0]);
    }

    #[test]
    fn reports_files_that_import_each_other() {
        let root = ("lib.rs", "mod a;");
        for (x, y) in [
            ("use super::y;", "use super::x::X;"),
            ("use crate::a::y::{self, Y};", "fn f(x: super::x::X) {}"),
            // Also within macros.
            ("use super::y::Y;", "fn f() { println!(\"{}\", super::x::N) }"),
        ] {
            let cycle = ["the parts x, y of `a` import each other"];
            assert_eq!(found(&[root, ("a/x.rs", x), ("a/y.rs", y)]), cycle, "{x} {y}");
        }
        // A module and its own parts.
        assert_eq!(found(&[root, ("a.rs", "mod x; use x::X;"), ("a/x.rs", "use super::A;")]), [""; 0]);
    }

    #[test]
    fn reports_all_parts_of_a_longer_cycle_once() {
        let root = ("lib.rs", "mod a; mod b; mod c; mod d;");
        let (a, b, c) = (("a.rs", "use crate::b;"), ("b.rs", "use crate::c;"), ("c.rs", "use crate::a;"));
        let cycle = ["the parts a, b, c of `` import each other"];
        assert_eq!(found(&[root, a, b, c, ("d.rs", "use crate::a;")]), cycle);
    }

    #[test]
    fn follows_names_that_a_module_reexports() {
        let (a, b) = (("a.rs", "pub struct A; use crate::B;"), ("b.rs", "pub struct B; use crate::a::A;"));
        let cycle = ["the parts a, b of `` import each other"];
        for root in ["mod a; mod b; pub use b::B;", "mod a; mod b; pub use self::b::{B as B};"] {
            assert_eq!(found(&[("lib.rs", root), a, b]), cycle, "{root}");
        }
        assert_eq!(found(&[("lib.rs", "mod a; mod b; pub struct B;"), a, b]), [""; 0]);
    }

    #[test]
    fn excludes_files_of_tests() {
        let root = ("lib.rs", "mod a; #[cfg(test)] mod cases;");
        assert_eq!(found(&[root, ("a.rs", "use crate::cases;"), ("cases.rs", "use crate::a::A;")]), [""; 0]);
    }

    #[test]
    fn requires_that_exceptions_are_cycles() {
        let exceptions = [
            Exception { package: "p", module: "a", parts: &["x", "y"], reason: "why" },
            Exception { package: "p", module: "b", parts: &["x", "y"], reason: "why" },
        ];
        let cycle = |module: &str| {
            let parts = vec!["x".to_owned(), "y".to_owned()];
            ("p".to_owned(), Cycle { module: module.to_owned(), parts })
        };
        let findings = judge(&[cycle("a"), cycle("c")], &exceptions);
        let want = [
            "p: the parts x, y of `c` import each other",
            "p: the parts x, y of `b` are no cycle, although one may stay (why)",
        ];
        assert_eq!(findings, want);
    }
}
