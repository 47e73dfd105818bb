//! Field paths, and the errors that validation reports for them, with the messages of apimachinery's `field` package.

mod errors;

use std::borrow::Cow;
use std::fmt;
use std::hash::{Hash, Hasher};

use arrayvec::ArrayString;

use crate::go_quote;

pub use self::errors::{BoundedIter, FieldErrors};

/// A path such as `spec.containers[0].ports[1].name` or `metadata.labels[app.kubernetes.io/name]`.
///
/// A path is a string that is extended while validation descends into an object. Most paths are never reported, so a
/// path of usual length needs no allocation. The length is limited; otherwise a key of a megabyte would be copied for
/// each element below it.
#[derive(Clone)]
pub struct FieldPath(Repr);

#[derive(Clone)]
enum Repr {
    Short(ArrayString<SHORT>),
    Long(String),
}

/// Paths up to this length are stored inline; most are shorter, including those of a pod template.
const SHORT: usize = 84;
/// The maximum length of a path; the rest is replaced by an ellipsis.
const MAX_PATH: usize = 4 << 10;
/// The maximum length of a value in an error; the rest is replaced by its number of bytes.
const MAX_SHOWN: usize = 16 << 10;

impl FieldPath {
    /// Returns the root: the path of the object itself.
    pub fn root() -> Self {
        Self(Repr::Short(ArrayString::new_const()))
    }

    pub fn new(name: &str) -> Self {
        Self::root().with(["", name, ""])
    }

    pub fn child(&self, name: &str) -> Self {
        if self.as_str().is_empty() { self.with(["", name, ""]) } else { self.with([".", name, ""]) }
    }

    pub fn index(&self, index: usize) -> Self {
        // Lists are usually short, so most indices need no formatting.
        const DIGITS: [&str; 10] = ["0", "1", "2", "3", "4", "5", "6", "7", "8", "9"];
        match DIGITS.get(index) {
            Some(digit) => self.key(digit),
            None => self.key(&index.to_string()),
        }
    }

    pub fn key(&self, key: &str) -> Self {
        self.with(["[", key, "]"])
    }

    /// Returns the path with `parts` appended.
    fn with(&self, parts: [&str; 3]) -> Self {
        let length = self.as_str().len() + parts.iter().map(|part| part.len()).sum::<usize>();
        if let Repr::Short(path) = &self.0
            && length <= SHORT
        {
            let mut path = *path;
            // The length was checked, so this cannot fail.
            parts.iter().for_each(|part| path.push_str(part));
            return Self(Repr::Short(path));
        }
        self.with_long(parts, length)
    }

    #[cold]
    fn with_long(&self, parts: [&str; 3], length: usize) -> Self {
        if length > MAX_PATH {
            return self.cut(parts);
        }
        let mut path = String::with_capacity(length);
        path.push_str(self.as_str());
        parts.iter().for_each(|part| path.push_str(part));
        Self(Repr::Long(path))
    }

    /// Returns the path with `parts` appended up to the maximum length, followed by an ellipsis.
    fn cut(&self, parts: [&str; 3]) -> Self {
        const ELLIPSIS: &str = "...";
        if self.as_str().ends_with(ELLIPSIS) {
            return self.clone();
        }
        let mut path = self.as_str().to_owned();
        for part in parts {
            let shown = prefix(part, MAX_PATH.saturating_sub(path.len()));
            path.push_str(shown);
            if shown.len() < part.len() {
                break;
            }
        }
        path.push_str(ELLIPSIS);
        Self(Repr::Long(path))
    }

    pub fn as_str(&self) -> &str {
        match &self.0 {
            Repr::Short(path) => path,
            Repr::Long(path) => path,
        }
    }
}

/// A location in an object: a path, or a field handle that formats its path only when an error is reported.
pub trait Location {
    fn path(&self) -> FieldPath;
}

impl Location for FieldPath {
    fn path(&self) -> FieldPath {
        self.clone()
    }
}

impl fmt::Display for dyn Location + '_ {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.path().fmt(f)
    }
}

impl Default for FieldPath {
    fn default() -> Self {
        Self::root()
    }
}

