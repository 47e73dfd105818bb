//! The resource types of a definition.

use std::sync::{Arc, OnceLock};

use binnacle_meta::Text;
use binnacle_schema::{Message, MessageRef};
use binnacle_scheme::fields::{METADATA, METADATA_NAME};
use binnacle_scheme::{
    Conversion, Converter, FieldLabels, FieldValue, Kinds, RegisteredKind, ResourceDescription, ResourceType,
    ScaleFields, SelectableField, Shared, Storage, StoredType, SubresourceDescription, UnknownLabel, VerbOrder,
};

use crate::columns::CustomColumns;
use crate::definition::{Definition, Scale, Version};
use crate::definition_types::DefinitionTypes;
use crate::published::PublishedVersion;
use crate::schema::VersionSchema;
use crate::schemas::{LazySchema, Schemas};
use crate::strategy::{CustomResource, CustomStrategy};

/// Returns the types of all served versions; for a version with an unsupported schema, its name and the reason. `base`
/// has the built-in kinds; `converter` converts versions if the definition has a conversion webhook.
pub fn types(
    definition: &Definition,
    schemas: &Schemas,
    base: &Shared<dyn Kinds>,
    converter: Option<&Arc<dyn Converter>>,
) -> DefinitionTypes {
    let Some(storage) = definition.storage_version() else { return Vec::new() };
    let of = |version: &Version| match version.schema.as_ref().and_then(|schema| schema.unsupported.as_ref()) {
        Some(error) => Err(error.to_string()),
        None => Ok(schemas.of(version.schema.as_ref(), definition.preserve_unknown)),
    };
    let schemas: Vec<(&Version, Result<Arc<LazySchema>, String>)> =
        definition.versions.iter().map(|version| (version, of(version))).collect();
    let readable = schemas.iter().filter_map(|(version, schema)| {
        let schema = schema.as_ref().ok()?;
        Some((version.name.clone(), schema.clone()))
    });
    let readable: Vec<(Text, Arc<LazySchema>)> = readable.collect();
    let by_api_version =
        readable.iter().map(|(version, schema)| (format!("{}/{version}", definition.group).into(), schema.clone()));
    let replicas = definition.versions.iter().map(|version| {
        let path = version.scale.as_ref().map(|scale| Text::from(members(&scale.spec_replicas).join(".")));
        (Text::from(format!("{}/{}", definition.group, version.name)), path)
    });
    let with_status = definition.versions.iter().filter(|version| version.status);
    let with_status = with_status.map(|version| format!("{}/{}", definition.group, version.name).into()).collect();
    let all_versions =
        DefinitionVersions { schemas: by_api_version.collect(), with_status, replicas: replicas.collect(), converter };
    let kinds: Arc<dyn Kinds> = Arc::new(CustomKinds {
        group: definition.group.clone(),
        kind: definition.accepted.kind.clone(),
        versions: readable,
        base: base.clone(),
    });
    let served = schemas.iter().filter(|(version, _)| version.served);
    served
        .map(|(version, schema)| match schema {
            Ok(schema) => Ok(kind_type(definition, version, storage, schema, &kinds, &all_versions)),
            Err(why) => Err((version.name.clone(), why.clone())),
        })
        .collect()
}

/// All versions of the definition, and their converter.
struct DefinitionVersions<'a> {
    /// The schemas by `apiVersion`.
    schemas: Arc<[(Text, Arc<LazySchema>)]>,
    /// The `apiVersion` of each version that has a status.
    with_status: Arc<[Text]>,
    /// The paths of the replicas by `apiVersion`.
    replicas: Arc<[(Text, Option<Text>)]>,
    converter: Option<&'a Arc<dyn Converter>>,
}

