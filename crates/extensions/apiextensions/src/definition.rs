//! The parts of a CustomResourceDefinition that serving its resources needs.

use std::sync::Arc;

use binnacle_meta::{Text, compare_kube_versions};
use binnacle_schema::Value;
use binnacle_structural::check;

use crate::source::{SchemaOrigin, SchemaSource};

/// A definition, read from an object of `apiextensions.k8s.io/v1`.
#[derive(Clone, Debug)]
pub struct Definition {
    /// The name of the object.
    pub name: Text,
    pub uid: Text,
    /// `metadata.generation`.
    pub generation: i64,
    pub group: Text,
    pub namespaced: bool,
    pub names: Names,
    /// `status.acceptedNames`.
    pub accepted: Names,
    /// In the object's order.
    pub versions: Vec<Version>,
    /// True for definitions of v1beta1 that preserve unknown fields.
    pub preserve_unknown: bool,
    /// `spec.conversion.webhook`, if that converts versions.
    pub webhook: Option<Value>,
    /// `status.conditions`.
    pub conditions: Vec<Value>,
    /// The place of the schemas of all versions.
    pub origin: Arc<SchemaOrigin>,
}

/// The names of a resource; empty if absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Names {
    pub plural: Text,
    pub singular: Text,
    pub kind: Text,
    pub list_kind: Text,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
}

/// One version of a definition.
#[derive(Clone, Debug)]
pub struct Version {
    pub name: Text,
    pub served: bool,
    pub storage: bool,
    /// The deprecation warning for users of the version.
    pub deprecation: Option<Text>,
    pub schema: Option<SchemaSource>,
    /// True if `/status` is served.
    pub status: bool,
    /// The paths of `/scale`, if that is served.
    pub scale: Option<Scale>,
    /// `additionalPrinterColumns`.
    pub columns: Vec<Value>,
    /// The paths of `selectableFields`.
    pub selectable: Vec<Text>,
}

/// The paths of the fields of `/scale`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scale {
    pub spec_replicas: Text,
    pub status_replicas: Text,
    /// Empty if there is none.
    pub label_selector: Text,
}

impl Definition {
    /// The paths in an object that [`Definition::part`] needs: all but the schemas, of which it needs to know
    /// whether there are any.
    pub const PARTS: &[&[&str]] = &[
        &["metadata", "name"],
        &["metadata", "uid"],
        &["metadata", "generation"],
        &["metadata", "deletionTimestamp"],
        &["metadata", "annotations"],
        &["metadata", "finalizers"],
        &["spec", "group"],
        &["spec", "names"],
        &["spec", "scope"],
        &["spec", "conversion"],
        &["spec", "preserveUnknownFields"],
        &["spec", "versions", "name"],
        &["spec", "versions", "served"],
        &["spec", "versions", "storage"],
        &["spec", "versions", "deprecated"],
        &["spec", "versions", "deprecationWarning"],
        &["spec", "versions", "subresources"],
        &["spec", "versions", "additionalPrinterColumns"],
        &["spec", "versions", "selectableFields"],
        &["spec", "versions", "schema", "openAPIV3Schema", "properties", ""],
        &["status"],
    ];

    /// Reads a whole validated object, with its schemas; missing members are empty.
    pub fn read(object: &Value) -> Self {
        let schemas = object.list_at(&["spec", "versions"]).iter().map(|version| version.at(&SCHEMA).cloned());
        let mut definition = Self::part(object, Arc::new(SchemaOrigin::of_trees(schemas.collect())));
        definition.check(object);
        definition
    }

    /// Reads an object, or a part of it with [`Definition::PARTS`]. Its schemas are read from their origin when they
    /// are needed.
    pub fn part(object: &Value, origin: Arc<SchemaOrigin>) -> Self {
        let text = |path: &[&str]| Text::from(object.str_at(path));
        let group = text(&["spec", "group"]);
        let kind = text(&["spec", "names", "kind"]);
        let versions = object.list_at(&["spec", "versions"]);
        let read = |(n, version): (usize, &Value)| Version::read(version, n, &origin, (&group, &kind), versions);
        Self {
            name: text(&["metadata", "name"]),
            uid: text(&["metadata", "uid"]),
            generation: object.int_at(&["metadata", "generation"]).unwrap_or(0),
            namespaced: object.str_at(&["spec", "scope"]) == "Namespaced",
            names: Names::read(object.at(&["spec", "names"])),
            accepted: Names::read(object.at(&["status", "acceptedNames"])),
            versions: versions.iter().enumerate().map(read).collect(),
            preserve_unknown: object.bool_at(&["spec", "preserveUnknownFields"]),
            webhook: (object.str_at(&["spec", "conversion", "strategy"]) == "Webhook")
                .then(|| object.at(&["spec", "conversion", "webhook"]).cloned().unwrap_or_default()),
            conditions: object.list_at(&["status", "conditions"]).to_vec(),
            group,
            origin,
        }
    }

    /// Finds the schemas of a whole object that cannot be served.
    pub fn check(&mut self, object: &Value) {
        for (version, read) in object.list_at(&["spec", "versions"]).iter().zip(&mut self.versions) {
            if let (Some(tree), Some(source)) = (version.at(&SCHEMA), &mut read.schema) {
                source.unsupported = check(tree).err();
            }
        }
    }

