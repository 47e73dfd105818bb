//! The paths into the own crate that a file names.

use std::collections::{BTreeMap, BTreeSet};

use syn::visit::{self, Visit};
use syn::{Attribute, File, Item, ItemMod, ItemUse, Macro, UseTree};

use super::Module;

/// The paths of a file.
pub(super) struct Paths {
    module: Module,
    /// The modules and items that the file names.
    pub(super) found: Vec<Module>,
    /// The names that the file imports, with their paths: its parts, and users of re-exports, can name them too.
    pub(super) names: BTreeMap<String, Module>,
    /// The modules in other files that exist only in tests.
    pub(super) test_modules: Vec<Module>,
    /// The names of the parts of the module.
    parts: BTreeSet<String>,
}

impl Paths {
    /// Returns the paths of a module's file.
    pub(super) fn of(module: &Module, file: &File) -> Self {
        let modules =
            file.items.iter().filter_map(|item| if let Item::Mod(module) = item { Some(module) } else { None });
        let mut paths = Self {
            module: module.clone(),
            found: Vec::new(),
            names: BTreeMap::new(),
            test_modules: Vec::new(),
            parts: modules.map(|module| module.ident.to_string()).collect(),
        };
        for item in &file.items {
            if let Item::Use(item) = item {
                paths.add_names(&item.tree, &mut Vec::new());
            }
        }
        paths.visit_file(file);
        paths
    }

    /// Returns the path within the crate that begins with `crate`, `self` or `super`.
    fn resolve(&self, path: &[String]) -> Option<Module> {
        let (mut base, mut rest) = match path {
            [first, rest @ ..] if first == "crate" => (Vec::new(), rest),
            [first, rest @ ..] if first == "self" => (self.module.clone(), rest),
            [first, ..] if first == "super" => (self.module.clone(), path),
            _ => return None,
        };
        while let [first, after @ ..] = rest
            && first == "super"
        {
            base.pop();
            rest = after;
        }
        base.extend_from_slice(rest);
        Some(base)
    }

    fn add(&mut self, path: &[String]) {
        self.found.extend(self.resolve(path));
    }

    fn add_tree(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_tree(&part.tree, path);
                path.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|item| self.add_tree(item, path)),
            UseTree::Name(name) => self.add(&leaf(path, &name.ident.to_string())),
            UseTree::Rename(name) => self.add(&leaf(path, &name.ident.to_string())),
            UseTree::Glob(_) => self.add(path),
        }
    }

    /// Adds the names of an import, except for those of a glob.
    fn add_names(&mut self, tree: &UseTree, path: &mut Vec<String>) {
        let (name, path) = match tree {
            UseTree::Path(part) => {
                path.push(part.ident.to_string());
                self.add_names(&part.tree, path);
                path.pop();
                return;
            }
            UseTree::Group(group) => return group.items.iter().for_each(|item| self.add_names(item, path)),
            UseTree::Name(name) => {
                let path = leaf(path, &name.ident.to_string());
                (path.last().cloned().unwrap_or_default(), path)
            }
            UseTree::Rename(name) => (name.rename.to_string(), leaf(path, &name.ident.to_string())),
            UseTree::Glob(_) => return,
        };
        let is_of_part = path.first().is_some_and(|first| self.parts.contains(first));
        let target = if is_of_part { Some([self.module.clone(), path].concat()) } else { self.resolve(&path) };
        // A module that imports its own part by the part's name.
        if let Some(target) = target.filter(|target| *target != leaf(&self.module, &name)) {
            self.names.insert(name, target);
        }
    }
}

/// Returns the path of a name in an import; `self` is the path itself.
fn leaf(path: &[String], name: &str) -> Vec<String> {
    match name {
        "self" if !path.is_empty() => path.to_vec(),
        name => [path, &[name.to_owned()]].concat(),
    }
}

impl<'ast> Visit<'ast> for Paths {
    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.add_tree(&item.tree, &mut Vec::new());
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        self.add(&path.segments.iter().map(|segment| segment.ident.to_string()).collect::<Vec<_>>());
        visit::visit_path(self, path);
    }

    /// Adds the paths among the tokens of a macro.
    fn visit_macro(&mut self, item: &'ast Macro) {
        visit::visit_macro(self, item);
        let text = item.tokens.to_string();
        let is_word = |c: char| c.is_alphanumeric() || matches!(c, '_' | ':');
        let words: Vec<&str> = text.split(|c| !is_word(c)).filter(|word| !word.is_empty()).collect();
        for (at, word) in words.iter().enumerate() {
            let begins = matches!(*word, "crate" | "self" | "super") && (at == 0 || words[at - 1] != "::");
            if !begins {
                continue;
            }
            let rest = words[at + 1..].chunks_exact(2).take_while(|pair| pair[0] == "::").map(|pair| pair[1]);
            let path: Vec<String> = std::iter::once(*word).chain(rest).map(str::to_owned).collect();
            if path.len() > 1 {
                self.add(&path);
            }
        }
    }

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        if !item.attrs.iter().any(is_test) {
            visit::visit_item_mod(self, item);
        } else if item.content.is_none() {
            self.test_modules.push(leaf(&self.module, &item.ident.to_string()));
        }
    }
}

fn is_test(attribute: &Attribute) -> bool {
    attribute.path().is_ident("cfg") && attribute.parse_args::<syn::Ident>().is_ok_and(|name| name == "test")
}
