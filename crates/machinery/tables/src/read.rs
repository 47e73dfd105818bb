//! Parsing of tables. References to messages of other tables are resolved within the given set.

use std::collections::BTreeMap;

use crate::types::{DefaultValue, Field, KindOf, ListType, Message, Patch, Presence, Table, Ty, Union, stem};

/// An error with its file and line.
#[derive(Debug, thiserror::Error)]
#[error("{file}:{line}: {problem}")]
pub struct ReadError {
    pub file: String,
    pub line: usize,
    pub problem: String,
}

/// Reads a set of tables from file names and texts; all referenced tables must be in the set.
pub fn read<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)> + Clone) -> Result<Vec<Table>, ReadError> {
    let mut packages = BTreeMap::new();
    for (_, text) in files.clone() {
        for package in text.lines().filter_map(|line| line.strip_prefix("package ")) {
            packages.insert(stem(package), package);
        }
    }
    files.into_iter().map(|(file, text)| read_one(file, text, &packages)).collect()
}

fn read_one(file: &str, text: &str, packages: &BTreeMap<&str, &str>) -> Result<Table, ReadError> {
    let mut table = Table { package: String::new(), api_version: None, options: false, messages: Vec::new() };
    for (number, line) in text.lines().enumerate() {
        read_line(line, &mut table, packages).map_err(|problem| ReadError {
            file: file.into(),
            line: number + 1,
            problem,
        })?;
    }
    if table.package.is_empty() {
        return Err(ReadError { file: file.into(), line: 1, problem: "the table names no package".into() });
    }
    Ok(table)
}

fn read_line(line: &str, table: &mut Table, packages: &BTreeMap<&str, &str>) -> Result<(), String> {
    if line.is_empty() || line.starts_with('#') {
        return Ok(());
    }
    if let Some(rest) = line.strip_prefix("  ") {
        let message = table.messages.last_mut().ok_or("a field outside of a message")?;
        if let Some(union) = rest.strip_prefix("union ") {
            message.unions.push(read_union(union)?);
        } else {
            message.fields.push(read_field(rest, &table.package, packages)?);
        }
        return Ok(());
    }
    let mut words = line.split(' ');
    match (words.next(), words.next()) {
        (Some("package"), Some(name)) => table.package = name.into(),
        (Some("api-version"), Some(name)) => {
            table.api_version = Some(name.into());
            table.options = words.next() == Some("options");
        }
        (Some("message"), Some(name)) => table.messages.push(read_head(name, words)?),
        _ => return Err(format!("unknown line {line:?}")),
    }
    Ok(())
}

fn read_head<'a>(name: &str, words: impl Iterator<Item = &'a str>) -> Result<Message, String> {
    let mut message =
        Message { name: name.into(), kinds: Vec::new(), atomic: false, unions: Vec::new(), fields: Vec::new() };
    for word in words {
        match word {
            "kind" => message.kinds.push(KindOf::Own),
            "kind=*" => message.kinds.push(KindOf::Every),
            "atomic" => message.atomic = true,
            _ => match word.strip_prefix("kind=") {
                Some(api_version) => message.kinds.push(KindOf::Other(api_version.into())),
                None => return Err(format!("unknown word {word:?} in the head of a message")),
            },
        }
    }
    Ok(message)
}

fn read_union(text: &str) -> Result<Union, String> {
    let (discriminator, fields) = text.split_once('=').ok_or("a union without \"=\"")?;
    let fields = fields
        .split(',')
        .map(|pair| pair.split_once(':').map(|(field, value)| (field.into(), value.into())))
        .collect::<Option<_>>()
        .ok_or("a union's field without \":\"")?;
    Ok(Union { discriminator: discriminator.into(), fields })
}

fn read_field(text: &str, package: &str, packages: &BTreeMap<&str, &str>) -> Result<Field, String> {
    // Enum values may contain spaces, so they are last on the line.
    let (text, values) = match text.split_once(" enum=") {
        Some((text, values)) => (text, values.split('|').map(String::from).collect()),
        None => (text, Vec::new()),
    };
    let mut words = text.split_ascii_whitespace();
    let mut next = |part: &str| words.next().ok_or(format!("a field without {part}"));
    let name = next("name")?.to_string();
    let mut tags =
        next("number")?.split('/').map(str::parse).collect::<Result<Vec<u32>, _>>().map_err(|e| e.to_string())?;
    let tag = tags.pop().ok_or("a field without number")?;
    let ty = read_ty(next("type")?, package, packages)?;
    let presence = match next("presence")? {
        "omit" => Presence::OmitZero,
        "optional" => Presence::Optional,
        "always" => Presence::Always,
        "null" => Presence::AlwaysNull,
        other => return Err(format!("unknown presence {other:?}")),
    };
    let mut field = Field {
        name,
        tag,
        embedded_in: tags,
        ty,
        presence,
        required: false,
        list_type: ListType::Unset,
        patch: Patch::default(),
        default: DefaultValue::None,
        values,
        go_type: String::new(),
    };
    for word in words {
        match word.split_once('=') {
            None if word == "required" => field.required = true,
            Some(("list", list)) => field.list_type = read_list_type(list)?,
            Some(("patch", patch)) => field.patch = read_patch(patch)?,
            Some(("go", go_type)) => field.go_type = go_type.into(),
            Some(("default", "zero")) => field.default = DefaultValue::Zero,
            Some(("default", json)) => field.default = DefaultValue::Value(json.into()),
            _ => return Err(format!("unknown word {word:?}")),
        }
    }
    Ok(field)
}

