//! CEL types from the OpenAPI documents of other servers.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_cel::{DeclField, DeclType, Shape, escape};
use binnacle_fields::apiextensions::v1::JSONSchemaProps as Props;
use binnacle_fields::meta::v1::{GroupVersionKind as Gvk, ObjectMeta, PartialObjectMetadata as AnyKind};
use binnacle_fields::types::{List, Map};
use binnacle_fields::{FieldRef, messages};
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_schema::Value;

use super::types::object;

messages! {
    Document { COMPONENTS: Components = "components" }

    Components { SCHEMAS: Map<Props> = "schemas" }

    /// The extension of schemas of kinds. All other members are those of schemas of custom resources.
    KindSchema { KINDS: List<Gvk> = "x-kubernetes-group-version-kind" }
}

/// A schema; no paths are reported.
type Schema<'d> = FieldRef<'static, 'd, Props>;

/// The maximum number of schemas that are visited per kind, and their maximum nesting, since references multiply both.
const MAX_SCHEMAS: usize = 50_000;
const MAX_DEPTH: usize = 100;

/// Returns the type of a kind in an OpenAPI v3 document. Nested types are named by their paths. `None` if the document
/// does not have the kind or has references that cannot be resolved.
pub(super) fn of_kind(document: &Value, kind: &GroupVersionKind) -> Option<DeclType> {
    let schemas = FieldRef::<Document>::root(document).at(Document::COMPONENTS).at(Components::SCHEMAS).detached();
    let (reference, schema) = schemas.entries().find(|(_, schema)| is_of(schema.cast(), kind))?;
    let mut schema_walk =
        SchemaWalk { schemas, ancestors: vec![reference], left: MAX_SCHEMAS, depth: 0, failed: false };
    let ty = schema_walk.ty(schema.detached(), &kind.kind, true);
    ty.filter(|_| !schema_walk.failed)
}

fn is_of(schema: FieldRef<KindSchema>, kind: &GroupVersionKind) -> bool {
    schema.at(KindSchema::KINDS).values().any(|other| {
        let text = |field| other.at(field).str();
        text(Gvk::GROUP) == kind.group && text(Gvk::VERSION) == kind.version && text(Gvk::KIND) == kind.kind
    })
}

struct SchemaWalk<'d> {
    schemas: FieldRef<'static, 'd, Map<Props>>,
    /// The names of the schemas that contain the current one.
    ancestors: Vec<&'d str>,
    left: usize,
    depth: usize,
    /// True if a reference could not be resolved or a limit was exceeded.
    failed: bool,
}

impl<'d> SchemaWalk<'d> {
    /// Returns the type of a value; `None` for types that expressions cannot use.
    fn ty(&mut self, schema: Schema<'d>, name: &str, is_root: bool) -> Option<DeclType> {
        if self.left == 0 || self.depth == MAX_DEPTH {
            self.failed = true;
            return None;
        }
        self.left -= 1;
        let Some(reference) = reference(schema) else { return self.plain(schema, name, is_root) };
        if self.ancestors.contains(&reference) {
            return Some(object(name, BTreeMap::new()));
        }
        if !self.schemas.has_key(reference) {
            self.failed = true;
            return None;
        }
        self.ancestors.push(reference);
        let ty = self.plain(self.schemas.key(reference).detached(), name, is_root);
        self.ancestors.pop();
        ty
    }

    /// Like [`SchemaWalk::ty`], for a schema that is not a reference.
    fn plain(&mut self, schema: Schema<'d>, name: &str, is_root: bool) -> Option<DeclType> {
        self.depth += 1;
        let ty = self.by_type(schema, name, is_root);
        self.depth -= 1;
        ty
    }

    fn by_type(&mut self, schema: Schema<'d>, name: &str, is_root: bool) -> Option<DeclType> {
        let format = schema.at(Props::FORMAT).str();
        if format == "int-or-string" || schema.at(Props::X_KUBERNETES_INT_OR_STRING).bool() {
            return Some(DeclType::new(Shape::IntOrString));
        }
        let shape = match (type_of(schema), format) {
            ("array", _) => {
                let items = schema.at(Props::ITEMS).detached().set()?.cast();
                return self.ty(items, &format!("{name}.@idx"), is_embedded(items)).map(DeclType::list);
            }
            ("object", _) => {
                if let Some(values) = schema.at(Props::ADDITIONAL_PROPERTIES).detached().schema() {
                    return self.ty(values, &format!("{name}.@elem"), is_embedded(values)).map(DeclType::map);
                }
                return Some(object(name, self.fields(schema, name, is_root)));
            }
            ("string", "byte") => Shape::Bytes,
            ("string", "duration") => Shape::Duration,
            ("string", "date") => Shape::Date,
            ("string", "date-time") => Shape::DateTime,
            ("string", _) => Shape::String,
            ("boolean", _) => Shape::Bool,
            ("number", _) => Shape::Double,
            ("integer", _) => Shape::Int,
            _ => return None,
        };
        Some(DeclType::new(shape))
    }

    fn fields(&mut self, schema: Schema<'d>, name: &str, is_root: bool) -> BTreeMap<Text, DeclField> {
        let required = schema.at(Props::REQUIRED);
        let mut fields = BTreeMap::new();
        for (property, schema) in schema.at(Props::PROPERTIES).entries() {
            let schema = schema.detached();
            let Some(ty) = self.ty(schema, &format!("{name}.{property}"), is_embedded(schema)) else { continue };
            if let Some(escaped) = escape(property) {
                let required = required.contains(property);
                fields.insert(escaped, DeclField { name: property.into(), ty, required });
            }
        }
        if is_root && !has_metadata(&fields) {
            let string = |name: &str| {
                let field = DeclField { name: name.into(), ty: DeclType::new(Shape::String), required: false };
                (Text::from(name), field)
            };
            let metadata = object(&format!("{name}.metadata"), NAMES.map(string).into());
            fields.extend(TYPE_META.map(string));
            fields.insert(METADATA.into(), DeclField { name: METADATA.into(), ty: metadata, required: false });
        }
        fields
    }
}

