//! CustomResourceDefinition: a kind that users add.

use binnacle_meta::FieldErrors;
use binnacle_schema::{Object, Value, value};

use super::{embedded_defaults, formats, validation};
use crate::prepare::{default_to, default_zero_to, first_generation, next_generation, put_back};
use crate::{Strategy, StrategyContext};

pub(crate) struct CustomResourceDefinition;

impl Strategy for CustomResourceDefinition {
    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    /// Its schemas are read once, when its resource is first asked for.
    fn is_rarely_read(&self) -> bool {
        true
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        let kind = object.str_at(&["spec", "names", "kind"]).to_owned();
        let names = object.make_at(&["spec", "names"]);
        default_zero_to(names, "singular", kind.to_lowercase());
        if !kind.is_empty() {
            default_zero_to(names, "listKind", format!("{kind}List"));
        }
        let spec = object.make_at(&["spec"]);
        default_to(spec, "conversion", value!({"strategy": "None"}));
        let service = spec.get_mut("conversion").and_then(|c| c.at_mut(&["webhook", "clientConfig", "service"]));
        if let Some(service) = service.and_then(Value::as_object_mut) {
            default_to(service, "port", 443i64);
        }
        drop_empty_webhook(spec);
        if object.list_at(&["status", "storedVersions"]).is_empty()
            && let Some(version) = storage_version(object)
        {
            object.make_at(&["status"]).insert("storedVersions", vec![version]);
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        object.make_object().insert("status", value!({}));
        first_generation(object);
        add_stored_version(object);
        embedded_defaults::coerce(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
        add_stored_version(object);
        embedded_defaults::coerce(object);
    }

    /// Keeps the metadata that was sent: kube-apiserver means to put the old one back, but puts the new one back.
    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(object, None)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate(object, Some(old))
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        validation::status(object, &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        formats::warnings(object, old)
    }
}

/// Removes a webhook of which neither member is set: Go's internal form has the members without the webhook.
fn drop_empty_webhook(spec: &mut Object) {
    let Some(conversion) = spec.get_mut("conversion").and_then(Value::as_object_mut) else { return };
    let is_set = |name: &str| conversion.get("webhook").and_then(|w| w.get(name)).is_some_and(|value| !value.is_null());
    if !is_set("clientConfig") && !is_set("conversionReviewVersions") {
        conversion.remove("webhook");
    }
}

fn storage_version(object: &Value) -> Option<String> {
    let version = object.list_at(&["spec", "versions"]).iter().find(|version| version.bool_at(&["storage"]))?;
    Some(version.str_at(&["name"]).to_owned())
}

/// The status lists every version in which objects were ever stored.
fn add_stored_version(object: &mut Value) {
    let Some(version) = storage_version(object) else { return };
    let stored = object.make_at(&["status"]).entry("storedVersions", || Value::List(Vec::new()));
    if !matches!(stored, Value::List(_)) {
        *stored = Value::List(Vec::new());
    }
    if let Some(stored) = stored.as_list_mut()
        && !stored.iter().any(|known| known.as_str() == Some(version.as_str()))
    {
        stored.push(version.into());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn webhooks_without_members() {
        for (webhook, stays) in [
            (value!({}), false),
            (value!(null), false),
            (value!({"clientConfig": null, "conversionReviewVersions": null}), false),
            (value!({"conversionReviewVersions": []}), true),
            (value!({"clientConfig": {}}), true),
        ] {
            let mut spec = value!({"conversion": {"strategy": "None", "webhook": (webhook.clone())}});
            drop_empty_webhook(spec.make_object());
            assert_eq!(spec.at(&["conversion", "webhook"]).is_some(), stays, "{webhook:?}");
        }
    }
}