fn kind_type(
    definition: &Definition,
    version: &Version,
    storage: &Version,
    schema: &Arc<LazySchema>,
    kinds: &Arc<dyn Kinds>,
    all_versions: &DefinitionVersions<'_>,
) -> ResourceType {
    let (group, names) = (&definition.group, &definition.accepted);
    let api_version = |version: &Version| Text::from(format!("{group}/{}", version.name));
    let message = MessageRef::Lazy(schema.clone());
    let mut description = ResourceDescription::new(
        [
            group.clone(),
            version.name.clone(),
            names.plural.clone(),
            names.singular.clone(),
            names.kind.clone(),
            names.list_kind.clone(),
        ],
        definition.namespaced,
    );
    description.short_names = names.short_names.clone();
    description.categories = names.categories.clone();
    description.verb_order = VerbOrder::CustomResource;
    description.unconditional_update = false;
    description.deprecation = version.deprecation.clone();
    description.selectable_fields = selectable(definition.namespaced, version);
    let labels = description.selectable_fields.iter().map(|field| field.name.clone());
    description.field_labels = FieldLabels::of_fields(labels.collect(), UnknownLabel::NotSupported);
    if version.status {
        let mut status = SubresourceDescription::status(&[]);
        // An update of the status resets other fields as well, but only these never have a manager, whatever the schema
        // contains.
        status.resets = [CustomResource::METADATA.name(), CustomResource::SPEC.name()].map(Text::new_static).to_vec();
        description.resets = vec![Text::new_static(CustomResource::STATUS.name())];
        description.subresources.push(status);
    }
    if version.scale.is_some() {
        description.subresources.push(SubresourceDescription::scale());
    }
    let stored_as = Storage {
        key_prefix: format!("{group}/{}", names.plural).into(),
        group: group.clone(),
        version: version.name.clone(),
        kind: names.kind.clone(),
        announced_version: storage.name.clone(),
        is_announced: true,
        expires: false,
        watch_cache: true,
    };
    description.storage = Some(stored_as.clone());
    description.published = Some(Arc::new(PublishedVersion::new(definition, version, schema.clone())));
    let strategy = CustomStrategy {
        schema: schema.clone(),
        kind: names.kind.clone(),
        api_version: api_version(version),
        namespaced: definition.namespaced,
        status: version.status,
        scale: version.scale.clone(),
    };
    let custom = VersionSchema {
        schema: schema.clone(),
        api_version: api_version(version),
        preserve_unknown: definition.preserve_unknown,
        converter: all_versions.converter.cloned(),
        stored: api_version(storage),
        versions: all_versions.schemas.clone(),
        with_status: all_versions.with_status.clone(),
    };
    // A stored definition never has the same revision with other contents.
    let revision = definition.origin.revision();
    let identity = revision.map(|revision| format!("{}@{}", definition.uid, revision.0).into());
    let stored = StoredType {
        identity,
        indexed: OnceLock::new(),
        storage: stored_as,
        plural: names.plural.clone(),
        namespaced: definition.namespaced,
        selectable_fields: description.selectable_fields.clone(),
        message: message.clone(),
        custom: Some(Arc::new(custom)),
        strategy: Shared::Made(Arc::new(strategy)),
        columns: Shared::Made(Arc::new(CustomColumns::new(&version.columns))),
        written: None,
        scale: version.scale.as_ref().map(|scale| scale_fields(scale, &all_versions.replicas)),
        kinds: Shared::Made(kinds.clone()),
    };
    ResourceType { description: Arc::new(description), message, conversion: None, stored: Arc::new(stored) }
}

/// Returns the member names of a simple JSON path.
fn members(path: &str) -> Vec<Text> {
    path.strip_prefix('.').unwrap_or(path).split('.').map(Text::from).collect()
}

fn scale_fields(scale: &Scale, versions: &Arc<[(Text, Option<Text>)]>) -> ScaleFields {
    ScaleFields {
        versions: versions.clone(),
        spec_replicas: members(&scale.spec_replicas),
        status_replicas: members(&scale.status_replicas),
        label_selector: (!scale.label_selector.is_empty()).then(|| members(&scale.label_selector)),
    }
}

fn selectable(namespaced: bool, version: &Version) -> Vec<SelectableField> {
    let mut fields = if namespaced { METADATA.to_vec() } else { METADATA_NAME.to_vec() };
    fields.extend(version.selectable.iter().map(|path| {
        let path = path.strip_prefix('.').unwrap_or(path);
        SelectableField { name: path.into(), value: FieldValue::Member(path.split('.').map(Text::from).collect()) }
    }));
    fields
}

/// The kind of a definition in all its versions, and the built-in kinds.
pub struct CustomKinds {
    group: Text,
    kind: Text,
    versions: Vec<(Text, Arc<LazySchema>)>,
    base: Shared<dyn Kinds>,
}

impl Kinds for CustomKinds {
    fn kind(&self, group: &str, version: &str, kind: &str) -> Option<&Message> {
        if group == self.group && kind == self.kind {
            let (_, schema) = self.versions.iter().find(|(name, _)| name == version)?;
            return Some(schema.resource().message());
        }
        self.base.kind(group, version, kind)
    }

    fn message(&self, definition: &str) -> Option<&Message> {
        self.base.message(definition)
    }

    fn all(&self) -> Vec<RegisteredKind<'_>> {
        self.base.all()
    }

    fn conversion(&self, group: &str, version: &str, kind: &str) -> Option<Conversion> {
        self.base.conversion(group, version, kind)
    }
}
