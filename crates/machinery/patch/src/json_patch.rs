//! JSON patch (RFC 6902), with the extensions of kube-apiserver's library: negative indices count from the end,
//! `replace` adds an absent member, `copy` of an absent member yields null.

use std::fmt::Display;
use std::num::ParseIntError;

use binnacle_meta::{Status, go_quote, int_error};
use binnacle_schema::{Findings, Limits, Object, Value, decode, json};
use binnacle_work::{allocate, charge, charge_bytes, pace};

mod depth_bound;
mod parse;
#[cfg(test)]
mod tests;

use depth_bound::DepthBound;
pub use parse::{parse, parse_unvalidated};

/// The operations of one patch, in order.
#[derive(Clone, Debug)]
pub struct Patch {
    operations: Vec<Operation>,
    findings: Findings,
    /// True if it has a number that an `f64` cannot hold.
    exceeds_f64: bool,
    rewrites: bool,
    /// True if the values of the operations are texts.
    as_sent: bool,
}

/// One operation. Members that are missing or of another type are `None`: an operation fails only when it is reached.
#[derive(Clone, Debug, Default)]
struct Operation {
    kind: Option<String>,
    path: Option<String>,
    from: Option<String>,
    /// `None` if the member is absent or null.
    value: Option<Value>,
}

/// The maximum number of bytes that all `copy` operations of a patch may add.
const MAX_COPIED: usize = 3 * 1024 * 1024;

/// The steps of an operation, without those that depend on the document.
const OPERATION: u64 = 20;

/// Returns the cost of shifting the elements after one that is inserted or removed.
fn shift_steps(elements: usize) -> u64 {
    (elements * size_of::<Value>()).div_ceil(256) as u64
}

/// The document to which operations are applied.
struct Document {
    root: Value,
    /// True if the objects that operations go through are sorted.
    sorts: bool,
    /// True if values of the patch are texts, which it keeps.
    as_sent: bool,
    /// The bytes that `copy` operations have added.
    copied: usize,
}

/// The error of an operation that does not apply, with the message of kube-apiserver's library.
struct OperationError(String);

impl Patch {
    /// Creates a patch from parsed operations.
    pub fn of(operations: &[Object]) -> Self {
        Self {
            operations: operations.iter().map(Operation::new).collect(),
            findings: Findings::default(),
            exceeds_f64: false,
            rewrites: false,
            as_sent: false,
        }
    }

    /// Returns true if the patch has a number that an `f64` cannot hold, which only unvalidated patches may have.
    pub fn exceeds_f64(&self) -> bool {
        self.exceeds_f64
    }

    /// Returns true if encoding changes the text of a value.
    pub fn rewrites(&self) -> bool {
        self.rewrites
    }

    /// Applies all operations.
    pub fn apply(&self, live: Value) -> Result<Value, Status> {
        self.apply_operations(live).map_err(|OperationError(_)| Status::unprocessable())
    }

    /// Like [`Self::apply`], but the error is the reason why an operation does not apply, which is reported for patches
    /// of webhooks.
    pub fn apply_with_reason(&self, live: Value) -> Result<Value, String> {
        self.apply_operations(live).map_err(|OperationError(why)| why)
    }

    /// Like [`Self::apply`], with the members in the order in which kube-apiserver writes the result: its library
    /// converts the objects on the path of an operation to maps, whose members are sorted by name.
    pub fn apply_in_order(&self, live: Value) -> Result<Value, Status> {
        self.run(live, true).map_err(|OperationError(_)| Status::unprocessable())
    }

    /// Returns the patch with the numbers of its values as they were sent, for a result that is only displayed. `sent`
    /// is the patch with the original texts of its numbers, if some differ.
    pub fn with_shown_numbers(&self, sent: Option<&Value>) -> Self {
        let mut patch = self.clone();
        let mut sent = sent.and_then(Value::as_list).into_iter().flatten();
        for operation in &mut patch.operations {
            let sent = sent.next().and_then(|sent| sent.get("value"));
            // Values that are only compared are not changed.
            if operation.kind() != "test"
                && let Some(value) = &mut operation.value
            {
                sent.into_iter().for_each(|sent| value.clone_from(sent));
                decode::show_numbers(value);
            }
        }
        patch
    }

