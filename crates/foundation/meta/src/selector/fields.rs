//! Field selectors: equality terms on a kind's selectable fields.

use std::fmt;

use super::{MAX_SELECTOR_BYTES, SelectorError};
use crate::Text;

/// Terms that must all match. Without terms every object is selected.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct FieldSelector {
    terms: Vec<FieldTerm>,
}

/// `field=value` or `field!=value`. An absent field has the empty value.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct FieldTerm {
    pub field: Text,
    pub value: Text,
    /// True for `!=`, false for `=`.
    pub negated: bool,
}

impl FieldSelector {
    /// Parses a `fieldSelector` parameter. The terms are sorted by their text.
    pub fn parse(text: &str) -> Result<Self, SelectorError> {
        if text.len() > MAX_SELECTOR_BYTES {
            return Err(SelectorError::too_long());
        }
        let mut parts = split_terms(text);
        SelectorError::check_terms(parts.iter().filter(|part| !part.is_empty()).count())?;
        parts.sort_unstable();
        let mut terms = Vec::with_capacity(parts.len());
        for part in parts.into_iter().filter(|part| !part.is_empty()) {
            let Some((field, negated, value)) = split_term(part) else {
                return Err(SelectorError::new(format!("invalid selector: '{text}'; can't understand '{part}'")));
            };
            let value = unescape(value)?;
            // An empty field with an empty value is ignored, as in Go.
            if field.is_empty() && value.is_empty() {
                continue;
            }
            terms.push(FieldTerm { field: Text::new(field), value, negated });
        }
        Ok(Self { terms })
    }

    pub fn new(terms: Vec<FieldTerm>) -> Self {
        Self { terms }
    }

    pub fn everything() -> Self {
        Self::default()
    }

    /// Returns true if the selector selects every object.
    pub fn is_everything(&self) -> bool {
        self.terms.is_empty()
    }

    pub fn terms(&self) -> &[FieldTerm] {
        &self.terms
    }

    /// Returns true if the selector selects an object, whose fields `lookup` returns.
    pub fn matches<'a>(&self, lookup: impl Fn(&str) -> Option<&'a str>) -> bool {
        self.terms.iter().all(|term| (lookup(&term.field).unwrap_or_default() == term.value) != term.negated)
    }

    /// Returns the value that the selector requires `field` to have, if any.
    pub fn requires_exact_match(&self, field: &str) -> Option<&str> {
        self.terms.iter().find(|term| !term.negated && term.field == field).map(|term| term.value.as_str())
    }

    /// Replaces the field and value of each term by the result of `rename`, which fails for unsupported fields. Terms
    /// that become empty are dropped.
    pub fn transform<E>(self, mut rename: impl FnMut(&str, &str) -> Result<(Text, Text), E>) -> Result<Self, E> {
        let mut terms = Vec::with_capacity(self.terms.len());
        for term in self.terms {
            let (field, value) = rename(&term.field, &term.value)?;
            if !(field.is_empty() && value.is_empty()) {
                terms.push(FieldTerm { field, value, negated: term.negated });
            }
        }
        Ok(Self { terms })
    }
}

impl fmt::Display for FieldSelector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, term) in self.terms.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{}{}", term.field, if term.negated { "!=" } else { "=" })?;
            for c in term.value.chars() {
                if matches!(c, '\\' | ',' | '=') {
                    f.write_str("\\")?;
                }
                write!(f, "{c}")?;
            }
        }
        Ok(())
    }
}

/// Splits a text at commas that are not escaped by a backslash. Backslashes are kept.
fn split_terms(text: &str) -> Vec<&str> {
    let mut terms = Vec::new();
    let mut start = 0;
    let mut escaped = false;
    for (index, byte) in text.bytes().enumerate() {
        match byte {
            _ if escaped => escaped = false,
            b'\\' => escaped = true,
            b',' => {
                terms.push(&text[start..index]);
                start = index + 1;
            }
            _ => {}
        }
    }
    terms.push(&text[start..]);
    terms
}

/// Splits a term at its first operator into field, negation, and the escaped value. Fields cannot be escaped.
fn split_term(term: &str) -> Option<(&str, bool, &str)> {
    for (index, _) in term.char_indices() {
        let (field, rest) = term.split_at(index);
        if let Some(value) = rest.strip_prefix("!=") {
            return Some((field, true, value));
        }
        if let Some(value) = rest.strip_prefix("==").or_else(|| rest.strip_prefix('=')) {
            return Some((field, false, value));
        }
    }
    None
}

