//! JSON patch (RFC 6902), with the liberties of the library that the reference uses: negative indices count from the
//! end, `replace` makes an absent member, `copy` of an absent member yields null.

use binnacle_meta::Status;
use binnacle_schema::{Findings, Object, Value, json};

mod nesting;
mod parse;

use nesting::Nesting;
pub use parse::{parse, parse_unvalidated};

/// The operations of one patch, in order.
#[derive(Clone, Debug)]
pub struct Patch {
    operations: Vec<Operation>,
    findings: Findings,
}

/// One step. What is missing or of another type is noted as absent: only steps that are reached can fail.
#[derive(Clone, Debug, Default)]
struct Operation {
    kind: String,
    path: Option<String>,
    from: Option<String>,
    /// `None` where the member is absent or null.
    value: Option<Value>,
}

/// How many bytes all `copy` steps of a patch may add.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// A step does not apply. The reference keeps the reason to itself.
struct Failed;

impl Patch {
    /// The object after all steps, or 422 where one of them does not apply.
    pub fn apply(&self, live: Value) -> Result<Value, Status> {
        let mut nesting = Nesting::of(&live);
        let mut document = live;
        let mut copied = 0;
        for operation in &self.operations {
            let allowed = nesting.allows(operation, &document);
            allowed
                .and_then(|()| operation.apply(&mut document, &mut copied))
                .map_err(|Failed| Status::unprocessable())?;
        }
        Ok(document)
    }

    /// The places that the steps change.
    pub fn paths(&self) -> impl Iterator<Item = &str> {
        self.operations.iter().filter_map(|operation| operation.path.as_deref())
    }

    /// Members of the patch that are unknown or given twice; the reference tells each behind `json patch `.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }
}

impl Operation {
    fn new(object: &Object) -> Self {
        let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            kind: text("op").unwrap_or_default(),
            path: text("path"),
            from: text("from"),
            value: object.get("value").filter(|value| !value.is_null()).cloned(),
        }
    }

    fn apply(&self, document: &mut Value, copied: &mut usize) -> Result<(), Failed> {
        match self.kind.as_str() {
            "add" => {
                let (container, key) = find(document, self.path()?)?;
                add(container, &key, self.given())
            }
            "remove" => {
                let (container, key) = find(document, self.path()?)?;
                remove(container, &key).map(drop)
            }
            "replace" => self.replace(document),
            "move" => {
                let (container, key) = find(document, self.source()?)?;
                let value = remove(container, &key)?;
                let (container, key) = find(document, self.path()?)?;
                add(container, &key, value)
            }
            "copy" => {
                let (container, key) = find(document, self.source()?)?;
                let value = get(container, &key)?.cloned().unwrap_or(Value::Null);
                *copied += json::to_string(&value).len();
                let (container, key) = find(document, self.path()?)?;
                if *copied > MAX_COPIED {
                    return Err(Failed);
                }
                add(container, &key, value)
            }
            "test" => self.test(document),
            _ => Err(Failed),
        }
    }

    fn replace(&self, document: &mut Value) -> Result<(), Failed> {
        let path = self.path()?;
        if path.is_empty() {
            *document = match &self.value {
                Some(value @ (Value::Object(_) | Value::List(_))) => value.clone(),
                _ => return Err(Failed),
            };
            return Ok(());
        }
        let (container, key) = find(document, path)?;
        match container {
            Value::Object(object) => {
                object.insert(key, self.given());
            }
            Value::List(items) => {
                let at = index(&key, items.len())?;
                *items.get_mut(at).ok_or(Failed)? = self.given();
            }
            _ => return Err(Failed),
        }
        Ok(())
    }

    fn test(&self, document: &mut Value) -> Result<(), Failed> {
        let path = self.path()?;
        let equal = if path.is_empty() {
            self.value.as_ref().is_some_and(|value| same(document, value))
        } else {
            let (container, key) = find(document, path)?;
            match (get(container, &key)?, &self.value) {
                (None | Some(Value::Null), value) => value.is_none(),
                (Some(_), None) => false,
                (Some(found), Some(value)) => same(found, value),
            }
        };
        if equal { Ok(()) } else { Err(Failed) }
    }

    fn path(&self) -> Result<&str, Failed> {
        self.path.as_deref().ok_or(Failed)
    }

    fn source(&self) -> Result<&str, Failed> {
        self.from.as_deref().ok_or(Failed)
    }

    fn given(&self) -> Value {
        self.value.clone().unwrap_or(Value::Null)
    }
}

