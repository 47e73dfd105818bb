//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration: webhooks that are called before objects are stored.

use binnacle_fields::admissionregistration::v1::{
    MutatingWebhook as Webhook, MutatingWebhookConfiguration as Configuration, RuleWithOperations, ServiceReference,
    WebhookClientConfig,
};
use binnacle_fields::meta::v1::LabelSelector;
use binnacle_fields::types::{List, Str};
use binnacle_fields::{Field, FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::checks::{invalid_for, one_of};
use binnacle_validation::{domains, names, selectors};

use super::client::client_config;
use super::defaults::{matching, rules};
use super::matching::{failure_policy, match_conditions, match_policy, reserved_name, reserved_name_warnings, rule};
use crate::checks::repeated;
use crate::expressions::Compiler;
use crate::prepare::{count_generation_exact, semantically_equal, start_generation};
use crate::{MetadataChecks, Strategy, StrategyContext};

// Validating webhooks have the fields of mutating ones, except `reinvocationPolicy`, so both are read as these.

pub(crate) struct MutatingWebhookConfiguration;

pub(crate) struct ValidatingWebhookConfiguration;

impl Strategy for MutatingWebhookConfiguration {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        for mut webhook in FieldMut::root(object).items(Configuration::WEBHOOKS) {
            webhook_defaults(&mut webhook);
            webhook.default_nil(Webhook::REINVOCATION_POLICY, "Never");
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        start_generation(&mut FieldMut::<Configuration>::root(object));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        count_generation_exact(&mut FieldMut::root(object), FieldRef::root(old), Configuration::WEBHOOKS);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(FieldRef::root(object), None, true)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validate(FieldRef::root(object), Some(FieldRef::root(old)), true)
    }

    fn validate_client_create(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(ctx, FieldRef::<Configuration>::root(object))
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(FieldRef::<Configuration>::root(object))
    }
}

impl Strategy for ValidatingWebhookConfiguration {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn checks_finalizer_domains(&self) -> bool {
        false
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        FieldMut::root(object).items(Configuration::WEBHOOKS).for_each(|mut webhook| webhook_defaults(&mut webhook));
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        start_generation(&mut FieldMut::<Configuration>::root(object));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        count_generation_exact(&mut FieldMut::root(object), FieldRef::root(old), Configuration::WEBHOOKS);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(FieldRef::root(object), None, false)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validate(FieldRef::root(object), Some(FieldRef::root(old)), false)
    }

    fn validate_client_create(&self, ctx: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(ctx, FieldRef::<Configuration>::root(object))
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(FieldRef::<Configuration>::root(object))
    }
}

fn webhook_defaults(webhook: &mut FieldMut<Webhook>) {
    webhook.default_nil(Webhook::FAILURE_POLICY, "Fail");
    matching(webhook, Webhook::MATCH_POLICY, SELECTORS);
    webhook.default_nil(Webhook::TIMEOUT_SECONDS, 10i64);
    rules(webhook, Webhook::RULES, RuleWithOperations::SCOPE);
    if let Some(mut config) = webhook.structure(Webhook::CLIENT_CONFIG)
        && let Some(mut service) = config.structure(WebhookClientConfig::SERVICE)
    {
        service.default_nil(ServiceReference::PORT, 443i64);
    }
}

const SELECTORS: [Field<Webhook, LabelSelector>; 2] = [Webhook::NAMESPACE_SELECTOR, Webhook::OBJECT_SELECTOR];

/// Versions of the review that this server can send.
const REVIEW_VERSIONS: [&str; 2] = ["v1", "v1beta1"];

/// Rules that are newer than some stored objects: updates of an object may keep breaking them.
struct Leniency {
    same_conditions: bool,
    side_effects: bool,
    review_versions: bool,
    repeated_names: bool,
    any_label_value: bool,
    compiler: Compiler,
}

impl Leniency {
    fn of(new: FieldRef<Configuration>, old: Option<FieldRef<Configuration>>) -> Self {
        let Some(old) = old else {
            return Self {
                same_conditions: false,
                side_effects: false,
                review_versions: false,
                repeated_names: false,
                any_label_value: false,
                compiler: Compiler::default(),
            };
        };
        let compiler = Compiler::new(false, false, Some(old.value()));
        let (new, old) = (new.at(Configuration::WEBHOOKS), old.at(Configuration::WEBHOOKS));
        let same_conditions = |(new, old): (FieldRef<Webhook>, FieldRef<Webhook>)| {
            semantically_equal(new.at(Webhook::MATCH_CONDITIONS).get(), old.at(Webhook::MATCH_CONDITIONS).get())
        };
        let unknown_review = |webhook: FieldRef<Webhook>| {
            let versions = webhook.at(Webhook::ADMISSION_REVIEW_VERSIONS);
            !versions.is_empty() && !versions.strs().any(|version| REVIEW_VERSIONS.contains(&version))
        };
        let invalid_selector =
            |webhook: FieldRef<Webhook>| SELECTORS.iter().any(|field| selectors::is_invalid(webhook.at(*field).get()));
        let has_side_effects =
            |webhook: FieldRef<Webhook>| !matches!(webhook.at(Webhook::SIDE_EFFECTS).str(), "None" | "NoneOnDryRun");
        Self {
            same_conditions: new.len() == old.len() && new.items().zip(old.items()).all(same_conditions),
            side_effects: old.items().any(has_side_effects),
            review_versions: old.items().any(unknown_review),
            repeated_names: repeated(old, Webhook::NAME).contains(&true),
            any_label_value: old.items().any(invalid_selector),
            compiler,
        }
    }
}

fn validate(
    configuration: FieldRef<Configuration>,
    old: Option<FieldRef<Configuration>>,
    mutating: bool,
) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let lenient = Leniency::of(configuration, old);
    let webhooks = configuration.at(Configuration::WEBHOOKS);
    let repeated = repeated(webhooks, Webhook::NAME);
    for (i, webhook) in errors.while_room(webhooks.items().enumerate()) {
        validate_webhook(webhook, &lenient, mutating, &mut errors);
        review_versions(webhook.at(Webhook::ADMISSION_REVIEW_VERSIONS), &lenient, &mut errors);
        let name = webhook.at(Webhook::NAME);
        if !lenient.repeated_names && !name.is_empty() && repeated[i] {
            errors.push(name.duplicate());
        }
    }
    errors
}

