//! Reading fields: a value together with its path.

use std::fmt;
use std::marker::PhantomData;

use binnacle_meta::{ErrorValue, FieldError, FieldPath, Location};
use binnacle_schema::{Object, Value, json};

use crate::types::{Bool, Double, FieldType, Int, IntOrString, List, Map, SchemaOr, Str, TextType};
use crate::{Field, Message, NULL, Path, Route};

/// A value of type `T` in an object, and its path in errors. `'p` is the lifetime of the path, `'v` that of the object.
///
/// An absent field reads as null, because both are nil in Go.
pub struct FieldRef<'p, 'v, T> {
    value: &'v Value,
    path: Path<'p>,
    marker: PhantomData<fn() -> T>,
}

impl<T> Clone for FieldRef<'_, '_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for FieldRef<'_, '_, T> {}

impl<T> fmt::Debug for FieldRef<'_, '_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.path(), self.value)
    }
}

impl<T> Location for FieldRef<'_, '_, T> {
    fn path(&self) -> FieldPath {
        self.path.text()
    }
}

impl<'p, 'v, T> FieldRef<'p, 'v, T> {
    /// Returns an object as a whole.
    pub fn root(object: &'v Value) -> Self {
        Self::new(object, Path::Root)
    }

    /// Returns the value at a path. The caller ensures that the type is correct.
    pub fn located(value: &'v Value, path: &'p FieldPath) -> Self {
        Self::new(value, Path::At(path))
    }

    fn new(value: &'v Value, path: Path<'p>) -> Self {
        Self { value, path, marker: PhantomData }
    }

    /// Returns the path as text.
    pub fn path(&self) -> FieldPath {
        self.path.text()
    }

    /// Returns the value; null if the field is absent.
    pub fn value(&self) -> &'v Value {
        self.value
    }

    /// Returns the value unless it is absent or null.
    pub fn get(&self) -> Option<&'v Value> {
        Some(self.value).filter(|value| !value.is_null())
    }

    /// Returns true unless the value is absent or null, Go's nil.
    pub fn is_set(&self) -> bool {
        !self.value.is_null()
    }

    /// Returns this field unless it is absent or null.
    pub fn set(self) -> Option<Self> {
        self.is_set().then_some(self)
    }

    /// Returns true if the value is absent or Go's zero value of a text, number, boolean, list or map.
    pub fn is_zero(&self) -> bool {
        match self.value {
            Value::Null | Value::Bool(false) | Value::Int(0) => true,
            Value::Float(number) => *number == 0.0,
            Value::Str(text) => text.is_empty(),
            Value::List(items) => items.is_empty(),
            Value::Object(members) => members.is_empty(),
            _ => false,
        }
    }

    /// Returns the same value under another name: kube-apiserver reports errors of some fields under a different name.
    pub fn reported_as(&self, name: &'p str) -> Self {
        let path = match self.path {
            Path::Root | Path::At(_) => self.path,
            Path::Name(parent, _) | Path::Index(parent, _) | Path::Key(parent, _) => Path::Name(parent, name),
        };
        Self { path, ..*self }
    }

    /// Returns this value with the path of another.
    pub fn located_at<U>(&self, other: &FieldRef<'p, '_, U>) -> Self {
        Self { path: other.path, ..*self }
    }

    /// Returns the same value as another type with the same fields, such as containers and ephemeral containers. The
    /// caller ensures that they match.
    pub fn cast<U>(&self) -> FieldRef<'p, 'v, U> {
        FieldRef::new(self.value, self.path)
    }

    /// Returns the same value without its path, for code that reports no paths.
    pub fn detached(&self) -> FieldRef<'static, 'v, T> {
        FieldRef::root(self.value)
    }
}

// === Errors, with the messages of apimachinery's `field` package ===

impl<T> FieldRef<'_, '_, T> {
    pub fn required(&self, detail: impl AsRef<str>) -> FieldError {
        FieldError::required(self, detail)
    }

    pub fn forbidden(&self, detail: impl AsRef<str>) -> FieldError {
        FieldError::forbidden(self, detail)
    }

    pub fn invalid_as(&self, shown: impl Into<ErrorValue>, detail: impl AsRef<str>) -> FieldError {
        FieldError::invalid(self, shown, detail)
    }

    pub fn too_long(&self, max_bytes: usize) -> FieldError {
        FieldError::too_long(self, max_bytes)
    }
}

impl<T: FieldType> FieldRef<'_, '_, T> {
    /// Returns the value in the format of errors: strings quoted, structures as JSON, absent strings and numbers as
    /// Go's zero values.
    pub fn shown(&self) -> ErrorValue {
        if self.is_set() { ErrorValue::from(self.value) } else { T::absent() }
    }

    /// Returns the value like [`Self::shown`], but a text as one of a named type or behind a pointer, see [`of_named_type`].
    pub fn shown_as_json(&self) -> ErrorValue {
        self.value.as_str().map_or_else(|| self.shown(), of_named_type)
    }

    pub fn invalid(&self, detail: impl AsRef<str>) -> FieldError {
        FieldError::invalid(self, self.shown(), detail)
    }

    pub fn duplicate(&self) -> FieldError {
        FieldError::duplicate(self, self.shown())
    }

    pub fn not_found(&self) -> FieldError {
        FieldError::not_found(self, self.shown())
    }

    /// The error of an enumeration. A text is shown as one of a named type.
    pub fn not_supported<S: AsRef<str>>(&self, supported: &[S]) -> FieldError {
        FieldError::not_supported(self, self.shown_as_json(), supported)
    }
}

