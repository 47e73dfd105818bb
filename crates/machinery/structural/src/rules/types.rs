//! Conversion of schemas to CEL type declarations.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_cel::{DeclField, DeclType, ListKind, ObjectType, Shape, escape};
use binnacle_meta::Text;
use binnacle_schema::Value;

use crate::format::Format;
use crate::structural::{ListType, SchemaType, Size, Structural, Values};

/// The size of the largest request, which bounds the size of all values in it.
const MAX_REQUEST: u64 = 3 * 1024 * 1024;

/// Returns the CEL type of values of a schema. `None` if rules cannot access them: preserved values without a type, and
/// lists and maps of those.
///
/// Resources and embedded resources have a kind, an apiVersion and names, independent of the schema.
pub fn decl_type(schema: &Structural, is_root: bool) -> Option<DeclType> {
    convert(schema, is_root, Name(None))
}

/// Returns true if rules can access values of a schema, that is, if [`decl_type`] returns a type.
pub fn is_typed(schema: &Structural) -> bool {
    if schema.int_or_string {
        return true;
    }
    match (&schema.kind, &schema.items, schema.additional_schema()) {
        (None | Some(SchemaType::Other(_)), ..) | (Some(SchemaType::Array), None, _) => false,
        (Some(SchemaType::Array), Some(below), _) | (Some(SchemaType::Object), _, Some(below)) => is_typed(below),
        _ => true,
    }
}

/// The schema that determines the CEL type of a schema's values in its rules.
///
/// This is almost always the schema itself. But if enclosing rules need the type of the parent, kube-apiserver takes
/// the type of a member from that: names of resources lose their bounds, and `items` of an object have the type of that
/// object's values, or none.
#[derive(Clone, Debug)]
pub struct TypeSource(Arc<Structural>);

impl TypeSource {
    /// Returns the source of a schema on its own; `None` if rules cannot access its values. `is_resource` is true for
    /// schemas of resources, which implicitly have TypeMeta and metadata.
    pub fn new(schema: &Arc<Structural>, is_resource: bool) -> Option<Self> {
        if !is_typed(schema) {
            return None;
        }
        let listed = if is_resource { with_resource_fields(schema) } else { Cow::Borrowed(&**schema) };
        Some(match listed {
            Cow::Borrowed(_) => Self(schema.clone()),
            Cow::Owned(listed) => Self(Arc::new(listed)),
        })
    }

    /// Returns the source of a property; `None` if the type has no field for it.
    pub fn property(&self, name: &str) -> Option<Self> {
        let property = self.0.property(name)?;
        // The name must be a valid CEL identifier after escaping.
        (is_object(&self.0) && escape(name).is_some()).then(|| Self::new(property, property.embedded))?
    }

    /// Returns the source of all elements; `None` if the type has no elements.
    pub fn element(&self) -> Option<Self> {
        let element = match &self.0.kind {
            _ if self.0.int_or_string => None,
            Some(SchemaType::Array) => self.0.items.as_ref(),
            Some(SchemaType::Object) => self.0.additional_schema(),
            _ => None,
        }?;
        Self::new(element, element.embedded)
    }

    pub fn decl_type(&self) -> Option<DeclType> {
        decl_type(&self.0, false)
    }
}

fn is_object(schema: &Structural) -> bool {
    schema.is(&SchemaType::Object) && schema.additional_schema().is_none() && !schema.int_or_string
}

/// Returns true if the CEL type of a schema has elements: a list, or a map.
pub(super) fn has_elements(schema: &Structural) -> bool {
    let is_map = schema.is(&SchemaType::Object) && schema.additional_schema().is_some();
    !schema.int_or_string && (is_map || schema.is(&SchemaType::Array))
}

/// Returns true if the CEL type of a schema, if that `has_type`, has a field for this property.
pub(super) fn is_field(schema: &Structural, has_type: bool, name: &str, property: &Structural) -> bool {
    // A property whose name CEL cannot express is a separate value.
    (has_type && is_object(schema) || escape(name).is_none()) && is_typed(property)
}

/// The path of an object, which is the name of its type.
#[derive(Clone, Copy)]
struct Name<'n>(Option<(&'n Name<'n>, &'n str)>);

