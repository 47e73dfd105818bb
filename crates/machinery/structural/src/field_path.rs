//! Field paths of schemas, such as `.spec.replicas` or `.spec['a']`.

use std::sync::Arc;

use crate::structural::Structural;

/// A path that leads to a field.
#[derive(Debug)]
pub struct FoundField<'s> {
    /// The first step.
    pub root: String,
    /// The path in canonical form: names after dots, keys of maps in brackets.
    pub path: String,
    /// The schema of the field, if it has one.
    pub schema: Option<&'s Structural>,
}

impl Structural {
    /// Resolves a path. Steps in brackets are only allowed if `brackets` is true.
    ///
    /// # Errors
    /// kube-apiserver's message for an invalid path.
    pub fn find_field(&self, path: &str, brackets: bool) -> Result<FoundField<'_>, String> {
        const END: &str = "unexpected end of JSON path";
        let mut found = FoundField { root: String::new(), path: String::new(), schema: Some(self) };
        let mut tokens = Tokens(path);
        while let Some(token) = tokens.next() {
            let step = match token {
                "." => tokens.next().ok_or(END)?.to_owned(),
                "[" if !brackets => return Err("array notation is not allowed".to_owned()),
                "[" => {
                    let quoted = tokens.next().ok_or(END)?;
                    let inner = quoted.strip_prefix('\'').and_then(|inner| inner.strip_suffix('\''));
                    unescape(inner.ok_or_else(|| format!("expected single quoted string but got {quoted}"))?)?
                }
                other => return Err(format!("expected [ or . but got: {other}")),
            };
            found.step(step)?;
            if token == "[" {
                match tokens.next() {
                    Some("]") => {}
                    Some(other) => return Err(format!("expected ] but got {other}")),
                    None => return Err(END.to_owned()),
                }
            }
        }
        Ok(found)
    }
}

impl FoundField<'_> {
    fn step(&mut self, name: String) -> Result<(), String> {
        const NO_FIELD: &str = "does not refer to a valid field";
        let schema = self.schema.ok_or(NO_FIELD)?;
        if schema.has_properties() {
            let property = schema.property(&name).ok_or(NO_FIELD)?;
            self.schema = Some(property);
            if !self.path.is_empty() {
                self.path.push('.');
            }
            self.path.push_str(&name);
        } else if matches!(schema.additional, crate::AdditionalProperties::Unset) {
            return Err(NO_FIELD.to_owned());
        } else {
            self.schema = schema.additional_schema().map(Arc::as_ref);
            self.path = format!("{}[{name}]", self.path);
        }
        if self.root.is_empty() {
            self.root = name;
        }
        Ok(())
    }
}

/// Dots, brackets, texts in single quotes, and the text between them.
struct Tokens<'a>(&'a str);

impl<'a> Iterator for Tokens<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let text = self.0;
        let bytes = text.as_bytes();
        let end = match bytes.first()? {
            b'\'' => {
                (1..bytes.len()).find(|i| bytes[*i] == b'\'' && bytes[i - 1] != b'\\').map_or(text.len(), |i| i + 1)
            }
            b'.' | b'[' | b']' => 1,
            _ => text.find(['.', '[', ']']).unwrap_or(text.len()),
        };
        let (token, rest) = text.split_at(end);
        self.0 = rest;
        Some(token)
    }
}

fn unescape(text: &str) -> Result<String, String> {
    let mut unescaped = String::new();
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            unescaped.push(letter);
            continue;
        }
        unescaped.push(match letters.next() {
            Some('a') => '\x07',
            Some('b') => '\x08',
            Some('f') => '\x0c',
            Some('n') => '\n',
            Some('r') => '\r',
            Some('t') => '\t',
            Some('v') => '\x0b',
            Some(quote @ ('\'' | '\\')) => quote,
            Some(other) => return Err(format!("invalid string literal: invalid escape char \\{other}")),
            None => '\\',
        });
    }
    Ok(unescaped)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interner;
    use binnacle_schema::value;

    #[test]
    fn resolves_json_paths_in_schemas() {
        let schema = value!({"properties": {
            "spec": {"properties": {"a": {"type": "string"}, "b.c": {"type": "integer"}}},
            "map": {"additionalProperties": {"type": "string"}},
        }});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        for (path, want) in [
            (".spec.a", Ok("string spec.a")),
            (".spec['b.c']", Ok("integer spec.b.c")),
            (".map.x", Ok("string map[x]")),
            (".map['it\\'s']", Ok("string map[it's]")),
            ("", Ok(" ")),
            ("spec", Err("expected [ or . but got: spec")),
            (".spec.", Err("unexpected end of JSON path")),
            (".spec.x", Err("does not refer to a valid field")),
            (".spec.a.x", Err("does not refer to a valid field")),
            (".spec[a]", Err("expected single quoted string but got a")),
            (".spec['a'", Err("unexpected end of JSON path")),
            (".spec['\\q']", Err("invalid string literal: invalid escape char \\q")),
        ] {
            let found = schema.find_field(path, true);
            let shown = found.map(|found| format!("{} {}", found.schema.map_or("", |s| s.type_name()), found.path));
            assert_eq!(shown.as_deref(), want.map_err(str::to_owned).as_ref().map(|w| *w), "{path}");
        }
        assert_eq!(schema.find_field(".spec['a']", false).unwrap_err(), "array notation is not allowed");
    }
}
