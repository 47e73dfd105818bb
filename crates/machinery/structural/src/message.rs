//! Conversion of structural schemas to messages for server-side apply: atomic values and the keys of list elements.

use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_schema::{Field, ListType as FieldListType, Message, MessageRef, Ty, json};

use crate::format::Format;
use crate::structural::{AdditionalProperties, ListType, MapType, SchemaType, Structural};

/// The part of a schema that server-side apply and field managers use.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SchemaScope {
    /// All of it.
    #[default]
    Schema,
    /// All of it, with any other fields at any depth, for definitions that preserve unknown fields.
    Preserving,
    /// Nothing, for a schema that is not structural.
    Nothing,
}

/// Returns the message of a resource for server-side apply and field managers. `object_meta` is the message of
/// metadata. Without a schema, the types of all members, including those of metadata, are deduced from their values.
pub fn message(
    name: impl Into<Text>,
    schema: Option<&Structural>,
    typing: SchemaScope,
    object_meta: &MessageRef,
) -> Message {
    // Metadata may have other fields as well, which are dropped later.
    let preserving = (typing == SchemaScope::Preserving).then(|| {
        let mut preserving = Message::new(object_meta.name.clone(), object_meta.fields.to_vec());
        preserving.additional = Some(Box::new(Ty::Json));
        MessageRef::Shared(Arc::new(preserving))
    });
    let view = MessageBuilder { object_meta: preserving.as_ref().unwrap_or(object_meta) };
    let Some(schema) = schema.filter(|_| typing != SchemaScope::Nothing) else {
        let mut message = Message::new(name, vec![]);
        message.additional = Some(Box::new(Ty::Json));
        return message;
    };
    let mut message = view.structure(schema, true, schema.preserve_unknown || typing == SchemaScope::Preserving);
    message.name = name.into();
    message
}

struct MessageBuilder<'m> {
    object_meta: &'m MessageRef,
}

impl MessageBuilder<'_> {
    /// Returns the members of every resource.
    fn resource_fields(&self) -> Vec<Field> {
        vec![
            Field::new("apiVersion", Ty::String),
            Field::new("kind", Ty::String),
            Field::new("metadata", Ty::Message(self.object_meta.clone())),
        ]
    }

    /// Returns the message of an object with properties. `preserve` is inherited from enclosing schemas.
    fn structure(&self, schema: &Structural, is_resource: bool, preserve: bool) -> Message {
        let mut fields: Vec<Field> = if is_resource { self.resource_fields() } else { Vec::new() };
        let own = schema.properties().filter(|(name, _)| !fields.iter().any(|field| field.name == **name));
        let own: Vec<Field> = own.map(|(name, property)| self.field(name, property, preserve)).collect();
        fields.extend(own);
        let additional = match &schema.additional {
            AdditionalProperties::Any(false) => None,
            AdditionalProperties::Any(true) => Some(Ty::Json),
            AdditionalProperties::Schema(additional) => Some(self.element(additional, preserve)),
            AdditionalProperties::Unset if preserve || fields.is_empty() => Some(Ty::Json),
            AdditionalProperties::Unset => None,
        };
        let mut message = Message::new("", fields);
        message.additional = additional.map(Box::new);
        message.atomic = schema.map_type == Some(MapType::Atomic);
        message
    }

    fn field(&self, name: &Text, schema: &Structural, preserve: bool) -> Field {
        let list_type = list_type_of(schema);
        let default = schema.default.as_deref().map(|default| json::to_string(default).into());
        Field { list_type, default, ..Field::new(name.clone(), self.ty(schema, preserve)) }
    }

    fn ty(&self, schema: &Structural, preserve: bool) -> Ty {
        let preserve = preserve || schema.preserve_unknown;
        let structured = schema.has_properties() || schema.embedded;
        match &schema.kind {
            Some(SchemaType::Boolean) => Ty::Bool,
            Some(SchemaType::Integer) => Ty::Int64,
            Some(SchemaType::Number) => Ty::Double,
            // If kube-apiserver's conversion does not map the format to a string, any scalar is accepted, as for times.
            Some(SchemaType::String) => match format_of(schema) {
                None | Some("" | "byte") => Ty::String,
                Some(_) => Ty::Time,
            },
            Some(SchemaType::Array) => match &schema.items {
                Some(items) => Ty::List(Box::new(self.element(items, preserve))),
                None => Ty::List(Box::new(Ty::Json)),
            },
            Some(SchemaType::Object) => match &schema.additional {
                // A message can be marked as atomic at any position.
                _ if structured || schema.map_type == Some(MapType::Atomic) => self.shared(schema, preserve),
                AdditionalProperties::Any(false) => self.shared(schema, preserve),
                AdditionalProperties::Schema(additional) => Ty::Map(Box::new(self.element(additional, preserve))),
                AdditionalProperties::Any(true) | AdditionalProperties::Unset => Ty::Map(Box::new(Ty::Json)),
            },
            None => self.untyped(schema, preserve),
            Some(SchemaType::Other(_)) => Ty::Json,
        }
    }

    /// Returns the type of a value of any kind whose members and elements may have schemas.
    fn untyped(&self, schema: &Structural, preserve: bool) -> Ty {
        let any = matches!(schema.additional, AdditionalProperties::Unset | AdditionalProperties::Any(true));
        if any && schema.items.is_none() && !schema.has_properties() && !schema.embedded {
            return Ty::Json;
        }
        let mut message = self.structure(schema, schema.embedded, preserve);
        let element = schema.items.as_ref().map_or(Ty::Json, |items| self.element(items, preserve));
        message.untyped = Some(Box::new(element));
        Ty::Message(MessageRef::Shared(Arc::new(message)))
    }

    /// Returns the type of elements or values, with the list type that fields have besides their type.
    fn element(&self, schema: &Structural, preserve: bool) -> Ty {
        match (self.ty(schema, preserve), list_type_of(schema)) {
            (Ty::List(inner), list_type @ (FieldListType::Set | FieldListType::Map(_))) => {
                Ty::ListOf(Box::new((*inner, list_type)))
            }
            (ty, _) => ty,
        }
    }

    fn shared(&self, schema: &Structural, preserve: bool) -> Ty {
        Ty::Message(MessageRef::Shared(Arc::new(self.structure(schema, schema.embedded, preserve))))
    }
}

