//! The bill of materials of the packed programs: a CycloneDX document of the crates in them.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::{Release, TOOL, sha256};

/// One component of the packages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Component {
    document: Value,
    /// The component's `bom-ref` in the document.
    reference: String,
    /// The references of the components that it depends on.
    needs: Vec<String>,
}

impl Component {
    /// Returns the component of a shared library of the build machine.
    pub(super) fn library(path: &str, bytes: &[u8]) -> Self {
        let reference = format!("file:{path}");
        let document = json!({
            "type": "file",
            "bom-ref": reference,
            "name": path,
            "hashes": [{"alg": "SHA-256", "content": sha256(bytes)}],
        });
        Self { document, reference, needs: Vec::new() }
    }

    /// Returns true if the component is this version of a crate.
    pub(super) fn is(&self, name: &Value, version: &Value) -> bool {
        self.document["name"] == *name && self.document["version"] == *version
    }

    #[cfg(test)]
    pub(super) fn for_test(name: &str, version: &str) -> Self {
        Self::krate(&json!({"name": name, "version": version}), &BTreeMap::new(), Vec::new())
    }

    fn krate(package: &Value, checksums: &BTreeMap<(String, String), String>, needs: Vec<String>) -> Self {
        let (name, version) = (text(&package["name"]), text(&package["version"]));
        let reference = reference(package);
        let mut document = json!({
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": version,
            "purl": reference,
        });
        if let Some(licence) = package["license"].as_str() {
            // The slash is an old notation for OR.
            document["licenses"] = json!([{"expression": licence.replace('/', " OR ")}]);
        }
        if let Some(description) = package["description"].as_str() {
            document["description"] = json!(description.split_whitespace().collect::<Vec<_>>().join(" "));
        }
        if let Some(checksum) = checksums.get(&(name.to_owned(), version.to_owned())) {
            document["hashes"] = json!([{"alg": "SHA-256", "content": checksum}]);
        }
        if let Some(repository) = package["repository"].as_str() {
            document["externalReferences"] = json!([{"type": "vcs", "url": repository}]);
        }
        Self { document, reference, needs }
    }
}

/// Returns the crates in the programs of these packages: dependencies, but not those of tests and builds.
pub(super) fn components(
    root: &Path,
    packages: &[&str],
    features: &[String],
    triple: &str,
) -> Result<Vec<Component>, String> {
    let output = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()))
        .args(["metadata", "--locked", "--format-version", "1", "--filter-platform", triple])
        .args(features)
        .current_dir(root)
        .output()
        .map_err(|error| format!("cannot run cargo metadata: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo metadata: {}", String::from_utf8_lossy(&output.stderr).trim()));
    }
    let metadata = serde_json::from_slice(&output.stdout).map_err(|error| format!("cargo metadata: {error}"))?;
    let lock = super::read(&root.join("Cargo.lock"))?;
    reached(&metadata, packages, &checksums(&String::from_utf8_lossy(&lock)))
}

/// Follows the dependencies of packages.
fn reached(
    metadata: &Value,
    from: &[&str],
    checksums: &BTreeMap<(String, String), String>,
) -> Result<Vec<Component>, String> {
    let list = |value: &Value| value.as_array().cloned().ok_or("cargo metadata tells no packages");
    let packages: BTreeMap<String, Value> =
        list(&metadata["packages"])?.into_iter().map(|package| (text(&package["id"]).to_owned(), package)).collect();
    let mut needs = BTreeMap::new();
    for node in list(&metadata["resolve"]["nodes"])? {
        let normal = |dependency: &&Value| {
            dependency["dep_kinds"].as_array().is_some_and(|kinds| kinds.iter().any(|kind| kind["kind"].is_null()))
        };
        let dependencies: Vec<_> =
            list(&node["deps"])?.iter().filter(normal).map(|d| text(&d["pkg"]).to_owned()).collect();
        needs.insert(text(&node["id"]).to_owned(), dependencies);
    }
    let mut open: Vec<String> = packages
        .iter()
        .filter(|(_, package)| package["source"].is_null() && from.contains(&text(&package["name"])))
        .map(|(id, _)| id.clone())
        .collect();
    if open.len() != from.len() {
        return Err(format!("cargo metadata does not know all of {from:?}"));
    }
    let mut seen = BTreeSet::new();
    while let Some(id) = open.pop() {
        if seen.insert(id.clone()) {
            open.extend(needs.get(&id).into_iter().flatten().cloned());
        }
    }
    let mut components = Vec::new();
    for (id, package) in packages.iter().filter(|(id, _)| seen.contains(*id)) {
        let leans = needs.get(id).into_iter().flatten().filter_map(|id| packages.get(id)).map(reference).collect();
        components.push(Component::krate(package, checksums, leans));
    }
    components.sort_by(|one, other| one.reference.cmp(&other.reference));
    Ok(components)
}

