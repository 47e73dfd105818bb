//! Definitions: the schemas of kinds, generated from the field tables for either version of OpenAPI.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_meta::Text;
use binnacle_schema::{Field, ListType, Message, Ty};
use binnacle_scheme::{Kinds, RegisteredKind};

use crate::json::Json;
use crate::{descriptions, enum_descriptions};

/// The version of OpenAPI that a definition is generated for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Dialect {
    /// References have no members beside them, and defaults are omitted.
    V2,
    V3,
}

/// The source of a document's definitions.
pub(crate) trait Definitions {
    /// Calls `found` with the names that the definition refers to.
    fn references(&self, name: &str, found: &mut dyn FnMut(Text));

    /// Writes the definition as a value.
    fn write(&self, name: &str, dialect: Dialect, json: &mut Json);
}

/// The definitions of the field tables.
pub(crate) struct BuiltIn<'k> {
    kinds: &'k dyn Kinds,
    /// By name of the definition.
    by_definition: BTreeMap<&'k str, Vec<RegisteredKind<'k>>>,
    /// The group version of the document; `None` for all.
    scope: Option<(Text, Text)>,
    /// True for documents of custom resources.
    for_custom: bool,
    /// True if enums include their values.
    shows_enums: bool,
}

/// Returns all names that are reachable from `roots`.
pub(crate) fn reachable(definitions: &dyn Definitions, roots: impl IntoIterator<Item = Text>) -> BTreeSet<Text> {
    let mut reached = BTreeSet::new();
    let mut pending: Vec<Text> = roots.into_iter().collect();
    while let Some(name) = pending.pop() {
        if reached.insert(name.clone()) {
            definitions.references(&name, &mut |found| pending.push(found));
        }
    }
    reached
}

impl Dialect {
    /// Returns the prefix of a name in a reference.
    pub(crate) fn prefix(self) -> &'static str {
        match self {
            Self::V2 => "#/definitions/",
            Self::V3 => "#/components/schemas/",
        }
    }

    /// Writes a member with a reference to a definition.
    pub(crate) fn reference(self, name: &str, json: &mut Json) {
        json.text_member("$ref", &format!("{}{name}", self.prefix()));
    }
}

// === impl BuiltIn ===

impl<'k> BuiltIn<'k> {
    /// `scope` is the group version of the document, if any: of the kinds that exist in every group version, only those
    /// of this group version and of the core group are included.
    pub(crate) fn new(kinds: &'k dyn Kinds, scope: Option<(&str, &str)>) -> Self {
        let mut by_definition: BTreeMap<&str, Vec<RegisteredKind<'_>>> = BTreeMap::new();
        for kind in kinds.all().into_iter().filter(|kind| !UNPUBLISHED.contains(&kind.group)) {
            by_definition.entry(kind.message.name.as_str()).or_default().push(kind);
        }
        let scope = scope.map(|(group, version)| (group.into(), version.into()));
        Self { kinds, by_definition, scope, for_custom: false, shows_enums: true }
    }

    /// Sets whether enums include their values.
    #[must_use]
    pub(crate) fn with_enum_values(self, shows_enums: bool) -> Self {
        Self { shows_enums, ..self }
    }

    /// Restricts the definitions to client-go's kinds, as in documents of custom resources.
    #[must_use]
    pub(crate) fn for_custom(self) -> Self {
        Self { for_custom: true, ..self }
    }

    fn is_shown(&self, kind: &RegisteredKind<'_>) -> bool {
        if self.for_custom && NOT_IN_CLIENT_GO.contains(&kind.group) {
            return false;
        }
        let Some((group, version)) = &self.scope else { return true };
        !SHARED_KINDS.contains(&kind.kind)
            || (kind.group, kind.version) == (group.as_str(), version.as_str())
            || (kind.group, kind.version) == ("", "v1")
    }

    fn message(&self, message: &Message, dialect: Dialect, json: &mut Json) {
        json.text_member("type", "object");
        let mut required = message.fields.iter().filter(|field| field.required).map(|field| &field.name).peekable();
        if required.peek().is_some() {
            json.texts_member("required", required);
        }
        if !message.fields.is_empty() {
            let mut fields: Vec<&Field> = message.fields.iter().collect();
            fields.sort_by(|a, b| a.name.cmp(&b.name));
            json.name("properties").object(|json| {
                for field in fields {
                    let values = if self.shows_enums { &field.values[..] } else { &[] };
                    json.name(&field.name).object(|json| property(message, field, values, dialect, json));
                }
            });
        }
        let kinds = self.by_definition.get(message.name.as_str()).map_or(&[][..], Vec::as_slice);
        let mut kinds = kinds.iter().filter(|kind| self.is_shown(kind)).peekable();
        if kinds.peek().is_some() {
            json.name("x-kubernetes-group-version-kind").list(|json| {
                for kind in kinds {
                    json.object(|json| {
                        json.text_member("group", kind.group);
                        json.text_member("kind", kind.kind);
                        json.text_member("version", kind.version);
                    });
                }
            });
        }
        if message.atomic {
            json.text_member("x-kubernetes-map-type", "atomic");
        }
        if !message.unions.is_empty() {
            json.name("x-kubernetes-unions").list(|json| {
                for union in message.unions.iter() {
                    json.object(|json| {
                        if !union.discriminator.is_empty() {
                            json.text_member("discriminator", &union.discriminator);
                        }
                        json.name("fields-to-discriminateBy").object(|json| {
                            for (field, value) in union.fields.iter() {
                                json.text_member(field, value);
                            }
                        });
                    });
                }
            });
        }
    }
}