/// Shows a text whose type in Go has a name of its own, such as an enumeration, or is a pointer. kube-apiserver shows such a
/// text as JSON, and only a `string` in Go's quotes.
pub fn of_named_type(text: &str) -> ErrorValue {
    let mut shown = Vec::with_capacity(text.len() + 2);
    json::write_string(text, &mut shown);
    ErrorValue::raw(String::from_utf8(shown).unwrap_or_default())
}

// === Structures ===

impl<'v, M> FieldRef<'_, 'v, M> {
    /// Returns a field of a structure.
    #[inline]
    pub fn at<T>(&self, field: Field<M, T>) -> FieldRef<'_, 'v, T> {
        let value = self.value.get(field.name()).unwrap_or(&NULL);
        FieldRef::new(value, Path::Name(&self.path, field.name()))
    }

    /// Returns the value at the end of a route without lists; null if absent.
    pub fn value_at(&self, route: Route<M>) -> &'v Value {
        route.steps().iter().try_fold(self.value, |value, step| value.get(step.name)).unwrap_or(&NULL)
    }
}

impl<'v, M: Message> FieldRef<'_, 'v, M> {
    /// Returns the members; `None` if absent.
    pub fn object(&self) -> Option<&'v Object> {
        self.value.as_object()
    }
}

// === Scalars ===

impl<'v, T: TextType> FieldRef<'_, 'v, T> {
    /// Returns the text; `""` if absent, as Go's zero value.
    pub fn str(&self) -> &'v str {
        self.value.as_str().unwrap_or("")
    }

    /// Returns the text of a pointer field.
    pub fn get_str(&self) -> Option<&'v str> {
        self.value.as_str()
    }

    pub fn is_empty(&self) -> bool {
        self.str().is_empty()
    }
}

impl FieldRef<'_, '_, Int> {
    pub fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    /// Returns the number; 0 if absent, as Go's zero value.
    pub fn int_or_zero(&self) -> i64 {
        self.int().unwrap_or(0)
    }
}

impl FieldRef<'_, '_, Double> {
    pub fn float(&self) -> Option<f64> {
        self.value.as_f64()
    }
}

impl FieldRef<'_, '_, Bool> {
    /// Returns the boolean; false if absent, as Go's zero value.
    pub fn bool(&self) -> bool {
        self.value.as_bool().unwrap_or(false)
    }

    /// Returns the boolean of a pointer field.
    pub fn get_bool(&self) -> Option<bool> {
        self.value.as_bool()
    }
}

impl<'v> FieldRef<'_, 'v, IntOrString> {
    pub fn int(&self) -> Option<i64> {
        self.value.as_i64()
    }

    pub fn get_str(&self) -> Option<&'v str> {
        self.value.as_str()
    }
}

impl<'p, 'v, T> FieldRef<'p, 'v, SchemaOr<T>> {
    /// Returns the schema; `None` for the alternative form.
    pub fn schema(&self) -> Option<FieldRef<'p, 'v, T>> {
        self.value.as_object().map(|_| self.cast())
    }

    /// Returns the list of schemas; empty for other forms.
    pub fn schemas(&self) -> FieldRef<'p, 'v, List<T>> {
        self.cast()
    }
}

// === Lists and maps ===

impl<'v, T> FieldRef<'_, 'v, List<T>> {
    /// Returns the items; empty if absent.
    pub fn list(&self) -> &'v [Value] {
        self.value.as_list().unwrap_or(&[])
    }

    pub fn len(&self) -> usize {
        self.list().len()
    }

    pub fn is_empty(&self) -> bool {
        self.list().is_empty()
    }

    /// Returns the items with their paths.
    pub fn items(&self) -> impl ExactSizeIterator<Item = FieldRef<'_, 'v, T>> + DoubleEndedIterator {
        self.list().iter().enumerate().map(|(i, item)| FieldRef::new(item, Path::Index(&self.path, i)))
    }

    /// Returns the items without their paths, for code that reports no paths.
    pub fn values(&self) -> impl ExactSizeIterator<Item = FieldRef<'static, 'v, T>> + DoubleEndedIterator + use<'v, T> {
        self.list().iter().map(FieldRef::root)
    }

    pub fn item(&self, index: usize) -> Option<FieldRef<'_, 'v, T>> {
        self.list().get(index).map(|item| FieldRef::new(item, Path::Index(&self.path, index)))
    }

    pub fn too_many(&self, max: usize) -> FieldError {
        FieldError::too_many(self, self.len(), max)
    }
}

impl<'v> FieldRef<'_, 'v, List<Str>> {
    /// Returns the texts.
    pub fn strs(&self) -> impl Iterator<Item = &'v str> + use<'v> {
        self.list().iter().filter_map(Value::as_str)
    }

    pub fn contains(&self, text: &str) -> bool {
        self.strs().any(|item| item == text)
    }
}

impl<'v, T> FieldRef<'_, 'v, Map<T>> {
    /// Returns the entries; `None` if absent.
    pub fn object(&self) -> Option<&'v Object> {
        self.value.as_object()
    }

    pub fn len(&self) -> usize {
        self.object().map_or(0, Object::len)
    }

    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the keys and the values with their paths, such as `metadata.labels[a]`.
    pub fn entries(&self) -> impl Iterator<Item = (&'v str, FieldRef<'_, 'v, T>)> {
        let entries = self.object().into_iter().flat_map(Object::iter);
        entries.map(|(key, value)| (key.as_str(), FieldRef::new(value, Path::Key(&self.path, key))))
    }

    /// Returns the value of a key.
    pub fn key<'k>(&'k self, key: &'k str) -> FieldRef<'k, 'v, T> {
        FieldRef::new(self.value.get(key).unwrap_or(&NULL), Path::Key(&self.path, key))
    }

    /// Returns true if a key is present; its value may be null.
    pub fn has_key(&self, key: &str) -> bool {
        self.value.get(key).is_some()
    }
}
