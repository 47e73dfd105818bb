//! Converts nodes to a tree, in the steps of `yaml.v2` and then `sigs.k8s.io/yaml`.

use std::collections::{HashMap, HashSet};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_meta::{Text, go_quote};
use binnacle_work::pace;

use super::compose::{Document, Node, NodeContent, too_deep};
use super::number::{format_g, format_g32};
use super::resolve::{PREFIX, Scalar, resolve};
use super::{LargeIntegers, YamlError, number};
use crate::findings::{Finding, YAML_ERRORS};
use crate::limits::Budget;
use crate::{Limits, Object, Value, json};

/// The maximum number of repeated keys reported; kube-apiserver reports all.
const MAX_REPEATED: usize = 100;

pub(super) fn decode(
    document: &Document,
    limits: &Limits,
    large: LargeIntegers,
) -> Result<(Value, Option<Finding>), YamlError> {
    let mut decoder = Decoder {
        nodes: &document.nodes,
        limits,
        budget: Budget::new(limits),
        repeated: Vec::new(),
        aliases: HashSet::new(),
        decoded: 0,
        aliased: 0,
        alias_depth: 0,
    };
    let value = match document.nodes.is_empty() {
        true => Value::Null,
        false => decoder.node(0, 0)?.into_value(large)?,
    };
    let finding =
        (!decoder.repeated.is_empty()).then(|| Finding::Yaml(format!("{YAML_ERRORS}{}", decoder.repeated.join("\n"))));
    Ok((value, finding))
}

/// A node before its conversion to JSON, as in Go: keys have types.
enum Yaml {
    Scalar(Key),
    List(Vec<Yaml>),
    Map(Map),
}

/// A scalar that can be the key of a map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
enum Key {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    /// The bits of the number.
    Float(u64),
    Str(Text),
}

#[derive(Default)]
struct Map {
    entries: Vec<(Key, Yaml)>,
    positions: HashMap<Key, usize>,
}

struct Decoder<'a> {
    nodes: &'a [Node],
    limits: &'a Limits,
    budget: Budget,
    /// The error lines for repeated keys.
    repeated: Vec<String>,
    /// The aliases that are being expanded.
    aliases: HashSet<usize>,
    decoded: usize,
    aliased: usize,
    alias_depth: usize,
}

