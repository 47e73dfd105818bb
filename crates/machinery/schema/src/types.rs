//! The schema of a kind as data: messages, their fields in the order of the API's Go structs, and everything that the
//! API declares for a field.
//!
//! Built-in messages are statics that the build of the `kinds` crate generates from field tables; messages of custom
//! resources are built at run time from the same types.

mod lookup;
pub(crate) mod plan;

use std::borrow::Cow;
use std::fmt;
use std::ops::Deref;
use std::sync::{Arc, OnceLock};

use binnacle_meta::Text;

use lookup::Lookup;
use plan::Plan;

/// A struct: the root of a kind or a nested object with known fields.
#[derive(Debug)]
pub struct Message {
    /// The OpenAPI definition name, such as `io.k8s.api.core.v1.PodSpec`.
    pub name: Text,
    /// In Go struct order, embedded structs flattened as in JSON.
    pub fields: Cow<'static, [Field]>,
    /// `x-kubernetes-map-type: atomic` on the definition itself: server-side apply replaces the struct as a whole.
    pub atomic: bool,
    /// The type of members that are not among the fields: custom resources may preserve unknown ones. `None` if these
    /// are not allowed, as in all built-in kinds.
    pub additional: Option<Box<Ty>>,
    /// The type of list elements in a schema of a custom resource that has no `type`, so that scalars and lists are
    /// allowed as well as objects. `None` if only objects are.
    pub untyped: Option<Box<Ty>>,
    /// `x-kubernetes-unions`, published but not enforced.
    pub unions: Cow<'static, [Union]>,
    /// Go's types of fields whose [`Ty`] does not determine them, by JSON name, for the errors of Go's decoder.
    pub(crate) go_types: &'static [(&'static str, &'static str)],
    /// The fields prepared for protobuf on first use; they must not change afterwards.
    pub(crate) plan: OnceLock<Plan>,
    /// The fields by name, prepared on first use.
    lookup: OnceLock<Lookup>,
}

/// A union of a struct: at most one of the fields is set, and the discriminator identifies it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// The JSON name of the discriminator, empty for none.
    pub discriminator: Text,
    /// JSON names of the fields, each with the discriminator's value for it, in the order of the names.
    pub fields: Cow<'static, [(Text, Text)]>,
}

/// A message that is static data, was built at run time, or is built at first use.
#[derive(Clone, Debug)]
pub enum MessageRef {
    Static(&'static Message),
    Shared(Arc<Message>),
    Lazy(Arc<dyn MessageSource>),
}

/// A message that is built on the first call and cached.
pub trait MessageSource: fmt::Debug + Send + Sync {
    fn message(&self) -> &Message;
}

impl Deref for MessageRef {
    type Target = Message;

