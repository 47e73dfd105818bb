//! The parts of a CustomResourceDefinition that are needed for serving its resources.

use std::sync::Arc;

use binnacle_fields::apiextensions::v1::{
    CustomResourceConversion as Conversion, CustomResourceDefinition as Crd,
    CustomResourceDefinitionCondition as Condition, CustomResourceDefinitionNames as NamesFields,
    CustomResourceDefinitionSpec as Spec, CustomResourceDefinitionStatus as Status,
    CustomResourceDefinitionVersion as VersionFields, CustomResourceSubresourceScale as ScaleFields,
    CustomResourceSubresources as Subresources, CustomResourceValidation as Validation, JSONSchemaProps,
    SelectableField, WebhookClientConfig, WebhookConversion,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::List;
use binnacle_fields::{FieldMut, FieldRef, Route, metadata, route};
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
    /// The origin of the schemas of all versions.
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
    /// The fields of an object that [`Definition::part`] needs: all except the schemas, of which only their presence
    /// matters.
    pub const PARTS: [Route<Crd>; 20] = [
        route![Crd::METADATA, ObjectMeta::NAME],
        route![Crd::METADATA, ObjectMeta::UID],
        route![Crd::METADATA, ObjectMeta::GENERATION],
        route![Crd::METADATA, ObjectMeta::DELETION_TIMESTAMP],
        route![Crd::METADATA, ObjectMeta::ANNOTATIONS],
        route![Crd::METADATA, ObjectMeta::FINALIZERS],
        route![Crd::SPEC, Spec::GROUP],
        route![Crd::SPEC, Spec::NAMES],
        route![Crd::SPEC, Spec::SCOPE],
        route![Crd::SPEC, Spec::CONVERSION],
        route![Crd::SPEC, Spec::PRESERVE_UNKNOWN_FIELDS],
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::NAME],
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::SERVED],
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::STORAGE],
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::DEPRECATED],
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::DEPRECATION_WARNING],
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::SUBRESOURCES],
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::ADDITIONAL_PRINTER_COLUMNS],
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::SELECTABLE_FIELDS],
        route![Crd::STATUS],
    ];

    /// The schemas of an object.
    pub const SCHEMAS: Route<Crd> =
        route![Crd::SPEC, Spec::VERSIONS, VersionFields::SCHEMA, Validation::OPEN_APIV3_SCHEMA];

    /// Reads a complete validated object with its schemas; missing members are empty.
    pub fn read(object: &Value) -> Self {
        let versions = FieldRef::<Crd>::root(object).at(Crd::SPEC).at(Spec::VERSIONS).values();
        let schemas = versions.map(|version| schema_of(version).get().cloned());
        let mut definition = Self::part(object, Arc::new(SchemaOrigin::of_trees(schemas.collect())));
        definition.check(object);
        definition
    }

    /// Reads an object, or the part of it with the fields [`Definition::PARTS`]. Its schemas are read from their origin
    /// when they are needed.
    pub fn part(object: &Value, origin: Arc<SchemaOrigin>) -> Self {
        let object = FieldRef::<Crd>::root(object);
        let (metadata, spec, status) = (object.at(Crd::METADATA), object.at(Crd::SPEC), object.at(Crd::STATUS));
        let group = Text::from(spec.at(Spec::GROUP).str());
        let names = Names::read(spec.at(Spec::NAMES));
        let versions = spec.at(Spec::VERSIONS);
        let read = |(n, version)| Version::read(version, n, &origin, (&group, &names.kind), versions);
        let conversion = spec.at(Spec::CONVERSION);
        Self {
            name: metadata.at(ObjectMeta::NAME).str().into(),
            uid: metadata.at(ObjectMeta::UID).str().into(),
            generation: metadata.at(ObjectMeta::GENERATION).int_or_zero(),
            namespaced: spec.at(Spec::SCOPE).str() == "Namespaced",
            accepted: Names::read(status.at(Status::ACCEPTED_NAMES)),
            versions: versions.values().enumerate().map(read).collect(),
            preserve_unknown: spec.at(Spec::PRESERVE_UNKNOWN_FIELDS).bool(),
            webhook: (conversion.at(Conversion::STRATEGY).str() == "Webhook")
                .then(|| conversion.at(Conversion::WEBHOOK).value().clone()),
            conditions: status.at(Status::CONDITIONS).list().to_vec(),
            names,
            group,
            origin,
        }
    }

    /// Marks the versions whose schemas, in a complete object, cannot be served.
    pub fn check(&mut self, object: &Value) {
        let versions = FieldRef::<Crd>::root(object).at(Crd::SPEC).at(Spec::VERSIONS).values();
        for (version, read) in versions.zip(&mut self.versions) {
            if let (Some(tree), Some(source)) = (schema_of(version).get(), &mut read.schema) {
                source.unsupported = check(tree).err();
            }
        }
    }

    /// Returns true if an object is being deleted.
    pub fn is_deleting(object: &Value) -> bool {
        metadata(object).at(ObjectMeta::DELETION_TIMESTAMP).is_set()
    }

    /// Returns true if the definition has the condition with the status `True`.
    pub fn is(&self, condition: &str) -> bool {
        let found = self.condition(condition).map(FieldRef::<Condition>::root);
        found.is_some_and(|found| found.at(Condition::STATUS).str() == "True")
    }

    pub fn condition(&self, kind: &str) -> Option<&Value> {
        let is_wanted = |condition: &&Value| FieldRef::<Condition>::root(condition).at(Condition::TYPE).str() == kind;
        self.conditions.iter().find(is_wanted)
    }

    /// Returns the CA bundle of the conversion webhook, in base64.
    pub fn webhook_authorities(&self) -> &str {
        self.webhook.as_ref().map_or("", |webhook| {
            let webhook = FieldRef::<WebhookConversion>::root(webhook);
            webhook.at(WebhookConversion::CLIENT_CONFIG).at(WebhookClientConfig::CA_BUNDLE).str()
        })
    }

    /// Returns the version in which objects are stored.
    pub fn storage_version(&self) -> Option<&Version> {
        self.versions.iter().find(|version| version.storage)
    }
}

