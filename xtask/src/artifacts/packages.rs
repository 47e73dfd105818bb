//! The packages of one platform, as `cargo xtask dist` wrote them.

use std::collections::BTreeMap;
use std::path::Path;

use serde_json::Value;

use crate::dist::{self, IMAGE, IMAGE_SBOM, SUMS, TOOL};

/// The files of one folder.
pub(super) struct Packages {
    pub(super) version: String,
    pub(super) triple: String,
    /// The commit, or "unknown".
    pub(super) revision: String,
    files: BTreeMap<String, Vec<u8>>,
}

impl Packages {
    /// Reads the files that `SHA256SUMS` lists, and checks them.
    pub(super) fn read(folder: &Path) -> Result<Self, String> {
        let sums = dist::read(&folder.join(SUMS))?;
        let mut files = BTreeMap::new();
        for line in String::from_utf8_lossy(&sums).lines() {
            let (sum, name) = line.split_once("  ").ok_or_else(|| format!("not a line of {SUMS}: {line}"))?;
            let bytes = dist::read(&folder.join(name))?;
            if dist::sha256(&bytes) != sum {
                return Err(format!("{} differs from its checksum in {SUMS}", folder.join(name).display()));
            }
            files.insert(name.to_owned(), bytes);
        }
        let is_sbom = |name: &&String| name.ends_with(".cdx.json") && !name.ends_with(IMAGE_SBOM);
        let sbom = files.iter().find(|(name, _)| is_sbom(name));
        let sbom = sbom.ok_or_else(|| format!("{} has no SBOM", folder.display()))?.1;
        let sbom: Value = serde_json::from_slice(sbom).map_err(|error| format!("the SBOM: {error}"))?;
        let metadata = &sbom["metadata"];
        let property = |name: &str| {
            let found = metadata["properties"].as_array()?.iter().find(|property| property["name"] == name)?;
            Some(found["value"].as_str()?.to_owned())
        };
        let missing = |what: &str| format!("the SBOM in {} names no {what}", folder.display());
        let version = metadata["component"]["version"].as_str().ok_or_else(|| missing("version"))?.to_owned();
        let triple = property("binnacle:target").ok_or_else(|| missing("target"))?;
        let revision = property("binnacle:revision").ok_or_else(|| missing("revision"))?;
        Ok(Self { version, triple, revision, files })
    }

    pub(super) fn check_same_sources(&self, other: &Self) -> Result<(), String> {
        if (&self.version, &self.revision) == (&other.version, &other.revision) {
            return Ok(());
        }
        Err(format!(
            "{} is {} of commit {}, and {} is {} of commit {}",
            self.triple, self.version, self.revision, other.triple, other.version, other.revision
        ))
    }

    /// Returns the files outside of the image.
    pub(super) fn plain_files(&self) -> impl Iterator<Item = (&str, &[u8])> {
        self.files.iter().map(|(name, bytes)| (name.as_str(), bytes.as_slice())).filter(|(name, _)| !name.contains('/'))
    }

    /// Returns the files of the image layout by their paths in it. Static programs have no image.
    pub(super) fn image(&self) -> BTreeMap<&str, &[u8]> {
        let folder = format!("{TOOL}-{}-{}{IMAGE}/", self.version, self.triple);
        let files = self.files.iter().filter_map(|(name, bytes)| Some((name.strip_prefix(&folder)?, bytes.as_slice())));
        files.collect()
    }

    /// Returns the SBOM of the image.
    pub(super) fn image_sbom(&self) -> Result<&[u8], String> {
        let name = format!("{TOOL}-{}-{}{IMAGE_SBOM}", self.version, self.triple);
        self.files.get(&name).map(Vec::as_slice).ok_or_else(|| format!("there is no {name}"))
    }
}
