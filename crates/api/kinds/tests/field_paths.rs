//! Every literal field path in the sources leads through a message of the field tables.
//!
//! A rule that reads `object.str_at(&["spec", "replica"])` compiles and never applies. This test scans the crates that
//! read objects of the built-in kinds, and follows each literal path. In `kinds` and `columns` it follows it through
//! the messages of the group that the folder is named after.

#[path = "field_paths/exceptions.rs"]
mod exceptions;
#[path = "field_paths/source.rs"]
mod source;
#[path = "field_paths/walk.rs"]
mod walk;

use std::collections::{BTreeSet, HashMap};
use std::path::{Path, PathBuf};

use exceptions::EXCEPTIONS;
use source::PathForm;
use walk::Messages;

/// The crates that are scanned, and the forms in which they write paths of built-in kinds.
const CRATES: [(&str, &[PathForm]); 7] = [
    ("api/kinds", &[PathForm::Path, PathForm::Chain, PathForm::Member, PathForm::List]),
    ("admission/admission", &[PathForm::Path, PathForm::Chain, PathForm::Member, PathForm::List]),
    ("admission/admission-policies", &[PathForm::Path, PathForm::Chain, PathForm::List]),
    ("api/columns", &[PathForm::Path, PathForm::Chain, PathForm::Member, PathForm::List]),
    // There, single names of members are also used for other maps.
    ("control/write-hooks", &[PathForm::Path, PathForm::Chain, PathForm::List]),
    ("extensions/apiextensions", &[PathForm::Path, PathForm::Chain, PathForm::List]),
    ("extensions/aggregator", &[PathForm::Path, PathForm::Chain, PathForm::List]),
];

#[test]
fn literal_paths_exist_in_field_tables() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let all = Messages::all();
    let mut groups: HashMap<String, Option<Messages>> = HashMap::new();
    let mut unused: BTreeSet<(&str, &str)> = EXCEPTIONS.iter().map(|(file, path, _)| (*file, *path)).collect();
    let (mut walked, mut unresolved) = (0, Vec::new());
    for (folder, forms) in CRATES {
        let name = folder.split_once('/').map_or(folder, |(_, name)| name);
        let root = crates.join(folder).join("src");
        for file in sources(&root) {
            let inside = file.strip_prefix(&root).unwrap_or(&file).display().to_string();
            let folder = inside.split(['/', '.']).next().unwrap_or_default().to_owned();
            let by_group = ["kinds", "columns"].contains(&name);
            let group = groups.entry(folder).or_insert_with_key(|folder| Messages::of_group(folder)).as_ref();
            let messages = group.filter(|_| by_group).unwrap_or(&all);
            let title = format!("{name}/{inside}");
            let source = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
            for found in source::scan(&source).into_iter().filter(|found| forms.contains(&found.form)) {
                walked += 1;
                if messages.resolves(&found.path) {
                    continue;
                }
                let path = found.path.to_string();
                let excepted = EXCEPTIONS.iter().find(|(file, other, _)| *file == title && *other == path);
                match excepted {
                    Some((file, path, _)) => drop(unused.remove(&(*file, *path))),
                    None => unresolved.push(format!("{title}:{}: {path}", found.line)),
                }
            }
        }
    }
    assert!(unresolved.is_empty(), "paths that no message has:\n{}", unresolved.join("\n"));
    assert!(unused.is_empty(), "exceptions for what is no longer there: {unused:?}");
    assert!(walked > 50, "only {walked} paths were found");
}

/// Returns all Rust sources below a folder, except for tests.
fn sources(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    paths.sort();
    let mut found = Vec::new();
    for path in paths {
        if path.file_stem().is_some_and(|stem| stem == "tests") {
            continue;
        } else if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}
