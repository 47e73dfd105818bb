//! The tree of a schema: the type of every value, and its constraints.

use std::fmt;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::Value;

use crate::format::Format;
use crate::pattern::Pattern;

/// One node of a schema. Nodes never change and are shared: equal ones made by one [`Interner`](crate::Interner) are
/// the same.
///
/// Schemas within `allOf`, `anyOf`, `oneOf` and `not` are nodes as well; a structural schema says little more than
/// [`Structural::values`] there.
#[derive(Clone, Debug, Default)]
pub struct Structural {
    pub kind: Option<SchemaType>,
    /// True where `null` is a value.
    pub nullable: bool,
    /// `x-kubernetes-preserve-unknown-fields`.
    pub preserve_unknown: bool,
    /// `x-kubernetes-embedded-resource`: the object has `apiVersion`, `kind` and `metadata` whether the properties have
    /// them or not.
    pub embedded: bool,
    /// `x-kubernetes-int-or-string`.
    pub int_or_string: bool,
    pub list_type: Option<ListType>,
    pub map_type: Option<MapType>,
    pub additional: Additional,
    pub items: Option<Arc<Structural>>,
    /// Never null.
    pub default: Option<Box<Value>>,
    /// `x-kubernetes-list-map-keys`.
    pub list_map_keys: Box<[Text]>,
    pub values: Option<Box<Values>>,
    /// `x-kubernetes-validations`.
    pub rules: Box<[Rule]>,
    /// By name, in the order of the names.
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
    /// A word that is no type. Definitions which were stored before that was asked may have one; no value is of it.
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
pub enum Additional {
    #[default]
    Unset,
    Any(bool),
    Schema(Arc<Structural>),
}

/// Constraints on a value beside its type. Most schemas have few, so the rare ones are allocated apart.
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
    /// True where the maximum is too large already.
    pub exclusive_maximum: bool,
    /// True where the minimum is too small already.
    pub exclusive_minimum: bool,
}

/// Schemas of which a value is held against all, any, one or none.
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
    /// Empty where none is given, which means that the value is invalid.
    pub reason: Text,
    pub field_path: Text,
    pub optional_old_self: Option<bool>,
}

impl Structural {
    /// The schema of a property.
    pub fn property(&self, name: &str) -> Option<&Arc<Structural>> {
        let at = self.properties.binary_search_by(|(known, _)| known.as_str().cmp(name)).ok()?;
        Some(&self.properties[at].1)
    }

    /// The properties in the order of their names.
    pub fn properties(&self) -> impl ExactSizeIterator<Item = (&Text, &Arc<Structural>)> {
        self.properties.iter().map(|(name, schema)| (name, schema))
    }

    pub fn has_properties(&self) -> bool {
        !self.properties.is_empty()
    }

    /// The schema of properties that are not named.
    pub fn additional_schema(&self) -> Option<&Arc<Structural>> {
        match &self.additional {
            Additional::Schema(schema) => Some(schema),
            _ => None,
        }
    }

    /// The schema of a member: that of the property, or of all that are not named.
    pub fn member(&self, name: &str) -> Option<&Arc<Structural>> {
        self.property(name).or_else(|| self.additional_schema())
    }

    /// This schema with other properties.
    pub(crate) fn with_properties(&self, properties: Vec<(Text, Arc<Structural>)>) -> Self {
        let mut properties = properties;
        properties.sort_by(|a, b| a.0.cmp(&b.0));
        Self { properties: properties.into(), ..self.clone() }
    }

    /// True for the type `object`, and so for the others.
    pub fn is(&self, kind: &SchemaType) -> bool {
        self.kind.as_ref() == Some(kind)
    }

    /// The type as errors show it, empty for none.
    pub fn type_name(&self) -> &str {
        self.kind.as_ref().map_or("", SchemaType::as_str)
    }

    /// The required properties.
    pub fn required(&self) -> &[Text] {
        self.values.as_ref().map_or(&[], |values| &values.required)
    }

    /// True where a rule is found here or in a schema below, but not within `allOf`: kube-apiserver does not look
    /// there.
    pub fn has_rules(&self) -> bool {
        !self.rules.is_empty()
            || self.items.as_ref().is_some_and(|items| items.has_rules())
            || self.additional_schema().is_some_and(|additional| additional.has_rules())
            || self.properties.iter().any(|(_, property)| property.has_rules())
    }

    /// True where something holds for a schema here or below, within `allOf` and the like as well.
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
    /// A bound on the size of values, where there is one.
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
    /// All schemas.
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
    /// `None` for a word that is no list type, which means what no word means.
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
