//! Decoding of configuration files: kind, version and unknown fields.

use std::sync::Arc;

use binnacle_schema::{Field, Finding, Findings, Limits, Message, MessageRef, Ty, Value, decode, json, yaml};

/// The kind, versions and fields of a configuration file.
pub struct Format {
    pub group: &'static str,
    pub versions: &'static [&'static str],
    pub kind: &'static str,
    /// The line of Go code that creates the scheme of its kinds: part of the error about another kind.
    pub scheme: &'static str,
    /// Returns the fields in a version, besides `apiVersion` and `kind`.
    pub fields: fn(Types) -> Vec<Field>,
}

/// The error of an invalid configuration, with kube-apiserver's text.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ReadError(pub String);

/// A factory of types in one version; their names are part of error messages.
#[derive(Clone, Copy)]
pub struct Types(&'static str);

impl Types {
    pub fn object(self, name: &str, fields: Vec<Field>) -> Ty {
        Ty::Message(MessageRef::Shared(Arc::new(Message::new(self.name(name), fields))))
    }

    fn name(self, name: &str) -> String {
        format!("apiserver.{}.{name}", self.0)
    }
}

/// Returns an error if a tree cannot have a kind and version.
pub fn check_type(tree: &Value) -> Result<(), ReadError> {
    let text = json::to_string(tree);
    let read = json::type_meta(text.as_bytes(), &Limits::default());
    read.map(drop).map_err(|error| ReadError(format!("couldn't get version/kind; json parse error: {error}")))
}

/// Returns a string field.
pub fn text(name: &'static str) -> Field {
    Field::new(name, Ty::String)
}

/// Returns a list field.
pub fn list(name: &'static str, of: Ty) -> Field {
    Field::new(name, Ty::List(Box::new(of)))
}

impl Format {
    /// Reads YAML or JSON. An unknown or repeated field is an error.
    pub fn read(&self, text: &[u8]) -> Result<Value, ReadError> {
        let (tree, twice) = yaml::parse(text, &Limits::default()).map_err(|error| ReadError(error.to_string()))?;
        let version = self.version(&tree, text)?;
        let (value, findings) = self.decode(tree, twice, version)?;
        findings.strict_error().map_or(Ok(value), |strict| Err(ReadError(strict)))
    }

    /// Reads a file in which kube-apiserver ignores unknown and repeated fields.
    pub fn read_leniently(&self, text: &[u8]) -> Result<Value, ReadError> {
        let (tree, twice) = yaml::parse(text, &Limits::default()).map_err(|error| ReadError(error.to_string()))?;
        let version = self.version(&tree, text)?;
        self.decode(tree, twice, version).map(|(value, _)| value)
    }

    /// Decodes a tree of this kind and version. Unknown fields and the repeated key `twice` are findings, for files
    /// that may have them.
    pub fn decode(
        &self,
        tree: Value,
        twice: Option<Finding>,
        version: &'static str,
    ) -> Result<(Value, Findings), ReadError> {
        let types = Types(version);
        let mut fields = vec![self::text("kind"), self::text("apiVersion")];
        fields.extend((self.fields)(types));
        let decoded = decode::value(tree, &Message::new(types.name(self.kind), fields));
        let decoded = decoded.map_err(|error| ReadError(error.to_string()))?;
        let mut findings = Findings::default();
        findings.extend(twice.into_iter().chain(decoded.findings.iter().cloned()));
        Ok((decoded.value, findings))
    }

    /// Returns the version of a file.
    fn version(&self, tree: &Value, text: &[u8]) -> Result<&'static str, ReadError> {
        check_type(tree)?;
        let (api_version, kind) = (tree.str_at(&["apiVersion"]), tree.str_at(&["kind"]));
        for (name, value) in [("Kind", kind), ("apiVersion", api_version)] {
            if value.is_empty() {
                let text = String::from_utf8_lossy(text);
                return Err(ReadError(format!("Object '{name}' is missing in '{text}'")));
            }
        }
        let ours = api_version.strip_prefix(self.group).and_then(|rest| rest.strip_prefix('/'));
        let ours = self.versions.iter().find(|known| ours == Some(**known)).filter(|_| kind == self.kind);
        ours.copied().ok_or_else(|| {
            let scheme = self.scheme;
            ReadError(format!("no kind \"{kind}\" is registered for version \"{api_version}\" in scheme \"{scheme}\""))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FORMAT: Format = Format {
        group: "g.io",
        versions: &["v1", "v1beta1"],
        kind: "Thing",
        scheme: "a/b.go:1",
        fields: |types| vec![list("parts", types.object("Part", vec![text("name")])), text("other")],
    };

    #[test]
    fn reads_valid_and_rejects_invalid_files() {
        let v1 = "apiVersion: g.io/v1\nkind: Thing\n";
        let missing = |name: &str, text: &str| Err(format!("Object '{name}' is missing in '{text}'"));
        let cases = [
            (format!("{v1}parts: [{{name: a}}]"), Ok("a")),
            (
                "{\"apiVersion\": \"g.io/v1beta1\", \"kind\": \"Thing\", \"parts\": [{\"name\": \"b\"}]}".to_owned(),
                Ok("b"),
            ),
            (String::new(), missing("Kind", "")),
            ("kind: Thing".to_owned(), missing("apiVersion", "kind: Thing")),
            (
                "apiVersion: g.io/v2\nkind: Thing".to_owned(),
                Err("no kind \"Thing\" is registered for version \"g.io/v2\" in scheme \"a/b.go:1\"".to_owned()),
            ),
            (
                "apiVersion: v1\nkind: Thing".to_owned(),
                Err("no kind \"Thing\" is registered for version \"v1\" in scheme \"a/b.go:1\"".to_owned()),
            ),
            (
                format!("{v1}parts: [{{nam: a}}]\nmore: 1"),
                Err("strict decoding error: unknown field \"more\", unknown field \"parts[0].nam\"".to_owned()),
            ),
            (
                format!("{v1}parts: a"),
                Err("json: cannot unmarshal string into Go struct field Thing.parts of type []v1.Part".to_owned()),
            ),
            (
                "- a".to_owned(),
                Err("couldn't get version/kind; json parse error: json: cannot unmarshal array into Go value of type struct \
                     { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \"json:\\\"kind,omitempty\\\"\" }"
                    .to_owned()),
            ),
            (
                format!("{v1}other: a\nother: b"),
                Err("strict decoding error: yaml: unmarshal errors:\n  line 4: key \"other\" already set in map"
                    .to_owned()),
            ),
        ];
        for (text, want) in cases {
            let read = FORMAT.read(text.as_bytes()).map_err(|error| error.0);
            let name = |value: &Value| value.list_at(&["parts"])[0].str_at(&["name"]).to_owned();
            assert_eq!(read.as_ref().map(name), want.as_ref().map(|name| (*name).to_owned()), "{text}");
        }
        let more = format!("{v1}parts: [{{name: a}}]\nmore: 1");
        assert!(FORMAT.read(more.as_bytes()).is_err() && FORMAT.read_leniently(more.as_bytes()).is_ok());
    }
}
