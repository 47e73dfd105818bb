//! The schema for server-side apply: which values are leaves, and the identity of list elements.

use std::sync::LazyLock;

use binnacle_meta::Text;
use binnacle_schema::{Field, Limits, ListType, Message, Presence, Ty, Value, json};

use super::element::PathElement;

/// The treatment of a value.
#[derive(Clone, Copy, Debug)]
pub(super) enum Shape<'s> {
    Scalar(&'s Ty),
    /// Any value, owned as a whole.
    Opaque,
    /// Deduced from the value: objects by members, lists and scalars as a whole.
    Deduced,
    /// As `Deduced`, with a schema for members and elements.
    Untyped {
        message: &'s Message,
        element: &'s Ty,
    },
    Struct {
        message: &'s Message,
        atomic: bool,
    },
    Map {
        value: &'s Ty,
        atomic: bool,
    },
    List {
        element: &'s Ty,
        relation: Relation<'s>,
    },
}

/// The identity of a list's elements.
#[derive(Clone, Copy, Debug)]
pub(super) enum Relation<'s> {
    Atomic,
    Set,
    Keys(&'s [Text]),
}

/// The kind of a value without a fixed shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ValueShape {
    Scalar,
    List,
    Map,
    /// Null, which may be of any kind.
    Any,
}

impl<'s> Shape<'s> {
    pub(super) fn of_message(message: &'s Message) -> Self {
        match &message.untyped {
            Some(element) => Self::Untyped { message, element },
            None => Self::Struct { message, atomic: message.atomic },
        }
    }

    /// The list type of the field takes precedence over that of its type.
    pub(super) fn of_field(field: &'s Field) -> Self {
        match Self::of_type(&field.ty) {
            Self::Struct { message, atomic } => {
                let atomic = match field.list_type {
                    ListType::Atomic => true,
                    ListType::Granular => false,
                    _ => atomic,
                };
                Self::Struct { message, atomic }
            }
            Self::Map { value, .. } => Self::Map { value, atomic: field.list_type == ListType::Atomic },
            Self::List { element, .. } => Self::List { element, relation: Relation::of(field) },
            other => other,
        }
    }

    /// Returns the shape of a type without a field, such as that of list elements or map values.
    pub(super) fn of_type(ty: &'s Ty) -> Self {
        if let Some(message) = ty.message() {
            return Self::of_message(message);
        }
        if let Some(element) = ty.element() {
            let relation = match ty {
                Ty::ListOf(list) => Relation::declared(&list.1),
                _ => Relation::Atomic,
            };
            return Self::List { element, relation };
        }
        if let Some(value) = ty.map_value() {
            return Self::Map { value, atomic: false };
        }
        match ty {
            Ty::RawExtension => Self::Opaque,
            Ty::Json | Ty::FieldsV1 | Ty::SchemaOrBool(_) | Ty::SchemaOrArray(_) | Ty::SchemaOrStrings(_) => {
                Self::Deduced
            }
            _ => Self::Scalar(ty),
        }
    }

    /// Returns true if the value is owned as a whole.
    pub(super) fn is_leaf(&self) -> bool {
        match self {
            Self::Scalar(_) | Self::Opaque => true,
            Self::Struct { atomic, .. } | Self::Map { atomic, .. } => *atomic,
            Self::List { relation, .. } => matches!(relation, Relation::Atomic),
            Self::Deduced | Self::Untyped { .. } => false,
        }
    }

    /// Returns true if the value decides whether it is owned as a whole.
    pub(super) fn is_deduced(&self) -> bool {
        matches!(self, Self::Deduced | Self::Untyped { .. })
    }

    /// Returns true if this is a map of untyped values without named fields. kube-apiserver does not adapt sets to
    /// these.
    pub(super) fn is_free(&self) -> bool {
        let value = match self {
            Self::Deduced => return true,
            Self::Map { value, .. } => Some(*value),
            Self::Struct { message, .. } | Self::Untyped { message, .. } if message.fields.is_empty() => {
                message.additional.as_deref()
            }
            _ => None,
        };
        value.is_some_and(|value| match Self::of_type(value) {
            Self::Scalar(ty) => matches!(ty, Ty::Time),
            shape => shape.is_deduced(),
        })
    }

    /// Returns true if a schema names this member.
    pub(super) fn names(&self, name: &str) -> bool {
        match self {
            Self::Struct { message, .. } | Self::Untyped { message, .. } => message.get(name).is_some(),
            _ => false,
        }
    }

    /// Returns the shape of a member; `None` if the schema does not have it.
    pub(super) fn member(&self, name: &str) -> Option<Self> {
        match self {
            Self::Struct { message, .. } | Self::Untyped { message, .. } => {
                let field = message.get(name).map(Self::of_field);
                // A definition without properties allows any members.
                let is_any = message.fields.is_empty() && !message.is_of_definition();
                field
                    .or_else(|| message.additional.as_deref().map(Self::of_type))
                    .or_else(|| is_any.then_some(Self::Deduced))
            }
            Self::Map { value, .. } => Some(Self::of_type(value)),
            Self::Deduced => Some(Self::Deduced),
            _ => None,
        }
    }