/// Returns the CycloneDX document.
pub(super) fn document(release: &Release, components: &[Component]) -> Result<Vec<u8>, String> {
    let sorted = |needs: &[String]| needs.iter().cloned().collect::<BTreeSet<_>>();
    let main = format!("pkg:generic/{TOOL}@{}", release.version);
    let mut dependencies: Vec<_> = components
        .iter()
        .map(|component| json!({"ref": component.reference, "dependsOn": sorted(&component.needs)}))
        .collect();
    let all: Vec<_> = components.iter().map(|component| component.reference.clone()).collect();
    dependencies.insert(0, json!({"ref": main, "dependsOn": all}));
    let document = json!({
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "version": 1,
        "metadata": {
            "timestamp": release.date()?,
            "component": {
                "type": "application",
                "bom-ref": main,
                "name": TOOL,
                "version": release.version,
                "purl": main,
                "licenses": [{"license": {"id": "Apache-2.0"}}],
            },
            "properties": [
                {"name": "binnacle:target", "value": release.target.triple},
                {"name": "binnacle:revision", "value": release.revision.as_deref().unwrap_or("unknown")},
            ],
        },
        "components": components.iter().map(|component| &component.document).collect::<Vec<_>>(),
        "dependencies": dependencies,
    });
    let mut bytes = serde_json::to_vec_pretty(&document).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    Ok(bytes)
}

/// Returns the package URL of a package.
fn reference(package: &Value) -> String {
    format!("pkg:cargo/{}@{}", text(&package["name"]), text(&package["version"]).replace('+', "%2B"))
}

/// Returns the checksums in `Cargo.lock` by name and version. Members of the workspace have none.
fn checksums(lock: &str) -> BTreeMap<(String, String), String> {
    let mut found = BTreeMap::new();
    for package in lock.split("[[package]]").skip(1) {
        let value = |key: &str| {
            package
                .lines()
                .find_map(|line| line.strip_prefix(key)?.strip_prefix(" = "))
                .map(|v| v.trim_matches('"').to_owned())
        };
        if let (Some(name), Some(version), Some(checksum)) = (value("name"), value("version"), value("checksum")) {
            found.insert((name, version), checksum);
        }
    }
    found
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sbom_lists_only_linked_packages() {
        let package = |name: &str, source: Option<&str>| json!({"id": name, "name": name, "version": "1.0.0+x", "source": source, "license": "MIT/Apache-2.0"});
        let needs = |id: &str, kind: Option<&str>| json!({"pkg": id, "dep_kinds": [{"kind": kind}]});
        let metadata = json!({
            "packages": [package("server", None), package("a", Some("r")), package("b", Some("r")), package("test", Some("r"))],
            "resolve": {"nodes": [
                {"id": "server", "deps": [needs("a", None), needs("test", Some("dev")), needs("test", Some("build"))]},
                {"id": "a", "deps": [needs("b", None)]},
                {"id": "b", "deps": []},
                {"id": "test", "deps": []},
            ]},
        });
        let lock = "[[package]]\nname = \"a\"\nversion = \"1.0.0+x\"\nchecksum = \"abc\"\n";
        let found = reached(&metadata, &["server"], &checksums(lock)).unwrap();
        let names: Vec<_> = found.iter().map(|component| component.reference.as_str()).collect();
        assert_eq!(names, ["pkg:cargo/a@1.0.0%2Bx", "pkg:cargo/b@1.0.0%2Bx", "pkg:cargo/server@1.0.0%2Bx"]);
        assert_eq!(found[0].document["hashes"][0]["content"], "abc");
        assert_eq!(found[0].document["licenses"], json!([{"expression": "MIT OR Apache-2.0"}]));
        assert_eq!(found[0].needs, ["pkg:cargo/b@1.0.0%2Bx"]);
        assert!(reached(&metadata, &["other"], &BTreeMap::new()).is_err());
    }
}
