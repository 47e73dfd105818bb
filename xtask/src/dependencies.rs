//! `cargo xtask dependencies`: checks the sources, licenses and bans of dependencies, unused ones, features, the
//! dependencies between crates against ARCHITECTURE.md, and cycles between the files of a folder. `deny.toml` is used
//! by this task, which takes a second everywhere, and by `cargo deny`, which also checks advisories where it is
//! installed.

mod cycles;
mod features;
mod layers;
mod licence;
mod unused;

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// One line for each problem that was found.
type Findings = Vec<String>;

pub(crate) fn command() -> clap::Command {
    clap::Command::new("dependencies")
        .about("Checks sources, licences, bans, use, domains, layers and cycles of all dependencies")
}

pub(crate) fn run() -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let read =
        |name: &str| std::fs::read_to_string(root.join(name)).map_err(|error| format!("cannot read {name}: {error}"));
    let (lock, rules) = (read("Cargo.lock")?, read("deny.toml")?);
    let metadata = metadata(&root, &[])?;
    let mut findings = sources(&lock);
    let allowed = list(&rules, "allow");
    let banned = list(&rules, "deny");
    if allowed.is_empty() || banned.is_empty() {
        return Err("deny.toml has no list of licences or of bans".to_owned());
    }
    let packages = metadata["packages"].as_array().ok_or("cargo metadata tells no packages")?;
    let with_features = self::metadata(&root, &["--all-features"])?;
    findings.extend(licences(with_features["packages"].as_array().unwrap_or(packages), &allowed));
    findings.extend(bans(packages, &banned));
    findings.extend(layers::check(&read("ARCHITECTURE.md")?, &metadata));
    findings.extend(cycles::check(&root.join("crates"))?);
    findings.extend(unused::of_members(packages));
    findings.extend(features::check(&root)?);
    findings.extend(unused::of_workspace(&read("Cargo.toml")?, packages));
    if !findings.is_empty() {
        return Err(findings.join("\n"));
    }
    println!("{} packages: sources, licences, bans and use are in order", packages.len());
    Ok(())
}

/// Returns Cargo's metadata of the packages for this platform; packages for others need not have been fetched.
fn metadata(root: &PathBuf, features: &[&str]) -> Result<Value, String> {
    let host = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", &host])
        .args(features)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))
}

/// Returns the elements of a list in `deny.toml`: strings, or the names of tables.
fn list(rules: &str, name: &str) -> Vec<String> {
    let inside = rules
        .lines()
        .skip_while(|line| line.trim() != format!("{name} = ["))
        .skip(1)
        .take_while(|line| line.trim() != "]");
    inside.filter_map(|line| Some(line.split('#').next()?.split('"').nth(1)?.to_owned())).collect()
}

/// Checks that every package in the lock file comes from the public registry, not from git or another source.
fn sources(lock: &str) -> Findings {
    let mut findings = Findings::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            package.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(" = ")).map(|v| v.trim_matches('"'))
        };
        let name = value("name").unwrap_or_default();
        match (value("source"), value("checksum")) {
            // A member of the workspace.
            (None, None) => {}
            (Some(source), Some(_)) if source.starts_with("registry+") && source.ends_with("/crates.io-index") => {}
            (source, _) => findings.push(format!("{name} comes from {}", source.unwrap_or("nowhere"))),
        }
    }
    findings
}

fn licences(packages: &[Value], allowed: &[String]) -> Findings {
    let judged = packages.iter().filter_map(|package| {
        let name = package["name"].as_str().unwrap_or_default();
        match package["license"].as_str() {
            None => Some(format!("{name} has no licence")),
            Some(text) if licence::permits(text, allowed) => None,
            Some(text) => Some(format!("{name} has the licence {text}, which deny.toml does not allow")),
        }
    });
    judged.collect()
}

/// Checks the packages of a build without features: some of them bring a banned one, such as `fips`.
fn bans(packages: &[Value], banned: &[String]) -> Findings {
    let is_there = |name: &&String| packages.iter().any(|package| package["name"] == name.as_str());
    banned.iter().filter(is_there).map(|name| format!("{name} is among the dependencies, and banned")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rejects_packages_of_other_sources() {
        let package = |source: &str| format!("[[package]]\nname = \"a\"\nversion = \"1.0.0\"\n{source}");
        for (source, good) in [
            ("", true),
            ("source = \"registry+https://host/x/crates.io-index\"\nchecksum = \"00\"\n", true),
            ("source = \"registry+https://host/x/crates.io-index\"\n", false),
            ("source = \"registry+https://host/other-index\"\nchecksum = \"00\"\n", false),
            ("source = \"git+https://host/a#0123\"\n", false),
        ] {
            assert_eq!(sources(&package(source)).is_empty(), good, "{source}");
        }
    }

    #[test]
    fn reads_lists_of_the_rules() {
        let rules = "[licenses]\nallow = [\n    \"MIT\", # everywhere\n    \"ISC\",\n]\n[bans]\ndeny = [\n    { crate = \"a\" },\n]\n";
        assert_eq!(list(rules, "allow"), ["MIT", "ISC"]);
        assert_eq!(list(rules, "deny"), ["a"]);
        let package = |name: &str| [serde_json::json!({ "name": name })];
        assert_eq!(bans(&package("a"), &list(rules, "deny")).len(), 1);
        assert!(bans(&package("ab"), &list(rules, "deny")).is_empty());
    }

    #[test]
    fn rejects_packages_without_an_allowed_licence() {
        let packages = [
            serde_json::json!({"name": "good", "license": "MIT OR GPL-3.0"}),
            serde_json::json!({"name": "bad", "license": "GPL-3.0"}),
            serde_json::json!({"name": "none", "license": null}),
        ];
        let findings = licences(&packages, &["MIT".to_owned()]);
        assert_eq!(findings.len(), 2);
        assert!(findings[0].starts_with("bad ") && findings[1].starts_with("none "), "{findings:?}");
    }
}