impl Names {
    fn read(names: FieldRef<NamesFields>) -> Self {
        let text = |field| Text::from(names.at(field).str());
        let list = |field| names.at(field).strs().map(Text::from).collect();
        Self {
            plural: text(NamesFields::PLURAL),
            singular: text(NamesFields::SINGULAR),
            kind: text(NamesFields::KIND),
            list_kind: text(NamesFields::LIST_KIND),
            short_names: list(NamesFields::SHORT_NAMES),
            categories: list(NamesFields::CATEGORIES),
        }
    }

    /// Returns the names as a value for `acceptedNames`.
    pub fn to_value(&self) -> Value {
        let mut value = Value::default();
        let mut names = FieldMut::<NamesFields>::root(&mut value);
        names.set(NamesFields::PLURAL, self.plural.clone());
        if !self.singular.is_empty() {
            names.set(NamesFields::SINGULAR, self.singular.clone());
        }
        if !self.short_names.is_empty() {
            names.set(NamesFields::SHORT_NAMES, Value::from(self.short_names.clone()));
        }
        names.set(NamesFields::KIND, self.kind.clone());
        if !self.list_kind.is_empty() {
            names.set(NamesFields::LIST_KIND, self.list_kind.clone());
        }
        if !self.categories.is_empty() {
            names.set(NamesFields::CATEGORIES, Value::from(self.categories.clone()));
        }
        value
    }
}

impl Version {
    /// Reads the n-th version of a kind; `all` are the versions of the definition.
    fn read(
        version: FieldRef<VersionFields>,
        n: usize,
        origin: &Arc<SchemaOrigin>,
        (group, kind): (&str, &str),
        all: FieldRef<List<VersionFields>>,
    ) -> Self {
        let name = Text::from(version.at(VersionFields::NAME).str());
        let warning = version.at(VersionFields::DEPRECATION_WARNING).value();
        let deprecation = version.at(VersionFields::DEPRECATED).bool().then(|| match warning {
            Value::Str(warning) => warning.clone(),
            _ => match replacement(&name, all) {
                Some(better) => format!("{group}/{name} {kind} is deprecated; use {group}/{better} {kind}").into(),
                None => format!("{group}/{name} {kind} is deprecated").into(),
            },
        });
        let subresources = version.at(VersionFields::SUBRESOURCES);
        let scale = subresources.at(Subresources::SCALE).set().map(|scale| Scale {
            spec_replicas: scale.at(ScaleFields::SPEC_REPLICAS_PATH).str().into(),
            status_replicas: scale.at(ScaleFields::STATUS_REPLICAS_PATH).str().into(),
            label_selector: scale.at(ScaleFields::LABEL_SELECTOR_PATH).str().into(),
        });
        let selectable = version.at(VersionFields::SELECTABLE_FIELDS).values();
        Self {
            served: version.at(VersionFields::SERVED).bool(),
            storage: version.at(VersionFields::STORAGE).bool(),
            deprecation,
            schema: schema_of(version).is_set().then(|| SchemaSource::new(origin, n)),
            status: subresources.at(Subresources::STATUS).is_set(),
            scale,
            columns: version.at(VersionFields::ADDITIONAL_PRINTER_COLUMNS).list().to_vec(),
            selectable: selectable.map(|field| field.at(SelectableField::JSON_PATH).str().into()).collect(),
            name,
        }
    }
}

/// Returns the schema of a version.
pub(crate) fn schema_of<'v>(version: FieldRef<'_, 'v, VersionFields>) -> FieldRef<'static, 'v, JSONSchemaProps> {
    version.at(VersionFields::SCHEMA).at(Validation::OPEN_APIV3_SCHEMA).detached()
}

/// Returns the served version with the highest priority that is not deprecated and has a higher priority than this one.
fn replacement<'v>(version: &str, all: FieldRef<'_, 'v, List<VersionFields>>) -> Option<&'v str> {
    let good = all
        .values()
        .filter(|other| other.at(VersionFields::SERVED).bool() && !other.at(VersionFields::DEPRECATED).bool());
    let better = good.map(|other| other.at(VersionFields::NAME).str());
    let better = better.filter(|name| compare_kube_versions(version, name).is_lt());
    better.max_by(|a, b| compare_kube_versions(a, b))
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn deprecation_warning_names_replacement() {
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
