//! Values in evaluations. They borrow from the objects that expressions access.

mod charges;
mod display;
mod equality;
mod list;
mod list_types;
mod map;
mod time;

use std::any::Any;
use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema as schema;

pub use self::display::go_double;
pub(crate) use self::equality::{compare, equal, unequal};
pub use self::list::List;
pub(crate) use self::list_types::add_lists;
pub(crate) use self::map::{Entries, Key};
pub use self::map::{Fields, Map};
pub use self::time::Timestamp;
pub(crate) use self::time::{Civil, duration_text, parse_go_duration};
use crate::decl_type::{DeclType, Shape};
use crate::error::Error;
use crate::types::{OPTIONAL, Type};

/// A value of an expression.
#[derive(Clone, Debug)]
pub enum Val<'a> {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    Str(Str<'a>),
    Bytes(Arc<[u8]>),
    Timestamp(Timestamp),
    /// Nanoseconds.
    Duration(i64),
    List(List<'a>),
    Map(Map<'a>),
    Optional(Option<Arc<Val<'a>>>),
    /// A message that an expression created, such as `Object.spec{...}`.
    Message(Arc<Message<'a>>),
    Type(Arc<Type>),
    /// A value of a library.
    Opaque(Arc<dyn Opaque>),
}

/// A string, borrowed or shared.
#[derive(Clone, Debug)]
pub enum Str<'a> {
    Borrowed(&'a str),
    Shared(Arc<str>),
}

/// A message with its given fields.
#[derive(Clone, Debug)]
pub struct Message<'a> {
    pub name: Text,
    pub fields: Vec<(Text, Val<'a>)>,
    depth: u32,
}

impl<'a> Message<'a> {
    pub(crate) fn new(name: Text, fields: Vec<(Text, Val<'a>)>) -> Self {
        let depth = fields.iter().map(|(_, value)| value.depth() + 1).max().unwrap_or(1);
        Self { name, fields, depth }
    }
}

/// The limit on the nesting of values that expressions create.
pub(crate) const MAX_DEPTH: u32 = 1000;

/// Returns how deep values are nested in a list of them.
fn deepest(values: &[Val<'_>]) -> u32 {
    values.iter().map(|value| value.depth() + 1).max().unwrap_or(1)
}

/// A value of a library.
pub trait Opaque: Any + fmt::Debug + fmt::Display + Send + Sync {
    fn ty(&self) -> Type;

    /// Returns the name of the Go type, which appears in some errors.
    fn go_type(&self) -> &'static str;

    /// Returns true if this value equals another one of any type.
    fn equals(&self, other: &dyn Opaque) -> bool;

    /// Returns the size of the value for the cost of functions; `None` for values without a size.
    fn size(&self) -> Option<u64> {
        None
    }

    fn is_zero(&self) -> bool {
        false
    }

    /// Compares with another value of the same type, if the type is ordered.
    fn compare(&self, _other: &dyn Opaque) -> Option<std::cmp::Ordering> {
        None
    }

    fn as_any(&self) -> &dyn Any;
}

impl<'a> Val<'a> {
    pub fn str(text: impl Into<Arc<str>>) -> Self {
        Self::Str(Str::Shared(text.into()))
    }

    pub fn list(values: Vec<Val<'a>>) -> Self {
        Self::List(List::from(values))
    }

    pub fn opaque(value: impl Opaque) -> Self {
        Self::Opaque(Arc::new(value))
    }

    pub fn some(value: Val<'a>) -> Self {
        Self::Optional(Some(Arc::new(value)))
    }

    /// Returns a value of a tree without a known type.
    pub fn of(value: &'a schema::Value) -> Self {
        match value {
            schema::Value::Null => Self::Null,
            schema::Value::Bool(b) => Self::Bool(*b),
            schema::Value::Int(n) => Self::Int(*n),
            schema::Value::Float(n) => Self::Double(*n),
            schema::Value::Str(text) => Self::Str(Str::Borrowed(text)),
            schema::Value::Raw(text) => Self::from_raw_json(text),
            schema::Value::List(items) => Self::List(List::Tree(items, None)),
            schema::Value::Object(object) => Self::Map(Map::Tree(object, None)),
        }
    }

    /// Returns the value of raw JSON; a number that a tree cannot hold becomes a string.
    fn from_raw_json(text: &str) -> Self {
        // Raw JSON is parsed at each access, and charged: the evaluation ends when the budget is exhausted.
        let charged = binnacle_work::charge(text.len() as u64);
        if charged.and_then(|()| binnacle_work::allocate(text.len().saturating_mul(8))).is_err() {
            return Self::Null;
        }
        let mut tree = schema::Value::Raw(text.into());
        schema::json::unpack(&mut tree);
        Self::owned(tree)
    }

    fn owned(tree: schema::Value) -> Self {
        match tree {
            schema::Value::Str(text) | schema::Value::Raw(text) => Self::Str(Str::Shared(text.as_str().into())),
            schema::Value::List(items) => Self::list(items.into_iter().map(Self::owned).collect()),
            schema::Value::Object(object) => {
                let mut entries = Entries::default();
                for (name, value) in object {
                    // Strings can be keys.
                    let _ = entries.insert(Self::Str(Str::Shared(name.as_str().into())), Self::owned(value));
                }
                Self::Map(Map::Entries(Arc::new(entries)))
            }
            schema::Value::Null => Self::Null,
            schema::Value::Bool(b) => Self::Bool(b),
            schema::Value::Int(n) => Self::Int(n),
            schema::Value::Float(n) => Self::Double(n),
        }
    }

    /// Returns a value of a tree converted to its type: texts to times and durations, numbers to doubles.
    ///
    /// # Errors
    /// If the value is not of the type.
    pub fn typed(value: &'a schema::Value, ty: &'a DeclType) -> Result<Self, Error> {
        use schema::Value as V;
        if let V::Null = value {
            let nullable = ty.nullable || matches!(ty.shape, Shape::Dyn | Shape::Any);
            return match nullable {
                true => Ok(Self::Null),
                false => Err(Error::new("invalid data, got null for schema with nullable=false")),
            };
        }
        let text = |expected: &str| match value {
            V::Str(text) => {
                if !matches!(ty.shape, Shape::String) {
                    // Converted at each access.
                    binnacle_work::charge(text.len() as u64 / 2)?;
                    binnacle_work::allocate(text.len())?;
                }
                Ok(text.as_str())
            }
            _ => Err(Error::new(format!("invalid data, expected {expected}, got {}", go_type(value)))),
        };
        Ok(match (&ty.shape, value) {
            (Shape::Dyn | Shape::Any | Shape::Value(_), value) => Self::of(value),
            (Shape::Bool, V::Bool(b)) => Self::Bool(*b),
            (Shape::Int | Shape::IntOrString, V::Int(n)) => Self::Int(*n),
            (Shape::Uint, V::Int(n)) => Self::Uint(*n as u64),
            (Shape::Double, V::Int(n)) => Self::Double(*n as f64),
            (Shape::Double, V::Float(n)) => Self::Double(*n),
            (Shape::IntOrString, V::Str(text)) => Self::Str(Str::Borrowed(text)),
            (Shape::String, _) => Self::Str(Str::Borrowed(text("string")?)),
            (Shape::Bytes, _) => Self::Bytes(time::base64(text("string")?)?),
            (Shape::Date, _) => Self::Timestamp(time::date(text("string")?)?),
            (Shape::DateTime, _) => Self::Timestamp(time::date_time(text("string")?)?),
            (Shape::Duration, _) => Self::Duration(time::duration(text("string")?)?),
            (Shape::List { .. }, V::List(items)) => Self::List(List::Tree(items, Some(ty))),
            (Shape::Map { .. } | Shape::Object(_), V::Object(object)) => Self::Map(Map::Tree(object, Some(ty))),
            (shape, value) => {
                let expected = match shape {
                    Shape::Bool => "bool",
                    Shape::Double => "float",
                    Shape::List { .. } => "an array for the provided schema with type=array",
                    Shape::Map { .. } | Shape::Object(_) => "a map for the provided schema with type=object",
                    Shape::IntOrString => "XIntOrString value to be either a string or integer",
                    _ => "int",
                };
                let got = match shape {
                    Shape::Bool | Shape::Double | Shape::Int | Shape::Uint => format!(", got {}", go_type(value)),
                    _ => String::new(),
                };
                return Err(Error::new(format!("invalid data, expected {expected}{got}")));
            }
        })
    }

    /// Returns the name of the type at run time.
    pub fn type_name(&self) -> Text {
        self.ty().name().into()
    }

    /// Returns the Go type name of a value that cannot be a qualifier; `None` for one that can.
    pub(crate) fn not_a_qualifier(&self) -> Option<&'static str> {
        match self {
            Self::Bool(_) | Self::Int(_) | Self::Uint(_) | Self::Double(_) | Self::Str(_) => None,
            other => Some(other.go_type()),
        }
    }

    /// Returns the name of the value's Go type, which appears in some errors.
    pub(crate) fn go_type(&self) -> &'static str {
        match self {
            Self::Null => "types.Null",
            Self::Bool(_) => "types.Bool",
            Self::Int(_) => "types.Int",
            Self::Uint(_) => "types.Uint",
            Self::Double(_) => "types.Double",
            Self::Str(_) => "types.String",
            Self::Bytes(_) => "types.Bytes",
            Self::Timestamp(_) => "types.Timestamp",
            Self::Duration(_) => "types.Duration",
            Self::List(List::Tree(_, None)) => "[]interface {}",
            Self::Map(Map::Tree(_, None)) => "map[string]interface {}",
            Self::List(_) => "*types.baseList",
            Self::Map(_) => "*types.baseMap",
            Self::Type(_) => "*types.Type",
            Self::Optional(_) => "*types.Optional",
            // Only mutating policies create messages: JSON patch operations, and parts of objects.
            Self::Message(message) if message.name == "JSONPatch" => "*mutation.JSONPatchVal",
            Self::Message(_) => "*dynamic.ObjectVal",
            Self::Opaque(value) => value.go_type(),
        }
    }

    /// Returns the type at run time, without parameters.
    pub(crate) fn ty(&self) -> Type {
        match self {
            Self::Null => Type::Null,
            Self::Bool(_) => Type::Bool,
            Self::Int(_) => Type::Int,
            Self::Uint(_) => Type::Uint,
            Self::Double(_) => Type::Double,
            Self::Str(_) => Type::String,
            Self::Bytes(_) => Type::Bytes,
            Self::Timestamp(_) => Type::Timestamp,
            Self::Duration(_) => Type::Duration,
            Self::List(_) => Type::list(Type::Dyn),
            Self::Map(_) => Type::map(Type::Dyn, Type::Dyn),
            Self::Optional(_) => Type::Opaque(OPTIONAL.into(), Arc::new([Type::Dyn])),
            Self::Message(message) => Type::Object(message.name.clone()),
            Self::Type(_) => Type::Type(None),
            Self::Opaque(value) => value.ty(),
        }
    }

    pub fn as_bool(&self) -> Option<bool> {
        match self {
            Self::Bool(b) => Some(*b),
            _ => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Self::Str(text) => Some(text),
            _ => None,
        }
    }

    pub fn as_opaque<T: Opaque>(&self) -> Option<&T> {
        match self {
            Self::Opaque(value) => value.as_any().downcast_ref(),
            _ => None,
        }
    }

    /// Returns the nesting depth of values in this one, not counting values of a tree.
    pub(crate) fn depth(&self) -> u32 {
        let (mut value, mut depth) = (self, 0);
        while let Self::Optional(Some(inner)) = value {
            (value, depth) = (inner, depth + 1);
        }
        depth
            + match value {
                Self::List(list) => list.depth(),
                Self::Map(Map::Entries(entries)) => entries.depth(),
                Self::Message(message) => message.depth,
                _ => 0,
            }
    }

    /// Returns the number of bytes of a string or of bytes.
    pub(crate) fn bytes(&self) -> usize {
        match self {
            Self::Str(text) => text.len(),
            Self::Bytes(bytes) => bytes.len(),
            _ => 0,
        }
    }

    /// Borrows the value and its strings; constants of a program outlive an evaluation.
    pub(crate) fn borrow(&'a self) -> Val<'a> {
        match self {
            Self::Str(text) => Self::Str(Str::Borrowed(text)),
            value => value.clone(),
        }
    }

    /// Returns the size of the value for the cost of functions that walk it: code points, bytes, elements; 1 for
    /// scalars.
    pub(crate) fn size(&self) -> u64 {
        match self {
            Self::Str(text) => text.char_count() as u64,
            Self::Bytes(bytes) => bytes.len() as u64,
            Self::List(list) => list.len() as u64,
            Self::Map(map) => map.len() as u64,
            Self::Optional(Some(value)) => value.size(),
            Self::Opaque(value) => value.size().unwrap_or(1),
            _ => 1,
        }
    }

    /// Returns true if this is the zero value of its type.
    pub(crate) fn is_zero(&self) -> bool {
        match self {
            Self::Null => true,
            Self::Bool(b) => !b,
            Self::Int(n) => *n == 0,
            Self::Uint(n) => *n == 0,
            Self::Double(n) => *n == 0.0,
            Self::Str(text) => text.is_empty(),
            Self::Bytes(bytes) => bytes.is_empty(),
            Self::Timestamp(time) => time.is_zero(),
            Self::Duration(nanos) => *nanos == 0,
            Self::List(list) => list.is_empty(),
            Self::Map(map) => map.is_empty(),
            Self::Message(message) => message.fields.is_empty(),
            Self::Opaque(value) => value.is_zero(),
            Self::Optional(_) | Self::Type(_) => false,
        }
    }

    /// Returns the value as a tree, with timestamps, durations and bytes as text.
    ///
    /// # Errors
    /// Fails for values that JSON cannot represent, maps with keys other than strings, and trees of more than a million
    /// nodes.
    pub fn to_tree(&self) -> Result<schema::Value, Error> {
        self.tree_within(&mut MAX_TREE_NODES.clone())
    }

    fn below(&self, nodes: &mut usize) -> Result<schema::Value, Error> {
        stacker::maybe_grow(64 * 1024, 1024 * 1024, || self.tree_within(nodes))
    }

    fn tree_within(&self, nodes: &mut usize) -> Result<schema::Value, Error> {
        use schema::Value as V;
        // Values share parts, so a tree can be far larger than its values.
        *nodes = nodes.checked_sub(1).ok_or_else(|| Error::new("the value is too large"))?;
        binnacle_work::charge_bytes(self.bytes())?;
        binnacle_work::allocate(size_of::<V>() + self.bytes())?;
        Ok(match self {
            Self::Null => V::Null,
            Self::Bool(b) => V::Bool(*b),
            Self::Int(n) => V::Int(*n),
            Self::Uint(n) => match i64::try_from(*n) {
                Ok(n) => V::Int(n),
                Err(_) => V::Float(*n as f64),
            },
            Self::Double(n) => V::Float(*n),
            Self::Str(text) => V::Str((**text).into()),
            Self::Bytes(bytes) => V::Str(time::to_base64(bytes).into()),
            Self::Timestamp(time) => V::Str(time.to_string().into()),
            Self::Duration(nanos) => V::Str(duration_text(*nanos).into()),
            Self::List(List::Tree(items, _)) => {
                items.iter().try_for_each(|item| charge_copy(item, nodes))?;
                V::List(items.to_vec())
            }
            Self::List(list) => V::List(list.iter().map(|item| item?.below(nodes)).collect::<Result<_, _>>()?),
            Self::Map(Map::Tree(object, _)) => {
                object.iter().try_for_each(|(_, value)| charge_copy(value, nodes))?;
                V::Object((*object).clone())
            }
            Self::Map(map) => {
                let mut object = schema::Object::new();
                binnacle_work::charge(2 * map.len() as u64)?;
                for key in map.keys() {
                    let Val::Str(name) = &key else {
                        return Err(Error::new(key.not_a_name_message()));
                    };
                    if let Some(value) = map.find(&key)? {
                        object.insert(&**name, value.below(nodes)?);
                    }
                }
                V::Object(object)
            }
            Self::Optional(Some(value)) => value.below(nodes)?,
            Self::Optional(None) => return Err(Error::new("optional.none() dereference")),
            Self::Message(message) => {
                let mut object = schema::Object::new();
                for (name, value) in &message.fields {
                    object.insert(name.clone(), value.below(nodes)?);
                }
                V::Object(object)
            }
            Self::Type(_) => return Err(Error::new("type conversion not supported for 'type'")),
            Self::Opaque(value) => {
                let ty = value.ty();
                let name = match ty.name() {
                    "kubernetes.NamedFormat" => "Format",
                    name if name.starts_with("kubernetes.authorization.") => name,
                    name => name.rsplit('.').next().unwrap_or(name),
                };
                return Err(Error::new(format!("type conversion error from '{name}' to '*structpb.Value'")));
            }
        })
    }
}

impl Val<'_> {
    /// Returns the error message for a map key that is not a string.
    fn not_a_name_message(&self) -> String {
        match self {
            Self::Int(_) | Self::Uint(_) => {
                format!("unsupported type conversion from '{}' to string", self.type_name())
            }
            Self::Bool(_) => "type conversion error from bool to 'string'".to_owned(),
            Self::Double(_) => "type conversion error from Double to 'string'".to_owned(),
            key => format!("type conversion error from '{}' to 'string'", key.type_name()),
        }
    }
}

const MAX_TREE_NODES: usize = 1_000_000;

/// Charges the copy of a tree, which may occur many times in a value.
fn charge_copy(tree: &schema::Value, nodes: &mut usize) -> Result<(), Error> {
    *nodes = nodes.checked_sub(1).ok_or_else(|| Error::new("the value is too large"))?;
    let bytes = match tree {
        schema::Value::Str(text) | schema::Value::Raw(text) => text.len(),
        _ => 0,
    };
    binnacle_work::charge_bytes(bytes)?;
    binnacle_work::allocate(size_of::<schema::Value>())?;
    stacker::maybe_grow(64 * 1024, 1024 * 1024, || match tree {
        schema::Value::List(items) => items.iter().try_for_each(|item| charge_copy(item, nodes)),
        schema::Value::Object(object) => object.iter().try_for_each(|(_, value)| charge_copy(value, nodes)),
        _ => Ok(()),
    })
}

impl Str<'_> {
    /// Counts the code points.
    pub fn char_count(&self) -> usize {
        if self.is_ascii() { self.len() } else { self.chars().count() }
    }
}

impl Deref for Str<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        match self {
            Self::Borrowed(text) => text,
            Self::Shared(text) => text,
        }
    }
}

impl<'a> From<&'a str> for Val<'a> {
    fn from(text: &'a str) -> Self {
        Self::Str(Str::Borrowed(text))
    }
}

impl From<bool> for Val<'_> {
    fn from(b: bool) -> Self {
        Self::Bool(b)
    }
}

impl From<i64> for Val<'_> {
    fn from(n: i64) -> Self {
        Self::Int(n)
    }
}

/// Returns Go's type of a decoded JSON value.
fn go_type(value: &schema::Value) -> &'static str {
    match value {
        schema::Value::Null => "<nil>",
        schema::Value::Bool(_) => "bool",
        schema::Value::Int(_) => "int64",
        schema::Value::Float(_) => "float64",
        schema::Value::Str(_) | schema::Value::Raw(_) => "string",
        schema::Value::List(_) => "[]interface {}",
        schema::Value::Object(_) => "map[string]interface {}",
    }
}
