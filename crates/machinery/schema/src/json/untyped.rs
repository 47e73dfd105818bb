//! Reads JSON without a schema.

use std::borrow::Cow;

use binnacle_meta::{GroupVersion, Text};

use super::float_literal;
use super::{
    Cursor, InvalidJson, JsonError, check_size, compacted, go_utf8, read_error, syntax_error, to_string, write_string,
};
use crate::findings::{Finding, Findings};
use crate::free_form::sort_free_form;
use crate::limits::Budget;
use crate::path::Path;
use crate::{Limits, Object, Value};

/// The results of a reader without schema besides the value.
pub(crate) struct Report<'f> {
    /// The list for repeated members; `None` if findings are not needed.
    pub(crate) findings: Option<&'f mut Findings>,
    /// The first number that an `f64` cannot hold.
    pub(crate) overflow: Option<String>,
    pub(crate) texts: Texts,
}

/// The treatment of values whose text changes when they are written: numbers (`1e3`), strings and names with other escapes
/// than Go's, repeated members.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) enum Texts {
    #[default]
    ByValue,
    /// By value, and the document has such a value.
    HasRewritten,
    /// Numbers as [`Value::Raw`], with the original text.
    NumbersAsSent,
    /// Numbers and strings as [`Value::Raw`], with the original text.
    AsSent,
    /// Like `AsSent`, also strings with characters that Go escapes and the document does not.
    Tested,
}

impl Texts {
    /// Returns the original text as a value if it shall be kept, and otherwise remembers that it changes.
    fn rewritten(&mut self, keeps: bool, sent: &str) -> Option<Value> {
        match self {
            Self::ByValue | Self::HasRewritten => *self = Self::HasRewritten,
            Self::NumbersAsSent | Self::AsSent | Self::Tested if keeps => return Some(Value::Raw(sent.into())),
            Self::NumbersAsSent | Self::AsSent | Self::Tested => {}
        }
        None
    }
}

impl<'f> Report<'f> {
    pub(crate) fn new(findings: Option<&'f mut Findings>) -> Self {
        Self { findings, overflow: None, texts: Texts::ByValue }
    }
}

/// Reads a document. Members keep their order; a duplicate member has its last value, at its first position.
///
/// Numbers become [`Value::Int`] if they have no point and fit 64 bits, and [`Value::Float`] otherwise, as in Go's
/// unstructured objects.
pub fn parse(bytes: &[u8], limits: &Limits) -> Result<Value, JsonError> {
    parse_within(bytes, limits, &mut Budget::new(limits))
}

/// Reads a text like [`parse`], as a part of a larger document.
pub(crate) fn parse_within(bytes: &[u8], limits: &Limits, budget: &mut Budget) -> Result<Value, JsonError> {
    read(bytes, limits, budget, None)
}

/// Reads a document like [`parse`], and returns repeated members as findings.
pub fn parse_strict(bytes: &[u8], limits: &Limits) -> Result<(Value, Findings), JsonError> {
    let mut findings = Findings::default();
    let value = read(bytes, limits, &mut Budget::new(limits), Some(&mut findings))?;
    Ok((value, findings))
}

/// The results of [`parse_with_any_number`].
#[derive(Debug)]
pub struct AnyNumberDocument {
    pub value: Value,
    pub findings: Findings,
    /// The first number that an `f64` cannot hold.
    pub beyond: Option<String>,
    /// True if writing the value changes a text, of a number (`1e3`) or a string (`"\u0061"`), or omits a repeated member.
    pub rewrites: bool,
}

/// Reads a document like [`parse_strict`]. Numbers that an `f64` cannot hold become [`Value::Raw`].
pub fn parse_with_any_number(bytes: &[u8], limits: &Limits) -> Result<AnyNumberDocument, JsonError> {
    let mut findings = Findings::default();
    let mut report = Report::new(Some(&mut findings));
    let value = read_any_number(bytes, limits, &mut Budget::new(limits), &mut report)?;
    let (beyond, rewrites) = (report.overflow, report.texts == Texts::HasRewritten);
    Ok(AnyNumberDocument { value, findings, beyond, rewrites })
}