impl Name<'_> {
    fn text(&self) -> String {
        match self.0 {
            None => "selfType".to_owned(),
            Some((parent, step)) => format!("{}.{step}", parent.text()),
        }
    }
}

fn convert(schema: &Structural, is_resource: bool, name: Name<'_>) -> Option<DeclType> {
    let mut ty = shape_of(schema, is_resource, name)?;
    ty.nullable = schema.nullable;
    Some(ty)
}

fn shape_of(schema: &Structural, is_resource: bool, name: Name<'_>) -> Option<DeclType> {
    let none = Values::default();
    let values = schema.values.as_deref().unwrap_or(&none);
    let count = |n: i64| u64::try_from(n).unwrap_or(0);
    if schema.int_or_string {
        let longest = values.size(Size::MaxLength).map_or(MAX_REQUEST - 2, |max| count(max).saturating_mul(4));
        return Some(DeclType { max_elements: Some(longest), ..DeclType::new(Shape::IntOrString) });
    }
    let schema = if is_resource { with_resource_fields(schema) } else { Cow::Borrowed(schema) };
    match schema.kind.as_ref()? {
        SchemaType::Array => {
            let items = schema.items.as_deref()?;
            let element = convert(items, items.embedded, Name(Some((&name, "@idx"))))?;
            let max = values
                .size(Size::MaxItems)
                .map_or_else(|| (MAX_REQUEST - 2) / (element.min_serialized_size + 1), count);
            let kind = match schema.list_type {
                Some(ListType::Set) => ListKind::Set,
                Some(ListType::Map) => ListKind::Map(schema.list_map_keys.iter().map(escaped_or_plain).collect()),
                Some(ListType::Atomic) | None => ListKind::Atomic,
            };
            let list = DeclType::new(Shape::List { element: Arc::new(element), kind });
            Some(DeclType { max_elements: Some(max), ..list })
        }
        SchemaType::Object => match schema.additional_schema() {
            Some(additional) => {
                let value = convert(additional, additional.embedded, Name(Some((&name, "@elem"))))?;
                // An entry takes at least two quotes, a colon, a comma and two bytes for the value.
                let fits = || (MAX_REQUEST - 2) / (value.min_serialized_size + 6);
                let max = values.size(Size::MaxProperties).map_or_else(fits, count);
                Some(DeclType { max_elements: Some(max), ..DeclType::map(value) })
            }
            None => Some(object(&schema, name)),
        },
        SchemaType::String => Some(text(values)),
        SchemaType::Boolean => Some(DeclType::new(Shape::Bool)),
        SchemaType::Number => Some(DeclType::new(Shape::Double)),
        SchemaType::Integer => Some(DeclType::new(Shape::Int)),
        SchemaType::Other(_) => None,
    }
}

fn escaped_or_plain(name: &Text) -> Text {
    escape(name).unwrap_or_else(|| name.clone())
}

fn object(schema: &Structural, name: Name<'_>) -> DeclType {
    let mut fields = BTreeMap::new();
    // The braces.
    let mut size = 2;
    for (field, property) in schema.properties() {
        let escaped = escape(field);
        let step = escaped.as_deref().unwrap_or(field);
        let Some(ty) = convert(property, property.embedded, Name(Some((&name, step)))) else { continue };
        let required = schema.required().contains(field);
        if required && property.default.is_none() {
            // Quotes, a colon and a comma.
            size += field.len() as u64 + ty.min_serialized_size + 4;
        }
        if let Some(escaped) = escaped {
            fields.insert(escaped, DeclField { name: field.clone(), ty, required });
        }
    }
    let object = ObjectType { name: name.text().into(), fields };
    DeclType { min_serialized_size: size, ..DeclType::new(Shape::Object(Arc::new(object))) }
}

fn text(values: &Values) -> DeclType {
    let max_length = values.size(Size::MaxLength).map(|max| u64::try_from(max).unwrap_or(0));
    let (shape, max, min) = match values.format.as_deref().map(Format::as_str) {
        Some("byte") => (Shape::Bytes, max_length.unwrap_or(MAX_REQUEST - 2), 2),
        Some("duration") => (Shape::Duration, 32, 3),
        Some("date") => (Shape::Date, 12, 12),
        Some("date-time") => (Shape::DateTime, 32, 21),
        _ => {
            let listed = values.enumeration.iter().filter_map(Value::as_str).map(str::len).max().unwrap_or(0) as u64;
            let max = match max_length {
                // A character has up to four bytes.
                Some(max) => max.saturating_mul(4),
                None if !values.enumeration.is_empty() => listed,
                None => MAX_REQUEST - 2,
            };
            (Shape::String, max, 2)
        }
    };
    DeclType { max_elements: Some(max), min_serialized_size: min, ..DeclType::new(shape) }
}

