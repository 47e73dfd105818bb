//! Cycles between the folders of a crate: modules with parts of their own that import each other. A module and its own
//! parts may do so.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use syn::visit::{self, Visit};
use syn::{Attribute, ItemMod, ItemUse, UseTree};

use super::Findings;

/// The path of a module within its crate; the root is empty.
type Module = Vec<String>;

/// The modules that each module imports from.
type Imports = BTreeMap<Module, BTreeSet<Module>>;

/// Checks all crates below a folder.
pub(super) fn check(crates: &Path) -> Result<Findings, String> {
    let mut findings = Findings::new();
    for domain in folders(crates)? {
        for package in folders(&domain)? {
            let source = package.join("src");
            if source.is_dir() {
                let name = package.strip_prefix(crates).unwrap_or(&package).display().to_string();
                findings.extend(cycles(&imports(&source)?).into_iter().map(|cycle| format!("{name}: {cycle}")));
            }
        }
    }
    Ok(findings)
}

fn folders(path: &Path) -> Result<Vec<std::path::PathBuf>, String> {
    let entries = std::fs::read_dir(path).map_err(|error| format!("cannot read {}: {error}", path.display()))?;
    let mut found: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|path| path.is_dir()).collect();
    found.sort();
    Ok(found)
}

/// Returns the imports of all modules of a crate, except for its tests.
fn imports(source: &Path) -> Result<Imports, String> {
    let mut files = BTreeMap::new();
    read(source, &mut Vec::new(), &mut files)?;
    let mut imports = Imports::new();
    for (module, text) in &files {
        let name = || format!("{}: {}", source.display(), module.join("::"));
        let file = syn::parse_file(text).map_err(|error| format!("{}: {error}", name()))?;
        let mut paths = Paths { module, found: Vec::new() };
        paths.visit_file(&file);
        let known =
            |path: &[String]| (0..=path.len()).rev().map(|end| path[..end].to_vec()).find(|m| files.contains_key(m));
        imports.insert(module.clone(), paths.found.iter().filter_map(|path| known(path)).collect());
    }
    Ok(imports)
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

/// Collects the paths into the own crate that a file names.
struct Paths<'a> {
    module: &'a Module,
    found: Vec<Module>,
}

impl Paths<'_> {
    /// Adds a path that begins with `crate`, `self` or `super`.
    fn add(&mut self, path: &[String]) {
        let (mut base, mut rest) = match path {
            [first, rest @ ..] if first == "crate" => (Vec::new(), rest),
            [first, rest @ ..] if first == "self" => (self.module.clone(), rest),
            [first, ..] if first == "super" => (self.module.clone(), path),
            _ => return,
        };
        while let [first, after @ ..] = rest
            && first == "super"
        {
            base.pop();
            rest = after;
        }
        base.extend_from_slice(rest);
        self.found.push(base);
    }

    fn add_tree(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_tree(&part.tree, path);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(item, path)),
            UseTree::Name(name) => self.add(&[path.as_slice(), &[name.ident.to_string()]].concat()),
            UseTree::Rename(name) => self.add(&[path.as_slice(), &[name.ident.to_string()]].concat()),
            UseTree::Glob(_) => self.add(path),
        }
    }
}

impl<'ast> Visit<'ast> for Paths<'_> {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        }
    }
}

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
}

/// Returns the pairs of folders, parts of one module, that import each other, perhaps through others.
fn cycles(imports: &Imports) -> Vec<String> {
    let parents: BTreeSet<&[String]> = imports.keys().flat_map(|m| (0..m.len()).map(|end| &m[..end])).collect();
    let mut found = Vec::new();
    for parent in &parents {
        let depth = parent.len();
        let part =
            |module: &Module| (module.len() > depth && module.starts_with(parent)).then(|| module[depth].clone());
        let mut graph: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
        for (module, others) in imports {
            if let Some(from) = part(module) {
                let to = others.iter().filter_map(part).filter(|to| *to != from);
                graph.entry(from.clone()).or_default().extend(to);
            }
        }
        let is_folder = |name: &String| parents.contains([parent, std::slice::from_ref(name)].concat().as_slice());
        let folders: Vec<&String> = graph.keys().filter(|name| is_folder(name)).collect();
        for (i, a) in folders.iter().enumerate() {
            for b in &folders[i + 1..] {
                if reaches(&graph, a, b) && reaches(&graph, b, a) {
                    found.push(format!("the folders {a} and {b} of `{}` import each other", parent.join("::")));
                }
            }
        }
    }
    found
}

fn reaches(graph: &BTreeMap<String, BTreeSet<String>>, from: &String, to: &String) -> bool {
    let (mut seen, mut open) = (BTreeSet::from([from]), vec![from]);
    while let Some(next) = open.pop() {
        if next == to {
            return true;
        }
        open.extend(graph.get(next).into_iter().flatten().filter(|other| seen.insert(other)));
    }
    false
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
        cycles(&imports(folder.path()).expect("sources"))
    }

    #[test]
    fn reports_folders_that_import_each_other() {
        let a = ("a/x.rs", "use crate::b::y::Y;\nuse super::A;");
        let through = ("c.rs", "use crate::a::x;");
        let root = ("lib.rs", "mod a; mod b; mod c;");
        let cycle = ["the folders a and b of `` import each other"];
        assert_eq!(found(&[root, a, ("a.rs", "mod x;"), ("b/y.rs", "use crate::c::C;"), through]), cycle);
        assert_eq!(found(&[root, a, ("b/y.rs", "fn f() { crate::a::x::f() }")]), cycle);
        assert_eq!(found(&[root, a, ("b/y.rs", "#[cfg(test)] mod tests { use crate::a::x; }"), through]), [""; 0]);
        // Files beside each other, and a module with its own parts.
        assert_eq!(found(&[root, ("a/x.rs", "use super::z;"), ("a/z.rs", "use super::x;")]), [""; 0]);
    }
}