impl Definitions for BuiltIn<'_> {
    fn references(&self, name: &str, found: &mut dyn FnMut(Text)) {
        let Some(message) = self.kinds.message(name) else { return };
        for field in message.fields.iter() {
            if let Some(name) = reference_of(innermost(&field.ty), &message.name) {
                found(name);
            }
        }
    }

    fn write(&self, name: &str, dialect: Dialect, json: &mut Json) {
        json.object(|json| {
            let message = self.kinds.message(name);
            if let Some(description) = binnacle_apimachinery::descriptions::definition(name) {
                json.text_member("description", description);
            } else if message.is_some_and(descriptions::is_list) {
                let list = name.rsplit('.').next().unwrap_or(name);
                let kind = list.strip_suffix("List").unwrap_or(list);
                json.text_member("description", &format!("{list} is a list of {kind} objects."));
            }
            match message {
                Some(message) => self.message(message, dialect, json),
                None => scalar_definition(name, dialect, json),
            }
        });
    }
}

/// Groups whose kinds have no resource, and the group of transformed objects.
const UNPUBLISHED: [&str; 3] = ["apidiscovery.k8s.io", "audit.k8s.io", "meta.k8s.io"];
/// Groups without types in client-go.
const NOT_IN_CLIENT_GO: [&str; 4] =
    ["admission.k8s.io", "apiextensions.k8s.io", "apiregistration.k8s.io", "imagepolicy.k8s.io"];
/// Kinds of every group version that are included in definitions.
const SHARED_KINDS: [&str; 2] = ["DeleteOptions", "WatchEvent"];

// === Fields ===

/// Writes a field; `values` are the included values of its enum.
fn property(message: &Message, field: &Field, values: &[Text], dialect: Dialect, json: &mut Json) {
    let description = description_of(message, field, values);
    if let Some(description) = &description {
        json.text_member("description", description);
    }
    let default = default(field).filter(|_| dialect == Dialect::V3);
    if let Some(reference) = reference_of(&field.ty, &message.name) {
        // In version 3 a reference must have no members beside it.
        let is_bare = description.is_none() && default.is_none() && !has_extensions(field);
        if let Some(default) = default {
            json.name("default").raw(default);
        }
        if dialect == Dialect::V2 || is_bare {
            dialect.reference(&reference, json);
        } else {
            json.name("allOf").list(|json| json.object(|json| dialect.reference(&reference, json)));
        }
    } else {
        plain(&field.ty, values, default, &message.name, dialect, json);
    }
    extensions(field, json);
}

/// Writes the type of a field that is not a reference.
fn plain(ty: &Ty, values: &[Text], default: Option<&str>, owner: &str, dialect: Dialect, json: &mut Json) {
    if let Some(reference) = reference_of(ty, owner) {
        dialect.reference(&reference, json);
    } else if let Some(element) = ty.element() {
        json.text_member("type", "array");
        json.name("items").object(|json| plain(element, values, default, owner, dialect, json));
    } else if let Some(value) = ty.map_value() {
        json.text_member("type", "object");
        json.name("additionalProperties").object(|json| plain(value, values, default, owner, dialect, json));
    } else {
        let (name, format) = scalar(ty);
        json.text_member("type", name);
        if !format.is_empty() {
            json.text_member("format", format);
        }
        if let Some(default) = default {
            json.name("default").raw(default);
        }
        if !values.is_empty() {
            json.texts_member("enum", values.iter());
        }
    }
}

/// Returns the default as JSON.
fn default(field: &Field) -> Option<&str> {
    if let Some(default) = &field.default {
        return Some(default);
    }
    field.zero_default.then(|| match scalar(&field.ty).0 {
        "string" => "\"\"",
        "boolean" => "false",
        "integer" | "number" => "0",
        _ => "{}",
    })
}

/// Returns the field's description; the description of an enum ends with its values and their meanings, one per line.
fn description_of(message: &Message, field: &Field, values: &[Text]) -> Option<String> {
    let text = binnacle_apimachinery::descriptions::field(&message.name, &field.name)
        .or_else(|| if descriptions::is_list(message) { descriptions::list_field(&field.name) } else { None });
    let is_enum = !values.is_empty() && field.ty.element().is_none() && field.ty.map_value().is_none();
    if !is_enum {
        return text.map(str::to_owned);
    }
    let mut text = text.unwrap_or_default().to_owned();
    if !text.is_empty() {
        text.push_str("\n\n");
    }
    text.push_str("Possible enum values:");
    for value in values {
        text.push_str(&format!("\n - `\"{value}\"`"));
        if let Some(description) = enum_descriptions::value(message, field, value) {
            text.push(' ');
            text.push_str(description);
        }
    }
    Some(text)
}