fn unescape(value: &str) -> Result<Text, SelectorError> {
    if !value.contains(['\\', ',', '=']) {
        return Ok(Text::new(value));
    }
    let wrong_escape =
        |sequence: &str| SelectorError::new(format!("invalid field selector: invalid escape sequence: {sequence}"));
    let mut out = String::with_capacity(value.len());
    let mut chars = value.chars();
    while let Some(c) = chars.next() {
        match c {
            '\\' => match chars.next() {
                Some(c @ ('\\' | ',' | '=')) => out.push(c),
                Some(c) => return Err(wrong_escape(&format!("\\{c}"))),
                None => return Err(wrong_escape("\\")),
            },
            // kube-apiserver prints the character code.
            ',' | '=' => {
                let number = c as u32;
                let message = format!("invalid field selector: unescaped character in value: {number}");
                return Err(SelectorError::new(message));
            }
            c => out.push(c),
        }
    }
    Ok(Text::from(out))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_field_selectors() {
        for (text, want) in [
            ("", Ok("")),
            (",,", Ok("")),
            ("metadata.name=a", Ok("metadata.name=a")),
            ("b==2,a!=1,", Ok("a!=1,b=2")),
            ("a=", Ok("a=")),
            ("=a", Ok("=a")),
            ("a!b=c", Ok("a!b=c")),
            (r"a=x\,y\=z\\", Ok(r"a=x\,y\=z\\")),
            (" a = b ", Ok(" a = b ")),
            ("a", Err("invalid selector: 'a'; can't understand 'a'")),
            ("x=1,a", Err("invalid selector: 'x=1,a'; can't understand 'a'")),
            (r"a=\x", Err(r"invalid field selector: invalid escape sequence: \x")),
            (r"a=b\", Err(r"invalid field selector: invalid escape sequence: \")),
            ("a=b=c", Err("invalid field selector: unescaped character in value: 61")),
            ("a===c", Err("invalid field selector: unescaped character in value: 61")),
        ] {
            let parsed = FieldSelector::parse(text).map(|s| s.to_string()).map_err(|e| e.to_string());
            assert_eq!(parsed, want.map(str::to_owned).map_err(str::to_owned), "{text:?}");
        }
        assert!(FieldSelector::parse(&"a=b,".repeat(MAX_SELECTOR_BYTES)).is_err());
        assert!(FieldSelector::parse(&"a!=b,".repeat(super::super::MAX_SELECTOR_TERMS)).is_ok());
        let many = FieldSelector::parse(&"a!=b,".repeat(super::super::MAX_SELECTOR_TERMS + 1));
        let why = "selector is too long: may not have more than 1024 terms and values";
        assert_eq!(many.unwrap_err().to_string(), why);
    }

    #[test]
    fn matches_fields() {
        let fields = [("metadata.name", "a"), ("spec.nodeName", "n,1")];
        for (text, want) in [
            ("", true),
            ("metadata.name=a", true),
            ("metadata.name!=a", false),
            (r"spec.nodeName==n\,1,metadata.name=a", true),
            ("gone=", true),
            ("gone!=", false),
            ("gone=x", false),
        ] {
            let lookup = |field: &str| fields.iter().find(|(own, _)| *own == field).map(|(_, value)| *value);
            assert_eq!(FieldSelector::parse(text).unwrap().matches(lookup), want, "{text:?}");
        }
    }

    #[test]
    fn transforms_terms_and_finds_exact_matches() {
        let selector = FieldSelector::parse("a=1,b!=2,c=3").unwrap();
        assert_eq!(selector.requires_exact_match("a"), Some("1"));
        assert_eq!(selector.requires_exact_match("b"), None);
        let renamed = selector.clone().transform(|field, value| {
            Ok::<_, SelectorError>(match field {
                "a" => (Text::new("x"), Text::new(value)),
                "b" => (Text::default(), Text::default()),
                other => (Text::new(other), Text::new("9")),
            })
        });
        assert_eq!(renamed.map(|s| s.to_string()), Ok("x=1,c=9".to_owned()));
        let refused = selector.transform(|field, _| Err::<(Text, Text), _>(field.to_owned()));
        assert_eq!(refused, Err("a".to_owned()));
    }
}