    fn deref(&self) -> &Message {
        match self {
            Self::Static(message) => message,
            Self::Shared(message) => message,
            Self::Lazy(source) => source.message(),
        }
    }
}

#[derive(Clone, Debug)]
pub struct Field {
    /// The JSON name.
    pub name: Text,
    /// The protobuf field number, 0 for fields without one (inline `apiVersion` and `kind`, custom resources).
    pub tag: u32,
    /// The field numbers of the embedded messages that contain this field in protobuf, outermost first; mostly empty,
    /// one for `Volume.volumeSource`, two for the rule in `NamedRuleWithOperations.ruleWithOperations`. Protobuf always
    /// writes these messages. In JSON the members of an embedded struct are among those of its parent.
    pub embedded_in: &'static [u32],
    pub ty: Ty,
    pub presence: Presence,
    /// Listed in the `required` of the OpenAPI definition.
    pub required: bool,
    pub list_type: ListType,
    pub patch: PatchStrategy,
    /// The OpenAPI `default` as JSON text, unless it is the zero value of the type.
    pub default: Option<Cow<'static, str>>,
    /// True if the OpenAPI definition has the zero value (`""`, `0`, `false`, `{}`) as `default`: only for publishing,
    /// as it does not change objects.
    pub zero_default: bool,
    /// The allowed values of the field, or of its elements for a list.
    pub values: EnumValues,
    /// The constant text of the field: `apiVersion` and `kind` of a kind within an object. Protobuf has no number for
    /// it. Empty for all other fields.
    pub constant: &'static str,
}

/// The values of an enum; empty if any value is allowed.
pub type EnumValues = Cow<'static, [Text]>;

/// The type of a field, of a list's elements or of a map's values.
#[derive(Clone, Debug)]
pub enum Ty {
    String,
    Bool,
    Int32,
    Int64,
    /// An unsigned 64-bit number (not used by JSON clients beyond `i64`).
    Uint32,
    Double,
    /// Base64 in JSON, raw in protobuf; the tree holds the canonical base64 text.
    Bytes,
    /// `metav1.Time`: seconds in UTC; the tree holds the canonical RFC 3339 text.
    Time,
    /// `metav1.MicroTime`: six digits of a second.
    MicroTime,
    /// `metav1.Duration`: text such as `1m30s`; protobuf holds nanoseconds.
    Duration,
    /// `resource.Quantity`: the tree holds the canonical text.
    Quantity,
    /// A number or a string; the tree has the original type.
    IntOrString,
    /// `runtime.RawExtension`: an object without schema; protobuf holds its JSON. The tree has the original text
    /// ([`crate::Value::Raw`]) if a tree would be written differently.
    RawExtension,
    /// apiextensions' `JSON`: any value without schema; protobuf holds its JSON text.
    Json,
    /// `metav1.FieldsV1`: kept as JSON text ([`crate::Value::Raw`]), and parsed only by server-side apply.
    FieldsV1,
    /// apiextensions' `JSONSchemaPropsOrBool` and similar types: `{allows, schema}` in protobuf, one of two shapes in
    /// JSON. The message is the schema's.
    SchemaOrBool(MessageRef),
    /// `JSONSchemaPropsOrArray`: `{schema, jSONSchemas}` in protobuf.
    SchemaOrArray(MessageRef),
    /// `JSONSchemaPropsOrStringArray`: `{schema, property}` in protobuf.
    SchemaOrStrings(MessageRef),
    Message(MessageRef),
    List(Box<Ty>),
    /// A list with a list type of its own, where there is no field to have it: in lists and maps of custom resources.
    ListOf(Box<(Ty, ListType)>),
    StaticList(&'static Ty),
    /// A list that protobuf wraps in a message whose field 1 has the elements (`ExtraValue`, `Verbs`); an ordinary list
    /// in JSON. [`Ty::element`] treats it as a list.
    StaticWrappedList(&'static Ty),
    /// Keys are always strings.
    Map(Box<Ty>),
    StaticMap(&'static Ty),
}

/// The treatment of the zero value, which depends on the Go declaration of the field.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    /// A value with `omitempty`: zero is never written (`""`, `0`, `false`, an empty list or map) and counts as absent.
    /// A struct with `omitzero` is omitted if all of it is zero. Protobuf still writes scalars and structs.
    OmitZero,
    /// A pointer with `omitempty`: written if present, with any value.
    Optional,
    /// Always written: `""`, `0`, `false`, `{}` for a struct, `null` for a nil list, map, time or pointer.
    Always,
    /// A list or map without pointer and without `omitempty`, or a pointer without `omitempty`: `null` when nil. A
    /// present but empty list stays `[]` until it is stored.
    AlwaysNull,
}

/// `x-kubernetes-list-type` of a list, `x-kubernetes-map-type` of a map or struct.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    /// Not declared: lists are atomic, maps and structs granular.
    Unset,
    Atomic,
    /// Declared for a map or struct, where it means the same as `Unset`.
    Granular,
    Set,
    /// The keys of a list map, in order.
    Map(Cow<'static, [Text]>),
}

/// `x-kubernetes-patch-strategy` and `x-kubernetes-patch-merge-key`, for strategic merge patch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PatchStrategy {
    pub merge: bool,
    pub replace: bool,
    pub retain_keys: bool,
    /// Empty for none (a list of scalars is merged as a set).
    pub merge_key: Text,
}

impl PatchStrategy {
    pub const NONE: Self = Self { merge: false, replace: false, retain_keys: false, merge_key: Text::new_static("") };
}

impl Message {
    /// Creates a message that is not atomic and has no unions.
    pub fn new(name: impl Into<Text>, fields: impl Into<Cow<'static, [Field]>>) -> Self {
        let (name, fields) = (name.into(), fields.into());
        Self {
            name,
            fields,
            atomic: false,
            additional: None,
            untyped: None,
            unions: Cow::Borrowed(&[]),
            go_types: &[],
            plan: OnceLock::new(),
            lookup: OnceLock::new(),
        }
    }

