//! Descriptions of the Kubernetes types and of their fields.
//!
//! The descriptions come from `k8s-openapi`; the repository contains none. The build embeds them as constant data, so
//! that a lookup does not allocate.

/// Returns the description of a definition: `definition("io.k8s.api.core.v1.PodSpec")`. `None` if there is none.
pub fn definition(definition: &str) -> Option<&'static str> {
    Some(find(definition)?.text.get()).filter(|text| !text.is_empty())
}

/// Returns the description of a field, if there is one: `field("io.k8s.api.core.v1.PodSpec", "nodeName")`.
pub fn field(definition: &str, field: &str) -> Option<&'static str> {
    let (start, end) = find(definition)?.fields;
    let fields = &FIELDS[start as usize..end as usize];
    let at = fields.binary_search_by(|known| known.name.get().cmp(field)).ok()?;
    Some(fields[at].text.get())
}

fn find(definition: &str) -> Option<&'static Definition> {
    let at = DEFINITIONS.binary_search_by(|known| known.name.get().cmp(definition)).ok()?;
    Some(&DEFINITIONS[at])
}

/// Start and end in [`TEXTS`]. Unlike references, positions need no relocation at startup.
struct Span(u32, u32);

struct Definition {
    name: Span,
    text: Span,
    /// Start and end in [`FIELDS`].
    fields: (u32, u32),
}

struct Field {
    name: Span,
    text: Span,
}

impl Span {
    fn get(&self) -> &'static str {
        &TEXTS[self.0 as usize..self.1 as usize]
    }
}

static TEXTS: &str = include_str!(concat!(env!("OUT_DIR"), "/texts.txt"));

include!(concat!(env!("OUT_DIR"), "/descriptions.rs"));

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_field_descriptions() {
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
        }
    }

    #[test]
    fn finds_type_descriptions() {
        let starts = [
            ("io.k8s.api.core.v1.Pod", "Pod is "),
            ("io.k8s.api.admissionregistration.v1beta1.ValidatingAdmissionPolicy", "ValidatingAdmissionPolicy "),
            ("io.k8s.apimachinery.pkg.api.resource.Quantity", "Quantity is "),
            ("io.k8s.apimachinery.pkg.version.Info", "Info "),
        ];
        for (name, start) in starts {
            assert!(definition(name).is_some_and(|text| text.starts_with(start)), "{name}");
        }
        assert_eq!(definition("io.k8s.api.core.v1.Absent"), None);
    }

    #[test]
    fn tables_are_sorted() {
        assert!(DEFINITIONS.len() > 600, "{}", DEFINITIONS.len());
        assert!(DEFINITIONS.is_sorted_by(|a, b| a.name.get() < b.name.get()));
        for definition in &DEFINITIONS {
            let fields = &FIELDS[definition.fields.0 as usize..definition.fields.1 as usize];
            assert!(fields.is_sorted_by(|a, b| a.name.get() < b.name.get()), "{}", definition.name.get());
        }
    }
}
