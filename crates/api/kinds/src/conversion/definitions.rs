//! `apiextensions.k8s.io/v1beta1` CustomResourceDefinition, as old releases stored it: fields that v1 has per version
//! could be given once for all versions, and some defaults were different.

use binnacle_fields::apiextensions::v1;
use binnacle_fields::apiextensions::v1beta1::{
    CustomResourceColumnDefinition as Column, CustomResourceConversion as Conversion, CustomResourceDefinition,
    CustomResourceDefinitionNames as DefinitionNames, CustomResourceDefinitionSpec as Spec,
    CustomResourceDefinitionStatus as Status, CustomResourceDefinitionVersion as Version, ServiceReference,
    WebhookClientConfig,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_schema::{Value, value};

use super::{Names, finish, names, rename, set_some};

/// The fields that could be given once for all versions, and their names in a version.
const SHARED: [Names; 4] = [
    names(Spec::VALIDATION, Version::SCHEMA),
    names(Spec::SUBRESOURCES, Version::SUBRESOURCES),
    names(Spec::ADDITIONAL_PRINTER_COLUMNS, Version::ADDITIONAL_PRINTER_COLUMNS),
    names(Spec::SELECTABLE_FIELDS, Version::SELECTABLE_FIELDS),
];

pub(super) fn to_v1(object: &mut Value) {
    let mut definition = FieldMut::<CustomResourceDefinition>::root(object);
    set_defaults(&mut definition);
    let mut spec = definition.entry(CustomResourceDefinition::SPEC);
    spec.remove(Spec::VERSION);
    let mut take = |name| spec.object().remove(name).filter(|value| !value.is_null());
    let shared: Vec<_> = SHARED.iter().filter_map(|(name, within)| Some((*within, take(name)?))).collect();
    for mut version in spec.items(Spec::VERSIONS) {
        for (name, value) in &shared {
            version.object().insert(*name, value.clone());
        }
        for mut column in version.items(Version::ADDITIONAL_PRINTER_COLUMNS) {
            rename(&mut column, Column::JSON_PATH, v1::CustomResourceColumnDefinition::JSON_PATH);
        }
    }
    if let Some(mut conversion) = spec.structure(Spec::CONVERSION) {
        let config = conversion.take(Conversion::WEBHOOK_CLIENT_CONFIG);
        let reviews = conversion.take(Conversion::CONVERSION_REVIEW_VERSIONS);
        if config.is_some() || reviews.is_some() {
            let mut conversion = conversion.reborrow().cast();
            let mut webhook = conversion.entry(v1::CustomResourceConversion::WEBHOOK);
            set_some(&mut webhook, v1::WebhookConversion::CLIENT_CONFIG, config);
            set_some(&mut webhook, v1::WebhookConversion::CONVERSION_REVIEW_VERSIONS, reviews);
        }
    }
    finish(object, "apiextensions.k8s.io", "v1", "CustomResourceDefinition");
}

pub(super) fn from_v1(object: &mut Value) {
    let mut definition = FieldMut::<v1::CustomResourceDefinition>::root(object);
    let mut spec = definition.entry(v1::CustomResourceDefinition::SPEC);
    let versions = spec.get(v1::CustomResourceDefinitionSpec::VERSIONS);
    let first = versions.as_list().and_then(<[Value]>::first).map(FieldRef::root);
    let name = first.and_then(|version| version.at(v1::CustomResourceDefinitionVersion::NAME).get()).cloned();
    set_some(&mut spec.reborrow().cast(), Spec::VERSION, name);
    for mut version in spec.items(v1::CustomResourceDefinitionSpec::VERSIONS) {
        for mut column in version.items(v1::CustomResourceDefinitionVersion::ADDITIONAL_PRINTER_COLUMNS) {
            rename(&mut column, v1::CustomResourceColumnDefinition::JSON_PATH, Column::JSON_PATH);
        }
    }
    if let Some(mut conversion) = spec.structure(v1::CustomResourceDefinitionSpec::CONVERSION)
        && let Some(mut webhook) = conversion.take(v1::CustomResourceConversion::WEBHOOK)
    {
        let mut webhook = FieldMut::root(&mut webhook);
        let config = webhook.take(v1::WebhookConversion::CLIENT_CONFIG);
        let reviews = webhook.take(v1::WebhookConversion::CONVERSION_REVIEW_VERSIONS);
        let mut conversion = conversion.reborrow().cast();
        set_some(&mut conversion, Conversion::WEBHOOK_CLIENT_CONFIG, config);
        set_some(&mut conversion, Conversion::CONVERSION_REVIEW_VERSIONS, reviews);
    }
    finish(object, "apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition");
}

/// Sets the defaults of v1beta1, which apply when an object is read.
fn set_defaults(definition: &mut FieldMut<CustomResourceDefinition>) {
    let mut spec = definition.entry(CustomResourceDefinition::SPEC);
    spec.default_zero(Spec::SCOPE, "Namespaced");
    let mut names = spec.entry(Spec::NAMES);
    let kind = names.str(DefinitionNames::KIND).to_owned();
    names.default_zero(DefinitionNames::SINGULAR, kind.to_lowercase());
    if !kind.is_empty() {
        names.default_zero(DefinitionNames::LIST_KIND, format!("{kind}List"));
    }
    let version = spec.str(Spec::VERSION).to_owned();
    if !version.is_empty() && spec.read().at(Spec::VERSIONS).is_empty() {
        let version = FieldMut::build(|mut only| {
            only.set(Version::NAME, version);
            only.set(Version::SERVED, true);
            only.set(Version::STORAGE, true);
        });
        spec.set(Spec::VERSIONS, vec![version]);
    }
    spec.default_nil(Spec::PRESERVE_UNKNOWN_FIELDS, true);
    if spec.is_nil(Spec::CONVERSION) {
        spec.entry(Spec::CONVERSION).set(Conversion::STRATEGY, "None");
    }
    let mut conversion = spec.entry(Spec::CONVERSION);
    if conversion.str(Conversion::STRATEGY) == "Webhook"
        && conversion.read().at(Conversion::CONVERSION_REVIEW_VERSIONS).is_empty()
    {
        conversion.set(Conversion::CONVERSION_REVIEW_VERSIONS, value!(["v1beta1"]));
    }
    if let Some(mut config) = conversion.structure(Conversion::WEBHOOK_CLIENT_CONFIG)
        && let Some(mut service) = config.structure(WebhookClientConfig::SERVICE)
    {
        service.default_nil(ServiceReference::PORT, 443i64);
    }
    let versions = spec.read();
    let versions = versions.at(Spec::VERSIONS);
    let stored = versions.items().find(|version| version.at(Version::STORAGE).bool());
    let stored = stored.map(|version| version.at(Version::NAME).str().to_owned());
    let mut status = definition.entry(CustomResourceDefinition::STATUS);
    if let Some(stored) = stored.filter(|_| status.read().at(Status::STORED_VERSIONS).is_empty()) {
        status.set(Status::STORED_VERSIONS, value!([stored]));
    }
}
