//! The declared types of variables: conversion of JSON values to CEL values, and bounds on their sizes.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::{ListType, Message, Ty};

use crate::types::Type;

/// The type of data, with the bounds for cost estimates.
#[derive(Clone, Debug)]
pub struct DeclType {
    pub shape: Shape,
    /// The maximum number of elements, entries, code points or bytes; `None` if unbounded.
    pub max_elements: Option<u64>,
    /// The minimum number of bytes of the value as JSON.
    pub min_serialized_size: u64,
    pub nullable: bool,
}

#[derive(Clone, Debug)]
pub enum Shape {
    /// Only known at run time.
    Dyn,
    /// Like `Dyn`, but named `any`.
    Any,
    Bool,
    Int,
    Uint,
    Double,
    String,
    /// Base64 in JSON.
    Bytes,
    /// `2006-01-02` in JSON.
    Date,
    /// RFC 3339 in JSON.
    DateTime,
    /// `1h30m` in JSON.
    Duration,
    IntOrString,
    /// A value of a library type, such as an authorizer.
    Value(Type),
    List {
        element: Arc<DeclType>,
        kind: ListKind,
    },
    /// With string keys.
    Map {
        value: Arc<DeclType>,
        /// The maximum number of code points in a key, if known.
        key_max: u64,
    },
    Object(Arc<ObjectType>),
}

/// The list type, which decides the comparison and concatenation of lists.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    Atomic,
    Set,
    /// Keyed by the values of these members.
    Map(Vec<Text>),
}

#[derive(Clone, Debug)]
pub struct ObjectType {
    /// Unique within an environment.
    pub name: Text,
    /// By the name in expressions, see [`escape`].
    pub fields: BTreeMap<Text, DeclField>,
}

#[derive(Clone, Debug)]
pub struct DeclField {
    /// The name in JSON.
    pub name: Text,
    pub ty: DeclType,
    pub required: bool,
}

/// The size of the largest request, which bounds all values in it.
const MAX_REQUEST_BYTES: u64 = 3 * 1024 * 1024;

impl DeclType {
    pub fn new(shape: Shape) -> Self {
        let min = match shape {
            Shape::Dyn | Shape::Any | Shape::Uint | Shape::Int | Shape::Double | Shape::IntOrString => 1,
            Shape::Bool => 4,
            Shape::Duration => 3,
            Shape::Date | Shape::DateTime => 12,
            Shape::Value(_) => 8,
            Shape::String | Shape::Bytes | Shape::List { .. } | Shape::Map { .. } | Shape::Object(_) => 2,
        };
        Self { shape, max_elements: None, min_serialized_size: min, nullable: false }
    }

    pub fn list(element: DeclType) -> Self {
        Self::new(Shape::List { element: Arc::new(element), kind: ListKind::Atomic })
    }

    /// Returns a map with string keys.
    pub fn map(value: DeclType) -> Self {
        Self::new(Shape::Map { value: Arc::new(value), key_max: 0 })
    }

    /// Returns an object with optional fields of these names and types.
    pub fn object(name: impl Into<Text>, fields: impl IntoIterator<Item = (&'static str, DeclType)>) -> Self {
        let field = |(name, ty): (&'static str, DeclType)| {
            let name = Text::new_static(name);
            (name.clone(), DeclField { name, ty, required: false })
        };
        let fields = fields.into_iter().map(field).collect();
        Self::new(Shape::Object(Arc::new(ObjectType { name: name.into(), fields })))
    }

    /// Returns the type of a message of the schema: the type of objects of a built-in kind in expressions. Recursive
    /// messages are `dyn`.
    pub fn of_message(message: &Message) -> Self {
        Self::message_within(message, &mut Vec::new())
    }

    /// Returns the type of a field of a message.
    pub fn of_ty(ty: &Ty) -> Self {
        Self::ty_within(ty, &mut Vec::new())
    }

    fn message_within(message: &Message, ancestors: &mut Vec<Text>) -> Self {
        if ancestors.contains(&message.name) {
            return Self::new(Shape::Dyn);
        }
        ancestors.push(message.name.clone());
        let mut fields = BTreeMap::new();
        for field in message.fields.iter() {
            let Some(escaped) = escape(&field.name) else { continue };
            let mut ty = Self::ty_within(&field.ty, ancestors);
            if let (Shape::List { kind, .. }, list) = (&mut ty.shape, &field.list_type) {
                *kind = match list {
                    ListType::Set => ListKind::Set,
                    ListType::Map(keys) => ListKind::Map(keys.to_vec()),
                    _ => ListKind::Atomic,
                };
            }
            fields.insert(escaped, DeclField { name: field.name.clone(), ty, required: field.required });
        }
        ancestors.pop();
        let object = ObjectType { name: message.name.clone(), fields };
        Self::new(Shape::Object(Arc::new(object)))
    }

    fn ty_within(ty: &Ty, ancestors: &mut Vec<Text>) -> Self {
        if let Some(element) = ty.element() {
            return Self::list(Self::ty_within(element, ancestors)).bounded();
        }
        if let Some(value) = ty.map_value() {
            return Self::map(Self::ty_within(value, ancestors)).bounded();
        }
        match ty {
            Ty::String | Ty::Quantity | Ty::Duration => Self::new(Shape::String).bounded(),
            Ty::Bool => Self::new(Shape::Bool),
            Ty::Int32 | Ty::Int64 | Ty::Uint32 => Self::new(Shape::Int),
            Ty::Double => Self::new(Shape::Double),
            Ty::Bytes => Self::new(Shape::Bytes).bounded(),
            Ty::Time | Ty::MicroTime => Self::new(Shape::DateTime),
            Ty::IntOrString => Self::new(Shape::IntOrString),
            Ty::Message(message) => Self::message_within(message, ancestors),
            _ => Self::new(Shape::Dyn),
        }
    }

    /// Bounds the size of an unbounded value by the size of a request.
    fn bounded(mut self) -> Self {
        let smallest = match &self.shape {
            Shape::List { element, .. } => element.min_serialized_size,
            // A value takes at least a key, a colon and a comma.
            Shape::Map { value, .. } => value.min_serialized_size + 4,
            _ => 1,
        };
        self.max_elements = Some(MAX_REQUEST_BYTES.saturating_sub(2) / (smallest + 1));
        if matches!(self.shape, Shape::String | Shape::Bytes) {
            self.max_elements = Some(MAX_REQUEST_BYTES - 2);
        }
        self
    }

    /// Returns the maximum number of elements or code points for cost estimates; lists and maps without a bound can
    /// have any number.
    pub(crate) fn max_size(&self) -> u64 {
        let unbounded = if matches!(self.shape, Shape::List { .. } | Shape::Map { .. }) { u64::MAX } else { 0 };
        self.max_elements.unwrap_or(unbounded)
    }

    /// Returns the type for the checker.
    pub fn ty(&self) -> Type {
        match &self.shape {
            Shape::Dyn | Shape::IntOrString => Type::Dyn,
            Shape::Any => Type::Any,
            Shape::Bool => Type::Bool,
            Shape::Int => Type::Int,
            Shape::Uint => Type::Uint,
            Shape::Double => Type::Double,
            Shape::String => Type::String,
            Shape::Bytes => Type::Bytes,
            Shape::Date | Shape::DateTime => Type::Timestamp,
            Shape::Duration => Type::Duration,
            Shape::Value(ty) => ty.clone(),
            Shape::List { element, .. } => Type::list(element.ty()),
            Shape::Map { value, .. } => Type::map(Type::String, value.ty()),
            Shape::Object(object) => Type::Object(object.name.clone()),
        }
    }
}

impl ObjectType {
    /// Returns the field with a name in expressions.
    pub fn field(&self, name: &str) -> Option<&DeclField> {
        self.fields.get(name)
    }

