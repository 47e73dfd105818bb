//! The contents of a table, one to one with its text.

/// One API package: a group version, or a package that others share.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The prefix of the OpenAPI definition names, `io.k8s.api.apps.v1`.
    pub package: String,
    /// The `apiVersion` of its kinds, `apps/v1`; `None` for a package without kinds of its own.
    pub api_version: Option<String>,
    /// True when the kinds that exist in every group version (`ListOptions`, `WatchEvent`) exist in this one.
    pub options: bool,
    /// Ordered by name.
    pub messages: Vec<Message>,
}

/// A structure of the package.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    /// The name within the package, `DeploymentSpec`.
    pub name: String,
    /// The `apiVersion`s in which it is a kind of its name.
    pub kinds: Vec<KindOf>,
    /// `x-kubernetes-map-type: atomic`.
    pub atomic: bool,
    pub unions: Vec<Union>,
    /// In Go order, embedded structs flattened.
    pub fields: Vec<Field>,
}

/// One claim of a message to be a kind.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum KindOf {
    /// Of the table's own `apiVersion`.
    Own,
    /// Of another (`Status` of the meta package is `v1`).
    Other(String),
    /// Of every group version that has options.
    Every,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Union {
    /// Empty for none.
    pub discriminator: String,
    /// The JSON name of a field and the discriminator's value for it.
    pub fields: Vec<(String, String)>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Field {
    /// The JSON name.
    pub name: String,
    /// The protobuf field number, 0 for none.
    pub tag: u32,
    /// The numbers of the embedded messages around it, outermost first.
    pub embedded_in: Vec<u32>,
    pub ty: Ty,
    pub presence: Presence,
    pub required: bool,
    pub list_type: ListType,
    pub patch: Patch,
    pub default: DefaultValue,
    /// The values of an enum, of the field or of its elements.
    pub values: Vec<String>,
    /// The Go type as its decoder names it in errors, where `ty` does not say it: `v1.RestartPolicy`. Empty for none.
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
    /// The message's OpenAPI definition name, here and in the next.
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
    /// Empty for none.
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
    /// The name of the table's file without extension, by which other tables refer to it: `apps.v1`, `version`.
    pub fn stem(&self) -> &str {
        stem(&self.package)
    }
}

/// The last part of a package name, or the last two where the last is a version.
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
    /// The definition name of the message within, if there is one.
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