/// Reads a document like [`parse`], for a message that quotes a number of it: numbers whose text would change become
/// [`Value::Raw`].
pub fn parse_with_sent_numbers(bytes: &[u8], limits: &Limits) -> Result<Value, JsonError> {
    let mut report = Report { texts: Texts::NumbersAsSent, ..Report::new(None) };
    read_any_number(bytes, limits, &mut Budget::new(limits), &mut report)
}

/// Reads a document like [`parse`], for a message that quotes it: numbers and strings whose text would change become
/// [`Value::Raw`]. It is no document to decode, where such a value is a number.
pub fn parse_as_sent(bytes: &[u8], limits: &Limits) -> Result<Value, JsonError> {
    let mut report = Report { texts: Texts::AsSent, ..Report::new(None) };
    read_any_number(bytes, limits, &mut Budget::new(limits), &mut report)
}

/// Reads a document for a comparison of texts with those that Go writes: numbers and strings with another text become
/// [`Value::Raw`], so that they differ from every value.
pub fn parse_for_test(bytes: &[u8], limits: &Limits) -> Result<Value, JsonError> {
    let mut report = Report { texts: Texts::Tested, ..Report::new(None) };
    read_any_number(bytes, limits, &mut Budget::new(limits), &mut report)
}

/// Reads the members of an object or the items of a list, which remain texts, for a message that quotes them. `None` for
/// other values.
pub fn parse_contents_as_texts(text: &str, limits: &Limits) -> Option<Value> {
    let mut cursor = Cursor::within(text, Budget::new(limits));
    let depth = limits.max_depth;
    let contents = match cursor.peek().ok()? {
        b'{' => Value::Object(object_of_texts(&mut cursor, depth).ok()?),
        b'[' => {
            let mut items = Vec::new();
            let mut more = cursor.open(b']').ok()?;
            while more {
                cursor.budget.element().ok()?;
                items.push(Value::Raw(compacted(cursor.skip(depth).ok()?).into()));
                more = cursor.more(b']').ok()?;
            }
            Value::List(items)
        }
        _ => return None,
    };
    cursor.end().ok()?;
    Some(contents)
}

fn object_of_texts(cursor: &mut Cursor<'_>, depth: usize) -> Result<Object, InvalidJson> {
    let mut object = Object::new();
    cursor.budget.object()?;
    let mut more = cursor.open(b'}')?;
    while more {
        let name = text(cursor.name()?);
        cursor.budget.member(object.len())?;
        object.insert(name, Value::Raw(compacted(cursor.skip(depth)?).into()));
        more = cursor.more(b'}')?;
    }
    Ok(object)
}

/// Reads a list of objects whose members remain texts, for a message that quotes them.
pub fn parse_member_texts(bytes: &[u8], limits: &Limits) -> Result<Vec<Object>, JsonError> {
    check_size(bytes, limits)?;
    let text = go_utf8(bytes);
    let mut cursor = Cursor::within(&text, Budget::new(limits));
    member_texts(&mut cursor, limits.max_depth).map_err(|InvalidJson| read_error(&cursor, bytes, limits))
}

fn member_texts(cursor: &mut Cursor<'_>, depth: usize) -> Result<Vec<Object>, InvalidJson> {
    let mut items = Vec::new();
    if cursor.peek()? != b'[' {
        return Err(InvalidJson);
    }
    let mut more = cursor.open(b']')?;
    while more {
        cursor.budget.element()?;
        items.push(if cursor.peek()? == b'{' {
            object_of_texts(cursor, depth)?
        } else {
            cursor.skip(depth)?;
            Object::new()
        });
        more = cursor.more(b']')?;
    }
    Ok(items)
}

/// Returns a number in a tree from [`parse_with_any_number`] that an `f64` cannot hold. Raw objects in the tree contain
/// no such number.
pub fn raw_number(value: &Value) -> Option<&str> {
    match value {
        Value::Raw(text) => text.starts_with(|c: char| c == '-' || c.is_ascii_digit()).then_some(text),
        Value::Object(members) => members.values().find_map(raw_number),
        Value::List(items) => items.iter().find_map(raw_number),
        _ => None,
    }
}

