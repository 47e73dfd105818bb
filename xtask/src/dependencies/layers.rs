//! The domains and layers of crates: ARCHITECTURE.md, compared with the manifests.
//!
//! The page has a table of domains (`| domain | owns | uses |`), a picture of them, and one table of crates for each
//! domain below a heading with its name. A crate may depend on crates above it in its own table, and on every crate of
//! the domains that its domain uses.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use serde_json::Value;

use super::Findings;

/// Crates that provide kinds. Only programs, tools and tests name them: crates that serve resources see the catalog
/// alone.
const PROVIDERS: [&str; 4] = ["kinds", "resources", "columns", "builtin"];
/// Crates that must not name a provider.
const SERVING: [&str; 6] = ["registry", "endpoints", "openapi", "discovery", "admission", "controllers"];

/// What ARCHITECTURE.md says of domains and crates.
struct Page<'a> {
    /// Domains in order, each with the domains that it uses.
    domains: Vec<(&'a str, Vec<&'a str>)>,
    /// The domain of each crate, and its row in that domain's table.
    crates: HashMap<&'a str, (&'a str, usize)>,
    /// The arrows of the picture, from a domain to one that it depends on.
    picture: BTreeSet<(&'a str, &'a str)>,
}

/// A package of the workspace.
struct Package<'a> {
    name: &'a str,
    /// The folder below the workspace's root.
    folder: String,
    /// The crates of the workspace that it depends on, except for tests.
    needs: Vec<&'a str>,
}

/// Checks every crate of the workspace against the page; development dependencies do not count.
pub(super) fn check(architecture: &str, metadata: &Value) -> Findings {
    let page = Page::read(architecture);
    let packages = packages(metadata);
    let mut findings = page.own_order();
    for package in &packages {
        findings.extend(page.check(package));
    }
    findings.extend(page.check_picture(&packages));
    findings
}

impl<'a> Page<'a> {
    fn read(architecture: &'a str) -> Self {
        let domains = rows(architecture, "| domain |").map(|row| {
            let cells: Vec<&str> = row.split('|').collect();
            let name = words(cells.get(1).unwrap_or(&"")).next().unwrap_or_default();
            (name, words(cells.get(3).unwrap_or(&"")).collect())
        });
        let mut crates = HashMap::new();
        for section in architecture.split("\n### ").skip(1) {
            let domain = words(section.lines().next().unwrap_or_default()).next().unwrap_or_default();
            let names = rows(section, "| crate |").filter_map(|row| words(row.split('|').nth(1)?).next());
            crates.extend(names.enumerate().map(|(at, name)| (name, (domain, at))));
        }
        // The first picture is that of the domains.
        let picture = architecture.split("```").find(|block| block.starts_with("mermaid")).unwrap_or_default();
        let picture = picture.lines().filter_map(|line| line.trim().split_once(" --> "));
        Self { domains: domains.collect(), crates, picture: picture.collect() }
    }

    /// Checks that domains use only domains above them.
    fn own_order(&self) -> Findings {
        let mut findings = Findings::new();
        for (at, (name, uses)) in self.domains.iter().enumerate() {
            for other in uses {
                if !self.domains[..at].iter().any(|(above, _)| above == other) {
                    findings.push(format!("the domain {name} uses {other}, which does not stand above it"));
                }
            }
        }
        findings
    }

    fn check(&self, package: &Package) -> Findings {
        let Package { name, folder, needs } = package;
        let Some(below) = folder.strip_prefix("crates/") else { return Findings::new() };
        let Some((domain, row)) = self.crates.get(name) else {
            return vec![format!("ARCHITECTURE.md has no row for the crate {name}")];
        };
        let mut findings = Findings::new();
        if below != format!("{domain}/{name}") {
            findings.push(format!("ARCHITECTURE.md has {name} in the domain {domain}, but its folder is {folder}"));
        }
        let uses = self.domains.iter().find(|(other, _)| other == domain).map(|(_, uses)| uses.as_slice());
        for needed in needs {
            let is_allowed = match self.crates.get(needed) {
                Some((other, above)) if other == domain => above < row,
                Some((other, _)) => uses.unwrap_or_default().contains(other),
                None => false,
            };
            if !is_allowed {
                findings.push(format!("{name} depends on {needed}, which ARCHITECTURE.md does not allow"));
            }
            if SERVING.contains(name) && PROVIDERS.contains(needed) {
                findings.push(format!("{name} depends on {needed}, which only programs and tests may name"));
            }
        }
        findings
    }

    /// Checks that the picture shows the manifests: each dependency between domains, unless a chain of others implies it.
    fn check_picture(&self, packages: &[Package]) -> Findings {
        let mut depends: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
        for package in packages {
            let Some((domain, _)) = self.crates.get(package.name) else { continue };
            let others = package.needs.iter().filter_map(|needed| self.crates.get(needed)).map(|(other, _)| *other);
            depends.entry(domain).or_default().extend(others.filter(|other| other != domain));
        }
        let wanted: BTreeSet<(&str, &str)> = depends
            .iter()
            .flat_map(|(domain, others)| others.iter().map(move |other| (*domain, *other)))
            .filter(|(domain, other)| !depends[domain].iter().any(|via| via != other && reaches(&depends, via, other)))
            .collect();
        let lines = |arrows: Vec<&(&str, &str)>| {
            arrows.into_iter().map(|(from, to)| format!("{from} --> {to}")).collect::<Vec<_>>().join(", ")
        };
        let mut findings = Findings::new();
        let (missing, extra) = (wanted.difference(&self.picture), self.picture.difference(&wanted));
        let (missing, extra) = (lines(missing.collect()), lines(extra.collect()));
        if !missing.is_empty() {
            findings.push(format!("the picture in ARCHITECTURE.md lacks {missing}"));
        }
        if !extra.is_empty() {
            findings.push(format!("the picture in ARCHITECTURE.md has {extra}, which no manifest has"));
        }
        findings
    }
}

