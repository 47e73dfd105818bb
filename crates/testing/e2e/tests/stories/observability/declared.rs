//! The metric families that the sources declare with `families!`.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::documents::path;

/// A family in the sources.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Family {
    labels: BTreeSet<String>,
    /// True if it has `_bucket`, `_sum` and `_count`.
    is_histogram: bool,
}

/// Returns all families, by name.
pub(super) fn families() -> BTreeMap<String, Family> {
    let mut families = BTreeMap::new();
    visit(&path("crates"), &mut families);
    families
}

/// Returns the labels of the family of a series.
pub(super) fn labels(families: &BTreeMap<String, Family>, series: &str) -> Option<BTreeSet<String>> {
    let histogram = || {
        let name = ["_bucket", "_sum", "_count"].iter().find_map(|suffix| series.strip_suffix(suffix))?;
        families.get(name).filter(|family| family.is_histogram)
    };
    let family = families.get(series).filter(|family| !family.is_histogram).or_else(histogram)?;
    Some(family.labels.clone())
}

fn visit(folder: &Path, families: &mut BTreeMap<String, Family>) {
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.file_name().is_none_or(|name| name != "tests" && name != "testing" && name != "target") {
                visit(&path, families);
            }
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            families.extend(read(&std::fs::read_to_string(&path).unwrap()));
        }
    }
}

/// Returns the families of a source file.
fn read(source: &str) -> Vec<(String, Family)> {
    let mut families = Vec::new();
    if !source.contains("families! {") {
        return families;
    }
    for (at, equals) in source.match_indices(" = \"") {
        // `name: Type = "family"`
        let kind = source[..at].rsplit([':', ' ']).next().unwrap_or_default();
        let is_family = ["Counter", "Gauge", "Histogram", "Vec"].iter().any(|end| kind.ends_with(end));
        let rest = &source[at + equals.len()..];
        let Some((name, rest)) = rest.split_once('"') else { continue };
        if is_family && name.contains('_') {
            let is_histogram = kind.contains("Histogram") || kind.contains("Summary");
            families.push((name.to_owned(), Family { labels: listed(source, rest.trim_start()), is_histogram }));
        }
    }
    families
}

/// Returns the labels after a family's name: `by ["a", "b"]` or `by CONSTANT`.
fn listed(source: &str, rest: &str) -> BTreeSet<String> {
    let Some(list) = rest.strip_prefix("by ") else { return BTreeSet::new() };
    let list = if list.starts_with('[') {
        list
    } else {
        let constant = list.split(|c: char| !c.is_alphanumeric() && c != '_').next().unwrap_or_default();
        let declared = source.split_once(&format!("const {constant}: ")).unwrap_or_else(|| panic!("no {constant}")).1;
        declared.split_once("= ").unwrap().1
    };
    let list = list.split(']').next().unwrap_or_default();
    list.split('"').skip(1).step_by(2).map(str::to_owned).collect()
}

#[test]
fn reads_families_with_their_labels() {
    let source = "const FLOW: [&str; 2] = [\"level\", \"schema\"];\nfamilies! {\n struct A {\n a: IntCounterVec = \"a_total\"\n \
                  by [\"b\", \"c\"], \"Help.\";\n d: HistogramVec = \"d_seconds\" by FLOW buckets X, \"\";\n \
                  pub e: Gauge = \"e_bytes\", \"[ALPHA] x by [\\\"y\\\"]\";\n}}";
    let found: BTreeMap<_, _> = read(source).into_iter().collect();
    let set = |names: &[&str]| Some(names.iter().map(|name| (*name).to_owned()).collect());
    for (series, want) in [
        ("a_total", set(&["b", "c"])),
        ("a_total_bucket", None),
        ("d_seconds", None),
        ("d_seconds_bucket", set(&["level", "schema"])),
        ("e_bytes", set(&[])),
        ("f", None),
    ] {
        assert_eq!(labels(&found, series), want, "{series}");
    }
}