    /// Returns the patch with all values as they were sent, for a result that is only displayed. `sent` is its text, if
    /// encoding changes it.
    pub fn as_sent(&self, sent: Option<&[u8]>) -> Self {
        let texts = sent.map(|sent| json::parse_member_texts(sent, &Limits::default()).unwrap_or_default());
        let mut patch = self.with_shown_numbers(None);
        patch.as_sent = true;
        for (operation, members) in patch.operations.iter_mut().zip(texts.iter().flatten()) {
            if operation.kind() != "test"
                && let (Some(value), Some(text)) = (&mut operation.value, members.get("value"))
            {
                value.clone_from(text);
            }
        }
        patch
    }

    fn apply_operations(&self, live: Value) -> Result<Value, OperationError> {
        self.run(live, false)
    }

    fn run(&self, live: Value, sorts: bool) -> Result<Value, OperationError> {
        let mut depth_bound = DepthBound::of(&live);
        let mut document = Document { root: live, sorts, as_sent: self.as_sent, copied: 0 };
        if sorts {
            sort(&mut document.root);
        }
        for operation in &self.operations {
            charge(OPERATION).map_err(|exceeded| OperationError(exceeded.to_string()))?;
            depth_bound.allows(operation, &document.root)?;
            // The target of a copy is found before the value is written as JSON.
            if sorts && operation.kind() == "copy" {
                document.sort_along(operation);
            }
            operation.apply(&mut document)?;
            if sorts {
                document.sort_along(operation);
            }
        }
        Ok(document.root)
    }

    /// Returns true if there is no operation.
    pub fn is_empty(&self) -> bool {
        self.operations.is_empty()
    }

    /// Returns the unknown or duplicate members of the patch. kube-apiserver prefixes each with `json patch `.
    pub fn findings(&self) -> &Findings {
        &self.findings
    }
}

impl Operation {
    fn new(object: &Object) -> Self {
        let text = |name: &str| object.get(name).and_then(Value::as_str).map(str::to_owned);
        Self {
            kind: text("op"),
            path: text("path"),
            from: text("from"),
            value: object.get("value").filter(|value| !value.is_null()).cloned(),
        }
    }

    /// A missing `op` is unknown.
    fn kind(&self) -> &str {
        self.kind.as_deref().unwrap_or("unknown")
    }

    fn apply(&self, document: &mut Document) -> Result<(), OperationError> {
        match self.kind() {
            "add" => {
                let path = self.path("add", MISSING)?;
                let (container, key) = document.find(path).ok_or_else(|| no_parent("add", path))?;
                add(container, &key, self.value_copy()?).map_err(|why| failed("add", path, &why))
            }
            "remove" => {
                let path = self.path("remove", MISSING)?;
                let (container, key) = document.find(path).ok_or_else(|| no_parent("remove", path))?;
                remove(container, &key).map(drop).map_err(|why| failed("remove", path, &why))
            }
            "replace" => self.replace(document),
            "move" => {
                let from = self.source("move")?;
                let absent = || {
                    OperationError(format!(
                        "move operation does not apply: doc is missing from path: {from}: {MISSING}"
                    ))
                };
                let (container, key) = document.find(from).ok_or_else(absent)?;
                get(container, &key).map_err(|why| failed("move", &key, &why))?;
                let mut value = remove(container, &key).map_err(|why| failed("move", &key, &why))?;
                document.unpack_moved(&mut value)?;
                let path = self.path("move", NO_PATH)?;
                let (container, key) = document.find(path).ok_or_else(|| no_destination("move", path))?;
                add(container, &key, value).map_err(|why| failed("move", path, &why))
            }
            "copy" => self.copy(document),
            "test" => self.test(document),
            other => Err(OperationError(format!("Unexpected kind: {other}"))),
        }
    }

