//! Parsing of `openAPIV3Schema`, as decoded from a definition, into a tree of nodes.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::{Object, Value, json};

use crate::format::Format;
use crate::interner::Interner;
use crate::structural::{
    AdditionalProperties, Alternatives, ListType, MapType, Numbers, Rule, SchemaType, Size, Structural, Values,
};

/// The steps of parsing one schema.
const NODE: u64 = 100;

/// The error of a schema that cannot be parsed as a structural one; its text is kube-apiserver's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum UnsupportedKeyword {
    #[error("OpenAPIV3Schema '{0}' is not supported")]
    Keyword(&'static str),
    #[error("OpenAPIV3Schema 'items' must be a schema, but is an array")]
    ItemsArray,
    #[error("internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined")]
    PreserveFalse,
}

/// Checks that [`Structural::parse`] can parse a schema, without building it.
///
/// # Errors
/// The same as of [`Structural::parse`].
pub fn check(schema: &Value) -> Result<(), UnsupportedKeyword> {
    unsupported_keywords(schema)?;
    if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
        return Err(UnsupportedKeyword::PreserveFalse);
    }
    if matches!(present(schema, "items"), Some(Value::List(items)) if !items.is_empty()) {
        return Err(UnsupportedKeyword::ItemsArray);
    }
    for name in ["items", "additionalProperties", "not"] {
        if let Some(below @ Value::Object(_)) = schema.get(name) {
            check(below)?;
        }
    }
    for name in ["allOf", "anyOf", "oneOf"] {
        schema.list_at(&[name]).iter().try_for_each(check)?;
    }
    schema.object_at(&["properties"]).into_iter().flat_map(Object::iter).try_for_each(|(_, below)| check(below))
}

impl Structural {
    /// Parses a schema.
    ///
    /// # Errors
    /// Fails for keywords that structural schemas cannot have. The validation of definitions checks the other rules of
    /// structural schemas.
    pub fn parse(schema: &Value, interner: &Interner) -> Result<Arc<Self>, UnsupportedKeyword> {
        binnacle_work::pace(NODE);
        unsupported_keywords(schema)?;
        let values = values(schema, interner)?;
        if schema.get("x-kubernetes-preserve-unknown-fields").and_then(Value::as_bool) == Some(false) {
            return Err(UnsupportedKeyword::PreserveFalse);
        }
        let below = |schema: &Value| Self::parse(schema, interner);
        let items = match present(schema, "items") {
            Some(Value::List(items)) if !items.is_empty() => return Err(UnsupportedKeyword::ItemsArray),
            Some(items @ Value::Object(_)) => Some(below(items)?),
            _ => None,
        };
        let named = schema.object_at(&["properties"]).into_iter().flat_map(Object::iter);
        let named = named.map(|(name, property)| Ok((name.clone(), below(property)?)));
        let mut properties = named.collect::<Result<Vec<_>, _>>()?;
        properties.sort_by(|a, b| a.0.cmp(&b.0));
        let additional = match present(schema, "additionalProperties") {
            Some(Value::Bool(any)) => AdditionalProperties::Any(*any),
            Some(additional @ Value::Object(_)) => AdditionalProperties::Schema(below(additional)?),
            _ => AdditionalProperties::Unset,
        };
        let text = |name: &str| schema.str_at(&[name]);
        let is = |name: &str| schema.bool_at(&[name]);
        let kind = text("type");
        let mut node = Self {
            kind: (!kind.is_empty()).then(|| SchemaType::new(kind)),
            nullable: is("nullable"),
            preserve_unknown: is("x-kubernetes-preserve-unknown-fields"),
            embedded: is("x-kubernetes-embedded-resource"),
            int_or_string: is("x-kubernetes-int-or-string"),
            list_type: ListType::new(text("x-kubernetes-list-type")),
            map_type: MapType::new(text("x-kubernetes-map-type")),
            additional,
            items,
            default: None,
            default_weight: [0; 3],
            list_map_keys: texts(schema, "x-kubernetes-list-map-keys"),
            values: values.map(Box::new),
            rules: schema.list_at(&["x-kubernetes-validations"]).iter().map(rule).collect(),
            properties: properties.into(),
        };
        node.set_default(present(schema, "default").map(unpacked));
        Ok(interner.node(node))
    }
}

fn present<'a>(schema: &'a Value, name: &str) -> Option<&'a Value> {
    schema.get(name).filter(|value| !value.is_null())
}

fn texts(schema: &Value, name: &str) -> Box<[Text]> {
    schema.list_at(&[name]).iter().filter_map(Value::as_str).map(Text::new).collect()
}

/// Parses a value that a definition stores as raw JSON.
fn unpacked(value: &Value) -> Value {
    let mut value = value.clone();
    json::unpack(&mut value);
    value
}

