//! Warnings about files of a volume that overlap: the same path, or one below the other.

use std::collections::HashMap;
use std::fmt;

use binnacle_fields::core::v1::{
    ClusterTrustBundleProjection as TrustBundle, ConfigMapProjection, ConfigMapVolumeSource as ConfigMap,
    DownwardAPIProjection, DownwardAPIVolumeFile, DownwardAPIVolumeSource as Downward, KeyToPath,
    PodCertificateProjection as Certificate, ProjectedVolumeSource, SecretProjection, SecretVolumeSource as Secret,
    ServiceAccountTokenProjection as Token, Volume, VolumeProjection as Projection,
};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::go_quote;

use super::ENOUGH;

/// The limit on path segments that are compared.
const MAX_PARTS: usize = 1 << 16;

pub(super) fn overlaps(volumes: FieldRef<List<Volume>>) -> Vec<String> {
    let mut warnings = Vec::new();
    for volume in volumes.items() {
        if of_volume(volume, &mut warnings).is_none() {
            break;
        }
    }
    warnings
}

/// Returns `None` if there are enough warnings.
fn of_volume(volume: FieldRef<Volume>, warnings: &mut Vec<String>) -> Option<()> {
    let name = volume.at(Volume::NAME).str();
    let map = volume.at(Volume::CONFIG_MAP);
    let described = || format!("ConfigMap {}", go_quote(map.at(ConfigMap::NAME).str()));
    Files::new().add_all(files(map.at(ConfigMap::ITEMS), KeyToPath::PATH, ""), name, described, warnings)?;
    let secret = volume.at(Volume::SECRET);
    let described = || format!("Secret {}", go_quote(secret.at(Secret::SECRET_NAME).str()));
    Files::new().add_all(files(secret.at(Secret::ITEMS), KeyToPath::PATH, ""), name, described, warnings)?;
    let items = volume.at(Volume::DOWNWARD_API);
    let own = files(items.at(Downward::ITEMS), DownwardAPIVolumeFile::PATH, "");
    Files::new().add_all(own, name, || "DownwardAPI".to_owned(), warnings)?;
    let mut all = Files::new();
    let projected = volume.at(Volume::PROJECTED);
    for source in projected.at(ProjectedVolumeSource::SOURCES).items() {
        match files_of(source) {
            Some(own) => all.add_all(own, name, || "Projected".to_owned(), warnings)?,
            None => warnings.push(format!("volume {} (Projected) has no sources provided", go_quote(name))),
        }
    }
    Some(())
}

fn files<M>(list: FieldRef<List<M>>, path: Field<M, Str>, source: &str) -> Vec<File> {
    list.items().map(|item| File::new(item.at(path).str(), source)).collect()
}

/// Returns the files of a source of a projected volume; `None` if it has no source at all. The first source with files
/// counts.
fn files_of(source: FieldRef<Projection>) -> Option<Vec<File>> {
    let map = source.at(Projection::CONFIG_MAP);
    if map.at(ConfigMapProjection::ITEMS).is_set() {
        let described = format!("ConfigMap {}", go_quote(map.at(ConfigMapProjection::NAME).str()));
        return Some(files(map.at(ConfigMapProjection::ITEMS), KeyToPath::PATH, &described));
    }
    let secret = source.at(Projection::SECRET);
    if secret.at(SecretProjection::ITEMS).is_set() {
        let described = format!("Secret {}", go_quote(secret.at(SecretProjection::NAME).str()));
        return Some(files(secret.at(SecretProjection::ITEMS), KeyToPath::PATH, &described));
    }
    let downward = source.at(Projection::DOWNWARD_API);
    if downward.at(DownwardAPIProjection::ITEMS).is_set() {
        let items = downward.at(DownwardAPIProjection::ITEMS);
        return Some(files(items, DownwardAPIVolumeFile::PATH, "DownwardAPI"));
    }
    let token = source.at(Projection::SERVICE_ACCOUNT_TOKEN);
    if token.is_set() {
        return Some(vec![File::new(token.at(Token::PATH).str(), "ServiceAccountToken")]);
    }
    let bundle = source.at(Projection::CLUSTER_TRUST_BUNDLE);
    if bundle.is_set() {
        let (name, signer) = (bundle.at(TrustBundle::NAME), bundle.at(TrustBundle::SIGNER_NAME));
        let name = if name.is_set() { name } else { signer };
        let described = format!("ClusterTrustBundle {}", go_quote(name.str()));
        return Some(vec![File::new(bundle.at(TrustBundle::PATH).str(), &described)]);
    }
    let certificate = source.at(Projection::POD_CERTIFICATE);
    if certificate.is_set() {
        let parts = [
            (Certificate::CERTIFICATE_CHAIN_PATH, "PodCertificate chain"),
            (Certificate::KEY_PATH, "PodCertificate key"),
            (Certificate::CREDENTIAL_BUNDLE_PATH, "PodCertificate credential bundle"),
        ];
        let files = parts.iter().map(|(path, described)| File::new(certificate.at(*path).str(), described));
        return Some(files.filter(|file| !file.path.is_empty()).collect());
    }
    (map.is_set() || secret.is_set() || downward.is_set()).then(Vec::new)
}

