//! Field selectors: which fields of a kind can be selected by, how their values are computed from the stored object,
//! and under which labels each version's clients ask for them.

use binnacle_meta::Text;
use binnacle_schema::Value;

/// A field that watches and lists can be narrowed to.
#[derive(Clone, Copy, Debug)]
pub struct SelectableField {
    pub name: &'static str,
    pub value: FieldValue,
}

/// How the text of a selectable field comes out of an object in its storage version. An absent member counts as
/// the zero value of its Go type.
#[derive(Clone, Copy, Debug)]
pub enum FieldValue {
    /// A string, else `""`.
    Text(&'static [&'static str]),
    /// `true` or `false`.
    Bool(&'static [&'static str]),
    /// A number, else `0`.
    Int(&'static [&'static str]),
    /// From these fields.
    Computed { reads: &'static [&'static [&'static str]], value: fn(&Value) -> Text },
}

/// The labels that requests of one version may use in a field selector.
#[derive(Clone, Copy, Debug)]
pub struct FieldLabels {
    /// Label as asked for, and name of the selectable field it stands for. A label may stand for a field that the
    /// kind never computes (`status.podIPs`): its value is always empty.
    pub labels: &'static [(&'static str, &'static str)],
    /// How the refusal of another label reads.
    pub unknown: UnknownLabel,
}

/// Forms of the message about a label that is not in the list.
#[derive(Clone, Copy, Debug)]
pub enum UnknownLabel {
    /// Kinds without a rule of their own.
    NotKnown,
    /// `field label not supported: X`.
    NotSupported,
    /// `field label "X" not supported for KIND`.
    QuotedNotSupportedFor(&'static str),
    /// `field label not supported for GROUP/VERSION, Kind=KIND: X`.
    NotSupportedFor(&'static str),
}

/// Of namespaced kinds.
pub(crate) const METADATA: &[SelectableField] = &[NAME, NAMESPACE];
/// Of cluster-scoped kinds.
pub(crate) const METADATA_NAME: &[SelectableField] = &[NAME];
pub(crate) const NAME: SelectableField = text("metadata.name", &["metadata", "name"]);
pub(crate) const NAMESPACE: SelectableField = text("metadata.namespace", &["metadata", "namespace"]);

pub(crate) const fn text(name: &'static str, path: &'static [&'static str]) -> SelectableField {
    SelectableField { name, value: FieldValue::Text(path) }
}

pub(crate) const fn boolean(name: &'static str, path: &'static [&'static str]) -> SelectableField {
    SelectableField { name, value: FieldValue::Bool(path) }
}

pub(crate) const fn int(name: &'static str, path: &'static [&'static str]) -> SelectableField {
    SelectableField { name, value: FieldValue::Int(path) }
}

pub(crate) const fn computed(
    name: &'static str,
    reads: &'static [&'static [&'static str]],
    value: fn(&Value) -> Text,
) -> SelectableField {
    SelectableField { name, value: FieldValue::Computed { reads, value } }
}

impl SelectableField {
    /// The field's text in an object of the storage version.
    pub fn of(&self, object: &Value) -> Text {
        match self.value {
            FieldValue::Text(path) => match object.at(path) {
                Some(Value::Str(text)) => text.clone(),
                _ => Text::default(),
            },
            FieldValue::Bool(path) => Text::new_static(if object.bool_at(path) { "true" } else { "false" }),
            FieldValue::Int(path) => match object.int_at(path) {
                None | Some(0) => Text::new_static("0"),
                Some(n) => Text::from(n.to_string()),
            },
            FieldValue::Computed { value, .. } => value(object),
        }
    }
}

impl FieldValue {
    /// The fields of the object that the value comes from.
    pub fn reads(&self) -> &[&'static [&'static str]] {
        match self {
            Self::Text(path) | Self::Bool(path) | Self::Int(path) => std::slice::from_ref(path),
            Self::Computed { reads, .. } => reads,
        }
    }
}

impl FieldLabels {
    /// Kinds without a rule of their own, cluster-scoped ones too.
    pub const METADATA: Self = Self {
        labels: &[("metadata.name", "metadata.name"), ("metadata.namespace", "metadata.namespace")],
        unknown: UnknownLabel::NotKnown,
    };

    /// The name of the selectable field that a client's label stands for, or the message that refuses it.
    pub fn resolve(&self, label: &str) -> Result<&'static str, String> {
        match self.labels.iter().find(|(asked, _)| *asked == label) {
            Some((_, field)) => Ok(field),
            None => Err(self.unknown.message(label)),
        }
    }
}

impl UnknownLabel {
    pub fn message(self, label: &str) -> String {
        let quoted = binnacle_meta::go_quote(label);
        match self {
            Self::NotKnown => {
                format!(r#"{quoted} is not a known field selector: only "metadata.name", "metadata.namespace""#)
            }
            Self::NotSupported => format!("field label not supported: {label}"),
            Self::QuotedNotSupportedFor(kind) => format!("field label {quoted} not supported for {kind}"),
            Self::NotSupportedFor(kind) => format!("field label not supported for {kind}: {label}"),
        }
    }
}