fn unsupported_keywords(schema: &Value) -> Result<(), UnsupportedKeyword> {
    let is_text = |name: &&str| !schema.str_at(&[name]).is_empty();
    let is_filled = |name: &&str| schema.object_at(&[name]).is_some_and(|members| !members.is_empty());
    let keyword = ["id", "$schema", "$ref"].into_iter().find(is_text);
    let keyword = keyword.or_else(|| ["patternProperties", "dependencies"].into_iter().find(is_filled));
    let keyword = keyword.or_else(|| present(schema, "additionalItems").map(|_| "additionalItems"));
    match keyword.or_else(|| Some("definitions").filter(is_filled)) {
        Some("$schema") => Err(UnsupportedKeyword::Keyword("schema")),
        Some(keyword) => Err(UnsupportedKeyword::Keyword(keyword)),
        None => Ok(()),
    }
}

fn values(schema: &Value, interner: &Interner) -> Result<Option<Values>, UnsupportedKeyword> {
    let not = match present(schema, "not") {
        Some(not) => Some(Structural::parse(not, interner)?),
        None => None,
    };
    let nested = |name: &str| {
        let nested = schema.list_at(&[name]).iter();
        nested.map(|nested| Structural::parse(nested, interner)).collect::<Result<Box<[_]>, _>>()
    };
    let number = |name: &str| schema.get(name).and_then(Value::as_f64);
    const SIZES: [(&str, Size); 6] = [
        ("maxLength", Size::MaxLength),
        ("minLength", Size::MinLength),
        ("maxItems", Size::MaxItems),
        ("minItems", Size::MinItems),
        ("maxProperties", Size::MaxProperties),
        ("minProperties", Size::MinProperties),
    ];
    let sizes = SIZES.iter().filter_map(|(name, size)| Some((*size, schema.int_at(&[name])?)));
    let numbers = Numbers {
        maximum: number("maximum"),
        minimum: number("minimum"),
        multiple_of: number("multipleOf"),
        exclusive_maximum: schema.bool_at(&["exclusiveMaximum"]),
        exclusive_minimum: schema.bool_at(&["exclusiveMinimum"]),
    };
    let alternatives =
        Alternatives { all_of: nested("allOf")?, any_of: nested("anyOf")?, one_of: nested("oneOf")?, not };
    let has_alternatives = alternatives.iter().next().is_some();
    let (format, pattern) = (schema.str_at(&["format"]), schema.str_at(&["pattern"]));
    let values = Values {
        format: (!format.is_empty()).then(|| Box::new(Format::new(format))),
        pattern: (!pattern.is_empty()).then(|| interner.pattern(pattern)),
        enumeration: schema.list_at(&["enum"]).iter().map(unpacked).collect(),
        required: texts(schema, "required"),
        unique_items: schema.bool_at(&["uniqueItems"]),
        sizes: sizes.collect(),
        numbers: (numbers != Numbers::default()).then(|| Box::new(numbers)),
        alternatives: has_alternatives.then(|| Box::new(alternatives)),
    };
    let says = values.format.is_some()
        || values.pattern.is_some()
        || values.unique_items
        || values.numbers.is_some()
        || values.alternatives.is_some()
        || !(values.enumeration.is_empty() && values.required.is_empty() && values.sizes.is_empty());
    Ok(says.then_some(values))
}

fn rule(rule: &Value) -> Rule {
    let text = |name: &str| Text::new(rule.str_at(&[name]));
    Rule {
        rule: text("rule"),
        message: text("message"),
        message_expression: text("messageExpression"),
        reason: text("reason"),
        field_path: text("fieldPath"),
        optional_old_self: rule.get("optionalOldSelf").and_then(Value::as_bool),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn rejects_unsupported_keywords() {
        for (schema, want) in [
            (value!({"type": "object"}), ""),
            (value!({"$schema": "x"}), "OpenAPIV3Schema 'schema' is not supported"),
            (value!({"properties": {"a": {"$ref": "x"}}}), "OpenAPIV3Schema '$ref' is not supported"),
            (value!({"allOf": [{"definitions": {"a": {}}}]}), "OpenAPIV3Schema 'definitions' is not supported"),
            (value!({"items": [{}]}), "OpenAPIV3Schema 'items' must be a schema, but is an array"),
            (
                value!({"x-kubernetes-preserve-unknown-fields": false}),
                "internal error: 'x-kubernetes-preserve-unknown-fields' must be true or undefined",
            ),
        ] {
            let got = Structural::parse(&schema, &Interner::new()).err().map(|error| error.to_string());
            assert_eq!(got.unwrap_or_default(), want);
            assert_eq!(check(&schema).err().map(|error| error.to_string()).unwrap_or_default(), want);
        }
    }

    #[test]
    fn parses_supported_keywords() {
        let schema = value!({
            "type": "object",
            "required": ["b"],
            "additionalProperties": {"type": "integer", "maximum": 5i64},
            "properties": {"b": {"type": "array", "items": {"x-kubernetes-int-or-string": true}}, "a": {}},
            "default": (Value::Raw(r#"{"b":[1.0]}"#.into())),
        });
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        assert_eq!(schema.properties().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["a", "b"]);
        assert!(schema.property("b").unwrap().items.as_ref().unwrap().int_or_string);
        assert_eq!(schema.member("x").unwrap().values.as_ref().unwrap().numbers().unwrap().maximum, Some(5.0));
        assert_eq!(schema.default.as_deref(), Some(&value!({"b": [1.0]})));
        assert!(schema.property("a").unwrap().values.is_none());
    }
}