    /// Returns true if an object is being deleted.
    pub fn is_deleting(object: &Value) -> bool {
        object.at(&["metadata", "deletionTimestamp"]).is_some_and(|time| !time.is_null())
    }

    /// Returns true if the definition has the condition with the status `True`.
    pub fn is(&self, condition: &str) -> bool {
        self.condition(condition).is_some_and(|found| found.str_at(&["status"]) == "True")
    }

    pub fn condition(&self, kind: &str) -> Option<&Value> {
        self.conditions.iter().find(|condition| condition.str_at(&["type"]) == kind)
    }

    /// Returns the authorities for the certificate of the conversion webhook, in base64.
    pub fn webhook_authorities(&self) -> &str {
        self.webhook.as_ref().map_or("", |webhook| webhook.str_at(&["clientConfig", "caBundle"]))
    }

    /// Returns the version in which objects are stored.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl Names {
    fn read(names: Option<&Value>) -> Self {
        let Some(names) = names else { return Self::default() };
        let text = |name| Text::from(names.str_at(&[name]));
        let list = |name| names.list_at(&[name]).iter().filter_map(Value::as_str).map(Text::from).collect();
        Self {
            plural: text("plural"),
            singular: text("singular"),
            kind: text("kind"),
            list_kind: text("listKind"),
            short_names: list("shortNames"),
            categories: list("categories"),
        }
    }

    /// Returns the names as in `acceptedNames`.
    pub fn to_value(&self) -> Value {
        let mut names = binnacle_schema::Object::new();
        names.insert("plural", self.plural.clone());
        if !self.singular.is_empty() {
            names.insert("singular", self.singular.clone());
        }
        if !self.short_names.is_empty() {
            names.insert("shortNames", self.short_names.clone());
        }
        names.insert("kind", self.kind.clone());
        if !self.list_kind.is_empty() {
            names.insert("listKind", self.list_kind.clone());
        }
        if !self.categories.is_empty() {
            names.insert("categories", self.categories.clone());
        }
        Value::Object(names)
    }
}

impl Version {
    /// Reads the n-th version of a kind; `all` are the versions of the definition.
    fn read(version: &Value, n: usize, origin: &Arc<SchemaOrigin>, (group, kind): (&str, &str), all: &[Value]) -> Self {
        let name = Text::from(version.str_at(&["name"]));
        let deprecation = version.bool_at(&["deprecated"]).then(|| match version.get("deprecationWarning") {
            Some(Value::Str(warning)) => warning.clone(),
            _ => match replacement(&name, all) {
                Some(better) => format!("{group}/{name} {kind} is deprecated; use {group}/{better} {kind}").into(),
                None => format!("{group}/{name} {kind} is deprecated").into(),
            },
        });
        let scale = version.at(&["subresources", "scale"]).filter(|scale| !scale.is_null()).map(|scale| Scale {
            spec_replicas: scale.str_at(&["specReplicasPath"]).into(),
            status_replicas: scale.str_at(&["statusReplicasPath"]).into(),
            label_selector: scale.str_at(&["labelSelectorPath"]).into(),
        });
        let selectable = version.list_at(&["selectableFields"]).iter();
        Self {
            served: version.bool_at(&["served"]),
            storage: version.bool_at(&["storage"]),
            deprecation,
            schema: version.at(&SCHEMA).filter(|schema| !schema.is_null()).map(|_| SchemaSource::new(origin, n)),
            status: version.at(&["subresources", "status"]).is_some_and(|status| !status.is_null()),
            scale,
            columns: version.list_at(&["additionalPrinterColumns"]).to_vec(),
            selectable: selectable.map(|field| field.str_at(&["jsonPath"]).into()).collect(),
            name,
        }
    }
}

/// The path of a version's schema.
pub(crate) const SCHEMA: [&str; 2] = ["schema", "openAPIV3Schema"];

/// Returns the best of the served versions that are better than this one and not deprecated.
fn replacement<'a>(version: &str, all: &'a [Value]) -> Option<&'a str> {
    let good = all.iter().filter(|other| other.bool_at(&["served"]) && !other.bool_at(&["deprecated"]));
    let better = good.map(|other| other.str_at(&["name"])).filter(|name| compare_kube_versions(version, name).is_lt());
    better.max_by(|a, b| compare_kube_versions(a, b))
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn deprecated_versions_name_a_better_one() {
        let version = |name: &str, served: bool, deprecated: bool| value!({"name": name, "served": served, "deprecated": deprecated});
        for (others, want) in [
            (vec![version("v1alpha1", true, false)], "g/v1beta1 K is deprecated"),
            (vec![version("v1", false, false)], "g/v1beta1 K is deprecated"),
            (vec![version("v1", true, true)], "g/v1beta1 K is deprecated"),
            (
                vec![version("v1beta2", true, false), version("v2", true, false), version("v1", true, false)],
                "g/v1beta1 K is deprecated; use g/v2 K",
            ),
        ] {
            let mut versions = vec![version("v1beta1", true, true)];
            versions.extend(others);
            let mut object = value!({"spec": {"group": "g", "names": {"kind": "K"}}});
            object.make_at(&["spec"]).insert("versions", versions);
            assert_eq!(Definition::read(&object).versions[0].deprecation.as_deref(), Some(want));
        }
    }
}
