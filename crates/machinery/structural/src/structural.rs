//! Schemas as trees: the type of every value, and its constraints.

use std::fmt;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::Value;

use crate::format::Format;
use crate::pattern::Pattern;
use crate::weight::Weight;

/// A node of a structural schema. Nodes are immutable and shared: equal nodes of one [`Interner`](crate::Interner) are
/// identical.
///
/// Schemas within `allOf`, `anyOf`, `oneOf` and `not` are nodes as well; in a structural schema they have little
/// besides [`Structural::values`].
#[derive(Clone, Debug, Default)]
pub struct Structural {
    pub kind: Option<SchemaType>,
    /// True if `null` is valid.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`: the object has `apiVersion`, `kind` and `metadata`, even if the properties do
    /// not list them.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    pub list_type: Option<ListType>,
    pub map_type: Option<MapType>,
    pub additional: AdditionalProperties,
    pub items: Option<Arc<Structural>>,
    /// Never null.
    pub default: Option<Box<Value>>,
    /// The nodes, bytes and text of a copy of the default.
    pub(crate) default_weight: [u32; 3],
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Box<[Text]>,
    pub values: Option<Box<Values>>,
    /// `x-kubernetes-validations`.
    pub rules: Box<[Rule]>,
    /// Sorted by name.
    pub(crate) properties: Box<[(Text, Arc<Structural>)]>,
}

/// `type`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum SchemaType {
    Object,
    Array,
    String,
    Integer,
    Number,
    Boolean,
    /// An invalid type. Definitions stored before types were validated may have one, which no value matches.
    Other(Box<str>),
}

/// `x-kubernetes-list-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ListType {
    Atomic,
    Set,
    Map,
}

/// `x-kubernetes-map-type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MapType {
    Atomic,
    Granular,
}

/// `additionalProperties`.
#[derive(Clone, Debug, Default)]
pub enum AdditionalProperties {
    #[default]
    Unset,
    Any(bool),
    Schema(Arc<Structural>),
}

/// Constraints on a value besides its type. Most schemas have few, so rare ones are allocated separately.
#[derive(Clone, Debug, Default)]
pub struct Values {
    pub format: Option<Box<Format>>,
    pub pattern: Option<Arc<Pattern>>,
    pub enumeration: Box<[Value]>,
    pub required: Box<[Text]>,
    pub unique_items: bool,
    pub(crate) sizes: Box<[(Size, i64)]>,
    pub(crate) numbers: Option<Box<Numbers>>,
    pub(crate) alternatives: Option<Box<Alternatives>>,
}

/// A bound on the size of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Size {
    MaxLength,
    MinLength,
    MaxItems,
    MinItems,
    MaxProperties,
    MinProperties,
}

/// Constraints on numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Numbers {
    pub maximum: Option<f64>,
    pub minimum: Option<f64>,
    pub multiple_of: Option<f64>,
    /// `exclusiveMaximum`: the maximum itself is invalid.
    pub exclusive_maximum: bool,
    /// `exclusiveMinimum`: the minimum itself is invalid.
    pub exclusive_minimum: bool,
}

/// The schemas of `allOf`, `anyOf`, `oneOf` and `not`.
#[derive(Clone, Debug, Default)]
pub struct Alternatives {
    pub all_of: Box<[Arc<Structural>]>,
    pub any_of: Box<[Arc<Structural>]>,
    pub one_of: Box<[Arc<Structural>]>,
    pub not: Option<Arc<Structural>>,
}

/// One element of `x-kubernetes-validations`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Rule {
    pub rule: Text,
    pub message: Text,
    pub message_expression: Text,
    /// The reason of the error; an empty one means an invalid value.
    pub reason: Text,
    pub field_path: Text,
    pub optional_old_self: Option<bool>,
}

impl Structural {
    /// Returns the schema of a property.
    pub fn property(&self, name: &str) -> Option<&Arc<Structural>> {
        let at = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// Returns the properties, sorted by name.
    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&Text, &Arc<Structural>)> {
        self.properties.iter().map(|(name, schema)| (name, schema))
    }