impl Decoder<'_> {
    fn node(&mut self, id: usize, depth: usize) -> Result<Yaml, YamlError> {
        self.count(depth)?;
        let nodes = self.nodes;
        match &nodes[id].kind {
            NodeContent::Scalar { text, tag, plain } => scalar(text, tag, *plain).map(Yaml::Scalar),
            NodeContent::Alias { target, name } => {
                self.alias(id, *target, name, |decoder, target| decoder.node(target, depth + 1))
            }
            NodeContent::List(children) => {
                let mut items = Vec::with_capacity(children.len());
                for child in children {
                    items.push(self.node(*child, depth + 1)?);
                }
                Ok(Yaml::List(items))
            }
            NodeContent::Map(children) => {
                self.budget.yaml_map()?;
                let mut map = Map::default();
                self.map(children, &mut map, depth)?;
                Ok(Yaml::Map(map))
            }
        }
    }

    fn map(&mut self, children: &[usize], map: &mut Map, depth: usize) -> Result<(), YamlError> {
        for pair in children.chunks_exact(2) {
            let (key, value) = (pair[0], pair[1]);
            if self.is_merge(key) {
                self.merge(value, map, depth)?;
                continue;
            }
            self.budget.yaml_member()?;
            let key = match self.node(key, depth + 1)? {
                Yaml::Scalar(key) => key,
                other => return Err(YamlError::document(format!("invalid map key: {}", go_syntax(&other)))),
            };
            let node = self.node(value, depth + 1)?;
            if map.positions.contains_key(&key) && self.repeated.len() < MAX_REPEATED {
                let line = self.nodes[value].line;
                self.repeated.push(format!("  line {line}: key {} already set in map", key.go_syntax()));
            }
            map.insert(key, node);
        }
        Ok(())
    }

    fn is_merge(&self, id: usize) -> bool {
        matches!(
            &self.nodes[id].kind,
            NodeContent::Scalar { text, tag, plain }
                if text == "<<" && (tag.is_empty() && *plain || tag == "!" || tag.strip_prefix(PREFIX) == Some("merge"))
        )
    }

    /// Merges the members of other maps (`<<`) into this one, replacing those that it already has.
    fn merge(&mut self, id: usize, map: &mut Map, depth: usize) -> Result<(), YamlError> {
        let nodes = self.nodes;
        let want_map = || YamlError::document("map merge requires map or sequence of maps as the value");
        match &nodes[id].kind {
            NodeContent::Map(_) | NodeContent::Alias { .. } => self.merge_one(id, map, depth + 1),
            NodeContent::List(children) => {
                // Earlier maps take precedence.
                for child in children.iter().rev() {
                    if !matches!(&nodes[*child].kind, NodeContent::Map(_) | NodeContent::Alias { .. }) {
                        return Err(want_map());
                    }
                    self.merge_one(*child, map, depth + 1)?;
                }
                Ok(())
            }
            NodeContent::Scalar { .. } => Err(want_map()),
        }
    }

    fn merge_one(&mut self, id: usize, map: &mut Map, depth: usize) -> Result<(), YamlError> {
        self.count(depth)?;
        let nodes = self.nodes;
        match &nodes[id].kind {
            NodeContent::Map(children) => self.map(children, map, depth),
            NodeContent::Alias { target, name } => match &nodes[*target].kind {
                NodeContent::Map(children) => self.alias(id, *target, name, |decoder, _| {
                    decoder.count(depth)?;
                    decoder.map(children, map, depth + 1)
                }),
                _ => Err(YamlError::document("map merge requires map or sequence of maps as the value")),
            },
            _ => Err(YamlError::document("map merge requires map or sequence of maps as the value")),
        }
    }

    fn alias<T>(
        &mut self,
        id: usize,
        target: usize,
        name: &str,
        follow: impl FnOnce(&mut Self, usize) -> Result<T, YamlError>,
    ) -> Result<T, YamlError> {
        if !self.aliases.insert(id) {
            return Err(YamlError::document(format!("anchor '{name}' value contains itself")));
        }
        self.alias_depth += 1;
        let result = follow(self, target);
        self.alias_depth -= 1;
        self.aliases.remove(&id);
        result
    }

    /// Counts a node, and rejects documents with too many nodes from aliases, by Go's limit and this crate's limit.
    fn count(&mut self, depth: usize) -> Result<(), YamlError> {
        if depth > self.limits.max_depth {
            return Err(too_deep(self.limits.max_depth));
        }
        self.budget.element()?;
        self.decoded += 1;
        self.aliased += usize::from(self.alias_depth > 0);
        let share = self.aliased as f64 / self.decoded as f64;
        let excessive = self.aliased > 100 && self.decoded > 1000 && share > allowed_alias_share(self.decoded);
        if excessive || self.decoded > self.limits.max_yaml_nodes * 2 {
            return Err(YamlError::document("document contains excessive aliasing"));
        }
        Ok(())
    }
}

/// Returns the share of nodes that may come from aliases: 99% in small documents, 10% in very large ones.
fn allowed_alias_share(decoded: usize) -> f64 {
    const LOW: usize = 400_000;
    const HIGH: usize = 4_000_000;
    match decoded {
        ..=LOW => 0.99,
        HIGH.. => 0.10,
        _ => 0.99 - 0.89 * ((decoded - LOW) as f64 / (HIGH - LOW) as f64),
    }
}

