//! The layers of crates: ARCHITECTURE.md's table of crates, held against their manifests.

use std::collections::HashMap;

use serde_json::Value;

use super::Findings;

/// Crates that provide kinds. Only programs, tools and tests name them: crates that serve resources see the catalog
/// alone.
const PROVIDERS: [&str; 4] = ["binnacle-kinds", "binnacle-resources", "binnacle-columns", "binnacle-builtin"];
/// Crates that must not name a provider.
const SERVING: [&str; 6] = [
    "binnacle-registry",
    "binnacle-endpoints",
    "binnacle-openapi",
    "binnacle-discovery",
    "binnacle-admission",
    "binnacle-controlplane",
];

/// Checks that every crate of the workspace stands in the table, below all that it leans on; development dependencies
/// do not count.
pub(super) fn check(architecture: &str, packages: &[Value]) -> Findings {
    let rows = rows(architecture);
    let place: HashMap<&str, usize> = rows.iter().enumerate().map(|(at, name)| (*name, at)).collect();
    let members = packages.iter().filter(|package| package["source"].is_null());
    let mut findings = Findings::new();
    for package in members {
        let name = package["name"].as_str().unwrap_or_default();
        let Some(at) = place.get(short(name)) else {
            findings.push(format!("ARCHITECTURE.md's table of crates lacks {}", short(name)));
            continue;
        };
        let needed = package["dependencies"].as_array().into_iter().flatten();
        let needed = needed.filter(|needed| needed["kind"].is_null()).filter_map(|needed| needed["name"].as_str());
        for needed in needed.filter(|needed| needed.starts_with("binnacle-")) {
            if place.get(short(needed)).is_none_or(|other| other >= at) {
                findings.push(format!("{name} leans on {needed}, which does not stand above it in ARCHITECTURE.md"));
            }
            if SERVING.contains(&name) && PROVIDERS.contains(&needed) {
                findings.push(format!("{name} leans on {needed}, which only programs and tests may name"));
            }
        }
    }
    findings
}

/// The crates of the table, in order: the words in backticks in the first column of its rows.
fn rows(architecture: &str) -> Vec<&str> {
    let table = architecture.lines().skip_while(|line| !line.starts_with("| crate |")).skip(2);
    let table = table.take_while(|line| line.starts_with('|'));
    table.filter_map(|line| line.split('|').nth(1)).flat_map(|cell| cell.split('`').skip(1).step_by(2)).collect()
}

fn short(name: &str) -> &str {
    name.strip_prefix("binnacle-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    const TABLE: &str =
        "text\n\n| crate | what |\n| --- | --- |\n| `meta` | x |\n| `kinds`, `store` | y |\n| `registry` | z |\n\ntext";

    fn package(name: &str, needed: &[(&str, Option<&str>)]) -> serde_json::Value {
        let needed: Vec<_> = needed.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({"name": name, "source": null, "dependencies": needed})
    }

    #[test]
    fn arrows_point_up() {
        for (name, needed, want) in [
            ("binnacle-store", vec![("binnacle-meta", None), ("serde", None)], None),
            ("binnacle-meta", vec![("binnacle-store", Some("dev"))], None),
            ("binnacle-meta", vec![("binnacle-store", None)], Some("does not stand above it")),
            ("binnacle-store", vec![("binnacle-other", None)], Some("does not stand above it")),
            ("binnacle-registry", vec![("binnacle-kinds", None)], Some("only programs and tests")),
            ("binnacle-other", vec![], Some("lacks other")),
        ] {
            let found = check(TABLE, &[package(name, &needed)]);
            assert_eq!(found.len(), usize::from(want.is_some()), "{found:?}");
            assert!(found.iter().all(|found| found.contains(want.unwrap_or_default())), "{found:?}");
        }
    }
}
