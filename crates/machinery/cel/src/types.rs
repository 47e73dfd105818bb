//! Types of expressions for the checker.

use std::fmt;
use std::sync::Arc;

use binnacle_meta::Text;

/// A type. Displayed as by cel-go's `String()`: `list(int)`, `google.protobuf.Timestamp`, `null_type`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Type {
    Dyn,
    /// Like [`Type::Dyn`], but displayed as `any`.
    Any,
    Null,
    Bool,
    Int,
    Uint,
    Double,
    String,
    Bytes,
    Timestamp,
    Duration,
    List(Arc<Type>),
    Map(Arc<(Type, Type)>),
    /// A struct by its name; the environment has its fields.
    Object(Text),
    /// An abstract type of a library, such as `kubernetes.URL` or `optional_type(int)`.
    Opaque(Text, Arc<[Type]>),
    /// The type of a type.
    Type(Option<Arc<Type>>),
    /// A type variable, or the parameter of a declaration.
    Param(Text),
    /// The type of an expression with an error, which is compatible with all types.
    Error,
}

impl Type {
    pub fn list(element: Type) -> Self {
        Self::List(Arc::new(element))
    }

    pub fn map(key: Type, value: Type) -> Self {
        Self::Map(Arc::new((key, value)))
    }

    pub fn object(name: impl Into<Text>) -> Self {
        Self::Object(name.into())
    }

    pub fn opaque(name: impl Into<Text>) -> Self {
        Self::Opaque(name.into(), Arc::new([]))
    }

    pub fn optional(of: Type) -> Self {
        Self::Opaque(OPTIONAL.into(), Arc::new([of]))
    }

    /// Returns the type inside of an optional.
    pub(crate) fn as_optional(&self) -> Option<&Type> {
        match self {
            Self::Opaque(name, params) if name == OPTIONAL => params.first(),
            _ => None,
        }
    }

    pub(crate) fn is_dyn(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any)
    }

    pub(crate) fn is_dyn_or_error(&self) -> bool {
        matches!(self, Self::Dyn | Self::Any | Self::Error)
    }

    /// Returns the name at run time, without parameters.
    pub(crate) fn name(&self) -> &str {
        match self {
            Self::Dyn => "dyn",
            Self::Any => "google.protobuf.Any",
            Self::Null => "null_type",
            Self::Bool => "bool",
            Self::Int => "int",
            Self::Uint => "uint",
            Self::Double => "double",
            Self::String => "string",
            Self::Bytes => "bytes",
            Self::Timestamp => "google.protobuf.Timestamp",
            Self::Duration => "google.protobuf.Duration",
            Self::List(_) => "list",
            Self::Map(_) => "map",
            Self::Object(name) | Self::Opaque(name, _) | Self::Param(name) => name,
            Self::Type(_) => "type",
            Self::Error => "error",
        }
    }

    pub(crate) fn params(&self) -> Vec<&Type> {
        match self {
            Self::List(element) => vec![element],
            Self::Map(entry) => vec![&entry.0, &entry.1],
            Self::Opaque(_, params) => params.iter().collect(),
            Self::Type(Some(of)) => vec![of],
            _ => Vec::new(),
        }
    }

    /// Returns the type in the format of the checker's messages: `timestamp`, `null`, `any`.
    pub(crate) fn formatted(&self) -> FormattedType<'_> {
        FormattedType(self)
    }

    /// Counts the parts of this type, up to `limit`: types share parts, so they can be far larger than the expression.
    pub(crate) fn size(&self, limit: usize) -> usize {
        let mut size = 1;
        for param in self.params() {
            if size >= limit {
                break;
            }
            size += param.size(limit - size);
        }
        size
    }
}

pub(crate) const OPTIONAL: &str = "optional_type";

impl fmt::Display for Type {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Self::Param(name) = self {
            return write!(f, "<{name}>");
        }
        f.write_str(self.name())?;
        write_params(f, &self.params(), |param, f| param.fmt(f))
    }
}

pub(crate) struct FormattedType<'a>(&'a Type);