/// Like [`parse_strict`], for documents that must be an object; `null` counts as an empty one, as in Go.
pub fn parse_object(bytes: &[u8], limits: &Limits) -> Result<(Object, Findings), JsonError> {
    let (value, findings) = parse_strict(bytes, limits)?;
    let kind = match value {
        Value::Object(object) => return Ok((object, findings)),
        Value::Null => return Ok((Object::new(), findings)),
        Value::List(_) => "array",
        Value::Str(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) | Value::Raw(_) => "number",
    };
    Err(JsonError::Type(format!("json: cannot unmarshal {kind} into Go value of type map[string]interface {{}}")))
}

/// The version and kind of a document; empty if absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TypeMeta {
    pub api_version: Text,
    pub kind: Text,
}

/// Reads the version and kind of a document, which must be well formed as a whole. Go reads these two members with its
/// standard decoder, so their names match in any case, and the last of several counts.
///
/// kube-apiserver prepends `couldn't get version/kind; json parse error: ` to the error.
pub fn type_meta(bytes: &[u8], limits: &Limits) -> Result<TypeMeta, JsonError> {
    check_size(bytes, limits)?;
    let text = go_utf8(bytes);
    let mut cursor = Cursor::new(&text);
    let mut wrong = None;
    let read = |cursor: &mut Cursor<'_>, wrong: &mut Option<String>| {
        let meta = read_type_meta(cursor, limits.max_depth, wrong)?;
        cursor.end()?;
        Ok(meta)
    };
    match (read(&mut cursor, &mut wrong), wrong) {
        (Err(InvalidJson), _) => Err(syntax_error(bytes, limits)),
        (Ok(_), Some(wrong)) => Err(JsonError::Type(wrong)),
        (Ok(meta), None) => Ok(meta),
    }
}

/// The struct into which Go reads `apiVersion` and `kind`.
const TARGET: &str = "Go value of type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; \
                      Kind string \"json:\\\"kind,omitempty\\\"\" }";

/// Returns Go's error for a tree of this type, which cannot have `apiVersion` and `kind`.
pub fn no_type_meta(found: &str) -> String {
    format!("json: cannot unmarshal {found} into {TARGET}")
}

/// Returns Go's error for an `apiVersion` or `kind` that is not text.
fn wrong_type_meta(field: &str, found: &str) -> String {
    format!("json: cannot unmarshal {found} into Go struct field .{field} of type string")
}

/// Returns the field of [`TypeMeta`] that Go's decoder finds for a name: in any case.
fn type_meta_field(name: &str) -> Option<&'static str> {
    ["apiVersion", "kind"].into_iter().find(|field| name.eq_ignore_ascii_case(field))
}

/// Returns true for a name that matches `apiVersion` or `kind` in another case.
pub fn is_type_meta_in_other_case(name: &str) -> bool {
    type_meta_field(name).is_some_and(|field| field != name)
}

