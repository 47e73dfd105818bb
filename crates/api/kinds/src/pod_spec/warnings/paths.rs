//! Warnings about files of a volume that overlap: the same path, or one below the other.

use std::collections::HashMap;
use std::fmt;

use binnacle_schema::Value;

use super::ENOUGH;
use crate::tree_names::member;

/// The limit on path segments that are compared.
const MAX_PARTS: usize = 1 << 16;

pub(super) fn overlaps(volumes: &[Value]) -> Vec<String> {
    let mut warnings = Vec::new();
    for volume in volumes {
        let name = volume.str_at(&["name"]);
        for (source, describe) in [
            ("configMap", Some(("ConfigMap", "name"))),
            ("secret", Some(("Secret", "secretName"))),
            ("downwardAPI", None),
        ] {
            let Some(own) = member(volume, source) else { continue };
            let described = || match describe {
                Some((kind, field)) => format!("{kind} {:?}", own.str_at(&[field])),
                None => "DownwardAPI".to_owned(),
            };
            let mut files = Files::new();
            for item in own.list_at(&["items"]) {
                if warnings.len() > ENOUGH {
                    return warnings;
                }
                let file = File::new(item.str_at(&["path"]), "");
                let told = files.add(file).into_iter();
                warnings.extend(told.map(|what| format!("volume {name:?} ({}): {what}", described())));
            }
        }
        if let Some(projected) = member(volume, "projected") {
            let mut files = Files::new();
            for source in projected.list_at(&["sources"]) {
                let Some(own) = files_of(source) else {
                    warnings.push(format!("volume {name:?} (Projected) has no sources provided"));
                    continue;
                };
                for file in own {
                    if warnings.len() > ENOUGH {
                        return warnings;
                    }
                    let told = files.add(file).into_iter();
                    warnings.extend(told.map(|what| format!("volume {name:?} (Projected): {what}")));
                }
            }
        }
    }
    warnings
}

/// Returns the files of a source of a projected volume; `None` if it has no source at all.
fn files_of(source: &Value) -> Option<Vec<File>> {
    const SOURCES: [&str; 6] =
        ["configMap", "secret", "downwardAPI", "serviceAccountToken", "clusterTrustBundle", "podCertificate"];
    let has_items = |own: &Value| member(own, "items").is_some();
    let lists = ["configMap", "secret", "downwardAPI"];
    let given: Vec<(&str, &Value)> = SOURCES.iter().filter_map(|kind| Some((*kind, member(source, kind)?))).collect();
    if given.is_empty() {
        return None;
    }
    // The first source with files counts.
    let Some((kind, own)) = given.into_iter().find(|(kind, own)| !lists.contains(kind) || has_items(own)) else {
        return Some(Vec::new());
    };
    let items =
        |described: &str| own.list_at(&["items"]).iter().map(|i| File::new(i.str_at(&["path"]), described)).collect();
    let name = own.str_at(&["name"]);
    Some(match kind {
        "configMap" => items(&format!("ConfigMap {name:?}")),
        "secret" => items(&format!("Secret {name:?}")),
        "downwardAPI" => items("DownwardAPI"),
        "serviceAccountToken" => vec![File::new(own.str_at(&["path"]), "ServiceAccountToken")],
        "clusterTrustBundle" => {
            let name = if member(own, "name").is_some() { name } else { own.str_at(&["signerName"]) };
            vec![File::new(own.str_at(&["path"]), &format!("ClusterTrustBundle {name:?}"))]
        }
        _ => {
            let parts = [
                ("certificateChainPath", "PodCertificate chain"),
                ("keyPath", "PodCertificate key"),
                ("credentialBundlePath", "PodCertificate credential bundle"),
            ];
            let files = parts.iter().map(|(field, described)| File::new(own.str_at(&[field]), described));
            files.filter(|file| !file.path.is_empty()).collect()
        }
    })
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
        let told = found.into_iter().map(|other: usize| format!("overlapping paths: {file} with {}", self.all[other]));
        let told = told.collect();
        self.all.push(file);
        told
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
        write!(f, "{:?}", self.path)?;
        if self.source.is_empty() { Ok(()) } else { write!(f, " ({})", self.source) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn collisions() {
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
            assert_eq!(overlaps(&[volume]), want);
        }
    }
}
