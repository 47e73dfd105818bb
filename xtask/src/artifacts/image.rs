//! One image layout for all architectures: for each name an index of the platforms' images, with their SBOMs as
//! attestations in the format of BuildKit, which registries and `docker buildx imagetools` show.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::packages::Packages;
use crate::dist::archive::Tree;
use crate::dist::{Blobs, CONFIG, INDEX, MANIFEST};

const STATEMENT: &str = "application/vnd.in-toto+json";
const CYCLONEDX: &str = "https://cyclonedx.org/bom";
const NAME: &str = "org.opencontainers.image.ref.name";

/// The images of all platforms.
pub(super) struct Images {
    pub(super) layout: Tree,
    /// The digest of each index by its name.
    pub(super) digests: BTreeMap<String, String>,
}

/// Merges the images of platforms. Returns `None` without images.
pub(super) fn merge(platforms: &[Packages]) -> Result<Option<Images>, String> {
    let mut blobs = Blobs::default();
    let mut manifests: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for packages in platforms {
        let files = packages.image();
        let Some(index) = files.get("index.json") else { continue };
        let index: Value = serde_json::from_slice(index).map_err(|error| format!("index.json: {error}"))?;
        for (path, bytes) in files.iter().filter(|(path, _)| path.starts_with("blobs/")) {
            blobs.insert(path, bytes);
        }
        let sbom =
            serde_json::from_slice(packages.image_sbom()?).map_err(|error| format!("the image's SBOM: {error}"))?;
        for descriptor in index["manifests"].as_array().into_iter().flatten() {
            let name = descriptor["annotations"][NAME].as_str().ok_or("an image has no name")?;
            let mut descriptor = descriptor.clone();
            // Names belong to the indexes.
            descriptor.as_object_mut().and_then(|members| members.remove("annotations"));
            let attestation = attestation(&mut blobs, name, &descriptor, &sbom)?;
            manifests.entry(name.to_owned()).or_default().extend([descriptor, attestation]);
        }
    }
    if manifests.is_empty() {
        return Ok(None);
    }
    let (mut named, mut digests) = (Vec::new(), BTreeMap::new());
    for (name, mut manifests) in manifests {
        // Clients take the first image that fits: attestations come last.
        manifests.sort_by_key(|descriptor| descriptor["platform"]["os"] == "unknown");
        let index = json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests});
        let mut descriptor = blobs.add_json(INDEX, &index);
        digests.insert(name.clone(), digest(&descriptor)?.to_owned());
        descriptor["annotations"] = json!({NAME: name});
        named.push(descriptor);
    }
    Ok(Some(Images { layout: blobs.layout(&named), digests }))
}

/// Adds the SBOM of an image as an attestation, and returns its descriptor.
fn attestation(blobs: &mut Blobs, name: &str, image: &Value, sbom: &Value) -> Result<Value, String> {
    let digest = digest(image)?;
    let statement = json!({
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": format!("kube-apiserver:{name}"), "digest": {"sha256": digest}}],
        "predicateType": CYCLONEDX,
        "predicate": sbom,
    });
    let mut layer = blobs.add_json(STATEMENT, &statement);
    layer["annotations"] = json!({"in-toto.io/predicate-type": CYCLONEDX});
    let config = json!({
        "architecture": "unknown",
        "os": "unknown",
        "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer["digest"]]},
    });
    let config = blobs.add_json(CONFIG, &config);
    let manifest = json!({"schemaVersion": 2, "mediaType": MANIFEST, "config": config, "layers": [layer]});
    let mut descriptor = blobs.add_json(MANIFEST, &manifest);
    descriptor["platform"] = json!({"architecture": "unknown", "os": "unknown"});
    descriptor["annotations"] = json!({
        "vnd.docker.reference.digest": format!("sha256:{digest}"),
        "vnd.docker.reference.type": "attestation-manifest",
    });
    Ok(descriptor)
}

fn digest(descriptor: &Value) -> Result<&str, String> {
    let digest = descriptor["digest"].as_str().and_then(|digest| digest.strip_prefix("sha256:"));
    digest.ok_or_else(|| format!("a descriptor has no SHA-256 digest: {descriptor}"))
}