/// Returns the version and kind of a tree as Go's decoder finds them in its JSON, whose members are sorted by name; the
/// last of several wins, except `null`. The error is that of [`type_meta`].
pub fn tree_type_meta(tree: &Value) -> Result<TypeMeta, String> {
    let mut meta = TypeMeta::default();
    let members = match tree {
        Value::Object(members) => members,
        Value::Null => return Ok(meta),
        other => return Err(no_type_meta(json_type(other))),
    };
    let named = members.iter().filter_map(|(name, member)| Some((name, type_meta_field(name)?, member)));
    let mut named: Vec<(&Text, &'static str, &Value)> = named.collect();
    named.sort_by_key(|(name, ..)| *name);
    for (_, field, member) in named {
        match member {
            Value::Str(text) if field == "kind" => meta.kind = text.clone(),
            Value::Str(text) => meta.api_version = text.clone(),
            Value::Null => {}
            other => return Err(wrong_type_meta(field, json_type(other))),
        }
    }
    Ok(meta)
}

/// Checks that a tree is an object whose `apiVersion` and `kind` are texts, like [`tree_type_meta`].
pub fn check_type_meta(tree: &Value) -> Result<(), String> {
    tree_type_meta(tree).map(drop)
}

/// Checks `apiVersion` and `kind` like [`check_type_meta`], and that a present `apiVersion` is well-formed. The error
/// is that of Go's serializer.
pub fn interpret(tree: &Value) -> Result<(), String> {
    let meta = tree_type_meta(tree).map_err(|why| format!("couldn't get version/kind; json parse error: {why}"))?;
    let api_version = meta.api_version.as_str();
    match api_version.is_empty() || GroupVersion::parse(api_version).is_some() {
        true => Ok(()),
        false => Err(format!("unexpected GroupVersion string: {api_version}")),
    }
}

/// Checks the requirements of Go's unstructured decoder: like [`interpret`], and a kind. The error is Go's.
pub fn check_unstructured(tree: &Value) -> Result<(), String> {
    interpret(tree)?;
    if tree.str_at(&["kind"]).is_empty() {
        let mut shown = tree.clone();
        sort_free_form(&mut shown);
        return Err(format!("Object 'Kind' is missing in '{}'", to_string(&shown)));
    }
    Ok(())
}

/// Returns the name of a value's type in errors of Go's JSON decoder.
pub fn json_type(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "array",
        Value::Str(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) | Value::Raw(_) => "number",
        Value::Null => "null",
        Value::Object(_) => "object",
    }
}

fn read_type_meta(cursor: &mut Cursor<'_>, depth: usize, wrong: &mut Option<String>) -> Result<TypeMeta, InvalidJson> {
    let mut meta = TypeMeta::default();
    let first = cursor.peek()?;
    if first != b'{' {
        if first != b'n' {
            *wrong = Some(no_type_meta(kind_of(first)));
        }
        cursor.skip(depth)?;
        return Ok(meta);
    }
    let mut more = cursor.open(b'}')?;
    while more {
        let name = cursor.name()?;
        let (target, field) = if name.eq_ignore_ascii_case("apiVersion") {
            (&mut meta.api_version, "apiVersion")
        } else if name.eq_ignore_ascii_case("kind") {
            (&mut meta.kind, "kind")
        } else {
            cursor.skip(depth.checked_sub(1).ok_or(InvalidJson)?)?;
            more = cursor.more(b'}')?;
            continue;
        };
        match cursor.peek()? {
            b'"' => *target = text(cursor.string()?),
            b'n' => cursor.word("null")?,
            other => {
                cursor.skip(depth.checked_sub(1).ok_or(InvalidJson)?)?;
                wrong.get_or_insert_with(|| wrong_type_meta(field, kind_of(other)));
            }
        }
        more = cursor.more(b'}')?;
    }
    Ok(meta)
}

fn read(
    bytes: &[u8],
    limits: &Limits,
    budget: &mut Budget,
    findings: Option<&mut Findings>,
) -> Result<Value, JsonError> {
    let mut report = Report::new(findings);
    let value = read_any_number(bytes, limits, budget, &mut report)?;
    report.overflow.map_or(Ok(value), |number| Err(JsonError::Number(number)))
}

/// Reads a document with any number.
fn read_any_number(
    bytes: &[u8],
    limits: &Limits,
    budget: &mut Budget,
    report: &mut Report<'_>,
) -> Result<Value, JsonError> {
    check_size(bytes, limits)?;
    let text = go_utf8(bytes);
    let mut cursor = Cursor::within(&text, budget.clone());
    let value = free_form(&mut cursor, limits.max_depth, None, report)
        .and_then(|value| cursor.end().map(|()| value))
        .map_err(|InvalidJson| read_error(&cursor, bytes, limits))?;
    *budget = cursor.budget;
    Ok(value)
}