    fn copy(&self, document: &mut Document) -> Result<(), OperationError> {
        let from = self.source("copy")?;
        let absent =
            || OperationError(format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}"));
        let (container, key) = document.find(from).ok_or_else(absent)?;
        let found =
            get(container, &key).map_err(|why| OperationError(format!("error in copy for from: '{from}': {why}")))?;
        let mut value = copy_charged(found.unwrap_or(&Value::Null))?;
        document.unpack_moved(&mut value)?;
        let bytes = json::to_string(&value).len();
        charge_bytes(4 * bytes).map_err(|exceeded| OperationError(exceeded.to_string()))?;
        document.copied += bytes;
        let copied = document.copied;
        let path = self.path("copy", MISSING)?;
        let (container, key) = document.find(path).ok_or_else(|| no_destination("copy", path))?;
        if copied > MAX_COPIED {
            return Err(OperationError(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, exceeding the limit {MAX_COPIED}"
            )));
        }
        add(container, &key, value)
            .map_err(|why| OperationError(format!("error while adding value during copy: {why}")))
    }

    fn replace(&self, document: &mut Document) -> Result<(), OperationError> {
        let path = self.path("replace", NO_PATH)?;
        if path.is_empty() {
            document.root = match &self.value {
                Some(value @ (Value::Object(_) | Value::List(_))) => value.clone(),
                // Go formats a nil error here.
                _ => {
                    return Err(OperationError(
                        "replace operation value must be object or array: %!w(<nil>)".to_owned(),
                    ));
                }
            };
            return Ok(());
        }
        let absent = |missing: &str| {
            OperationError(format!("replace operation does not apply: doc is missing {missing}: {path}: {MISSING}"))
        };
        let (container, key) = document.find(path).ok_or_else(|| absent("path"))?;
        match container {
            Value::Object(object) => {
                object.insert(key, self.value_copy()?);
            }
            Value::List(items) => {
                let at = index(&key, items.len()).ok().filter(|at| *at < items.len());
                items[at.ok_or_else(|| absent("key"))?] = self.value_copy()?;
            }
            _ => return Err(absent("path")),
        }
        Ok(())
    }

    fn test(&self, document: &mut Document) -> Result<(), OperationError> {
        let path = self.path("test", NO_PATH)?;
        let equal = if path.is_empty() {
            let equal = self.value.as_ref().is_some_and(|value| same(&document.root, value));
            if equal && document.sorts {
                unpack_all(&mut document.root, document.as_sent);
                binnacle_schema::sort_free_form(&mut document.root);
            }
            equal
        } else {
            let absent =
                || OperationError(format!("test operation does not apply: is missing path: {path}: {MISSING}"));
            let (sorts, as_sent) = (document.sorts, document.as_sent);
            let (container, key) = document.find(path).ok_or_else(absent)?;
            let equal = match (get(container, &key).map_err(|why| failed("test", path, &why))?, &self.value) {
                (None | Some(Value::Null), value) => value.is_none(),
                (Some(_), None) => false,
                (Some(found), Some(value)) => same(found, value),
            };
            // The comparison has traversed the whole value.
            if equal
                && sorts
                && let Some(found) = get_mut(container, &key)
            {
                unpack_all(found, as_sent);
                binnacle_schema::sort_free_form(found);
            }
            equal
        };
        if equal { Ok(()) } else { Err(OperationError(format!("testing value {path} failed: test failed"))) }
    }

    fn path(&self, kind: &str, absent: &str) -> Result<&str, OperationError> {
        let failed = || OperationError(format!("{kind} operation failed to decode path: {absent}"));
        self.path.as_deref().ok_or_else(failed)
    }

    fn source(&self, kind: &str) -> Result<&str, OperationError> {
        let failed = || {
            OperationError(format!("{kind} operation failed to decode from: operation, missing from field: {MISSING}"))
        };
        self.from.as_deref().ok_or_else(failed)
    }

    fn value_copy(&self) -> Result<Value, OperationError> {
        copy_charged(self.value.as_ref().unwrap_or(&Value::Null))
    }
}