/// The object or list that a pointer's last token speaks of, and that token.
fn find<'d>(document: &'d mut Value, path: &str) -> Result<(&'d mut Value, String), Failed> {
    // What stands before the first slash is passed over, as the reference does.
    let (_, tokens) = path.split_once('/').ok_or(Failed)?;
    let (parents, key) = match tokens.rsplit_once('/') {
        Some((parents, key)) => (Some(parents), key),
        None => (None, tokens),
    };
    let mut container = document;
    for token in parents.into_iter().flat_map(|parents| parents.split('/')) {
        let token = unescaped(token);
        unpack(container);
        container = match container {
            Value::Object(object) => object.get_mut(&token),
            Value::List(items) => {
                let at = index(&token, items.len())?;
                items.get_mut(at)
            }
            _ => None,
        }
        .ok_or(Failed)?;
    }
    unpack(container);
    match container {
        Value::Object(_) | Value::List(_) => Ok((container, unescaped(key))),
        _ => Err(Failed),
    }
}

/// Field sets are carried as text; whoever looks into one gets the tree.
fn unpack(value: &mut Value) {
    if matches!(value, Value::Raw(_)) {
        json::unpack(value);
    }
}

fn same(found: &Value, value: &Value) -> bool {
    match found {
        Value::Object(object) => value.as_object().is_some_and(|other| {
            object.len() == other.len() && object.iter().all(|(k, v)| other.get(k).is_some_and(|o| same(v, o)))
        }),
        Value::List(items) => value.as_list().is_some_and(|other| {
            items.len() == other.len() && items.iter().zip(other).all(|(found, value)| same(found, value))
        }),
        Value::Raw(_) => {
            let mut found = found.clone();
            unpack(&mut found);
            found == *value
        }
        scalar => scalar == value,
    }
}