    pub(super) fn element(&self) -> Option<Self> {
        match self {
            Self::List { element, .. } => Some(Self::of_type(element)),
            _ => None,
        }
    }
}

impl<'s> Relation<'s> {
    fn of(field: &'s Field) -> Self {
        match &field.list_type {
            // Older types only declare a patch strategy, which kube-apiserver uses as the list type.
            ListType::Unset if field.patch.merge && field.patch.merge_key.is_empty() => Self::Set,
            ListType::Unset if field.patch.merge => Self::Keys(std::slice::from_ref(&field.patch.merge_key)),
            declared => Self::declared(declared),
        }
    }

    fn declared(list_type: &'s ListType) -> Self {
        match list_type {
            ListType::Set => Self::Set,
            ListType::Map(keys) => Self::Keys(keys),
            ListType::Unset | ListType::Atomic | ListType::Granular => Self::Atomic,
        }
    }

    /// Returns the path element that identifies `item`; an error if there is none.
    pub(super) fn identify(self, element: &Ty, item: &Value) -> Result<PathElement, String> {
        match (self, item) {
            (Self::Atomic, _) => Err("invalid indexing of non-associative list".to_owned()),
            (Self::Keys(keys), Value::Object(object)) => {
                let mut fields = Vec::with_capacity(keys.len());
                for key in keys {
                    let field = element.message().and_then(|message| message.get(key));
                    let value = match (object.get(key), field) {
                        (Some(value), _) => Some(value.clone()),
                        (None, Some(field)) => default(field),
                        (None, None) => None,
                    };
                    fields.extend(value.map(|value| (key.clone(), value)));
                }
                if fields.is_empty() {
                    let keys: Vec<String> = keys.iter().map(|key| binnacle_meta::go_quote(key)).collect();
                    return Err(format!(
                        "associative list with keys has an element that omits all key fields [{}] (and doesn't have \
                         default values for any key fields)",
                        keys.join(" ")
                    ));
                }
                Ok(PathElement::key(fields))
            }
            (Self::Keys(_), Value::Null) => Err("associative list with keys may not have a null element".to_owned()),
            (Self::Keys(_), _) => Err("associative list with keys may not have non-map elements".to_owned()),
            (Self::Set, Value::Object(_)) => {
                Err("associative list without keys has an element that's a map type".to_owned())
            }
            (Self::Set, Value::List(_)) => Err("not supported: associative list with lists as elements".to_owned()),
            (Self::Set, Value::Null) => {
                Err("associative list without keys has an element that's an explicit null".to_owned())
            }
            (Self::Set, value) => Ok(PathElement::Value(value.clone())),
        }
    }
}

/// Returns the value of an absent key.
fn default(field: &Field) -> Option<Value> {
    match &field.default {
        Some(text) => json::parse(text.as_bytes(), &Limits::default()).ok(),
        None if field.zero_default => Some(zero_of(&field.ty).clone()),
        None => None,
    }
}

impl ValueShape {
    pub(super) fn of(value: &Value) -> Self {
        match value {
            Value::Null => Self::Any,
            Value::List(_) => Self::List,
            Value::Object(_) => Self::Map,
            _ => Self::Scalar,
        }
    }
}

/// Returns the value that an unset field of a typed Go struct has in comparisons; `None` for fields that are absent
/// there.
///
/// A zero struct is the empty object: the fields that it always encodes are added when it is compared.
pub(super) fn zero(field: &Field) -> Option<&'static Value> {
    match field.presence {
        Presence::OmitZero | Presence::Optional => None,
        Presence::AlwaysNull => Some(&Value::Null),
        Presence::Always => Some(zero_of(&field.ty)),
    }
}

fn zero_of(ty: &Ty) -> &'static Value {
    match ty {
        Ty::String => &ZEROS.text,
        Ty::Bool => &ZEROS.no,
        Ty::Int32 | Ty::Int64 | Ty::Uint32 | Ty::IntOrString | Ty::Double => &ZEROS.number,
        Ty::Duration => &ZEROS.duration,
        Ty::Quantity => &ZEROS.quantity,
        Ty::Message(_) => &ZEROS.object,
        _ => &Value::Null,
    }
}

/// The empty object.
pub(super) fn empty() -> &'static Value {
    &ZEROS.object
}

struct ZeroValues {
    text: Value,
    no: Value,
    number: Value,
    duration: Value,
    quantity: Value,
    object: Value,
}

static ZEROS: LazyLock<ZeroValues> = LazyLock::new(|| ZeroValues {
    text: Value::Str(Text::new_static("")),
    no: Value::Bool(false),
    number: Value::Int(0),
    duration: Value::Str(Text::new_static("0s")),
    quantity: Value::Str(Text::new_static("0")),
    object: Value::Object(binnacle_schema::Object::new()),
});