const TYPE_META: [&str; 2] = [AnyKind::KIND.name(), AnyKind::API_VERSION.name()];
const METADATA: &str = AnyKind::METADATA.name();
const NAMES: [&str; 2] = [ObjectMeta::NAME.name(), ObjectMeta::GENERATE_NAME.name()];

/// Returns true if a resource's fields include those that are always available to expressions: type and name.
fn has_metadata(fields: &BTreeMap<Text, DeclField>) -> bool {
    let is_string = |fields: &BTreeMap<Text, DeclField>, name: &str| {
        fields.get(name).is_some_and(|field| matches!(field.ty.shape, Shape::String))
    };
    let metadata = fields.get(METADATA).map(|field| &field.ty.shape);
    let is_named = matches!(metadata, Some(Shape::Object(metadata))
        if NAMES.iter().all(|name| is_string(&Arc::as_ref(metadata).fields, name)));
    is_named && TYPE_META.iter().all(|name| is_string(fields, name))
}

fn type_of<'d>(schema: Schema<'d>) -> &'d str {
    // OpenAPI 3.1 permits a list of types.
    match schema.at(Props::TYPE).value() {
        Value::List(types) => types.first().and_then(Value::as_str).unwrap_or_default(),
        ty => ty.as_str().unwrap_or_default(),
    }
}

fn is_embedded(schema: Schema<'_>) -> bool {
    schema.at(Props::X_KUBERNETES_EMBEDDED_RESOURCE).bool()
}

/// Returns the name of the schema that this one references, possibly wrapped in an `allOf` with a description.
fn reference<'d>(schema: Schema<'d>) -> Option<&'d str> {
    if let Some(reference) = schema.at(Props::REF).get_str() {
        return Some(reference.strip_prefix("#/components/schemas/").unwrap_or(reference));
    }
    schema.at(Props::ALL_OF).values().find_map(|part| part.at(Props::REF).is_set().then(|| reference(part)).flatten())
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Limits, json};

    use super::*;
    use crate::type_check::types::tests::check;

    fn kind() -> GroupVersionKind {
        GroupVersionKind::new("g.test", "v1", "Thing")
    }

    fn document(properties: &str, others: &str) -> Value {
        let document = format!(
            r##"{{"components":{{"schemas":{{{others}"Other":{{"type":"object"}},"Thing":{{"type":"object","properties":{{{properties}}},
            "x-kubernetes-group-version-kind":[{{"group":"g.test","version":"v1","kind":"Thing"}}]}}}}}}}}"##
        );
        json::parse(document.as_bytes(), &Limits::default()).expect("it is JSON")
    }

    #[test]
    fn checks_expressions_against_the_schema() {
        let properties = r##"
            "spec":{"allOf":[{"$ref":"#/components/schemas/Spec"}],"description":"d"},
            "again":{"$ref":"#/components/schemas/Thing"},
            "free":{"type":"object","x-kubernetes-preserve-unknown-fields":true},
            "labels":{"type":"object","additionalProperties":{"type":"string"}},
            "port":{"x-kubernetes-int-or-string":true},"at":{"type":"string","format":"date-time"},"no":{}"##;
        let others = r##""Spec":{"type":"object","properties":{"names":{"type":"array","items":{"type":"string"}},"size":{"type":"integer"}}},"##;
        let ty = of_kind(&document(properties, others), &kind()).expect("the kind is described");
        check(
            &ty,
            &[
                ("self.spec.names[0] == 'x' && self.spec.size > 1", None),
                ("self.metadata.name == self.kind && self.labels['a'] == 'b'", None),
                ("self.at > timestamp('2026-01-01T00:00:00Z') && self.port == 1", None),
                ("self.spec.size == 'x'", Some("no matching overload")),
                ("self.metadata.labels == null", Some("undefined field 'labels'")),
                ("self.free.any == 1", Some("undefined field 'any'")),
                ("self.again.spec == 1", Some("undefined field 'spec'")),
                ("self.no == 1", Some("undefined field 'no'")),
            ],
        );
    }

    #[test]
    fn rejects_documents_with_missing_or_too_many_schemas() {
        // Each schema references the next one twice.
        let many: String = (0..40)
            .map(|n| {
                let next = format!(r##"{{"$ref":"#/components/schemas/S{}"}}"##, n + 1);
                format!(r##""S{n}":{{"type":"object","properties":{{"a":{next},"b":{next}}}}},"##)
            })
            .collect();
        let many = format!(r##"{many}"S40":{{"type":"string"}},"##);
        for (properties, others) in [
            (r##""a":{"$ref":"#/components/schemas/Missing"}"##, ""),
            (r##""a":{"$ref":"#/components/schemas/S0"}"##, many.as_str()),
        ] {
            assert!(of_kind(&document(properties, others), &kind()).is_none(), "{properties}");
        }
        assert!(of_kind(&document("", ""), &GroupVersionKind::new("g.test", "v2", "Thing")).is_none());
        assert!(of_kind(&Value::Null, &kind()).is_none());
    }
}