/// Reads any value at the cursor. `path` is its position in the document.
pub(crate) fn free_form(
    cursor: &mut Cursor<'_>,
    depth: usize,
    path: Option<&Path<'_>>,
    report: &mut Report<'_>,
) -> Result<Value, InvalidJson> {
    Ok(match cursor.peek()? {
        b'{' => {
            let depth = depth.checked_sub(1).ok_or(InvalidJson)?;
            cursor.budget.object()?;
            let mut object = Object::new();
            let mut more = cursor.open(b'}')?;
            while more {
                cursor.peek()?;
                let start = cursor.position();
                let name = cursor.name()?;
                cursor.budget.member(object.len())?;
                let duplicate = object.contains(&name);
                if duplicate || (matches!(name, Cow::Owned(_)) && !cursor.since(start).starts_with(&quoted(&name))) {
                    report.texts.rewritten(false, "");
                }
                if duplicate
                    && let Some(findings) = &mut report.findings
                    && !findings.is_full()
                {
                    findings.push(Finding::DuplicateField(Path::member(path, &name)));
                }
                let value = free_form(cursor, depth, Some(&Path::key(path, &name)), report)?;
                if duplicate {
                    object.insert(text(name), value);
                } else {
                    object.push(text(name), value);
                }
                more = cursor.more(b'}')?;
            }
            Value::Object(object)
        }
        b'[' => {
            let depth = depth.checked_sub(1).ok_or(InvalidJson)?;
            let mut items = Vec::new();
            let mut more = cursor.open(b']')?;
            while more {
                cursor.budget.element()?;
                items.push(free_form(cursor, depth, Some(&Path::index(path, items.len())), report)?);
                more = cursor.more(b']')?;
            }
            Value::List(items)
        }
        b'"' => {
            let start = cursor.position();
            let string = cursor.string()?;
            // Only a string with an escape has another text than the one that is written.
            let rewritten = match &string {
                string if report.texts == Texts::Tested => {
                    let sent = cursor.since(start);
                    (sent != quoted(string)).then(|| Value::Raw(sent.into()))
                }
                Cow::Owned(string) if compacted(cursor.since(start)) != quoted(string) => {
                    report.texts.rewritten(report.texts == Texts::AsSent, cursor.since(start))
                }
                _ => None,
            };
            rewritten.unwrap_or_else(|| Value::Str(text(string)))
        }
        b't' => {
            cursor.word("true")?;
            Value::Bool(true)
        }
        b'f' => {
            cursor.word("false")?;
            Value::Bool(false)
        }
        b'n' => {
            cursor.word("null")?;
            Value::Null
        }
        _ => {
            let literal = cursor.number()?;
            match number(literal) {
                None => {
                    report.overflow.get_or_insert_with(|| literal.to_owned());
                    Value::Raw(literal.into())
                }
                Some(number) if report.texts == Texts::HasRewritten || is_written_as(&number, literal) => number,
                Some(number) => report.texts.rewritten(true, literal).unwrap_or(number),
            }
        }
    })
}

/// Returns a string as it is written.
fn quoted(string: &str) -> String {
    let mut out = Vec::with_capacity(string.len() + 2);
    write_string(string, &mut out);
    String::from_utf8(out).unwrap_or_default()
}

/// Returns true if a number that was read from this text is written with the same text.
fn is_written_as(number: &Value, literal: &str) -> bool {
    match number {
        Value::Float(n) => float_literal(*n) == literal,
        // The only integer with another text is negative zero.
        _ => literal != "-0",
    }
}

/// Reads a number without schema; `None` if it is out of floating point's range.
pub(crate) fn number(literal: &str) -> Option<Value> {
    if !literal.contains('.')
        && let Ok(n) = literal.parse::<i64>()
    {
        return Some(Value::Int(n));
    }
    literal.parse::<f64>().ok().filter(|n| n.is_finite()).map(Value::Float)
}

/// Replaces the text of large numbers by the numbers that result from reading it, at any depth.
pub(crate) fn round_digits(value: &mut Value) {
    match value {
        Value::Raw(text) => {
            if let Some(number) = number(text) {
                *value = number;
            }
        }
        Value::Object(object) => object.iter_mut().for_each(|(_, member)| round_digits(member)),
        Value::List(items) => items.iter_mut().for_each(round_digits),
        _ => {}
    }
}

/// Returns Go's name for the type of a value that begins with this byte.
pub(crate) fn kind_of(first: u8) -> &'static str {
    match first {
        b'{' => "object",
        b'[' => "array",
        b'"' => "string",
        b't' | b'f' => "bool",
        b'n' => "null",
        _ => "number",
    }
}