/// The files of a volume, as a tree of path segments: a file overlaps with files on the way to it and below it, so
/// these are found without visiting the others.
struct Files {
    all: Vec<File>,
    /// Nodes by the parent node and the path segment.
    places: HashMap<(usize, String), usize>,
    nodes: Vec<Node>,
}

/// A path, with the indexes of its files in the list.
#[derive(Clone, Default)]
struct Node {
    files: Vec<usize>,
    below: Vec<usize>,
}

impl Files {
    fn new() -> Self {
        Self { all: Vec::new(), places: HashMap::new(), nodes: vec![Node::default()] }
    }

    /// Adds files, and warnings about those that overlap. Returns `None` if there are enough warnings.
    fn add_all(
        &mut self,
        files: Vec<File>,
        volume: &str,
        described: impl Fn() -> String,
        warnings: &mut Vec<String>,
    ) -> Option<()> {
        for file in files {
            if warnings.len() > ENOUGH {
                return None;
            }
            let overlaps = self.add(file).into_iter();
            warnings.extend(overlaps.map(|what| format!("volume {} ({}): {what}", go_quote(volume), described())));
        }
        Some(())
    }

    /// Adds a file and returns a message for each file that it overlaps with, in order. The number of files checked per
    /// node is limited, as the number of warnings is.
    fn add(&mut self, file: File) -> Vec<String> {
        let own = self.all.len();
        let mut found: Vec<usize> = Vec::new();
        if !file.path.is_empty() && self.nodes.len() < MAX_PARTS {
            let mut node = 0;
            for part in file.path.split('/') {
                if node != 0 {
                    self.nodes[node].below.push(own);
                }
                let next = *self.places.entry((node, part.to_owned())).or_insert(self.nodes.len());
                if next == self.nodes.len() {
                    self.nodes.push(Node::default());
                }
                node = next;
                found.extend(self.nodes[node].files.iter().take(ENOUGH));
            }
            found.extend(self.nodes[node].below.iter().take(ENOUGH));
            self.nodes[node].files.push(own);
            found.sort_unstable();
        }
        let overlaps =
            found.into_iter().map(|other: usize| format!("overlapping paths: {file} with {}", self.all[other]));
        let overlaps = overlaps.collect();
        self.all.push(file);
        overlaps
    }
}

struct File {
    path: String,
    source: String,
}

impl File {
    fn new(path: &str, source: &str) -> Self {
        Self { path: path.trim_end_matches('/').to_owned(), source: source.to_owned() }
    }
}

impl fmt::Display for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&go_quote(&self.path))?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::{Value, value};

    #[test]
    fn warns_about_overlapping_paths() {
        for (volume, want) in [
            (value!({"configMap": {"name": "c", "items": [{"path": "a"}, {"path": "ab"}]}}), vec![]),
            (
                value!({"configMap": {"name": "c", "items": [{"path": "a"}, {"path": "a/b"}]}}),
                vec!["volume \"v\" (ConfigMap \"c\"): overlapping paths: \"a/b\" with \"a\""],
            ),
            (
                value!({"downwardAPI": {"items": [{"path": "a"}, {"path": "a/"}]}}),
                vec!["volume \"v\" (DownwardAPI): overlapping paths: \"a\" with \"a\""],
            ),
            (
                value!({"projected": {"sources": [
                    {"secret": {"name": "s", "items": [{"path": "t"}]}}, {"serviceAccountToken": {"path": "t"}}, {}
                ]}}),
                vec![
                    "volume \"v\" (Projected): overlapping paths: \"t\" (ServiceAccountToken) with \"t\" (Secret \"s\")",
                    "volume \"v\" (Projected) has no sources provided",
                ],
            ),
        ] {
            let mut volume = volume;
            volume.make_object().insert("name", "v");
            assert_eq!(overlaps(FieldRef::root(&Value::List(vec![volume]))), want);
        }
    }
}
