//! The contents of a table, equivalent to its text.

/// One API package: a group version, or a package that others share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The prefix of the OpenAPI definition names, `io.k8s.api.apps.v1`.
    pub package: String,
    /// The `apiVersion` of its kinds, `apps/v1`; `None` for a package without kinds of its own.
    pub api_version: Option<String>,
    /// True if the kinds of every group version (`ListOptions`, `WatchEvent`) exist in this one.
    pub options: bool,
    /// Sorted by name.
    pub messages: Vec<Message>,
}

/// A structure of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The name within the package, `DeploymentSpec`.
    pub name: String,
    /// The `apiVersion`s in which the message is a kind.
    pub kinds: Vec<KindOf>,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic: bool,
    pub unions: Vec<Union>,
    /// In Go's order, with embedded structs flattened.
    pub fields: Vec<Field>,
}

/// An `apiVersion` in which a message is a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KindOf {
    /// The table's own `apiVersion`.
    Own,
    /// Another `apiVersion` (`Status` of the meta package is in `v1`).
    Other(String),
    /// Every group version with options.
    Every,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// Empty if there is none.
    pub discriminator: String,
    /// The JSON name of a field and the discriminator's value for it.
    pub fields: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The JSON name.
    pub name: String,
    /// The protobuf field number; 0 if there is none.
    pub tag: u32,
    /// The field numbers of the enclosing embedded messages, outermost first.
    pub embedded_in: Vec<u32>,
    pub ty: Ty,
    pub presence: Presence,
    pub required: bool,
    pub list_type: ListType,
    pub patch: Patch,
    pub default: DefaultValue,
    /// The enum values of the field or its elements.
    pub values: Vec<String>,
    /// The Go type in decoding errors, if `ty` does not determine it: `v1.RestartPolicy`. Empty if there is none.
    pub go_type: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ty {
    String,
    Bool,
    Int32,
    Int64,
    Uint32,
    Double,
    Bytes,
    Time,
    MicroTime,
    Duration,
    Quantity,
    IntOrString,
    RawExtension,
    Json,
    FieldsV1,
    /// The message's OpenAPI definition name, as in the next variant.
    SchemaOrBool(String),
    SchemaOrArray(String),
    SchemaOrStrings(String),
    Message(String),
    List(Box<Ty>),
    /// A list in a protobuf message of its own.
    WrappedList(Box<Ty>),
    Map(Box<Ty>),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Presence {
    OmitZero,
    Optional,
    Always,
    AlwaysNull,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListType {
    Unset,
    Atomic,
    Granular,
    Set,
    Map(Vec<String>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Patch {
    pub merge: bool,
    pub replace: bool,
    pub retain_keys: bool,
    /// Empty if there is none.
    pub merge_key: String,
}

/// The `default` of the OpenAPI definition.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DefaultValue {
    None,
    /// The zero value of the type.
    Zero,
    /// JSON text.
    Value(String),
}

impl Table {
    /// Returns the name of the table's file without extension, by which other tables refer to it: `apps.v1`, `version`.
    pub fn stem(&self) -> &str {
        stem(&self.package)
    }
}

/// Returns the last part of a package name, or the last two if the last is a version.
pub(crate) fn stem(package: &str) -> &str {
    let mut dots = package.rmatch_indices('.').map(|(at, _)| at);
    let Some(last) = dots.next() else { return package };
    let is_version = package[last + 1..].strip_prefix('v').is_some_and(|v| v.starts_with(|c: char| c.is_ascii_digit()));
    if !is_version {
        return &package[last + 1..];
    }
    dots.next().map_or(package, |before| &package[before + 1..])
}

impl Ty {
    /// Returns the definition name of the message within the type, if there is one.
    pub fn message(&self) -> Option<&str> {
        match self {
            Self::Message(name)
            | Self::SchemaOrBool(name)
            | Self::SchemaOrArray(name)
            | Self::SchemaOrStrings(name) => Some(name),
            Self::List(inner) | Self::WrappedList(inner) | Self::Map(inner) => inner.message(),
            _ => None,
        }
    }

    pub fn list(element: Ty) -> Self {
        Self::List(Box::new(element))
    }

    pub fn map(value: Ty) -> Self {
        Self::Map(Box::new(value))
    }
}