pub(crate) fn text(text: Cow<'_, str>) -> Text {
    Text::new(text.as_ref())
}

/// Converts raw JSON values to trees, at any depth, for code that reads or edits them.
pub fn unpack(value: &mut Value) {
    match value {
        Value::Raw(text) => {
            if let Ok(tree) = parse(text.as_bytes(), &Limits::default()) {
                *value = tree;
            }
        }
        Value::Object(object) => object.iter_mut().for_each(|(_, member)| unpack(member)),
        Value::List(items) => items.iter_mut().for_each(unpack),
        _ => {}
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn detects_rewritten_values() {
        let limits = Limits::default();
        for (text, is_rewritten) in [
            ("[0, -1, 12, 1.5, 1.0]", false),
            ("[1e3]", true),
            ("[1.50]", true),
            ("[-0]", true),
            ("[-0.0]", false),
            ("[100000000000000000000]", true),
            ("[1, 1E400]", false),
            (r#"["a\"b\\\n\b\u0001\u003c", "<\u2028"]"#, false),
            (r#"["\u0061"]"#, true),
            (r#"["\/"]"#, true),
            (r#"["\u003C"]"#, true),
            (r#"["\ud83d\ude00"]"#, true),
        ] {
            let read = parse_with_any_number(text.as_bytes(), &limits).unwrap();
            assert_eq!(read.rewrites, is_rewritten, "{text}");
            let shown = super::super::to_string(&parse_as_sent(text.as_bytes(), &limits).unwrap());
            if is_rewritten {
                assert_eq!(shown, text);
            }
        }
        for (text, is_rewritten) in
            [(r#"{"\u0061":1}"#, true), (r#"{"a":1,"a":2}"#, true), (r#"{"<":1}"#, false), (r#"{"\u003c\"":1}"#, false)]
        {
            let read = parse_with_any_number(text.as_bytes(), &limits).unwrap();
            assert_eq!(read.rewrites, is_rewritten, "{text}");
        }
    }

    #[test]
    fn members_of_a_list_of_objects_remain_texts() {
        let text = br#"[ {"op":"add","value": {"\u0061": ["<", 1e3]}}, null ]"#;
        let read = parse_member_texts(text, &Limits::default()).unwrap();
        let shown: Vec<Option<&Value>> = read.iter().map(|object| object.get("value")).collect();
        assert_eq!(shown, [Some(&Value::Raw(r#"{"\u0061":["\u003c",1e3]}"#.into())), None]);
    }

    /// Go's decoder of the type ignores the case of names, and the last of several counts.
    #[test]
    fn decodes_type_meta_case_insensitively() {
        let wrong = |field: &str, found: &str| {
            Err(format!("json: cannot unmarshal {found} into Go struct field .{field} of type string"))
        };
        for (text, of_text, of_tree) in [
            (r#"{"kind":"A","Kind":"B"}"#, Ok("B"), Ok("A")),
            (r#"{"Kind":"B","kind":"A"}"#, Ok("A"), Ok("A")),
            (r#"{"KIND":"B"}"#, Ok("B"), Ok("B")),
            (r#"{"Kind":"B","kind":null}"#, Ok("B"), Ok("B")),
            (r#"{"kind":"A","Kind":1}"#, wrong("kind", "number"), wrong("kind", "number")),
            (r#"{"kind":"A","APIVERSION":[]}"#, wrong("apiVersion", "array"), wrong("apiVersion", "array")),
            (r#"{"kind":"A","kinds":1}"#, Ok("A"), Ok("A")),
        ] {
            let limits = Limits::default();
            let found = type_meta(text.as_bytes(), &limits).map_err(|error| error.to_string());
            assert_eq!(found.as_ref().map(|meta| meta.kind.as_str()).map_err(Clone::clone), of_text, "{text}");
            let found = tree_type_meta(&parse(text.as_bytes(), &limits).unwrap());
            assert_eq!(found.as_ref().map(|meta| meta.kind.as_str()).map_err(Clone::clone), of_tree, "{text}");
        }
    }
}
