//! The files of this repository that tests read.

use std::path::{Path, PathBuf};

use binnacle_schema::{Limits, json, yaml};
use serde_json::Value;

/// Returns the path of a file or folder of the repository.
pub(crate) fn path(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..").join(name)
}

/// Returns the text of a file.
pub(crate) fn text(name: &str) -> String {
    std::fs::read_to_string(path(name)).unwrap_or_else(|error| panic!("{name}: {error}"))
}

/// Returns the YAML or JSON in a file, which repeats no key.
pub(crate) fn read(name: &str) -> Value {
    let (tree, repeated) =
        yaml::parse(text(name).as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(repeated.is_none(), "{name}: {repeated:?}");
    serde_json::from_str(&json::to_string(&tree)).unwrap()
}

/// Returns the items of a list.
pub(crate) fn items(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

/// Returns the texts of a list.
pub(crate) fn texts(list: &Value) -> Vec<String> {
    items(list).map(|text| text.as_str().unwrap_or_else(|| panic!("not a text: {text}")).to_owned()).collect()
}