/// Reports whether a chain of dependencies leads from one domain to another. Domains have no cycles, or
/// [`Page::own_order`] reports them; the depth is bounded all the same.
fn reaches(depends: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let mut open = vec![from];
    let mut seen = BTreeSet::new();
    while let Some(at) = open.pop() {
        if !seen.insert(at) {
            continue;
        }
        let Some(others) = depends.get(at) else { continue };
        if others.contains(to) {
            return true;
        }
        open.extend(others);
    }
    false
}

/// Returns the workspace's packages from the metadata of Cargo.
fn packages(metadata: &Value) -> Vec<Package<'_>> {
    let root = metadata["workspace_root"].as_str().unwrap_or_default();
    let members = metadata["packages"].as_array().into_iter().flatten().filter(|package| package["source"].is_null());
    members
        .filter_map(|member| {
            let manifest = member["manifest_path"].as_str()?;
            let folder = manifest.strip_prefix(root)?.trim_start_matches('/').strip_suffix("/Cargo.toml")?.to_owned();
            let needed = member["dependencies"].as_array().into_iter().flatten();
            let needed = needed.filter(|needed| needed["kind"].is_null()).filter_map(|needed| needed["name"].as_str());
            let needs = needed.filter_map(|needed| needed.strip_prefix("binnacle-")).collect();
            Some(Package { name: short(member["name"].as_str()?), folder, needs })
        })
        .collect()
}

/// Returns the rows of the first table whose head begins with `head`.
fn rows<'a>(text: &'a str, head: &'static str) -> impl Iterator<Item = &'a str> {
    let table = text.lines().skip_while(move |line| !line.starts_with(head)).skip(2);
    table.take_while(|line| line.starts_with('|'))
}

/// Returns the words in backticks.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split('`').skip(1).step_by(2)
}

fn short(name: &str) -> &str {
    name.strip_prefix("binnacle-").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::check;

    const PAGE: &str = "text\n\n| domain | owns | uses |\n| --- | --- | --- |\n| `low` | x | |\n| `high` | y | `low` |\n\n\
                        text\n```mermaid\ngraph TD\n    high --> low\n```\n\n```mermaid\ngraph LR\n    One --> Two\n```\n\n\
                        ### `low`: x\n\n| crate | what |\n| --- | --- |\n| `meta` | x |\n\
                        | `store` | y |\n\n### `high`: y\n\n| crate | what |\n| --- | --- |\n| `registry` | z |\n| `kinds` | z |\n";

    fn package(folder: &str, needed: &[(&str, Option<&str>)]) -> serde_json::Value {
        let name = format!("binnacle-{}", folder.rsplit('/').next().unwrap());
        let needed: Vec<_> = needed.iter().map(|(name, kind)| json!({"name": name, "kind": kind})).collect();
        json!({"name": name, "source": null, "manifest_path": format!("/w/{folder}/Cargo.toml"), "dependencies": needed})
    }

    fn metadata(packages: Vec<serde_json::Value>) -> serde_json::Value {
        json!({"workspace_root": "/w", "packages": packages})
    }

    #[test]
    fn accepts_dependencies_upwards_and_on_used_domains() {
        let found = check(
            PAGE,
            &metadata(vec![
                package("crates/low/store", &[("binnacle-meta", None), ("serde", None)]),
                package("crates/low/meta", &[("binnacle-store", Some("dev"))]),
                package("crates/high/registry", &[("binnacle-store", None)]),
                package("xtask", &[("binnacle-kinds", None)]),
            ]),
        );
        assert_eq!(found, [""; 0]);
    }

    #[test]
    fn reports_dependencies_downwards_and_wrong_folders() {
        let dependent = || package("crates/high/registry", &[("binnacle-meta", None)]);
        for (other, want) in [
            (package("crates/low/meta", &[("binnacle-store", None)]), "meta depends on store"),
            (package("crates/low/store", &[("binnacle-registry", None)]), "store depends on registry"),
            (package("crates/low/store", &[("binnacle-absent", None)]), "store depends on absent"),
            (package("crates/high/meta", &[]), "its folder is crates/high/meta"),
            (package("crates/low/other", &[]), "no row for the crate other"),
        ] {
            let found = check(PAGE, &metadata(vec![dependent(), other]));
            assert!(found.iter().any(|found| found.contains(want)), "{want}: {found:?}");
        }
        let provided = package("crates/high/registry", &[("binnacle-kinds", None), ("binnacle-meta", None)]);
        let found = check(PAGE, &metadata(vec![provided]));
        assert!(found.iter().any(|found| found.contains("only programs and tests")), "{found:?}");
    }

    #[test]
    fn reports_differences_between_picture_and_manifests() {
        let found = check(PAGE, &metadata(vec![package("crates/low/meta", &[])]));
        assert_eq!(found, ["the picture in ARCHITECTURE.md has high --> low, which no manifest has"]);
        let page = PAGE.replace("    high --> low\n", "");
        let found = check(&page, &metadata(vec![package("crates/high/registry", &[("binnacle-meta", None)])]));
        assert_eq!(found, ["the picture in ARCHITECTURE.md lacks high --> low"]);
    }

    #[test]
    fn domains_use_only_domains_above() {
        let page = PAGE.replace("| `low` | x | |", "| `low` | x | `high` |").replace("    high --> low\n", "");
        let found = check(&page, &metadata(vec![]));
        assert_eq!(found, ["the domain low uses high, which does not stand above it"]);
    }
}
