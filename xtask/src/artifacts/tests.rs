//! Releases of a small program for two architectures.

use std::collections::BTreeMap;
use std::fs;
use std::io::Read;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

use super::*;
use crate::dist::tests::packed_for;
use crate::dist::{Target, sha256};

const TRIPLES: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

fn release() -> Release {
    let packages =
        TRIPLES.map(|triple| Packages::read(packed_for(Target::named(Some(triple)).unwrap()).path()).unwrap());
    Release {
        packages: packages.into(),
        epoch: 1_700_000_000,
        repository: "https://forge.example/a/b".to_owned(),
        lock: b"lock".to_vec(),
        toolchain: "1.95.0".to_owned(),
        builder: Some("https://forge.example/workflow".to_owned()),
        invocation: Some("https://forge.example/run/1".to_owned()),
    }
}

/// Returns the files of a release in a folder.
fn written(key: Option<&Key>) -> tempfile::TempDir {
    let temp = tempfile::tempdir().unwrap();
    release().artifacts(key).unwrap().write(temp.path()).unwrap();
    temp
}

fn names(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn artifacts_of_all_platforms_are_in_one_folder() {
    // A signature changes nothing else.
    let (temp, again) = (written(Some(&Key::for_test())), written(None));
    let names = names(temp.path());
    let want = |end: &str| names.iter().filter(|name| name.ends_with(end)).count();
    for (end, count) in [
        (".tar.gz", 2),
        (".deb", 2),
        (".rpm", 2),
        ("-image.cdx.json", 2),
        ("-image.tar", 1),
        (".provenance.json", 1),
        (".minisig", 1),
    ] {
        assert_eq!(want(end), count, "{end}: {names:?}");
    }
    let mut check = Command::new("sha256sum");
    check.args(["--check", "--strict", "--quiet", SUMS]).current_dir(temp.path());
    assert!(check.status().unwrap().success());
    let sums = |folder: &Path| fs::read_to_string(folder.join(SUMS)).unwrap();
    assert_eq!(sums(temp.path()).lines().count() + 2, names.len());
    assert_eq!(sums(temp.path()), sums(again.path()));
}

#[test]
#[cfg_attr(not(has_minisign), ignore = "needs minisign")]
fn minisign_verifies_the_checksums() {
    let key = Key::for_test();
    let temp = written(Some(&key));
    let mut verify = Command::new("minisign");
    verify.args(["-V", "-m", SUMS, "-P", &key.public()]).current_dir(temp.path());
    let verified = verify.output().unwrap();
    assert!(verified.status.success(), "{verified:?}");
}

/// Follows every reference from the index, and compares digests and sizes.
#[test]
fn image_has_both_architectures_and_their_sboms() {
    let temp = written(None);
    let mut files = BTreeMap::new();
    let archive = fs::File::open(temp.path().join("binnacle-1.2.3-image.tar")).unwrap();
    for entry in tar::Archive::new(archive).entries().unwrap() {
        let mut entry = entry.unwrap();
        let mut bytes = Vec::new();
        entry.read_to_end(&mut bytes).unwrap();
        files.insert(entry.path().unwrap().to_string_lossy().into_owned(), bytes);
    }
    let document = |descriptor: &Value| -> Value {
        let digest = descriptor["digest"].as_str().unwrap().strip_prefix("sha256:").unwrap();
        let bytes = &files[&format!("blobs/sha256/{digest}")];
        assert_eq!((sha256(bytes).as_str(), &json!(bytes.len())), (digest, &descriptor["size"]));
        serde_json::from_slice(bytes).unwrap()
    };
    let top: Value = serde_json::from_slice(&files["index.json"]).unwrap();
    let statement: Value =
        serde_json::from_slice(&fs::read(temp.path().join("binnacle-1.2.3.provenance.json")).unwrap()).unwrap();
    for (descriptor, name) in top["manifests"].as_array().unwrap().iter().zip(["1.2.3", "1.2.3-root"]) {
        assert_eq!(descriptor["annotations"]["org.opencontainers.image.ref.name"], name);
        let subject = json!({
            "name": format!("kube-apiserver:{name}"),
            "digest": {"sha256": descriptor["digest"].as_str().unwrap().trim_start_matches("sha256:")},
        });
        assert!(statement["subject"].as_array().unwrap().contains(&subject), "{subject}");
        let index = document(descriptor);
        let manifests = index["manifests"].as_array().unwrap();
        let platforms: Vec<_> =
            manifests.iter().map(|found| found["platform"]["architecture"].as_str().unwrap()).collect();
        assert_eq!(platforms, ["amd64", "arm64", "unknown", "unknown"]);
        for (image, attestation) in manifests[..2].iter().zip(&manifests[2..]) {
            assert_eq!(document(&document(image)["config"])["architecture"], image["platform"]["architecture"]);
            assert_eq!(attestation["annotations"]["vnd.docker.reference.digest"], image["digest"]);
            let sbom = document(&document(attestation)["layers"][0]);
            assert_eq!(sbom["predicate"]["bomFormat"], "CycloneDX");
            assert_eq!(format!("sha256:{}", sbom["subject"][0]["digest"]["sha256"].as_str().unwrap()), image["digest"]);
        }
    }
}

#[test]
fn provenance_names_every_file_and_the_sources() {
    let temp = written(None);
    let read = |name: &str| fs::read(temp.path().join(name)).unwrap();
    let statement: Value = serde_json::from_slice(&read("binnacle-1.2.3.provenance.json")).unwrap();
    for name in names(temp.path()).iter().filter(|name| !name.ends_with(".provenance.json") && *name != SUMS) {
        let subject = json!({"name": name, "digest": {"sha256": sha256(&read(name))}});
        assert!(statement["subject"].as_array().unwrap().contains(&subject), "{name}");
    }
    assert_eq!(statement["predicateType"], "https://slsa.dev/provenance/v1");
    let definition = &statement["predicate"]["buildDefinition"];
    let source = json!({"uri": "git+https://forge.example/a/b", "digest": {"gitCommit": "abc"}});
    assert_eq!(definition["externalParameters"]["source"], source);
    assert_eq!(definition["externalParameters"]["targets"], json!(TRIPLES));
    assert_eq!(definition["resolvedDependencies"][2]["uri"], "pkg:generic/rust@1.95.0");
    assert_eq!(statement["predicate"]["runDetails"]["builder"]["id"], "https://forge.example/workflow");
}

#[test]
fn rejects_changed_files_and_missing_platforms() {
    let temp = packed_for(Target::named(Some(TRIPLES[0])).unwrap());
    let package = names(temp.path()).into_iter().find(|name| name.ends_with(".deb")).unwrap();
    fs::write(temp.path().join(package), b"changed").unwrap();
    assert!(Packages::read(temp.path()).is_err_and(|error| error.contains("differs from its checksum")));
    let missing = release().check_platforms().unwrap_err();
    assert!(missing.contains("x86_64-unknown-linux-musl, aarch64-unknown-linux-musl"), "{missing}");
    let mut release = release();
    release.packages[1].version = "1.2.4".to_owned();
    assert!(release.artifacts(None).is_err_and(|error| error.contains("1.2.4")));
}

#[test]
fn reads_the_version_of_rust() {
    assert_eq!(toolchain("rustc 1.95.0 (59807616e 2026-04-14)\n").unwrap(), "1.95.0");
    assert!(toolchain("clang 22\n").is_err());
}