fn has_extensions(field: &Field) -> bool {
    let patch = &field.patch;
    field.list_type != ListType::Unset
        || patch.merge
        || patch.replace
        || patch.retain_keys
        || !patch.merge_key.is_empty()
}

fn extensions(field: &Field, json: &mut Json) {
    let is_map = field.ty.map_value().is_some() || reference_of(&field.ty, "").is_some();
    let kind = if is_map { "x-kubernetes-map-type" } else { "x-kubernetes-list-type" };
    match &field.list_type {
        ListType::Unset => {}
        ListType::Atomic => json.text_member(kind, "atomic"),
        ListType::Granular => json.text_member(kind, "granular"),
        ListType::Set => json.text_member(kind, "set"),
        ListType::Map(keys) => {
            json.texts_member("x-kubernetes-list-map-keys", keys.iter());
            json.text_member(kind, "map");
        }
    }
    let patch = &field.patch;
    if !patch.merge_key.is_empty() {
        json.text_member("x-kubernetes-patch-merge-key", &patch.merge_key);
    }
    let strategies = [(patch.merge, "merge"), (patch.replace, "replace"), (patch.retain_keys, "retainKeys")];
    let strategies: Vec<&str> = strategies.iter().filter(|(is, _)| *is).map(|(_, name)| *name).collect();
    if !strategies.is_empty() {
        json.text_member("x-kubernetes-patch-strategy", &strategies.join(","));
    }
}

// === Types ===

/// Returns the innermost element type of a list or map.
fn innermost(ty: &Ty) -> &Ty {
    ty.element().or_else(|| ty.map_value()).map_or(ty, innermost)
}

/// Returns the JSON type and format of a type other than a list, map or reference.
fn scalar(ty: &Ty) -> (&'static str, &'static str) {
    match ty {
        Ty::String => ("string", ""),
        Ty::Bool => ("boolean", ""),
        Ty::Int32 => ("integer", "int32"),
        Ty::Int64 | Ty::Uint32 => ("integer", "int64"),
        Ty::Double => ("number", "double"),
        Ty::Bytes => ("string", "byte"),
        _ => ("object", ""),
    }
}

/// Returns the definition that a type refers to; `owner` is the definition with the field.
fn reference_of(ty: &Ty, owner: &str) -> Option<Text> {
    let beside_owner = |name: &str| {
        let package = owner.rsplit_once('.').map_or("", |(package, _)| package);
        Some(Text::from(format!("{package}.{name}")))
    };
    let fixed = |name: &'static str| Some(Text::new_static(name));
    match ty {
        Ty::Message(message) => Some(message.name.clone()),
        Ty::Time => fixed(TIME),
        Ty::MicroTime => fixed(MICRO_TIME),
        Ty::Duration => fixed(DURATION),
        Ty::Quantity => fixed(QUANTITY),
        Ty::IntOrString => fixed(INT_OR_STRING),
        Ty::RawExtension => fixed(RAW_EXTENSION),
        Ty::FieldsV1 => fixed(FIELDS_V1),
        Ty::Json => beside_owner("JSON"),
        Ty::SchemaOrBool(_) => beside_owner("JSONSchemaPropsOrBool"),
        Ty::SchemaOrArray(_) => beside_owner("JSONSchemaPropsOrArray"),
        Ty::SchemaOrStrings(_) => beside_owner("JSONSchemaPropsOrStringArray"),
        _ => None,
    }
}

/// Writes a definition without fields.
fn scalar_definition(name: &str, dialect: Dialect, json: &mut Json) {
    let one_of = |json: &mut Json, types: [&str; 2]| {
        json.name("oneOf").list(|json| types.iter().for_each(|ty| json.object(|json| json.text_member("type", ty))));
    };
    match (name, dialect) {
        (TIME | MICRO_TIME, _) => {
            json.text_member("type", "string");
            json.text_member("format", "date-time");
        }
        (DURATION, _) | (QUANTITY, Dialect::V2) => json.text_member("type", "string"),
        (QUANTITY, Dialect::V3) => one_of(json, ["string", "number"]),
        (INT_OR_STRING, Dialect::V2) => {
            json.text_member("type", "string");
            json.text_member("format", "int-or-string");
        }
        (INT_OR_STRING, Dialect::V3) => {
            json.text_member("format", "int-or-string");
            one_of(json, ["integer", "string"]);
        }
        (RAW_EXTENSION | FIELDS_V1, _) => json.text_member("type", "object"),
        // Any value: an empty schema.
        _ => {}
    }
}

const TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Time";
const MICRO_TIME: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.MicroTime";
const DURATION: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.Duration";
const FIELDS_V1: &str = "io.k8s.apimachinery.pkg.apis.meta.v1.FieldsV1";
const QUANTITY: &str = "io.k8s.apimachinery.pkg.api.resource.Quantity";
const INT_OR_STRING: &str = "io.k8s.apimachinery.pkg.util.intstr.IntOrString";
const RAW_EXTENSION: &str = "io.k8s.apimachinery.pkg.runtime.RawExtension";