impl PartialEq for FieldPath {
    fn eq(&self, other: &Self) -> bool {
        self.as_str() == other.as_str()
    }
}

impl Eq for FieldPath {}

impl Hash for FieldPath {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.as_str().hash(state);
    }
}

impl fmt::Debug for FieldPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("FieldPath").field(&self.as_str()).finish()
    }
}

impl fmt::Display for FieldPath {
    /// Formats the root as `<nil>`, like a nil path in kube-apiserver.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.as_str().is_empty() { "<nil>" } else { self.as_str() })
    }
}

/// The type of a [`FieldError`]. Its text is part of the API (`causes[].reason`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FieldErrorType {
    NotFound,
    Required,
    Duplicate,
    Invalid,
    NotSupported,
    Forbidden,
    TooLong,
    TooMany,
    Internal,
    TypeInvalid,
}

impl FieldErrorType {
    /// Returns the machine-readable reason in `Status.details.causes`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::NotFound => "FieldValueNotFound",
            Self::Required => "FieldValueRequired",
            Self::Duplicate => "FieldValueDuplicate",
            Self::Invalid => "FieldValueInvalid",
            Self::NotSupported => "FieldValueNotSupported",
            Self::Forbidden => "FieldValueForbidden",
            Self::TooLong => "FieldValueTooLong",
            Self::TooMany => "FieldValueTooMany",
            Self::Internal => "InternalError",
            Self::TypeInvalid => "FieldValueTypeInvalid",
        }
    }

    fn title(self) -> &'static str {
        match self {
            Self::NotFound => "Not found",
            Self::Required => "Required value",
            Self::Duplicate => "Duplicate value",
            Self::Invalid => "Invalid value",
            Self::NotSupported => "Unsupported value",
            Self::Forbidden => "Forbidden",
            Self::TooLong => "Too long",
            Self::TooMany => "Too many",
            Self::Internal => "Internal error",
            Self::TypeInvalid => "Invalid value",
        }
    }
}

/// An error of one field of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FieldError {
    pub kind: FieldErrorType,
    pub field: Box<FieldPath>,
    /// The text after `field: `.
    body: String,
}

impl FieldError {
    /// `field: Required value: detail`; an empty detail is omitted.
    pub fn required(field: &dyn Location, detail: impl AsRef<str>) -> Self {
        Self::without_value(FieldErrorType::Required, field, detail.as_ref())
    }

    /// `field: Forbidden: detail`.
    pub fn forbidden(field: &dyn Location, detail: impl AsRef<str>) -> Self {
        Self::without_value(FieldErrorType::Forbidden, field, detail.as_ref())
    }

    /// `field: Invalid value: VALUE: detail`. `value` is shown as by Go's `%v` or `%q`.
    pub fn invalid(field: &dyn Location, value: impl Into<ErrorValue>, detail: impl AsRef<str>) -> Self {
        Self::with_value(FieldErrorType::Invalid, field, value.into(), detail.as_ref())
    }

    /// `field: Invalid value: detail`, for values that mean nothing to clients.
    pub fn invalid_omitting(field: &dyn Location, detail: impl AsRef<str>) -> Self {
        Self::without_value(FieldErrorType::Invalid, field, detail.as_ref())
    }

    /// Like [`FieldError::invalid`] with the reason `FieldValueTypeInvalid`.
    pub fn type_invalid(field: &dyn Location, value: impl Into<ErrorValue>, detail: impl AsRef<str>) -> Self {
        Self::with_value(FieldErrorType::TypeInvalid, field, value.into(), detail.as_ref())
    }

    /// `field: Duplicate value: VALUE`.
    pub fn duplicate(field: &dyn Location, value: impl Into<ErrorValue>) -> Self {
        Self::with_value(FieldErrorType::Duplicate, field, value.into(), "")
    }

    /// `field: Duplicate value`, for values that mean nothing to clients.
    pub fn duplicate_omitting(field: &dyn Location) -> Self {
        Self::without_value(FieldErrorType::Duplicate, field, "")
    }

