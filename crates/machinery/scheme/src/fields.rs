//! Field selectors: the selectable fields of a kind, their values, which are computed from stored objects, and the
//! field labels of each version.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::Value;

/// A field for field selectors of lists and watches.
#[derive(Clone, Debug)]
pub struct SelectableField {
    pub name: Text,
    pub value: FieldValue,
}

/// The value of a selectable field, as text, computed from an object in its storage version. An absent member counts as
/// the zero value of its Go type.
#[derive(Clone, Debug)]
pub enum FieldValue {
    /// A string, else `""`.
    Text(&'static [&'static str]),
    /// `true` or `false`.
    Bool(&'static [&'static str]),
    /// A number, else `0`.
    Int(&'static [&'static str]),
    /// A string, boolean or number of a custom resource, as text; empty if absent.
    Member(Arc<[Text]>),
    /// Computed from these fields.
    Computed { reads: &'static [&'static [&'static str]], value: fn(&Value) -> Text },
}

/// The field labels that requests in one version may use in a field selector.
#[derive(Clone, Debug)]
pub struct FieldLabels {
    /// A field label and the name of its selectable field. A label may refer to a field that the kind does not compute
    /// (`status.podIPs`), whose value is always empty.
    labels: &'static [(&'static str, &'static str)],
    /// Labels that refer to the field of the same name.
    same: Vec<Text>,
    /// The form of the error for other labels.
    unknown: UnknownLabel,
}

/// Forms of the error for an unknown field label.
#[derive(Clone, Copy, Debug)]
pub enum UnknownLabel {
    /// For kinds without their own rule.
    NotKnown,
    /// `field label not supported: X`.
    NotSupported,
    /// `field label "X" not supported for KIND`.
    QuotedNotSupportedFor(&'static str),
    /// `field label not supported for GROUP/VERSION, Kind=KIND: X`.
    NotSupportedFor(&'static str),
}

/// The metadata fields of namespaced kinds.
pub const METADATA: &[SelectableField] = &[NAME, NAMESPACE];
/// The metadata fields of cluster-scoped kinds.
pub const METADATA_NAME: &[SelectableField] = &[NAME];
pub const NAME: SelectableField = text("metadata.name", &["metadata", "name"]);
pub const NAMESPACE: SelectableField = text("metadata.namespace", &["metadata", "namespace"]);

pub const fn text(name: &'static str, path: &'static [&'static str]) -> SelectableField {
    SelectableField { name: Text::new_static(name), value: FieldValue::Text(path) }
}

pub const fn boolean(name: &'static str, path: &'static [&'static str]) -> SelectableField {
    SelectableField { name: Text::new_static(name), value: FieldValue::Bool(path) }
}

pub const fn int(name: &'static str, path: &'static [&'static str]) -> SelectableField {
    SelectableField { name: Text::new_static(name), value: FieldValue::Int(path) }
}

pub const fn computed(
    name: &'static str,
    reads: &'static [&'static [&'static str]],
    value: fn(&Value) -> Text,
) -> SelectableField {
    SelectableField { name: Text::new_static(name), value: FieldValue::Computed { reads, value } }
}

impl SelectableField {
    /// Returns the text of the field in an object in the storage version.
    pub fn of(&self, object: &Value) -> Text {
        match &self.value {
            FieldValue::Text(path) => match object.at(path) {
                Some(Value::Str(text)) => text.clone(),
                _ => Text::default(),
            },
            FieldValue::Bool(path) => Text::new_static(if object.bool_at(path) { "true" } else { "false" }),
            FieldValue::Int(path) => match object.int_at(path) {
                None | Some(0) => Text::new_static("0"),
                Some(n) => Text::from(n.to_string()),
            },
            FieldValue::Member(path) => {
                let member = path.iter().try_fold(object, |value, name| value.get(name));
                match member {
                    Some(Value::Str(text)) => text.clone(),
                    Some(Value::Bool(value)) => Text::new_static(if *value { "true" } else { "false" }),
                    Some(Value::Int(n)) => Text::from(n.to_string()),
                    _ => Text::default(),
                }
            }
            FieldValue::Computed { value, .. } => value(object),
        }
    }
}

impl FieldValue {
    /// Returns the paths of the members that the value is computed from.
    pub fn reads(&self) -> Vec<Vec<&str>> {
        match self {
            Self::Text(path) | Self::Bool(path) | Self::Int(path) => vec![path.to_vec()],
            Self::Member(path) => vec![path.iter().map(Text::as_str).collect()],
            Self::Computed { reads, .. } => reads.iter().map(|path| path.to_vec()).collect(),
        }
    }
}

impl FieldLabels {
    /// For kinds without their own rule, including cluster-scoped ones.
    pub const METADATA: Self = Self::new(
        &[("metadata.name", "metadata.name"), ("metadata.namespace", "metadata.namespace")],
        UnknownLabel::NotKnown,
    );

    /// Creates labels, each with its field.
    pub const fn new(labels: &'static [(&'static str, &'static str)], unknown: UnknownLabel) -> Self {
        Self { labels, same: Vec::new(), unknown }
    }

    /// Creates labels equal to the names of these fields.
    pub const fn of_fields(same: Vec<Text>, unknown: UnknownLabel) -> Self {
        Self { labels: &[], same, unknown }
    }

    /// Returns the name of the selectable field for a client's label, or the error message.
    pub fn resolve(&self, label: &str) -> Result<&str, String> {
        if let Some(field) = self.same.iter().find(|field| *field == label) {
            return Ok(field);
        }
        match self.labels.iter().find(|(known, _)| *known == label) {
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

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits, json};

    use super::*;

    fn check(value: FieldValue, object: &str, want: &str) {
        let field = SelectableField { name: Text::new_static("f"), value };
        let object = json::parse(object.as_bytes(), &Limits::default()).expect("it is JSON");
        assert_eq!(field.of(&object), want, "{:?} of {object:?}", field.value);
    }

    #[test]
    fn absent_fields_have_the_zero_value_of_their_type() {
        let (text, flag, number) = (FieldValue::Text(&["a", "b"]), FieldValue::Bool(&["a"]), FieldValue::Int(&["a"]));
        for (value, object, want) in [
            (&text, r#"{"a": {"b": "x"}}"#, "x"),
            (&text, r#"{"a": {}}"#, ""),
            (&text, r#"{"a": "x"}"#, ""),
            (&text, r#"{"a": {"b": 1}}"#, ""),
            (&flag, r#"{"a": true}"#, "true"),
            (&flag, r#"{"a": false}"#, "false"),
            (&flag, "{}", "false"),
            (&number, r#"{"a": -7}"#, "-7"),
            (&number, r#"{"a": 0}"#, "0"),
            (&number, r#"{"a": null}"#, "0"),
        ] {
            check(value.clone(), object, want);
        }
    }

    #[test]
    fn fields_of_custom_resources_are_texts_booleans_or_integers() {
        let member = FieldValue::Member(["spec", "x"].map(Text::new_static).into());
        for (object, want) in [
            (r#"{"spec": {"x": "a"}}"#, "a"),
            (r#"{"spec": {"x": false}}"#, "false"),
            (r#"{"spec": {"x": 0}}"#, "0"),
            (r#"{"spec": {"x": 1.5}}"#, ""),
            (r#"{"spec": {"x": []}}"#, ""),
            ("{}", ""),
        ] {
            check(member.clone(), object, want);
        }
        assert_eq!(member.reads(), [["spec", "x"]]);
    }

    #[test]
    fn labels_resolve_to_fields_or_the_error_of_the_kind() {
        let aliases = |unknown| FieldLabels::new(&[("status.podIPs", "status.podIP")], unknown);
        let own = FieldLabels::of_fields(vec!["spec.x".into()], UnknownLabel::NotSupported);
        let only = r#"is not a known field selector: only "metadata.name", "metadata.namespace""#;
        for (labels, label, want) in [
            (&FieldLabels::METADATA, "metadata.namespace", Ok("metadata.namespace")),
            (&FieldLabels::METADATA, "spec.x", Err(format!(r#""spec.x" {only}"#))),
            (&own, "spec.x", Ok("spec.x")),
            (&own, "metadata.name", Err("field label not supported: metadata.name".to_owned())),
            (&aliases(UnknownLabel::NotKnown), "status.podIPs", Ok("status.podIP")),
            // The field that a label refers to is not itself a label.
            (
                &aliases(UnknownLabel::QuotedNotSupportedFor("Pod")),
                "status.podIP",
                Err(r#"field label "status.podIP" not supported for Pod"#.to_owned()),
            ),
            (
                &aliases(UnknownLabel::NotSupportedFor("g/v1, Kind=K")),
                "x",
                Err("field label not supported for g/v1, Kind=K: x".to_owned()),
            ),
        ] {
            assert_eq!(labels.resolve(label), want, "{label}");
        }
    }
}
