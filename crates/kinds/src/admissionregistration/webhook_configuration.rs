//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration: services that are asked before objects are stored.

use binnacle_schema::{Object, Value};

use super::defaults::{matching, rules};
use crate::prepare::{default_to, first_generation, next_generation, objects_at};
use crate::{Situation, Strategy};

pub(crate) struct MutatingWebhookConfiguration;

pub(crate) struct ValidatingWebhookConfiguration;

impl Strategy for MutatingWebhookConfiguration {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        for webhook in objects_at(object, &["webhooks"]) {
            webhook_defaults(webhook);
            default_to(webhook, "reinvocationPolicy", "Never");
        }
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["webhooks"]);
    }
}

impl Strategy for ValidatingWebhookConfiguration {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        objects_at(object, &["webhooks"]).for_each(webhook_defaults);
    }

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        next_generation(object, old, &["webhooks"]);
    }
}

fn webhook_defaults(webhook: &mut Object) {
    default_to(webhook, "failurePolicy", "Fail");
    matching(webhook);
    default_to(webhook, "timeoutSeconds", 10i64);
    rules(webhook, "rules");
    let service = webhook.get_mut("clientConfig").and_then(|config| config.get_mut("service"));
    if let Some(service) = service.and_then(Value::as_object_mut) {
        default_to(service, "port", 443i64);
    }
}
