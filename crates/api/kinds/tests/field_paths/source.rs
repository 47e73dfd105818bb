//! Literal field paths in Rust sources, found without compiling them.

use std::fmt;

/// Methods of `Value` that follow a path.
const METHODS: [&str; 8] = ["at", "str_at", "int_at", "bool_at", "list_at", "object_at", "make_at", "at_mut"];
/// Our functions and methods that pass a path, or a list of members, to one of [`METHODS`].
const WRAPPERS: [&str; 22] = [
    "access_modes",
    "amounts",
    "bool_or",
    "check_template",
    "drop",
    "each",
    "equal_at",
    "has",
    "in_use",
    "is_set",
    "is_true",
    "job_warnings",
    "keep_at",
    "list",
    "number",
    "present",
    "put_back_in",
    "quantities",
    "remove_at",
    "spec",
    "template_warnings",
    "text",
];
/// Methods whose first argument is the name of a member.
const MEMBER_METHODS: [&str; 6] = ["get", "get_mut", "contains_key", "object_entry", "insert", "remove"];
/// Functions whose second argument is the name of a member.
const MEMBER_FUNCTIONS: [&str; 11] = [
    "member",
    "text",
    "is_nil",
    "is_zero",
    "default_nil",
    "default_zero",
    "struct_mut",
    "structs_mut",
    "items",
    "keep",
    "needs",
];

/// The first fields of objects: a list of names that begins with one is a path.
const BEGINNINGS: [&str; 3] = ["metadata", "spec", "status"];

/// One step of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    Name(String),
    /// A name that is not literal.
    Any,
    /// An element of a list or map.
    Element,
}

/// A way to write a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PathForm {
    /// `at(&["spec", "replicas"])`.
    Path,
    /// `FieldPath::new("spec").child("replicas")`.
    Chain,
    /// `get("replicas")`.
    Member,
    /// `&["spec", "replicas"]` in any place, and the lists in `fields: &[&["replicas"]]`.
    List,
}

/// A path and its first line.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct FoundPath {
    pub(crate) line: usize,
    pub(crate) form: PathForm,
    pub(crate) path: Path,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Path(pub(crate) Vec<Step>);

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, step) in self.0.iter().enumerate() {
            match step {
                Step::Name(name) if index == 0 => f.write_str(name)?,
                Step::Name(name) => write!(f, ".{name}")?,
                Step::Any => f.write_str(if index == 0 { "*" } else { ".*" })?,
                Step::Element => f.write_str("[]")?,
            }
        }
        Ok(())
    }
}