fn scalar(text: &str, tag: &str, plain: bool) -> Result<Key, YamlError> {
    if tag.is_empty() && !plain {
        return Ok(Key::Str(text.into()));
    }
    if tag.strip_prefix(PREFIX) == Some("binary") {
        let data = BASE64_STANDARD
            .decode(text.replace(['\r', '\n'], ""))
            .map_err(|_| YamlError::document("!!binary value contains invalid base64 data"))?;
        return Ok(Key::Str(json::go_utf8(&data).as_ref().into()));
    }
    Ok(match resolve(tag, text)? {
        Scalar::Null => Key::Null,
        Scalar::Bool(b) => Key::Bool(b),
        Scalar::Int(n) => Key::Int(n),
        Scalar::Uint(n) => Key::Uint(n),
        Scalar::Float(n) => Key::Float(n.to_bits()),
        Scalar::Str => Key::Str(text.into()),
    })
}

impl Map {
    fn insert(&mut self, key: Key, value: Yaml) {
        match self.positions.get(&key) {
            Some(place) => self.entries[*place].1 = value,
            None => {
                self.positions.insert(key.clone(), self.entries.len());
                self.entries.push((key, value));
            }
        }
    }
}

impl Yaml {
    fn into_value(self, large: LargeIntegers) -> Result<Value, YamlError> {
        Ok(match self {
            Self::Scalar(Key::Null) => Value::Null,
            Self::Scalar(Key::Bool(b)) => Value::Bool(b),
            Self::Scalar(Key::Int(n)) => Value::Int(n),
            Self::Scalar(Key::Uint(n)) => match large {
                LargeIntegers::Rounded => Value::Float(n as f64),
                LargeIntegers::Digits => Value::Raw(n.to_string().into()),
            },
            Self::Scalar(Key::Float(bits)) => float(f64::from_bits(bits))?,
            Self::Scalar(Key::Str(text)) => Value::Str(text),
            Self::List(items) => {
                pace(4 * items.len() as u64);
                Value::List(items.into_iter().map(|item| item.into_value(large)).collect::<Result<_, _>>()?)
            }
            Self::Map(map) => {
                pace(10 * map.entries.len() as u64);
                let mut object = Object::with_capacity(map.entries.len());
                for (key, value) in map.entries {
                    let name = match &key {
                        Key::Str(text) => text.clone(),
                        Key::Int(n) => n.to_string().into(),
                        Key::Bool(b) => b.to_string().into(),
                        Key::Float(bits) => float_key(f64::from_bits(*bits)),
                        Key::Null | Key::Uint(_) => return Err(unsupported_key(&key, &value)),
                    };
                    object.insert(name, value.into_value(large)?);
                }
                object.sort_by_name();
                Value::Object(object)
            }
        })
    }
}

/// Returns a number as Go's JSON encoder writes it: whole numbers have no decimal point.
fn float(n: f64) -> Result<Value, YamlError> {
    if !n.is_finite() {
        return Err(YamlError::Document(format!("json: unsupported value: {}", number::format_g(n))));
    }
    let mut text = Vec::new();
    json::write_float(n, &mut text);
    let text = String::from_utf8(text).unwrap_or_default();
    Ok(text.parse().map_or(Value::Float(n), Value::Int))
}

fn float_key(n: f64) -> Text {
    match format_g32(n).as_str() {
        "+Inf" => ".inf".into(),
        "-Inf" => "-.inf".into(),
        "NaN" => ".nan".into(),
        text => text.into(),
    }
}

fn unsupported_key(key: &Key, value: &Yaml) -> YamlError {
    let ty = match key {
        Key::Null => "%!s(<nil>)",
        _ => "uint64",
    };
    let key = match key {
        Key::Uint(n) => format!("{n:#x}"),
        _ => "<nil>".to_owned(),
    };
    // A nil has its type only within a list or map.
    let value = if matches!(value, Yaml::Scalar(Key::Null)) { "<nil>".to_owned() } else { go_syntax(value) };
    YamlError::Document(format!("unsupported map key of type: {ty}, key: {key}, value: {value}"))
}