fn list_type_of(schema: &Structural) -> FieldListType {
    match (schema.list_type, schema.map_type) {
        (Some(ListType::Set), _) => FieldListType::Set,
        (Some(ListType::Map), _) => FieldListType::Map(schema.list_map_keys.to_vec().into()),
        (Some(ListType::Atomic), _) | (None, Some(MapType::Atomic)) => FieldListType::Atomic,
        (None, Some(MapType::Granular)) => FieldListType::Granular,
        (None, None) => FieldListType::Unset,
    }
}

fn format_of(schema: &Structural) -> Option<&str> {
    schema.values.as_deref()?.format.as_deref().map(Format::as_str)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Interner;
    use binnacle_schema::value;

    #[test]
    fn builds_messages_for_server_side_apply() {
        let schema = value!({"type": "object", "properties": {
            "metadata": {"type": "object"},
            "spec": {"type": "object", "properties": {
                "ports": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["port"],
                    "items": {"type": "object", "properties": {"port": {"type": "integer", "default": 80i64}}},
                },
                "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
                "whole": {"type": "object", "x-kubernetes-map-type": "atomic", "additionalProperties": {"type": "string"}},
                "any": {"x-kubernetes-preserve-unknown-fields": true},
                "open": {"type": "object", "x-kubernetes-preserve-unknown-fields": true, "properties": {
                    "inner": {"type": "object", "properties": {"a": {"type": "string"}}},
                }},
                "free": {"type": "object"},
                "lists": {"type": "array", "items": {
                    "type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"},
                }},
                "sets": {"type": "object", "additionalProperties": {
                    "type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["a"],
                    "items": {"type": "object", "properties": {"a": {"type": "string"}}},
                }},
                "values": {
                    "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"a": {"type": "string"}},
                    "items": {"type": "object", "additionalProperties": {"type": "string"}},
                },
                "number": {"x-kubernetes-int-or-string": true, "additionalProperties": false},
                "either": {"x-kubernetes-int-or-string": true},
                "data": {"type": "string", "format": "byte"},
                "since": {"type": "string", "format": "date-time"},
            }},
        }});
        let schema = Structural::parse(&schema, &Interner::new()).unwrap();
        let meta = MessageRef::Shared(Arc::new(Message::new("ObjectMeta", vec![Field::new("name", Ty::String)])));
        let root = message("Test", Some(&schema), SchemaScope::Schema, &meta);
        let names: Vec<&str> = root.fields.iter().map(|field| field.name.as_str()).collect();
        assert_eq!(names, ["apiVersion", "kind", "metadata", "spec"]);
        assert_eq!(root.get("metadata").unwrap().ty.message().unwrap().name, "ObjectMeta");
        let spec = root.get("spec").unwrap().ty.message().unwrap();
        assert!(spec.additional.is_none());
        let ports = spec.get("ports").unwrap();
        assert_eq!(ports.list_type, FieldListType::Map(vec![Text::new("port")].into()));
        let port = ports.ty.element().unwrap().message().unwrap().get("port").unwrap();
        assert_eq!(port.default.as_deref(), Some("80"));
        assert_eq!(spec.get("set").unwrap().list_type, FieldListType::Set);
        assert!(spec.get("whole").unwrap().is_atomic());
        assert!(matches!(spec.get("any").unwrap().ty, Ty::Json));
        let open = spec.get("open").unwrap().ty.message().unwrap();
        assert!(matches!(open.additional.as_deref(), Some(Ty::Json)));
        // Unknown members are preserved in nested objects as well.
        assert!(open.get("inner").unwrap().ty.message().unwrap().additional.is_some());
        assert!(matches!(spec.get("free").unwrap().ty, Ty::Map(_)));
        let in_list = spec.get("lists").unwrap().ty.element().unwrap();
        assert!(matches!(in_list, Ty::ListOf(list) if list.1 == FieldListType::Set));
        let in_map = spec.get("sets").unwrap().ty.map_value().unwrap();
        assert!(matches!(in_map, Ty::ListOf(list) if list.1 == FieldListType::Map(vec![Text::new("a")].into())));
        let values = spec.get("values").unwrap().ty.message().unwrap();
        assert!(values.additional.is_some() && values.get("a").is_some());
        assert!(matches!(values.untyped.as_deref(), Some(Ty::Map(_))));
        let number = spec.get("number").unwrap().ty.message().unwrap();
        assert!(number.additional.is_none() && number.untyped.is_some());
        assert!(matches!(spec.get("either").unwrap().ty, Ty::Json));
        assert!(matches!(spec.get("data").unwrap().ty, Ty::String));
        assert!(matches!(spec.get("since").unwrap().ty, Ty::Time));
        // Of a schema that is not structural, not even the metadata is known.
        let nothing = message("Test", Some(&schema), SchemaScope::Nothing, &meta);
        assert!(nothing.fields.is_empty() && nothing.additional.is_some());
        let preserving = message("Test", Some(&schema), SchemaScope::Preserving, &meta);
        assert!(preserving.get("metadata").unwrap().ty.message().unwrap().additional.is_some());
        assert!(preserving.additional.is_some());
        assert!(preserving.get("spec").unwrap().ty.message().unwrap().additional.is_some());
    }
}