    /// `field: Not found: VALUE`.
    pub fn not_found(field: &dyn Location, value: impl Into<ErrorValue>) -> Self {
        Self::with_value(FieldErrorType::NotFound, field, value.into(), "")
    }

    /// `field: Not found: VALUE: detail`.
    pub fn not_found_because(field: &dyn Location, value: impl Into<ErrorValue>, detail: impl AsRef<str>) -> Self {
        Self::with_value(FieldErrorType::NotFound, field, value.into(), detail.as_ref())
    }

    /// `field: Duplicate value: VALUE: detail`.
    pub fn duplicate_because(field: &dyn Location, value: impl Into<ErrorValue>, detail: impl AsRef<str>) -> Self {
        Self::with_value(FieldErrorType::Duplicate, field, value.into(), detail.as_ref())
    }

    /// `field: Unsupported value: VALUE: supported values: "a", "b"`; values are listed in the given order.
    pub fn not_supported<S: AsRef<str>>(field: &dyn Location, value: impl Into<ErrorValue>, valid: &[S]) -> Self {
        let detail = if valid.is_empty() {
            String::new()
        } else {
            let quoted: Vec<String> = valid.iter().map(|v| go_quote(v.as_ref())).collect();
            format!("supported values: {}", quoted.join(", "))
        };
        Self::with_value(FieldErrorType::NotSupported, field, value.into(), &detail)
    }

    /// `field: Too long: may not be more than N bytes`; the value itself is not shown.
    pub fn too_long(field: &dyn Location, max_bytes: usize) -> Self {
        let unit = if max_bytes == 1 { "byte" } else { "bytes" };
        Self {
            kind: FieldErrorType::TooLong,
            field: Box::new(field.path()),
            body: format!("Too long: may not be more than {max_bytes} {unit}"),
        }
    }

    /// `field: Too many: ACTUAL: must have at most MAX items`.
    pub fn too_many(field: &dyn Location, actual: usize, max: usize) -> Self {
        let unit = if max == 1 { "item" } else { "items" };
        Self {
            kind: FieldErrorType::TooMany,
            field: Box::new(field.path()),
            body: format!("Too many: {actual}: must have at most {max} {unit}"),
        }
    }

    /// `field: Too long: value is too long`, without a limit in the message.
    pub fn too_long_without_bound(field: &dyn Location) -> Self {
        Self::without_value(FieldErrorType::TooLong, field, "value is too long")
    }

    /// `field: Too many: ACTUAL: has too many items`, without a limit in the message.
    pub fn too_many_without_bound(field: &dyn Location, actual: usize) -> Self {
        Self::with_value(FieldErrorType::TooMany, field, actual.into(), "has too many items")
    }

    /// `field: Internal error: detail`.
    pub fn internal(field: &dyn Location, detail: impl AsRef<str>) -> Self {
        Self::without_value(FieldErrorType::Internal, field, detail.as_ref())
    }

    /// Returns the error without its path: the message of a cause in a Status.
    pub fn body(&self) -> &str {
        &self.body
    }

    fn without_value(kind: FieldErrorType, field: &dyn Location, detail: &str) -> Self {
        let mut body = kind.title().to_owned();
        if !detail.is_empty() {
            body.push_str(": ");
            push_bounded(&mut body, detail);
        }
        Self { kind, field: Box::new(field.path()), body }
    }

    fn with_value(kind: FieldErrorType, field: &dyn Location, value: ErrorValue, detail: &str) -> Self {
        let mut body = format!("{}: ", kind.title());
        push_bounded(&mut body, &value.0);
        if !detail.is_empty() {
            body.push_str(": ");
            push_bounded(&mut body, detail);
        }
        Self { kind, field: Box::new(field.path()), body }
    }
}

/// Returns the longest prefix of a text that has at most `max` bytes and ends at a character boundary.
fn prefix(text: &str, max: usize) -> &str {
    &text[..text.floor_char_boundary(max)]
}

/// Appends a text up to the maximum length in an error.
fn push_bounded(body: &mut String, text: &str) {
    body.push_str(&bounded_text(text, MAX_SHOWN));
}