/// Finds all paths with at least one literal name, outside of test modules.
pub(crate) fn scan(source: &str) -> Vec<FoundPath> {
    let source = source.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
    let text = blank(source);
    let mut found = Vec::new();
    let mut chained = 0;
    let mut line = 1;
    let mut at = 0;
    while at < text.len() {
        match text.as_bytes()[at] {
            b'\n' => line += 1,
            b'"' => {
                let end = string_end(&text, at);
                line += text[at..end].matches('\n').count();
                at = end;
                continue;
            }
            b'(' | b'[' => {
                let mut push = |form, path: Vec<Step>| {
                    if path.iter().any(|step| matches!(step, Step::Name(_))) {
                        found.push(FoundPath { line, form, path: Path(path) });
                    }
                };
                let (name, method) = called(&text[..at]);
                if at >= chained && is_link(&text[..at], name, method) {
                    let (path, end) = chain(&text, at - link_length(&text[..at], name));
                    chained = end;
                    push(PathForm::Chain, path);
                }
                for (form, path) in of_bracket(&text, at, name, method) {
                    push(form, path);
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the paths of the call or list at a bracket, except for chains.
fn of_bracket(text: &str, at: usize, name: &str, method: bool) -> Vec<(PathForm, Vec<Step>)> {
    let arguments = arguments(text, at);
    let list = |argument: &str| Some(steps(argument.strip_prefix("&[")?.strip_suffix(']')?));
    if text[at..].starts_with('[') {
        let begins = arguments.first().and_then(|first| literal(first)).is_some_and(|name| BEGINNINGS.contains(&name));
        return if text[..at].ends_with("fields: &") {
            arguments.iter().filter_map(|argument| Some((PathForm::List, list(argument)?))).collect()
        } else if begins && text[..at].ends_with('&') {
            vec![(PathForm::List, steps(&text[at + 1..close(text, at)]))]
        } else {
            Vec::new()
        };
    }
    let mut found = Vec::new();
    if METHODS.contains(&name) && method || WRAPPERS.contains(&name) {
        found.extend(arguments.iter().find_map(|argument| list(argument)).map(|path| (PathForm::Path, path)));
    }
    let member = match method {
        true => arguments.first().filter(|_| MEMBER_METHODS.contains(&name)),
        false => arguments.get(1).filter(|_| MEMBER_FUNCTIONS.contains(&name)),
    };
    let name = member.and_then(|argument| literal(argument));
    found.extend(name.map(|name| (PathForm::Member, vec![Step::Name(name.to_owned())])));
    found
}

/// Returns the name before a parenthesis, and true if it is called as a method.
fn called(before: &str) -> (&str, bool) {
    let start = before.rfind(|c: char| !c.is_alphanumeric() && c != '_').map_or(0, |at| at + 1);
    (&before[start..], before[..start].ends_with('.'))
}

fn is_link(before: &str, name: &str, method: bool) -> bool {
    method && name == "child" || name == "new" && before.ends_with("FieldPath::new")
}

/// Returns the length of a link of a chain up to its parenthesis.
fn link_length(before: &str, name: &str) -> usize {
    if before.ends_with("FieldPath::new") { "FieldPath::new".len() } else { name.len() + 1 }
}

/// Follows a chain of `FieldPath::new(..)`, `.child(..)`, `.index(..)` and `.key(..)`.
fn chain(text: &str, start: usize) -> (Vec<Step>, usize) {
    let mut path = Vec::new();
    let mut at = start;
    loop {
        let rest = &text[at..];
        let skipped = rest.len() - rest.trim_start().len();
        let links = ["FieldPath::new(", ".child(", ".index(", ".key("];
        let Some(link) = links.iter().find(|link| rest.trim_start().starts_with(**link)) else { return (path, at) };
        let open = at + skipped + link.len() - 1;
        let arguments = arguments(text, open);
        path.push(match (*link, arguments.first().and_then(|argument| literal(argument))) {
            (".index(" | ".key(", _) => Step::Element,
            (_, Some(name)) => Step::Name(name.to_owned()),
            (_, None) => Step::Any,
        });
        at = close(text, open) + 1;
    }
}

/// Returns the steps of a list of names; `*` is any element.
fn steps(list: &str) -> Vec<Step> {
    let step = |element: &str| match literal(element) {
        Some("*") | None => Step::Any,
        Some(name) => Step::Name(name.to_owned()),
    };
    split(list).into_iter().map(step).collect()
}

fn literal(argument: &str) -> Option<&str> {
    let inner = argument.strip_prefix('"')?.strip_suffix('"')?;
    (!inner.contains('"')).then_some(inner)
}

fn arguments(text: &str, open: usize) -> Vec<&str> {
    split(&text[open + 1..close(text, open)])
}

/// Splits a list at the commas outside of nested brackets.
fn split(list: &str) -> Vec<&str> {
    let mut parts = Vec::new();
    let (mut start, mut at) = (0, 0);
    while at < list.len() {
        match list.as_bytes()[at] {
            b'"' => {
                at = string_end(list, at);
                continue;
            }
            b'(' | b'[' | b'{' => at = close(list, at),
            b',' => {
                parts.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    parts.push(list.get(start..).unwrap_or_default().trim());
    parts.retain(|part| !part.is_empty());
    parts
}

/// Returns the index of the bracket that closes the one at `open`, or the end.
fn close(text: &str, open: usize) -> usize {
    let mut depth = 0_usize;
    let mut at = open;
    while at < text.len() {
        match text.as_bytes()[at] {
            b'"' => {
                at = string_end(text, at);
                continue;
            }
            b'(' | b'[' | b'{' => depth += 1,
            b')' | b']' | b'}' => {
                depth = depth.saturating_sub(1);
                if depth == 0 {
                    return at;
                }
            }
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Returns the index behind the closing quotation mark of the string that begins at `start`.
fn string_end(text: &str, start: usize) -> usize {
    let mut at = start + 1;
    while at < text.len() {
        match text.as_bytes()[at] {
            b'\\' => at += 1,
            b'"' => return at + 1,
            _ => {}
        }
        at += 1;
    }
    text.len()
}

/// Replaces comments, raw strings and characters, which may contain quotation marks and brackets, and non-ASCII bytes
/// with spaces.
fn blank(source: &str) -> String {
    let bytes = source.as_bytes();
    let mut out: Vec<u8> = bytes.iter().map(|byte| if byte.is_ascii() { *byte } else { b' ' }).collect();
    let mut at = 0;
    while at < bytes.len() {
        let rest = &source.as_bytes()[at..];
        let raw = raw_string(rest);
        let end = match rest {
            [b'/', b'/', ..] => at + rest.iter().position(|byte| *byte == b'\n').unwrap_or(rest.len()),
            [b'r', ..] if raw > 0 && !at.checked_sub(1).is_some_and(|last| bytes[last].is_ascii_alphanumeric()) => {
                at + raw
            }
            [b'\'', b'\\', _, tail @ ..] => {
                at + 3 + tail.iter().position(|byte| *byte == b'\'').map_or(tail.len(), |quote| quote + 1)
            }
            [b'\'', _, b'\'', ..] => at + 3,
            [b'"', ..] => {
                at = string_end(source, at);
                continue;
            }
            _ => {
                at += 1;
                continue;
            }
        };
        out[at..end].iter_mut().filter(|byte| **byte != b'\n').for_each(|byte| *byte = b' ');
        at = end;
    }
    String::from_utf8(out).unwrap_or_default()
}

/// Returns the length of a raw string at the start, 0 for none.
fn raw_string(text: &[u8]) -> usize {
    let hashes = text.iter().skip(1).take_while(|byte| **byte == b'#').count();
    if text.first() != Some(&b'r') || text.get(1 + hashes) != Some(&b'"') {
        return 0;
    }
    let end = [b"\"".as_slice(), &vec![b'#'; hashes]].concat();
    let inner = 2 + hashes;
    text[inner..].windows(end.len()).position(|window| window == end).map_or(text.len(), |at| inner + at + end.len())
}

#[test]
fn finds_every_form_of_path() {
    for (source, want) in [
        (r#"v.str_at(&["spec", "x"])"#, vec!["1 Path spec.x", "1 List spec.x"]),
        (r#"const A: &[&[&str]] = &[&["status", "x"], &["y"]];"#, vec!["1 List status.x"]),
        (r#"Gated { feature: "F", fields: &[&["x"], &["y", "*"]] }"#, vec!["1 List x", "1 List y.*"]),
        (r#"["spec", "x"]"#, vec![]),
        (r#"v.at(&["spec", name, "x"]).and_then(f)"#, vec!["1 Path spec.*.x", "1 List spec.*.x"]),
        ("v.list_at(&[\n    \"spec\",\n    \"x\",\n])", vec!["1 Path spec.x", "1 List spec.x"]),
        (r#"keep_at(object, old, &["status"])"#, vec!["1 Path status", "1 List status"]),
        (r#"in_use(v, &["spec", "*", "x"])"#, vec!["1 Path spec.*.x", "1 List spec.*.x"]),
        (r#"["a", "b"].contains(&["x"])"#, vec![]),
        (r#"at(&["x"])"#, vec![]),
        ("\n\nFieldPath::new(\"spec\").child(\"x\").index(i).child(y)", vec!["3 Chain spec.x[].*"]),
        (r#"path.child("x").key(&f(")")).child("y")"#, vec!["1 Chain x[].y"]),
        ("path\n  .child(\"x\")\n  .child(\"y\");", vec!["2 Chain x.y"]),
        (r#"path.child(&format!("x{}", v.str_at(&["y"])))"#, vec!["1 Path y"]),
        (r#"path.child("x").index(v.int_at(&["y"]))"#, vec!["1 Chain x[]", "1 Path y"]),
        (r#"a.child("x"); b.child("y")"#, vec!["1 Chain x", "1 Chain y"]),
        (r#"v.get("x").is_some() && member(v, "y").is_some()"#, vec!["1 Member x", "1 Member y"]),
        (r#"v.insert("x", member(old, "y"))"#, vec!["1 Member x", "1 Member y"]),
        (r#"v.get(&"x".to_owned()); get("x"); member("x")"#, vec![]),
        ("// v.get(\"a\")\nv.get(\"x\") // v.get(\"b\")", vec!["2 Member x"]),
        (r##"let s = r#"v.get("a")"#; v.get("x")"##, vec!["1 Member x"]),
        (r#"f('"', '\'', '\u{7f}', b'('); fn f<'a>(x: &'a str) {} v.get("x")"#, vec!["1 Member x"]),
        (r#"f("v.get(\"a\")"); v.get("x")"#, vec!["1 Member x"]),
        ("v.get(\"x\");\n#[cfg(test)]\nmod tests { v.get(\"a\") }", vec!["1 Member x"]),
    ] {
        let got = scan(source);
        let got: Vec<String> =
            got.iter().map(|found| format!("{} {:?} {}", found.line, found.form, found.path)).collect();
        assert_eq!(got, want, "{source}");
    }
}
