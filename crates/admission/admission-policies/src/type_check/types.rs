//! CEL types from the schemas of kinds, which equal those that kube-apiserver derives from its OpenAPI documents.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_cel::{DeclField, DeclType, ObjectType, Shape, escape};
use binnacle_meta::Text;
use binnacle_schema::{Message, Ty};

/// Returns the type of a resource. Nested types are named by their paths.
pub(super) fn of_resource(kind: &str, message: &Message) -> DeclType {
    of_message(message, kind, &mut Vec::new())
}

/// Returns the type of a message. As in kube-apiserver, recursion ends with an object without fields.
fn of_message(message: &Message, name: &str, ancestors: &mut Vec<*const Message>) -> DeclType {
    let own = std::ptr::from_ref(message);
    if ancestors.contains(&own) {
        return object(name, BTreeMap::new());
    }
    ancestors.push(own);
    let mut fields = BTreeMap::new();
    for field in message.fields.iter() {
        let ty = of_ty(&field.ty, &format!("{name}.{}", field.name), ancestors);
        if let (Some(escaped), Some(ty)) = (escape(&field.name), ty) {
            fields.insert(escaped, DeclField { name: field.name.clone(), ty, required: field.required });
        }
    }
    ancestors.pop();
    object(name, fields)
}

/// Returns the type of a value; `None` for types without an OpenAPI schema, which expressions cannot use.
fn of_ty(ty: &Ty, name: &str, ancestors: &mut Vec<*const Message>) -> Option<DeclType> {
    if let Some(element) = ty.element() {
        return of_ty(element, &format!("{name}.@idx"), ancestors).map(DeclType::list);
    }
    if let Some(value) = ty.map_value() {
        return match value {
            // Any value is allowed, so the fields are unknown.
            Ty::Json => Some(object(name, BTreeMap::new())),
            value => of_ty(value, &format!("{name}.@elem"), ancestors).map(DeclType::map),
        };
    }
    Some(match ty {
        Ty::String | Ty::Duration => DeclType::new(Shape::String),
        Ty::Bool => DeclType::new(Shape::Bool),
        Ty::Int32 | Ty::Int64 | Ty::Uint32 => DeclType::new(Shape::Int),
        Ty::Double => DeclType::new(Shape::Double),
        Ty::Bytes => DeclType::new(Shape::Bytes),
        Ty::Time | Ty::MicroTime => DeclType::new(Shape::DateTime),
        Ty::IntOrString => DeclType::new(Shape::IntOrString),
        Ty::Message(message) => of_message(message, name, ancestors),
        Ty::RawExtension | Ty::FieldsV1 => object(name, BTreeMap::new()),
        // A quantity is a string or a number, and has no type in OpenAPI documents.
        _ => return None,
    })
}

pub(super) fn object(name: &str, fields: BTreeMap<Text, DeclField>) -> DeclType {
    DeclType::new(Shape::Object(Arc::new(ObjectType { name: name.into(), fields })))
}

#[cfg(test)]
pub(super) mod tests {
    use binnacle_schema::{Field, MessageRef};

    use super::*;

    /// Compiles expressions over a value of the type. Each must be valid or have an error that contains the text.
    pub(crate) fn check(ty: &DeclType, cases: &[(&str, Option<&str>)]) {
        let environment = binnacle_cel::Environment::new(binnacle_cel::Version::STORED).with_data("self", ty);
        for (expression, problem) in cases {
            let found = environment.compile(expression).err().map(|errors| errors.to_string());
            match (found, problem) {
                (None, None) => {}
                (Some(found), Some(problem)) => assert!(found.contains(problem), "{expression}: {found}"),
                (found, _) => panic!("{expression}: {found:?}"),
            }
        }
    }

    /// kube-apiserver replaces a reference to an enclosing schema with an object without fields.
    #[test]
    fn ends_recursive_types_with_an_empty_object() {
        let definition = "io.k8s.apiextensions-apiserver.pkg.apis.apiextensions.v1.JSONSchemaProps";
        let message = binnacle_kinds::tables::message(definition).unwrap();
        let ty = of_resource("Schema", message);
        check(
            &ty,
            &[
                ("has(self.properties) && self.properties.exists(name, name == 'a')", None),
                ("self.properties['a'].type == 'x'", Some("undefined field 'type'")),
                ("self.not.type == 'x'", Some("undefined field 'type'")),
                ("self.allOf[0].type == 'x'", Some("undefined field 'type'")),
                ("self.not == 1", Some("found no matching overload for '_==_' applied to '(Schema.not, int)'")),
                ("self.allOf == 1", Some("'(list(Schema.allOf.@idx), int)'")),
                ("self.properties == 1", Some("'(map(string, Schema.properties.@elem), int)'")),
                // These have no type in OpenAPI documents.
                ("self.items == 1", Some("undefined field 'items'")),
                ("self.additionalProperties == 1", Some("undefined field 'additionalProperties'")),
                ("self.default == 1", Some("undefined field 'default'")),
            ],
        );
    }

    #[test]
    fn derives_types_from_fields() {
        let inner = Message::new("", vec![Field::new("at", Ty::Time), Field::new("limit", Ty::Quantity)]);
        let fields = vec![
            Field::new("name", Ty::String),
            Field::new("list", Ty::List(Box::new(Ty::Message(MessageRef::Shared(Arc::new(inner)))))),
            Field::new("limits", Ty::Map(Box::new(Ty::Quantity))),
            Field::new("free", Ty::Map(Box::new(Ty::Json))),
        ];
        let ty = of_resource("Thing", &Message::new("Thing", fields));
        check(
            &ty,
            &[
                ("self.name == 'x' && self.list[0].at > timestamp('2026-01-01T00:00:00Z')", None),
                ("self.list[0].limit == '1'", Some("undefined field 'limit'")),
                ("self.limits['cpu'] == '1'", Some("undefined field 'limits'")),
                ("self.free.any == 1", Some("undefined field 'any'")),
                ("self.name == 1", Some("found no matching overload for '_==_' applied to '(string, int)'")),
            ],
        );
    }
}