impl Key {
    /// Formats the key like Go's `%#v`.
    fn go_syntax(&self) -> String {
        match self {
            Self::Null => "<nil>".to_owned(),
            Self::Bool(b) => b.to_string(),
            Self::Int(n) => n.to_string(),
            Self::Uint(n) => format!("{n:#x}"),
            Self::Float(bits) => format_g(f64::from_bits(*bits)),
            Self::Str(text) => go_quote(text),
        }
    }
}

/// Formats a value like Go's `%#v`.
fn go_syntax(value: &Yaml) -> String {
    match value {
        Yaml::Scalar(Key::Null) => "interface {}(nil)".to_owned(),
        Yaml::Scalar(key) => key.go_syntax(),
        Yaml::List(items) => {
            format!("[]interface {{}}{{{}}}", items.iter().map(go_syntax).collect::<Vec<_>>().join(", "))
        }
        Yaml::Map(map) => {
            let mut members: Vec<String> =
                map.entries.iter().map(|(key, value)| format!("{}:{}", key.go_syntax(), go_syntax(value))).collect();
            members.sort();
            format!("map[interface {{}}]interface {{}}{{{}}}", members.join(", "))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Finding, Limits, json, yaml};

    #[track_caller]
    fn check(text: &str, want: Result<&str, &str>) {
        let got = yaml::parse(text.as_bytes(), &Limits::default());
        let got = got.map(|(value, _)| json::to_string(&value)).map_err(|error| error.to_string());
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{text}");
    }

    #[test]
    fn decodes_documents() {
        for (text, want) in [
            ("", "null"),
            ("# nothing\n", "null"),
            ("\u{feff}a: 1\n", r#"{"a":1}"#),
            // U+0085 is a line break in YAML 1.1.
            ("a: \u{1f600}\u{85}\n", "{\"a\":\"\u{1f600}\"}"),
            ("a: \"x\u{85}  y\"\n", r#"{"a":"x y"}"#),
            ("a: \"x\u{85}\u{85} y\"\n", r#"{"a":"x\ny"}"#),
            ("a: 1\u{85}b: 2\n", r#"{"a":1,"b":2}"#),
            ("a: |\n  x\u{85}  y\n", r#"{"a":"x\ny\n"}"#),
            ("a: x # c\u{85}b: 1\n", r#"{"a":"x","b":1}"#),
            ("a: \"x\\\u{85}  y\"\n", r#"{"a":"xy"}"#),
            ("a: x\r\u{85}  y\n", r#"{"a":"x\ny"}"#),
            ("{\"a\":\"x\u{85}y\"}", r#"{"a":"x y"}"#),
            ("a: \u{85} b\u{85} - c", r#"{"a":"b - c"}"#),
            ("---\na: 1\n---\nb: 2\n", r#"{"a":1}"#),
            ("b: 1\na: yes\n", r#"{"a":true,"b":1}"#),
            ("a: 1.0\nb: 1e3\nc: 1.5\nd: 1e21\n", r#"{"a":1,"b":1000,"c":1.5,"d":1e+21}"#),
            ("a: \"1\"\nb: '2'\nc: !!str 3\n", r#"{"a":"1","b":"2","c":"3"}"#),
            ("1: a\ntrue: b\n1.5: c\n", r#"{"1":"a","1.5":"c","true":"b"}"#),
            ("a: 2001-01-01\n", r#"{"a":"2001-01-01"}"#),
            ("a: |\n  x\n  y\nb: >\n  x\n  y\n", r#"{"a":"x\ny\n","b":"x y\n"}"#),
            ("a: &x {k: 1}\nb: *x\n", r#"{"a":{"k":1},"b":{"k":1}}"#),
            ("a: &x {k: 1, l: 2}\nb:\n  <<: *x\n  k: 3\n", r#"{"a":{"k":1,"l":2},"b":{"k":3,"l":2}}"#),
            ("a: [1, {b: }, ]\n", r#"{"a":[1,{"b":null}]}"#),
            ("a:\n- x\n- - z\n", r#"{"a":["x",["z"]]}"#),
            ("{\"a\": [1, 2], \"b\": {\"c\": null}}", r#"{"a":[1,2],"b":{"c":null}}"#),
            ("a: !!binary aGVsbG8=\n", r#"{"a":"hello"}"#),
        ] {
            check(text, Ok(want));
        }
    }

    #[test]
    fn errors_match_go_yaml() {
        for (text, want) in [
            ("a: b: c", "yaml: mapping values are not allowed in this context"),
            ("x: 1\na: b: c", "yaml: line 2: mapping values are not allowed in this context"),
            ("a: *x\n", "yaml: unknown anchor 'x' referenced"),
            ("a: \u{1}\n", "yaml: control characters are not allowed"),
            ("a: &x\n  b: *x\n", "yaml: anchor 'x' value contains itself"),
            ("{a: b}: c\n", r#"yaml: invalid map key: map[interface {}]interface {}{"a":"b"}"#),
            ("a: {{ x }}\n", r#"yaml: invalid map key: map[interface {}]interface {}{"x":interface {}(nil)}"#),
            ("? \n: x\n", r#"unsupported map key of type: %!s(<nil>), key: <nil>, value: "x""#),
            ("? \n", "unsupported map key of type: %!s(<nil>), key: <nil>, value: <nil>"),
            ("a: .inf\n", "json: unsupported value: +Inf"),
            ("<<: 1\n", "yaml: map merge requires map or sequence of maps as the value"),
            ("a: \"x\n", "yaml: line 2: found unexpected end of stream"),
            ("a: [1, 2\n", "yaml: line 1: did not find expected ',' or ']'"),
            (r#"{"a": "x\/"}"#, "yaml: found unknown escape character"),
            (r#"{"a": "\ud83d\ude00"}"#, "yaml: found invalid Unicode character escape code"),
            ("b: 1\na: \"x\n \\/\"\n", "yaml: line 3: found unknown escape character"),
            ("a: @x\n", "yaml: found character that cannot start any token"),
            ("a: 1\n\tb: 2\n", "yaml: line 2: found a tab character that violates indentation"),
            ("a:\n\tb: 2\n", "yaml: line 2: found character that cannot start any token"),
            ("a: 1\n b: 2\n", "yaml: line 2: mapping values are not allowed in this context"),
            ("a: \n  - b\n c: d\n", "yaml: line 2: did not find expected key"),
        ] {
            check(text, Err(want));
        }
    }

    #[test]
    fn reports_duplicate_keys() {
        for (text, value, want) in [
            ("data:\n  k: x\n  k: z\n", r#"{"data":{"k":"z"}}"#, "  line 3: key \"k\" already set in map"),
            (
                "a: {x: 1, x: 2}\na:\n  b: 1\n",
                r#"{"a":{"b":1}}"#,
                "  line 1: key \"x\" already set in map\n  line 3: key \"a\" already set in map",
            ),
            ("1: a\n1: b\n", r#"{"1":"b"}"#, "  line 2: key 1 already set in map"),
        ] {
            let (got, finding) = yaml::parse(text.as_bytes(), &Limits::default()).unwrap();
            assert_eq!(json::to_string(&got), value);
            assert_eq!(finding, Some(Finding::Yaml(format!("yaml: unmarshal errors:\n{want}"))));
        }
    }

    #[test]
    fn rejects_alias_bombs_and_deep_documents() {
        let mut bomb = String::from("a0: &a0 [x,x,x,x,x,x,x,x,x]\n");
        for i in 1..12 {
            let alias = format!("*a{}", i - 1);
            bomb.push_str(&format!("a{i}: &a{i} [{}]\n", [alias.as_str(); 9].join(",")));
        }
        check(&bomb, Err("yaml: document contains excessive aliasing"));
        let deep = "[".repeat(100_000);
        assert!(yaml::parse(deep.as_bytes(), &Limits::default()).is_err());
        let deep = "- ".repeat(100_000);
        assert!(yaml::parse(deep.as_bytes(), &Limits::default()).is_err());
    }
}