/// Returns the schema of a resource with the members that every resource has.
fn with_resource_fields(schema: &Structural) -> Cow<'_, Structural> {
    let is = |schema: Option<&Arc<Structural>>, kind: SchemaType| schema.is_some_and(|schema| schema.is(&kind));
    let metadata = schema.property("metadata");
    let name = |name: &str| metadata.and_then(|metadata| metadata.property(name));
    let complete = is(schema.property("kind"), SchemaType::String)
        && is(schema.property("apiVersion"), SchemaType::String)
        && is(metadata, SchemaType::Object)
        && is(name("name"), SchemaType::String)
        && is(name("generateName"), SchemaType::String);
    if complete {
        return Cow::Borrowed(schema);
    }
    let text = Arc::new(Structural { kind: Some(SchemaType::String), ..Structural::default() });
    let names = ["name", "generateName"].map(|name| (Text::new_static(name), text.clone()));
    let metadata = Structural { kind: Some(SchemaType::Object), ..Structural::default() }.with_properties(names.into());
    let mut properties: Vec<_> = schema.properties().map(|(name, schema)| (name.clone(), schema.clone())).collect();
    properties.retain(|(name, _)| !matches!(name.as_str(), "kind" | "apiVersion" | "metadata"));
    properties.extend(["kind", "apiVersion"].map(|name| (Text::new_static(name), text.clone())));
    properties.push((Text::new_static("metadata"), Arc::new(metadata)));
    Cow::Owned(schema.with_properties(properties))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interner;
    use binnacle_schema::value;

    fn ty(schema: Value) -> Option<DeclType> {
        decl_type(&Structural::parse(&schema, &Interner::new()).unwrap(), false)
    }

    #[test]
    fn computes_declared_sizes() {
        for (schema, max, min) in [
            (value!({"type": "string"}), Some(3_145_726), 2),
            (value!({"type": "string", "maxLength": 10i64}), Some(40), 2),
            (value!({"type": "string", "enum": ["a", "bcd"]}), Some(3), 2),
            (value!({"type": "string", "format": "date-time"}), Some(32), 21),
            (value!({"type": "string", "format": "byte", "maxLength": 10i64}), Some(10), 2),
            (value!({"x-kubernetes-int-or-string": true}), Some(3_145_726), 1),
            (value!({"type": "array", "items": {"type": "boolean"}}), Some(629_145), 2),
            (value!({"type": "array", "maxItems": 5i64, "items": {"type": "boolean"}}), Some(5), 2),
            (value!({"type": "object", "additionalProperties": {"type": "integer"}}), Some(449_389), 2),
            (
                value!({"type": "object", "required": ["a", "b"], "properties": {
                    "a": {"type": "string"}, "b": {"type": "integer", "default": 1i64}, "c": {"type": "integer"},
                }}),
                None,
                9,
            ),
        ] {
            let ty = ty(schema.clone()).unwrap();
            assert_eq!((ty.max_elements, ty.min_serialized_size), (max, min), "{schema:?}");
        }
        for schema in [
            value!({"x-kubernetes-preserve-unknown-fields": true}),
            value!({"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": true}}),
        ] {
            assert!(ty(schema).is_none());
        }
    }

    #[test]
    fn declares_type_meta_and_object_meta_of_resources() {
        let schema =
            value!({"type": "object", "properties": {"metadata": {"type": "object"}, "a-b": {"type": "integer"}}});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        let Shape::Object(object) = decl_type(&schema, true).unwrap().shape else { panic!("no object") };
        assert_eq!(object.fields.keys().collect::<Vec<_>>(), ["a__dash__b", "apiVersion", "kind", "metadata"]);
        let Shape::Object(metadata) = &object.fields["metadata"].ty.shape else { panic!("no object") };
        assert_eq!(metadata.name, "selfType.metadata");
        assert_eq!(metadata.fields.len(), 2);
    }
}