/// Returns a copy, whose memory is charged first: short values take many times the memory of their JSON.
fn copy_charged(value: &Value) -> Result<Value, OperationError> {
    allocate(value.tree_bytes()).map_err(|exceeded| OperationError(exceeded.to_string()))?;
    Ok(value.clone())
}

const MISSING: &str = "missing value";
const NO_PATH: &str = "operation missing path field: missing value";

fn no_parent(kind: &str, path: &str) -> OperationError {
    OperationError(format!("{kind} operation does not apply: doc is missing path: \"{path}\": {MISSING}"))
}

fn no_destination(kind: &str, path: &str) -> OperationError {
    OperationError(format!("{kind} operation does not apply: doc is missing destination path: {path}: {MISSING}"))
}

fn failed(kind: &str, path: &str, why: &str) -> OperationError {
    OperationError(format!("error in {kind} for path: '{path}': {why}"))
}

impl Document {
    /// Sorts the objects on the path to the target of an operation, which may have gained members.
    fn sort_along(&mut self, operation: &Operation) {
        if let Some(path) = &operation.path {
            self.find(path);
        }
        sort(&mut self.root);
    }

    /// Parses the raw values, such as field sets, in a value that gets another place, where it is a value like any other.
    fn unpack_moved(&self, value: &mut Value) -> Result<(), OperationError> {
        if !self.as_sent {
            let before = value.tree_bytes();
            charge_bytes(before).map_err(|exceeded| OperationError(exceeded.to_string()))?;
            json::unpack(value);
            let grown = value.tree_bytes().saturating_sub(before);
            allocate(grown).map_err(|exceeded| OperationError(exceeded.to_string()))?;
        }
        Ok(())
    }

    /// Returns the object or list that a pointer's last token refers to, and that token.
    fn find(&mut self, path: &str) -> Option<(&mut Value, String)> {
        // Text before the first slash is ignored, as by kube-apiserver.
        let (_, tokens) = path.split_once('/')?;
        let (parents, key) = match tokens.rsplit_once('/') {
            Some((parents, key)) => (Some(parents), key),
            None => (None, tokens),
        };
        let mut container = &mut self.root;
        for token in parents.into_iter().flat_map(|parents| parents.split('/')) {
            let token = unescaped(token);
            pace(4);
            container = get_mut(container, &token)?;
            unpack(container, self.as_sent);
            if self.sorts {
                sort(container);
            }
        }
        match container {
            Value::Object(_) | Value::List(_) => Some((container, unescaped(key))),
            _ => None,
        }
    }
}

fn sort(value: &mut Value) {
    if let Value::Object(members) = value {
        pace(members.len() as u64);
        members.sort_by_name();
    }
}

fn get_mut<'c>(container: &'c mut Value, key: &str) -> Option<&'c mut Value> {
    match container {
        Value::Object(object) => object.get_mut(key),
        Value::List(items) => {
            let at = index(key, items.len()).ok()?;
            items.get_mut(at)
        }
        _ => None,
    }
}

/// Parses a raw JSON value, such as a field set. Its members or items remain texts if `as_sent`: kube-apiserver decodes a
/// value only where a path leads through it.
fn unpack(value: &mut Value, as_sent: bool) {
    match value {
        Value::Raw(text) if as_sent => {
            pace(text.len() as u64);
            if let Some(contents) = json::parse_contents_as_texts(text, &Limits::default()) {
                *value = contents;
            }
        }
        Value::Raw(_) => json::unpack(value),
        _ => {}
    }
}