fn read_list_type(text: &str) -> Result<ListType, String> {
    Ok(match text {
        "atomic" => ListType::Atomic,
        "granular" => ListType::Granular,
        "set" => ListType::Set,
        _ => {
            let keys = text.strip_prefix("map:").ok_or(format!("unknown list type {text:?}"))?;
            ListType::Map(keys.split(',').map(String::from).collect())
        }
    })
}

fn read_patch(text: &str) -> Result<Patch, String> {
    let (strategies, merge_key) = text.split_once(':').unwrap_or((text, ""));
    let mut patch = Patch { merge_key: merge_key.into(), ..Patch::default() };
    for strategy in strategies.split(',').filter(|s| !s.is_empty()) {
        match strategy {
            "merge" => patch.merge = true,
            "replace" => patch.replace = true,
            "retainKeys" => patch.retain_keys = true,
            _ => return Err(format!("unknown patch strategy {strategy:?}")),
        }
    }
    Ok(patch)
}

fn read_ty(text: &str, package: &str, packages: &BTreeMap<&str, &str>) -> Result<Ty, String> {
    let inner = |text: &str| read_ty(text, package, packages).map(Box::new);
    if let Some(element) = text.strip_prefix("[]") {
        return Ok(Ty::List(inner(element)?));
    }
    if let Some(element) = text.strip_prefix("wrapped[]") {
        return Ok(Ty::WrappedList(inner(element)?));
    }
    if let Some(value) = text.strip_prefix("map:") {
        return Ok(Ty::Map(inner(value)?));
    }
    if let Some((shape, name)) = text.strip_suffix(')').and_then(|text| text.split_once('(')) {
        let name = read_reference(name, package, packages)?;
        return match shape {
            "schema-or-bool" => Ok(Ty::SchemaOrBool(name)),
            "schema-or-array" => Ok(Ty::SchemaOrArray(name)),
            "schema-or-strings" => Ok(Ty::SchemaOrStrings(name)),
            _ => Err(format!("unknown type {text:?}")),
        };
    }
    Ok(match text {
        "string" => Ty::String,
        "bool" => Ty::Bool,
        "int32" => Ty::Int32,
        "int64" => Ty::Int64,
        "uint32" => Ty::Uint32,
        "double" => Ty::Double,
        "bytes" => Ty::Bytes,
        "time" => Ty::Time,
        "microtime" => Ty::MicroTime,
        "duration" => Ty::Duration,
        "quantity" => Ty::Quantity,
        "int-or-string" => Ty::IntOrString,
        "raw-extension" => Ty::RawExtension,
        "json" => Ty::Json,
        "fields-v1" => Ty::FieldsV1,
        name => Ty::Message(read_reference(name, package, packages)?),
    })
}

/// Resolves the name of a message, which begins with a capital to distinguish it from types.
fn read_reference(text: &str, package: &str, packages: &BTreeMap<&str, &str>) -> Result<String, String> {
    let (owner, short) = match text.rsplit_once('.') {
        None => (package, text),
        Some((stem, short)) => (*packages.get(stem).ok_or(format!("no table {stem:?}"))?, short),
    };
    if !short.starts_with(|c: char| c.is_ascii_uppercase()) {
        return Err(format!("unknown type {text:?}"));
    }
    Ok(format!("{owner}.{short}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::write;

    const META: &str = "\
# Written by `cargo xtask import-api`; the format is described in ../README.md.
package io.k8s.apimachinery.pkg.apis.meta.v1
api-version meta.k8s.io/v1

message ListOptions kind=*
  limit                                7 int64                        omit

message Status kind kind=v1
  code                                 6 int32                        omit
";
    const SAMPLE: &str = "\
# Written by `cargo xtask import-api`; the format is described in ../README.md.
package io.k8s.api.sample.v1
api-version sample/v1 options

message Sample kind atomic
  union type=one:One,two:Two
  type                                 0 string                       always   required default=zero enum=|One|two words
  status                             2/1 meta.v1.Status               optional
  items                            2/2/3 []Sample                     null     list=map:a,b patch=merge,retainKeys:a
  tags                                 4 map:wrapped[]string          omit     list=granular patch=replace go=v1.Tags
  schema                               5 schema-or-bool(Sample)       optional default=\"x\"
";

    #[test]
    fn tables_round_trip() {
        let files = [("meta.v1.tbl", META), ("sample.v1.tbl", SAMPLE)];
        let tables = read(files).unwrap();
        for (table, (_, text)) in tables.iter().zip(files) {
            assert_eq!(write(table), text);
        }
        assert_eq!(tables[1].stem(), "sample.v1");
        let message = &tables[1].messages[0];
        assert_eq!(message.fields[1].ty.message(), Some("io.k8s.apimachinery.pkg.apis.meta.v1.Status"));
        assert_eq!((&message.fields[2].embedded_in[..], message.fields[2].tag), (&[2, 2][..], 3));
        assert_eq!(message.fields[0].values, ["", "One", "two words"]);
    }

    #[test]
    fn rejects_invalid_tables() {
        let cases = [
            ("message A\n  x 1 strnig omit\n", "unknown type"),
            ("message A\n  x 1 other.v1.B omit\n", "no table"),
            ("message A\n  x 1 string sometimes\n", "unknown presence"),
            ("message A\n  x 1 string omit wrong\n", "unknown word"),
            ("message A\n  x one string omit\n", "invalid digit"),
            ("  x 1 string omit\n", "outside of a message"),
            ("massage A\n", "unknown line"),
        ];
        for (text, problem) in cases {
            let text = format!("package io.k8s.api.sample.v1\n{text}");
            let error = read([("sample.v1.tbl", text.as_str())]).unwrap_err().to_string();
            assert!(error.contains(problem), "{error} for {text}");
        }
        assert!(read([("x.tbl", "")]).is_err());
    }
}