/// An absent member of an object is `None`, an absent element of a list an error.
fn get<'c>(container: &'c Value, key: &str) -> Result<Option<&'c Value>, Failed> {
    match container {
        Value::Object(object) => Ok(object.get(key)),
        Value::List(items) => items.get(index(key, items.len())?).map(Some).ok_or(Failed),
        _ => Err(Failed),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), Failed> {
    match container {
        Value::Object(object) => {
            object.insert(key, value);
        }
        Value::List(items) if key == "-" => items.push(value),
        Value::List(items) => {
            // One place more than there are elements.
            let at = index(key, items.len() + 1)?;
            if at > items.len() {
                return Err(Failed);
            }
            items.insert(at, value);
        }
        _ => return Err(Failed),
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, Failed> {
    match container {
        Value::Object(object) => object.remove(key).ok_or(Failed),
        Value::List(items) => {
            let at = index(key, items.len())?;
            if at < items.len() { Ok(items.remove(at)) } else { Err(Failed) }
        }
        _ => Err(Failed),
    }
}

/// The place that a token means in a list; it may lie behind the end.
fn index(token: &str, len: usize) -> Result<usize, Failed> {
    let at: i64 = token.parse().map_err(|_| Failed)?;
    let from_end = usize::try_from(at.unsigned_abs()).map_err(|_| Failed)?;
    if at >= 0 { Ok(from_end) } else { len.checked_sub(from_end).ok_or(Failed) }
}

fn unescaped(token: &str) -> String {
    if !token.contains('~') {
        return token.to_owned();
    }
    // One pass, so that `~01` is `~1` and not a slash.
    let mut out = String::with_capacity(token.len());
    let mut rest = token;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        rest = &rest[at..];
        let (replacement, skip) = match rest.as_bytes().get(1) {
            Some(b'0') => ('~', 2),
            Some(b'1') => ('/', 2),
            _ => ('~', 1),
        };
        out.push(replacement);
        rest = &rest[skip..];
    }
    out.push_str(rest);
    out
}

#[cfg(test)]
mod tests {
    use binnacle_schema::Limits;

    use super::*;

    fn tree(text: &str) -> Value {
        json::parse(text.as_bytes(), &Limits::default()).unwrap()
    }

    #[test]
    fn applies() {
        for (live, patch, want, why) in [
            (r#"{"a":1}"#, r#"[{"op":"add","path":"/b","value":2}]"#, Some(r#"{"a":1,"b":2}"#), "add a member"),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"/a","value":2}]"#, Some(r#"{"a":2}"#), "add over a member"),
            (r#"{"a":[1,3]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, Some(r#"{"a":[1,2,3]}"#), "insert"),
            (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-","value":2}]"#, Some(r#"{"a":[1,2]}"#), "append"),
            (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/1","value":2}]"#, Some(r#"{"a":[1,2]}"#), "at the end"),
            (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/2","value":2}]"#, None, "behind the end"),
            (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-1","value":2}]"#, Some(r#"{"a":[1,2]}"#), "negative"),
            (r#"{"a":[1]}"#, r#"[{"op":"add","path":"/a/-3","value":2}]"#, None, "too negative"),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"/b/c","value":2}]"#, None, "no parent"),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"/a/c","value":2}]"#, None, "a scalar parent"),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"","value":{}}]"#, None, "add to the whole"),
            (r#"{"a":1}"#, r#"[{"op":"add","path":"/b"}]"#, Some(r#"{"a":1,"b":null}"#), "add nothing"),
            (r#"{"a":1,"b":2}"#, r#"[{"op":"remove","path":"/a"}]"#, Some(r#"{"b":2}"#), "remove"),
            (r#"{"a":1}"#, r#"[{"op":"remove","path":"/b"}]"#, None, "remove what is not there"),
            (r#"{"a":[1,2]}"#, r#"[{"op":"remove","path":"/a/-1"}]"#, Some(r#"{"a":[1]}"#), "remove the last"),
            (r#"{"a":1}"#, r#"[{"op":"replace","path":"/a","value":2}]"#, Some(r#"{"a":2}"#), "replace"),
            (r#"{"a":{}}"#, r#"[{"op":"replace","path":"/a/b","value":2}]"#, Some(r#"{"a":{"b":2}}"#), "replace makes"),
            (r#"{"a":[]}"#, r#"[{"op":"replace","path":"/a/0","value":2}]"#, None, "replace behind the end"),
            (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":{"b":1}}]"#, Some(r#"{"b":1}"#), "replace the whole"),
            (r#"{"a":1}"#, r#"[{"op":"replace","path":"","value":1}]"#, None, "replace the whole by a scalar"),
            (r#"{"a":1}"#, r#"[{"op":"move","from":"/a","path":"/b"}]"#, Some(r#"{"b":1}"#), "move"),
            (r#"{"a":[1,2,3]}"#, r#"[{"op":"move","from":"/a/0","path":"/a/2"}]"#, Some(r#"{"a":[2,3,1]}"#), "reorder"),
            (r#"{"a":1}"#, r#"[{"op":"copy","from":"/a","path":"/b"}]"#, Some(r#"{"a":1,"b":1}"#), "copy"),
            (r#"{"a":1}"#, r#"[{"op":"copy","from":"/c","path":"/b"}]"#, Some(r#"{"a":1,"b":null}"#), "copy nothing"),
            (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":1}]"#, Some(r#"{"a":1}"#), "test"),
            (r#"{"a":1}"#, r#"[{"op":"test","path":"/a","value":"1"}]"#, None, "test of another type"),
            (r#"{"a":1}"#, r#"[{"op":"test","path":"/b","value":null}]"#, Some(r#"{"a":1}"#), "test for absence"),
            (r#"{"a":1}"#, r#"[{"op":"test","path":"/a"}]"#, None, "test without value"),
            (
                r#"{"a":{"x":1,"y":[2]}}"#,
                r#"[{"op":"test","path":"/a","value":{"y":[2],"x":1}}]"#,
                Some(r#"{"a":{"x":1,"y":[2]}}"#),
                "test in any order",
            ),
            (
                r#"{"a/b":1,"m~n":2}"#,
                r#"[{"op":"remove","path":"/a~1b"},{"op":"remove","path":"/m~0n"}]"#,
                Some("{}"),
                "escapes",
            ),
            (r#"{"~1":1}"#, r#"[{"op":"remove","path":"/~01"}]"#, Some("{}"), "an escaped tilde"),
            (r#"{"a":1}"#, r#"[{"op":"fly","path":"/a"}]"#, None, "unknown step"),
            (r#"{"a":1}"#, r#"[{"path":"/a"}]"#, None, "no step"),
            (r#"{"a":1}"#, "[null]", None, "a null step"),
            (r#"{"a":1}"#, "null", Some(r#"{"a":1}"#), "a null patch"),
            (r#"{"a":1}"#, "[]", Some(r#"{"a":1}"#), "no steps"),
        ] {
            let got = parse(patch.as_bytes()).unwrap().apply(tree(live));
            match want {
                Some(want) => assert_eq!(got.unwrap(), tree(want), "{why}"),
                None => {
                    let status = got.unwrap_err();
                    assert_eq!((status.code(), status.details().is_some()), (422, true), "{why}");
                }
            }
        }
    }

    #[test]
    fn field_sets_are_trees() {
        let live = Value::Object([("f", Value::Raw(r#"{"f:a":{}}"#.into()))].into_iter().collect());
        let patch =
            parse(br#"[{"op":"test","path":"/f","value":{"f:a":{}}},{"op":"remove","path":"/f/f:a"}]"#).unwrap();
        assert_eq!(patch.apply(live).unwrap(), tree(r#"{"f":{}}"#));
    }

    /// Each step is small, and what they stack up would take more stack to walk than there is.
    #[test]
    fn nesting_is_bounded() {
        let tower = |levels: usize| format!("{}1{}", r#"{"a":"#.repeat(levels), "}".repeat(levels));
        let leaf = |levels: usize| "/a".repeat(levels);
        let add = |path: &str, levels: usize| format!(r#"{{"op":"add","path":"{path}","value":{}}}"#, tower(levels));
        let step = |op: &str, from: &str, path: &str| format!(r#"{{"op":"{op}","from":"{from}","path":"{path}"}}"#);
        for (why, steps, fits) in [
            ("as deep as allowed", vec![add("/b", 254)], true),
            ("a tower on a tower", vec![add("/b", 200), add(&format!("/b{}", leaf(199)), 60)], false),
            ("replaced by a tower", vec![add("/b", 200), add("/c", 200).replace("add", "replace")], true),
            ("a copy on top", vec![add("/b", 150), step("copy", "/b", &format!("/b{}", leaf(149)))], false),
            (
                "moved on top",
                vec![add("/b", 150), add("/c", 150), step("move", "/c", &format!("/b{}", leaf(149)))],
                false,
            ),
            ("moved to and fro", vec![step("move", "/x", "/y/x") + "," + &step("move", "/y/x", "/x"); 300], true),
            ("copied side by side", (0..300).map(|i| step("copy", "/x", &format!("/y/{i}"))).collect(), true),
        ] {
            let patch = parse(format!("[{}]", steps.join(",")).as_bytes()).unwrap();
            let patched = patch.apply(tree(r#"{"x":{"z":1},"y":{}}"#));
            assert_eq!(
                patched.map(drop).map_err(|status| status.code()),
                if fits { Ok(()) } else { Err(422) },
                "{why}"
            );
        }
    }

    #[test]
    fn copies_are_bounded() {
        let mut steps = vec![r#"{"op":"add","path":"/a","value":{"x":"0123456789"}}"#.to_owned()];
        steps.extend((0..40).map(|i| format!(r#"{{"op":"copy","from":"/a","path":"/a/{i}"}}"#)));
        let patch = parse(format!("[{}]", steps.join(",")).as_bytes()).unwrap();
        assert_eq!(patch.apply(tree("{}")).unwrap_err().code(), 422);
    }
}
