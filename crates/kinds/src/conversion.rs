//! Conversions between the versions of a kind: each version to the stored one and back.

use binnacle_schema::Value;

/// Changes an object from one version to another, `apiVersion` and `kind` included.
pub type Convert = fn(&mut Value);

/// How objects of a version get to the stored version of their kind, and back. `None` where there is no way.
pub fn conversion(group: &str, version: &str, kind: &str) -> Option<(Convert, Convert)> {
    CONVERSIONS.iter().find(|(g, v, k, _)| (*g, *v, *k) == (group, version, kind)).map(|(.., pair)| *pair)
}

type Entry = (&'static str, &'static str, &'static str, (Convert, Convert));

const CONVERSIONS: &[Entry] = &[];
