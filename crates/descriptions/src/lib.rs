//! Descriptions of the fields of the Kubernetes types.
//!
//! The sentences are those of `k8s-openapi`; none stands in this repository. A definition's schema is built when one of
//! its fields is first asked for and dropped again: only the sentences that somebody asked for stay in memory.

mod definitions;

use std::collections::HashMap;
use std::sync::LazyLock;

use parking_lot::RwLock;
use schemars::{Schema, SchemaGenerator};

/// What a field of a definition means: `field("io.k8s.api.core.v1.PodSpec", "nodeName")`.
///
/// `None` where the definition is not among those listed in this crate, has no such field, or says nothing of it.
pub fn field(definition: &str, field: &str) -> Option<&'static str> {
    /// Only fields that exist enter, so this has an end whatever is asked.
    static KNOWN: LazyLock<RwLock<HashMap<Box<str>, Fields>>> = LazyLock::new(RwLock::default);
    type Fields = HashMap<Box<str>, &'static str>;

    if let Some(text) = KNOWN.read().get(definition).and_then(|fields| fields.get(field)) {
        return Some(text);
    }
    let schema = definitions::schema(definition)?(&mut SchemaGenerator::default());
    let text = description(&schema, field)?;
    let mut known = KNOWN.write();
    let fields = known.entry(definition.into()).or_default();
    // Of two threads that ask for the same, the second finds it here.
    Some(fields.entry(field.into()).or_insert_with(|| Box::leak(text.into())))
}

fn description<'s>(schema: &'s Schema, field: &str) -> Option<&'s str> {
    schema.get("properties")?.get(field)?.get("description")?.as_str()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields() {
        let cases = [
            ("io.k8s.api.core.v1.PodStatus", "podIP", Some("podIP address "), "a plain field"),
            ("io.k8s.api.core.v1.Event", "involvedObject", Some("The object "), "a reference with words of its own"),
            ("io.k8s.api.core.v1.Event", "source", Some("The component"), "a reference again"),
            ("io.k8s.api.core.v1.Event", "absent", None, "no such field"),
            ("io.k8s.api.core.v1.Absent", "name", None, "no such definition"),
            ("", "", None, "nothing"),
        ];
        for (definition, name, want, why) in cases {
            let got = field(definition, name);
            assert_eq!(got.is_some(), want.is_some(), "{why}");
            assert!(got.unwrap_or("").starts_with(want.unwrap_or("")), "{why}: {got:?}");
            // The second answer is the very text of the first.
            assert_eq!(got.map(str::as_ptr), field(definition, name).map(str::as_ptr), "{why}");
        }
    }

    #[test]
    fn definitions_are_listed_once() {
        let names: Vec<_> = definitions::names().collect();
        let unique: std::collections::HashSet<_> = names.iter().collect();
        assert_eq!(unique.len(), names.len());
        assert!(names.iter().all(|name| definitions::schema(name).is_some()));
    }
}
