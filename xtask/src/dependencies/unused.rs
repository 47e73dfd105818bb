//! Dependencies that are declared and that no line of source names.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use super::Findings;

/// Dependencies for the sake of a feature of theirs, which code need not name: kube gets its API version so.
const FEATURES_ONLY: &[&str] = &["k8s-openapi"];

/// The dependencies that members of the workspace declare without using them.
pub(super) fn of_members(packages: &[Value]) -> Findings {
    let mut findings = Findings::new();
    for package in packages.iter().filter(|package| package["source"].is_null()) {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(folder) = package["manifest_path"].as_str().and_then(|path| Path::new(path).parent()) else {
            continue;
        };
        let mut words = BTreeSet::new();
        collect(folder, &mut words);
        for dependency in package["dependencies"].as_array().into_iter().flatten() {
            let known = dependency["rename"].as_str().or_else(|| dependency["name"].as_str()).unwrap_or_default();
            if !words.contains(&known.replace('-', "_")) && !FEATURES_ONLY.contains(&known) {
                findings.push(format!("{name} declares {known} and does not use it"));
            }
        }
    }
    findings
}

/// The dependencies that the workspace declares and no member takes.
pub(super) fn of_workspace(manifest: &str, packages: &[Value]) -> Findings {
    let taken: BTreeSet<&str> = packages
        .iter()
        .filter(|package| package["source"].is_null())
        .flat_map(|package| package["dependencies"].as_array().into_iter().flatten())
        .filter_map(|dependency| dependency["name"].as_str())
        .collect();
    let declared = manifest
        .lines()
        .skip_while(|line| *line != "[workspace.dependencies]")
        .skip(1)
        .take_while(|line| !line.starts_with('['))
        .filter_map(|line| Some(line.split_once('=')?.0.trim()));
    let unused = declared.filter(|name| !taken.contains(name));
    unused.map(|name| format!("the workspace declares {name} and no member takes it")).collect()
}

/// The names that paths in the Rust sources of a folder begin with.
fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(&path, names);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs")
            && let Ok(text) = std::fs::read_to_string(&path)
        {
            names.extend(first_names(&text).map(str::to_owned));
        }
    }
}

fn is_name(c: char) -> bool {
    c.is_alphanumeric() || c == '_'
}

/// The names that paths in a source begin with, but for its own modules: `time` of `time::Duration` and `use time;`, and
/// not of `std::time::Duration`.
fn first_names(text: &str) -> impl Iterator<Item = &str> {
    let own: BTreeSet<&str> = text
        .match_indices("mod ")
        .map(|(at, found)| &text[at + found.len()..])
        .map(|rest| &rest[..rest.find(|c: char| !is_name(c)).unwrap_or(rest.len())])
        .collect();
    let words = text.split(|c: char| !is_name(c)).filter(|word| !word.is_empty());
    words.filter(move |word| {
        let at = word.as_ptr() as usize - text.as_ptr() as usize;
        let (before, after) = (text[..at].trim_end(), &text[at + word.len()..]);
        let begins = !before.ends_with("::") || !before.trim_end_matches(':').ends_with(is_name);
        let absolute = before.ends_with("::");
        let imported = before.ends_with("use") || before.ends_with("extern crate");
        begins && (after.starts_with("::") || imported) && (absolute || !own.contains(word))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_the_crates_that_paths_begin_with() {
        for (text, want) in [
            ("use serde_json::Value;", &["serde_json"][..]),
            ("use time;", &["time"]),
            ("fn f() -> time::Duration {}", &["time"]),
            ("#[derive(thiserror::Error)]", &["thiserror"]),
            ("std::time::Duration; tokio::time::sleep", &["std", "tokio"]),
            ("let time = 1; bytes.time()", &[]),
            ("mod time;\nuse time::Time;", &[]),
            ("mod time;\nuse ::time::Time;", &["time"]),
        ] {
            assert_eq!(first_names(text).collect::<Vec<_>>(), want, "{text}");
        }
    }

    #[test]
    fn reports_unused_dependencies() {
        let package = |source: Value| {
            serde_json::json!({"name": "a", "source": source, "manifest_path": concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"),
                "dependencies": [{"name": "serde_json"}, {"name": "never-".to_owned() + "heard-of"}]})
        };
        let own = [package(Value::Null)];
        assert_eq!(of_members(&own), ["a declares never-heard-of and does not use it"]);
        assert_eq!(of_members(&[package("registry".into())]), Findings::new());
        let manifest =
            "[workspace.dependencies]\nserde_json = \"1\"\nother = { path = \"x\" }\n\n[profile.dev]\ndebug = 1\n";
        assert_eq!(of_workspace(manifest, &own), ["the workspace declares other and no member takes it"]);
    }
}