/// Parses raw JSON values at any depth. Their scalars remain texts if `as_sent`.
fn unpack_all(value: &mut Value, as_sent: bool) {
    match value {
        Value::Raw(text) if as_sent => {
            if let Ok(mut tree) = json::parse_as_sent(text.as_bytes(), &Limits::default()) {
                decode::show_numbers(&mut tree);
                *value = tree;
            }
        }
        Value::Raw(_) => json::unpack(value),
        Value::List(items) if as_sent => items.iter_mut().for_each(|item| unpack_all(item, as_sent)),
        Value::Object(members) if as_sent => members.iter_mut().for_each(|(_, member)| unpack_all(member, as_sent)),
        _ => {}
    }
}

fn same(found: &Value, value: &Value) -> bool {
    pace(1);
    match found {
        Value::Object(object) => value.as_object().is_some_and(|other| {
            object.len() == other.len() && object.iter().all(|(k, v)| other.get(k).is_some_and(|o| same(v, o)))
        }),
        Value::List(items) => value.as_list().is_some_and(|other| {
            items.len() == other.len() && items.iter().zip(other).all(|(found, value)| same(found, value))
        }),
        Value::Raw(_) => {
            let mut found = found.clone();
            unpack(&mut found, false);
            found == *value
        }
        scalar => scalar == value,
    }
}

/// Returns an absent member of an object as `None`; an absent element of a list is an error.
fn get<'c>(container: &'c Value, key: &str) -> Result<Option<&'c Value>, String> {
    match container {
        Value::Object(object) => Ok(object.get(key)),
        Value::List(items) => {
            let at = index(key, items.len())?;
            items.get(at).map(Some).ok_or_else(|| no_such_index(at))
        }
        _ => Err(MISSING.to_owned()),
    }
}

fn add(container: &mut Value, key: &str, value: Value) -> Result<(), String> {
    match container {
        Value::Object(object) => {
            object.insert(key, value);
        }
        Value::List(items) if key == "-" => items.push(value),
        Value::List(items) => {
            // A new element may be added at the end.
            let not_a_number = |error| format!("value was not a proper array index: '{key}': {}", atoi(key, &error));
            let value_copy: i64 = key.parse().map_err(not_a_number)?;
            let at = resolve_index(value_copy, items.len() + 1)?;
            if at > items.len() {
                return Err(no_such_index(at));
            }
            pace(shift_steps(items.len() - at));
            items.insert(at, value);
        }
        _ => return Err(MISSING.to_owned()),
    }
    Ok(())
}

fn remove(container: &mut Value, key: &str) -> Result<Value, String> {
    match container {
        Value::Object(object) => {
            object.remove(key).ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}"))
        }
        Value::List(items) => {
            let at = index(key, items.len())?;
            if at >= items.len() {
                return Err(no_such_index(at));
            }
            pace(shift_steps(items.len() - at));
            Ok(items.remove(at))
        }
        _ => Err(MISSING.to_owned()),
    }
}

/// Returns the index of a token in a list; it may be past the end.
fn index(token: &str, len: usize) -> Result<usize, String> {
    resolve_index(token.parse().map_err(|error| atoi(token, &error))?, len)
}

/// Resolves an index; negative ones count from the end.
fn resolve_index(at: i64, len: usize) -> Result<usize, String> {
    let from_end = usize::try_from(at.unsigned_abs()).map_err(|_| no_such_index(at))?;
    if at >= 0 { Ok(from_end) } else { len.checked_sub(from_end).ok_or_else(|| no_such_index(at)) }
}

fn no_such_index(at: impl Display) -> String {
    format!("Unable to access invalid index: {at}: invalid index referenced")
}

fn atoi(token: &str, error: &ParseIntError) -> String {
    format!("strconv.Atoi: parsing {}: {}", go_quote(token), int_error(error))
}

fn unescaped(token: &str) -> String {
    if !token.contains('~') {
        return token.to_owned();
    }
    // In one pass, so that `~01` becomes `~1` and not a slash.
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
