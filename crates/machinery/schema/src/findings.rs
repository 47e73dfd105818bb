//! Findings of strict decoding, which lenient decoding ignores: unknown and repeated fields.

use std::collections::HashSet;
use std::fmt;

use binnacle_meta::go_quote;

/// The maximum number of findings that kube-apiserver reports.
const MAX_FINDINGS: usize = 100;

/// The maximum size of their paths in bytes: a long key may be in the paths of all its members.
const MAX_BYTES: usize = 1 << 20;

/// The prefix of kube-apiserver's error for a list of findings.
const STRICT: &str = "strict decoding error: ";

/// The prefix of a YAML decoder's error for several problems.
pub(crate) const YAML_ERRORS: &str = "yaml: unmarshal errors:\n";

/// One finding of strict decoding; its text is kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Finding {
    /// A member that is not in the schema.
    UnknownField(String),
    /// A pruned member of a custom object. Unlike the others, its name is not escaped.
    PrunedField(String),
    /// A repeated member.
    DuplicateField(String),
    /// The YAML decoder's error for all repeated keys of a document.
    Yaml(String),
    /// An entry of a CBOR map without a field in the schema, by its index in the map.
    UnknownEntry(usize),
}

/// Findings in the order of the document, without duplicates.
#[derive(Clone, Debug, Default)]
pub struct Findings {
    list: Vec<Finding>,
    seen: HashSet<Finding>,
    bytes: usize,
}

impl Findings {
    pub fn push(&mut self, finding: Finding) {
        if self.is_full() || !self.seen.insert(finding.clone()) {
            return;
        }
        self.bytes += finding.text().len();
        self.list.push(finding);
    }

    pub fn extend(&mut self, findings: impl IntoIterator<Item = Finding>) {
        findings.into_iter().for_each(|finding| self.push(finding));
    }

    /// Returns true if further findings are ignored.
    pub(crate) fn is_full(&self) -> bool {
        self.list.len() >= MAX_FINDINGS || self.bytes >= MAX_BYTES
    }

    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    pub fn len(&self) -> usize {
        self.list.len()
    }

    pub fn iter(&self) -> impl Iterator<Item = &Finding> {
        self.list.iter()
    }

    /// Returns the error of `fieldValidation=Strict`; `None` without findings.
    pub fn strict_error(&self) -> Option<String> {
        let texts: Vec<String> = self.list.iter().map(ToString::to_string).collect();
        (!texts.is_empty()).then(|| format!("{STRICT}{}", texts.join(", ")))
    }

    /// Returns the warnings of `fieldValidation=Warn`: one per finding, and one per line of a YAML finding.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = Vec::with_capacity(self.list.len());
        for finding in &self.list {
            let text = finding.to_string();
            match text.strip_prefix(YAML_ERRORS) {
                Some(lines) => warnings.extend(lines.split('\n').map(|line| line.trim().to_owned())),
                None => warnings.push(text),
            }
        }
        warnings
    }
}

impl Finding {
    fn text(&self) -> &str {
        match self {
            Self::UnknownField(text) | Self::PrunedField(text) | Self::DuplicateField(text) | Self::Yaml(text) => text,
            Self::UnknownEntry(_) => "",
        }
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::UnknownField(path) => write!(f, "unknown field {}", go_quote(path)),
            Self::PrunedField(path) => write!(f, "unknown field \"{path}\""),
            Self::DuplicateField(path) => write!(f, "duplicate field {}", go_quote(path)),
            Self::Yaml(text) => f.write_str(text),
            Self::UnknownEntry(index) => write!(f, "cbor: found unknown field at map element index {index}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_findings() {
        let mut findings = Findings::default();
        assert_eq!(findings.strict_error(), None);
        for finding in [
            Finding::Yaml("yaml: unmarshal errors:\n  line 7: key \"k\" already set in map\n  line 8: x".into()),
            Finding::UnknownField("spec.foo".into()),
            Finding::DuplicateField("metadata.labels".into()),
            Finding::UnknownField("spec.foo".into()),
            Finding::UnknownField("a\\".into()),
            Finding::PrunedField("a\\".into()),
        ] {
            findings.push(finding);
        }
        assert_eq!(findings.len(), 5);
        assert_eq!(
            findings.warnings(),
            [
                "line 7: key \"k\" already set in map",
                "line 8: x",
                "unknown field \"spec.foo\"",
                "duplicate field \"metadata.labels\"",
                "unknown field \"a\\\\\"",
                "unknown field \"a\\\"",
            ]
        );
        assert_eq!(
            findings.strict_error().as_deref(),
            Some(
                "strict decoding error: yaml: unmarshal errors:\n  line 7: key \"k\" already set in map\n  line 8: x, unknown field \"spec.foo\", duplicate field \"metadata.labels\", unknown field \"a\\\\\", unknown field \"a\\\""
            )
        );
    }

    #[test]
    fn keeps_at_most_100_findings() {
        let mut findings = Findings::default();
        findings.extend((0..500).map(|i| Finding::UnknownField(format!("f{i}"))));
        assert_eq!(findings.len(), 100);
    }
}
