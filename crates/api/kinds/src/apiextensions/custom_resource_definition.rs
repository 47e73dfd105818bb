//! CustomResourceDefinition: a kind that users define.

use binnacle_fields::apiextensions::v1::{
    self, CustomResourceConversion as Conversion, CustomResourceDefinitionNames as Names,
    CustomResourceDefinitionSpec as Spec, CustomResourceDefinitionStatus as Status,
    CustomResourceDefinitionVersion as Version, ServiceReference, WebhookClientConfig, WebhookConversion,
};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Value, value};

use super::{embedded_defaults, formats, validation};
use crate::prepare::{count_generation, start_generation};
use crate::{Strategy, StrategyContext};

pub(crate) struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn reports_metadata(&self) -> bool {
        false
    }

    /// The schemas are parsed once, on the first request for the resource.
    fn is_rarely_read(&self) -> bool {
        true
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut definition = FieldMut::<v1::CustomResourceDefinition>::root(object);
        let mut spec = definition.entry(v1::CustomResourceDefinition::SPEC);
        let mut names = spec.entry(Spec::NAMES);
        let kind = names.str(Names::KIND).to_owned();
        names.default_zero(Names::SINGULAR, kind.to_lowercase());
        if !kind.is_empty() {
            names.default_zero(Names::LIST_KIND, format!("{kind}List"));
        }
        spec.default_nil(Spec::CONVERSION, value!({"strategy": "None"}));
        if let Some(mut conversion) = spec.structure(Spec::CONVERSION)
            && let Some(mut webhook) = conversion.structure(Conversion::WEBHOOK)
            && let Some(mut client) = webhook.structure(WebhookConversion::CLIENT_CONFIG)
            && let Some(mut service) = client.structure(WebhookClientConfig::SERVICE)
        {
            service.default_nil(ServiceReference::PORT, 443i64);
        }
        drop_absent_webhook(&mut spec);
        if definition.read().at(v1::CustomResourceDefinition::STATUS).at(Status::STORED_VERSIONS).is_empty()
            && let Some(version) = storage_version(definition.read())
        {
            let versions = vec![Value::from(version)];
            definition.entry(v1::CustomResourceDefinition::STATUS).set(Status::STORED_VERSIONS, versions);
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        drop_empty_webhook(object);
        let mut definition = FieldMut::<v1::CustomResourceDefinition>::root(object);
        definition.set(v1::CustomResourceDefinition::STATUS, value!({}));
        start_generation(&mut definition);
        add_stored_version(definition);
        embedded_defaults::coerce(FieldMut::root(object));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_empty_webhook(object);
        let mut definition = FieldMut::<v1::CustomResourceDefinition>::root(object);
        let old = FieldRef::root(old);
        definition.keep(old, v1::CustomResourceDefinition::STATUS);
        count_generation(&mut definition, old, v1::CustomResourceDefinition::SPEC);
        add_stored_version(definition);
        embedded_defaults::coerce(FieldMut::root(object));
    }

    /// Keeps the metadata that was sent: kube-apiserver means to put the old one back, but puts the new one back.
    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::root(object).keep(FieldRef::root(old), v1::CustomResourceDefinition::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(FieldRef::root(object), None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate(FieldRef::root(object), Some(FieldRef::root(old)))
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::status(FieldRef::root(object), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        formats::warnings(FieldRef::root(object), old.map(FieldRef::root))
    }
}

/// Removes a webhook without members: in Go's internal form, these members belong to the conversion itself.
fn drop_absent_webhook(spec: &mut FieldMut<Spec>) {
    drop_webhook(spec, |versions| !versions.is_set());
}

/// Removes a webhook with an empty list of versions, which is not stored, but has an owner.
fn drop_empty_webhook(object: &mut Value) {
    if let Some(mut spec) = FieldMut::root(object).structure(v1::CustomResourceDefinition::SPEC) {
        drop_webhook(&mut spec, |versions| versions.is_empty());
    }
}

fn drop_webhook(spec: &mut FieldMut<Spec>, has_no_versions: impl FnOnce(FieldRef<List<Str>>) -> bool) {
    let Some(mut conversion) = spec.structure(Spec::CONVERSION) else { return };
    let webhook = conversion.get(Conversion::WEBHOOK);
    let webhook = FieldRef::<WebhookConversion>::root(webhook);
    if !webhook.at(WebhookConversion::CLIENT_CONFIG).is_set()
        && has_no_versions(webhook.at(WebhookConversion::CONVERSION_REVIEW_VERSIONS))
    {
        conversion.remove(Conversion::WEBHOOK);
    }
}

fn storage_version(definition: FieldRef<v1::CustomResourceDefinition>) -> Option<String> {
    let spec = definition.at(v1::CustomResourceDefinition::SPEC);
    let versions = spec.at(Spec::VERSIONS);
    let version = versions.items().find(|version| version.at(Version::STORAGE).bool())?;
    Some(version.at(Version::NAME).str().to_owned())
}

/// The status lists every version in which objects were ever stored.
fn add_stored_version(mut definition: FieldMut<v1::CustomResourceDefinition>) {
    let Some(version) = storage_version(definition.read()) else { return };
    let mut status = definition.entry(v1::CustomResourceDefinition::STATUS);
    let stored = status.list_entry(Status::STORED_VERSIONS);
    if !stored.iter().any(|known| known.as_str() == Some(version.as_str())) {
        stored.push(version.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn drops_conversion_webhooks_without_members() {
        for (webhook, is_absent, is_empty) in [
            (value!({}), true, true),
            (value!(null), true, true),
            (value!({"clientConfig": null, "conversionReviewVersions": null}), true, true),
            (value!({"conversionReviewVersions": []}), false, true),
            (value!({"conversionReviewVersions": ["v1"]}), false, false),
            (value!({"clientConfig": {}}), false, false),
        ] {
            let object = value!({"spec": {"conversion": {"strategy": "None", "webhook": (webhook.clone())}}});
            let is_dropped = |object: &Value| object.at(&["spec", "conversion", "webhook"]).is_none();
            let mut received = object.clone();
            let mut definition = FieldMut::root(&mut received);
            drop_absent_webhook(&mut definition.structure(v1::CustomResourceDefinition::SPEC).unwrap());
            let mut prepared = object;
            drop_empty_webhook(&mut prepared);
            assert_eq!((is_dropped(&received), is_dropped(&prepared)), (is_absent, is_empty), "{webhook:?}");
        }
    }
}