impl fmt::Display for FormattedType<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.0 {
            Type::Any => "any",
            Type::Null => "null",
            Type::Timestamp => "timestamp",
            Type::Duration => "duration",
            Type::Error => "!error!",
            ty => ty.name(),
        })?;
        write_params(f, &self.0.params(), |param, f| param.formatted().fmt(f))
    }
}

fn write_params(
    f: &mut fmt::Formatter<'_>,
    params: &[&Type],
    write: impl Fn(&Type, &mut fmt::Formatter<'_>) -> fmt::Result,
) -> fmt::Result {
    for (i, param) in params.iter().enumerate() {
        f.write_str(if i == 0 { "(" } else { ", " })?;
        write(param, f)?;
    }
    f.write_str(if params.is_empty() { "" } else { ")" })
}

/// Formats the arguments of a call for messages: `(int, string)`, `string.(int)`.
pub(crate) fn signature(args: &[Type], member: bool) -> String {
    let (target, args) = match args {
        [target, args @ ..] if member => (format!("{}.", target.formatted()), args),
        args => (String::new(), args),
    };
    let args: Vec<String> = args.iter().map(|arg| arg.formatted().to_string()).collect();
    format!("{target}({})", args.join(", "))
}

/// Parses a type in a declaration: `list(A)`, `map(K, V)`, `optional_type(V)`, `kubernetes.URL`. Capital letters are
/// parameters.
///
/// # Panics
/// If the text is not a type. Declarations are constants, and tests parse all of them.
pub(crate) fn parse_type(text: &str) -> Type {
    let (ty, rest) = read(text.trim());
    assert!(rest.trim().is_empty(), "{text} is no type");
    ty
}

/// Parses types separated by commas.
pub(crate) fn parse_types(text: &str) -> Vec<Type> {
    let mut types = Vec::new();
    let mut rest = text.trim();
    while !rest.is_empty() {
        let (ty, after) = read(rest);
        types.push(ty);
        rest = after.trim().trim_start_matches(',').trim();
    }
    types
}

fn read(text: &str) -> (Type, &str) {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '.')).unwrap_or(text.len());
    let (name, mut rest) = text.split_at(end);
    let mut params = Vec::new();
    if let Some(inner) = rest.strip_prefix('(') {
        rest = inner;
        loop {
            let (param, after) = read(rest.trim_start());
            params.push(param);
            rest = after.trim_start();
            if let Some(after) = rest.strip_prefix(')') {
                rest = after;
                break;
            }
            rest = rest.strip_prefix(',').expect("parameters stand between commas");
        }
    }
    let mut param = |i: usize| std::mem::replace(&mut params[i], Type::Dyn);
    let ty = match name {
        "dyn" => Type::Dyn,
        "any" => Type::Any,
        "null" => Type::Null,
        "bool" => Type::Bool,
        "int" => Type::Int,
        "uint" => Type::Uint,
        "double" => Type::Double,
        "string" => Type::String,
        "bytes" => Type::Bytes,
        "timestamp" => Type::Timestamp,
        "duration" => Type::Duration,
        "list" => Type::list(param(0)),
        "map" => Type::map(param(0), param(1)),
        "type" => Type::Type(Some(Arc::new(param(0)))),
        _ if name.len() == 1 && name.chars().all(|c| c.is_ascii_uppercase()) => Type::Param(name.into()),
        _ => Type::Opaque(name.into(), params.into()),
    };
    (ty, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_types() {
        for (text, shown, formatted) in [
            (
                "list(map(string, timestamp))",
                "list(map(string, google.protobuf.Timestamp))",
                "list(map(string, timestamp))",
            ),
            ("optional_type(A)", "optional_type(<A>)", "optional_type(A)"),
            ("kubernetes.URL", "kubernetes.URL", "kubernetes.URL"),
            ("null", "null_type", "null"),
            ("type(int)", "type(int)", "type(int)"),
            ("any", "google.protobuf.Any", "any"),
        ] {
            let ty = parse_type(text);
            assert_eq!(ty.to_string(), shown);
            assert_eq!(ty.formatted().to_string(), formatted);
        }
    }
}
