//! Access to the recorded facts.

use std::fs;
use std::path::{Path, PathBuf};

/// Returns the JSON documents of a folder by file name without extension, sorted; names are compared as a whole.
pub(crate) fn documents(folder: &Path) -> Vec<(String, serde_json::Value)> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths
        .into_iter()
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_stem().unwrap().to_str().unwrap().to_string();
            (name, serde_json::from_str(&fs::read_to_string(path).unwrap()).unwrap())
        })
        .collect()
}