    /// Returns the field with a name in expressions. A field named like a keyword can be accessed by its plain name as
    /// well as by the escaped name `__keyword__`.
    pub(crate) fn field_or_keyword(&self, name: &str) -> Option<&DeclField> {
        self.field(name).or_else(|| is_keyword(name).then(|| self.field(&format!("__{name}__")))?)
    }

    /// Returns the field with a name in JSON.
    pub(crate) fn field_by_json_name(&self, name: &str) -> Option<(&Text, &DeclField)> {
        if let Some((escaped, field)) = self.fields.get_key_value(name)
            && field.name == name
        {
            return Some((escaped, field));
        }
        let escaped = escape(name)?;
        self.fields.get_key_value(escaped.as_str()).filter(|(_, field)| field.name == name)
    }
}

/// Keywords, which must be escaped as field names.
const ESCAPED_KEYWORDS: [&str; 21] = [
    "true",
    "false",
    "null",
    "in",
    "as",
    "break",
    "const",
    "continue",
    "else",
    "for",
    "function",
    "if",
    "import",
    "let",
    "loop",
    "package",
    "namespace",
    "return",
    "var",
    "void",
    "while",
];

/// Returns true if a name is a keyword, which cannot name a variable, and can name a field only when escaped.
pub fn is_keyword(name: &str) -> bool {
    ESCAPED_KEYWORDS.contains(&name)
}

/// Returns the name of a member in expressions: characters that identifiers cannot contain are escaped (`a.b` is
/// `a__dot__b`), and so are keywords (`__if__`). Returns `None` if the result is not an identifier.
pub fn escape(name: &str) -> Option<Text> {
    let first = *name.as_bytes().first()?;
    if first.is_ascii_digit() || !name.bytes().all(|b| b.is_ascii_alphanumeric() || b"_.-/".contains(&b)) {
        return None;
    }
    if is_keyword(name) {
        return Some(format!("__{name}__").into());
    }
    if !name.contains(['.', '-', '/']) && !name.contains("__") {
        return Some(name.into());
    }
    let escaped = name
        .replace("__", "__underscores__")
        .replace('.', "__dot__")
        .replace('-', "__dash__")
        .replace('/', "__slash__");
    Some(escaped.into())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Environment, Version};

    #[test]
    fn accepts_unescaped_keyword_fields_since_1_31() {
        let ty = || DeclType::object("T", [("__namespace__", DeclType::new(Shape::String))]);
        for (minor, expression, compiles) in [
            (31, "self.namespace == self.__namespace__", true),
            (30, "self.__namespace__ == ''", true),
            (30, "self.namespace == ''", false),
        ] {
            let environment = Environment::new(Version::minor(minor)).with_data("self", &ty());
            assert_eq!(environment.compile(expression).is_ok(), compiles, "{expression} in 1.{minor}");
        }
    }

    #[test]
    fn escapes_field_names() {
        for (name, escaped) in [
            ("spec", Some("spec")),
            ("a.b/c-d", Some("a__dot__b__slash__c__dash__d")),
            ("x__y", Some("x__underscores__y")),
            ("namespace", Some("__namespace__")),
            ("_x", Some("_x")),
            ("9x", None),
            ("a$", None),
            ("", None),
        ] {
            assert_eq!(escape(name).as_deref(), escaped, "{name}");
        }
    }
}