/// Truncates a text to its first `max` bytes, followed by the number of omitted bytes.
pub fn bounded_text(text: &str, max: usize) -> Cow<'_, str> {
    let shown = prefix(text, max);
    match text.len() - shown.len() {
        0 => Cow::Borrowed(text),
        more => Cow::Owned(format!("{shown}... ({more} more bytes)")),
    }
}

impl fmt::Display for FieldError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.field, self.body)
    }
}

/// A value in an error message: strings are quoted like Go's `%q`, numbers and booleans are bare, structures are JSON.
#[derive(Clone, Debug)]
pub struct ErrorValue(String);

impl ErrorValue {
    /// Creates a value from a text that is shown without quotes (already formatted, or JSON).
    pub fn raw(text: impl Into<String>) -> Self {
        Self(text.into())
    }
}

impl From<&str> for ErrorValue {
    fn from(value: &str) -> Self {
        Self(go_quote(value))
    }
}

impl From<&String> for ErrorValue {
    fn from(value: &String) -> Self {
        Self(go_quote(value))
    }
}

impl From<&crate::Text> for ErrorValue {
    fn from(value: &crate::Text) -> Self {
        Self(go_quote(value))
    }
}

impl From<i64> for ErrorValue {
    fn from(value: i64) -> Self {
        Self(value.to_string())
    }
}

impl From<i32> for ErrorValue {
    fn from(value: i32) -> Self {
        Self(value.to_string())
    }
}

impl From<usize> for ErrorValue {
    fn from(value: usize) -> Self {
        Self(value.to_string())
    }
}

impl From<bool> for ErrorValue {
    fn from(value: bool) -> Self {
        Self(value.to_string())
    }
}

impl From<f64> for ErrorValue {
    fn from(value: f64) -> Self {
        Self(value.to_string())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_errors_like_apimachinery() {
        let path = FieldPath::new("spec").child("ports").index(1).child("name");
        for (error, want) in [
            (FieldError::required(&path, ""), "spec.ports[1].name: Required value"),
            (FieldError::invalid(&path, "x\"", "bad"), "spec.ports[1].name: Invalid value: \"x\\\"\": bad"),
            (
                FieldError::invalid(&path, -1, "must be positive"),
                "spec.ports[1].name: Invalid value: -1: must be positive",
            ),
            (
                FieldError::not_supported(&path, "X", &["TCP", "UDP"]),
                "spec.ports[1].name: Unsupported value: \"X\": supported values: \"TCP\", \"UDP\"",
            ),
            (
                FieldError::not_supported(&path, "a\u{1}", &["\u{1}\u{85}", "'\u{200b}"]),
                "spec.ports[1].name: Unsupported value: \"a\\x01\": supported values: \"\\x01\\u0085\", \"'\\u200b\"",
            ),
            (FieldError::too_long(&path, 63), "spec.ports[1].name: Too long: may not be more than 63 bytes"),
            (FieldError::too_many(&path, 9, 8), "spec.ports[1].name: Too many: 9: must have at most 8 items"),
            (FieldError::forbidden(&path.key("a/b"), "no"), "spec.ports[1].name[a/b]: Forbidden: no"),
        ] {
            assert_eq!(error.to_string(), want);
        }
    }

    #[test]
    fn limits_the_length_of_paths_and_values() {
        let key = "\u{e9}".repeat(1 << 20);
        let mut path = FieldPath::new("metadata").child("annotations").key(&key);
        assert!(path.as_str().starts_with("metadata.annotations[\u{e9}\u{e9}") && path.as_str().ends_with("\u{e9}..."));
        for index in 0..10 {
            path = path.child("child").index(index);
        }
        assert!(path.as_str().len() <= MAX_PATH + 3, "{}", path.as_str().len());

        let error = FieldError::invalid(&FieldPath::new("data"), &key, "bad");
        assert!(error.body().len() < MAX_SHOWN + 100, "{}", error.body().len());
        assert!(error.body().ends_with("\u{e9}... (2080771 more bytes): bad"), "{}", &error.body()[MAX_SHOWN..]);
    }
}