    /// Creates a message of the field tables, for statics.
    pub const fn of_table(
        name: &'static str,
        fields: &'static [Field],
        atomic: bool,
        unions: &'static [Union],
    ) -> Self {
        Self {
            name: Text::new_static(name),
            fields: Cow::Borrowed(fields),
            atomic,
            additional: None,
            untyped: None,
            unions: Cow::Borrowed(unions),
            go_types: &[],
            plan: OnceLock::new(),
            lookup: OnceLock::new(),
        }
    }

    /// Sets Go's types of some fields, by JSON name: `("restartPolicy", "v1.RestartPolicy")`.
    pub const fn with_go_types(mut self, go_types: &'static [(&'static str, &'static str)]) -> Self {
        self.go_types = go_types;
        self
    }

    /// Returns true for a message from a CustomResourceDefinition, which may have changed since objects were stored.
    pub fn is_of_definition(&self) -> bool {
        matches!(self.fields, Cow::Owned(_))
    }

    /// Returns the fields prepared for protobuf.
    pub(crate) fn plan(&self) -> &Plan {
        self.plan.get_or_init(|| Plan::new(&self.fields))
    }

    /// Returns the field with this JSON name, and its index. `hint` is tried first: clients mostly send fields in
    /// order.
    #[inline]
    pub fn field(&self, name: &str, hint: usize) -> Option<(usize, &Field)> {
        let index = self.lookup().find(&self.fields, name, hint)?;
        Some((index, &self.fields[index]))
    }

    #[inline]
    pub(crate) fn lookup(&self) -> &Lookup {
        self.lookup.get_or_init(|| Lookup::new(&self.fields))
    }

    /// Returns the field with this JSON name.
    pub fn get(&self, name: &str) -> Option<&Field> {
        self.field(name, 0).map(|(_, field)| field)
    }
}

impl Field {
    /// Creates an optional field without protobuf number or other properties: the base for custom resources and tests
    /// (`Field { required: true, ..Field::new("name", Ty::String) }`).
    pub fn new(name: impl Into<Text>, ty: Ty) -> Self {
        Self {
            name: name.into(),
            tag: 0,
            embedded_in: &[],
            ty,
            presence: Presence::Optional,
            required: false,
            list_type: ListType::Unset,
            patch: PatchStrategy::NONE,
            default: None,
            zero_default: false,
            values: Cow::Borrowed(&[]),
            constant: "",
        }
    }

    /// Returns true if server-side apply replaces this map or struct as a whole, because of the field or its type.
    /// Lists are atomic unless their list type differs.
    pub fn is_atomic(&self) -> bool {
        self.list_type == ListType::Atomic
            || self.ty.message().is_some_and(|message| message.atomic)
            || (self.list_type == ListType::Unset && self.ty.element().is_some())
    }

    /// Returns true if server-side apply compares the items of this list as a whole. Older types only declare a patch
    /// strategy, which kube-apiserver uses as the list type.
    pub fn is_atomic_list(&self) -> bool {
        match self.list_type {
            ListType::Unset => !self.patch.merge,
            ListType::Atomic | ListType::Granular => true,
            ListType::Set | ListType::Map(_) => false,
        }
    }
}

impl Ty {
    /// Returns the type of a list's elements.
    pub fn element(&self) -> Option<&Ty> {
        match self {
            Self::List(inner) => Some(inner),
            Self::ListOf(list) => Some(&list.0),
            Self::StaticList(inner) | Self::StaticWrappedList(inner) => Some(inner),
            _ => None,
        }
    }

    /// Returns the type of a map's values.
    pub fn map_value(&self) -> Option<&Ty> {
        match self {
            Self::Map(inner) => Some(inner),
            Self::StaticMap(inner) => Some(inner),
            _ => None,
        }
    }

    /// Returns the message of a struct.
    pub fn message(&self) -> Option<&Message> {
        match self {
            Self::Message(message) => Some(message),
            _ => None,
        }
    }
}