    pub fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }

    /// Returns the schema of properties that are not listed.
    pub fn additional_schema(&self) -> Option<&Arc<Structural>> {
        match &self.additional {
            AdditionalProperties::Schema(schema) => Some(schema),
            _ => None,
        }
    }

    /// Returns the schema of a member: its property's, or that of unlisted properties.
    pub fn member(&self, name: &str) -> Option<&Arc<Structural>> {
        self.property(name).or_else(|| self.additional_schema())
    }

    /// Returns this schema with other properties.
    pub(crate) fn with_properties(&self, properties: Vec<(Text, Arc<Structural>)>) -> Self {
        let mut properties = properties;
        properties.sort_by(|a, b| a.0.cmp(&b.0));
        Self { properties: properties.into(), ..self.clone() }
    }

    pub(crate) fn set_default(&mut self, default: Option<Value>) {
        let Weight { nodes, bytes, text } = default.as_ref().map(Weight::of).unwrap_or_default();
        let narrow = |size| u32::try_from(size).unwrap_or(u32::MAX);
        self.default_weight = [u32::try_from(nodes).unwrap_or(u32::MAX), narrow(bytes), narrow(text)];
        self.default = default.map(Box::new);
    }

    /// Returns the cost of a copy of the default.
    pub(crate) fn default_weight(&self) -> Weight {
        let [nodes, bytes, text] = self.default_weight;
        Weight { nodes: nodes.into(), bytes: bytes as usize, text: text as usize }
    }

    /// Returns true if the schema has this type.
    pub fn is(&self, kind: &SchemaType) -> bool {
        self.kind.as_ref() == Some(kind)
    }

    /// Returns the type as errors show it, empty for none.
    pub fn type_name(&self) -> &str {
        self.kind.as_ref().map_or("", SchemaType::as_str)
    }

    /// Returns the required properties.
    pub fn required(&self) -> &[Text] {
        self.values.as_ref().map_or(&[], |values| &values.required)
    }

    /// Returns true if this schema or a nested one has a rule, ignoring `allOf` and the like as kube-apiserver does
    /// here.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
            || self.items.as_ref().is_some_and(|items| items.has_rules())
            || self.additional_schema().is_some_and(|additional| additional.has_rules())
            || self.properties.iter().any(|(_, property)| property.has_rules())
    }

    /// Returns true if a predicate holds for this schema or a nested one, including `allOf` and the like.
    pub fn any(&self, holds: &mut dyn FnMut(&Self) -> bool) -> bool {
        holds(self)
            || self.items.as_ref().is_some_and(|items| items.any(holds))
            || self.additional_schema().is_some_and(|additional| additional.any(holds))
            || self.properties.iter().any(|(_, property)| property.any(holds))
            || self
                .values
                .as_ref()
                .and_then(|values| values.alternatives())
                .is_some_and(|alternatives| alternatives.iter().any(|nested| nested.any(holds)))
    }
}

impl Values {
    /// Returns a bound on the size of values, if there is one.
    pub fn size(&self, which: Size) -> Option<i64> {
        self.sizes.iter().find(|(size, _)| *size == which).map(|(_, bound)| *bound)
    }

    pub fn numbers(&self) -> Option<&Numbers> {
        self.numbers.as_deref()
    }

    pub fn alternatives(&self) -> Option<&Alternatives> {
        self.alternatives.as_deref()
    }
}

impl Alternatives {
    /// Returns all schemas.
    pub fn iter(&self) -> impl Iterator<Item = &Arc<Structural>> {
        self.all_of.iter().chain(&self.any_of).chain(&self.one_of).chain(&self.not)
    }
}

impl SchemaType {
    pub fn new(name: &str) -> Self {
        match name {
            "object" => Self::Object,
            "array" => Self::Array,
            "string" => Self::String,
            "integer" => Self::Integer,
            "number" => Self::Number,
            "boolean" => Self::Boolean,
            other => Self::Other(other.into()),
        }
    }

    pub fn as_str(&self) -> &str {
        match self {
            Self::Object => "object",
            Self::Array => "array",
            Self::String => "string",
            Self::Integer => "integer",
            Self::Number => "number",
            Self::Boolean => "boolean",
            Self::Other(other) => other,
        }
    }
}

impl fmt::Display for SchemaType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl ListType {
    /// Returns `None` for an unknown list type, which counts as absent.
    pub(crate) fn new(name: &str) -> Option<Self> {
        match name {
            "atomic" => Some(Self::Atomic),
            "set" => Some(Self::Set),
            "map" => Some(Self::Map),
            _ => None,
        }
    }
}

impl MapType {
    pub(crate) fn new(name: &str) -> Option<Self> {
        match name {
            "atomic" => Some(Self::Atomic),
            "granular" => Some(Self::Granular),
            _ => None,
        }
    }
}