fn validate_webhook(webhook: FieldRef<Webhook>, lenient: &Leniency, mutating: bool, errors: &mut FieldErrors) {
    let name = webhook.at(Webhook::NAME);
    domains::fully_qualified_name(&name, name.str(), errors);
    for item in errors.while_room(webhook.at(Webhook::RULES).items()) {
        rule(item, errors);
    }
    if let Some(policy) = webhook.at(Webhook::FAILURE_POLICY).set() {
        failure_policy(policy, errors);
    }
    if let Some(policy) = webhook.at(Webhook::MATCH_POLICY).set() {
        match_policy(policy, errors);
    }
    let allowed: &[&str] =
        if lenient.side_effects { &["None", "NoneOnDryRun", "Some", "Unknown"] } else { &["None", "NoneOnDryRun"] };
    let effects = webhook.at(Webhook::SIDE_EFFECTS);
    match effects.get_str() {
        None => errors.push(effects.required(format!("must specify one of {}", allowed.join(", ")))),
        Some(text) => one_of(&effects, text, allowed, errors),
    }
    let timeout = webhook.at(Webhook::TIMEOUT_SECONDS);
    if timeout.int().is_some_and(|seconds| !(1..=30).contains(&seconds)) {
        errors.push(timeout.invalid("the timeout value must be between 1 and 30 seconds"));
    }
    for field in SELECTORS {
        let selector = webhook.at(field);
        selectors::validate(selector, lenient.any_label_value, errors);
    }
    let reinvocation = webhook.at(Webhook::REINVOCATION_POLICY);
    if let Some(policy) = reinvocation.get_str().filter(|_| mutating) {
        one_of(&reinvocation, policy, &["IfNeeded", "Never"], errors);
    }
    client_config(webhook.at(Webhook::CLIENT_CONFIG), errors);
    if !lenient.same_conditions {
        match_conditions(webhook.at(Webhook::MATCH_CONDITIONS), &lenient.compiler, errors);
    }
}

fn review_versions(versions: FieldRef<List<Str>>, lenient: &Leniency, errors: &mut FieldErrors) {
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        errors.push(versions.required(format!("must specify one of {known}")));
        return;
    }
    let repeated = binnacle_validation::repeated(versions.list(), Value::as_str);
    for (i, version) in errors.while_room(versions.items().enumerate()) {
        if repeated[i] {
            errors.push(version.invalid("duplicate version"));
        } else {
            invalid_for(&version, version.str(), names::dns1035_label(version.str()), errors);
        }
    }
    if !lenient.review_versions && !versions.strs().any(|version| REVIEW_VERSIONS.contains(&version)) {
        errors.push(versions.invalid(format!("must include at least one of {known}")));
    }
}
