//! The provenance of a release: an in-toto statement with a predicate of SLSA 1.0.

use serde_json::{Value, json};

use super::Release;
use super::packages::Packages;
use crate::dist;
use crate::dist::archive::{Node, Tree};

/// Returns the statement about all files, and about images by name and digest.
pub(super) fn statement<'d>(
    release: &Release,
    sources: &Packages,
    files: &Tree,
    images: impl Iterator<Item = (&'d String, &'d String)>,
) -> Result<Vec<u8>, String> {
    let mut subjects: Vec<Value> = files
        .entries()
        .filter_map(|(name, entry)| match &entry.node {
            Node::File(bytes) => Some(subject(name, &dist::sha256(bytes))),
            Node::Folder | Node::Link(_) => None,
        })
        .collect();
    subjects.extend(images.map(|(name, digest)| subject(&format!("kube-apiserver:{name}"), digest)));
    let page = format!("{}/blob/main/docs/releasing.md", release.repository);
    let mut metadata = json!({});
    if let Some(invocation) = &release.invocation {
        metadata["invocationId"] = json!(invocation);
    }
    let targets: Vec<_> = release.packages.iter().map(|packages| packages.triple.as_str()).collect();
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": subjects,
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": format!("{page}#provenance"),
                "externalParameters": {
                    "source": source(release, sources),
                    "version": sources.version,
                    "targets": targets,
                },
                "internalParameters": {"SOURCE_DATE_EPOCH": release.epoch.to_string()},
                "resolvedDependencies": [
                    source(release, sources),
                    {"name": "Cargo.lock", "digest": {"sha256": dist::sha256(&release.lock)}},
                    {"name": "rust", "uri": format!("pkg:generic/rust@{}", release.toolchain)},
                ],
            },
            "runDetails": {
                "builder": {"id": release.builder.clone().unwrap_or_else(|| format!("{page}#by-hand"))},
                "metadata": metadata,
            },
        },
    });
    let mut bytes = serde_json::to_vec_pretty(&statement).map_err(|error| error.to_string())?;
    bytes.push(b'\n');
    Ok(bytes)
}

fn subject(name: &str, sha256: &str) -> Value {
    json!({"name": name, "digest": {"sha256": sha256}})
}

fn source(release: &Release, sources: &Packages) -> Value {
    json!({"uri": format!("git+{}", release.repository), "digest": {"gitCommit": sources.revision}})
}
