//! ValidatingWebhookConfiguration and MutatingWebhookConfiguration: webhooks that are called before objects are stored.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Object, Value};
use binnacle_validation::metadata::shown;
use binnacle_validation::{domains, names, repeated, selectors};

use super::client::client_config;
use super::defaults::{matching, rules};
use super::matching::{failure_policy, match_conditions, match_policy, reserved_name, reserved_name_warnings, rule};
use crate::checks::{invalid_each, items, member, one_of, present, texts};
use crate::expressions::Compiler;
use crate::prepare::{default_to, first_generation, next_generation_exact, objects_at, semantically_equal};
use crate::{MetadataChecks, Strategy, StrategyContext};

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
        for webhook in objects_at(object, &["webhooks"]) {
            webhook_defaults(webhook);
            default_to(webhook, "reinvocationPolicy", "Never");
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation_exact(object, old, "webhooks");
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(object, None, true)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validate(object, Some(old), true)
    }

    fn validate_client_create(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(situation, object)
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(object)
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
        objects_at(object, &["webhooks"]).for_each(webhook_defaults);
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        next_generation_exact(object, old, "webhooks");
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validate(object, None, false)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validate(object, Some(old), false)
    }

    fn validate_client_create(&self, situation: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        reserved_name(situation, object)
    }

    fn warnings(&self, object: &Value, _old: Option<&Value>) -> Vec<String> {
        reserved_name_warnings(object)
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
    fn of(new: &Value, old: Option<&Value>) -> Self {
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
        let compiler = Compiler::new(false, false, Some(old));
        let (new, old) = (new.list_at(&["webhooks"]), old.list_at(&["webhooks"]));
        let conditions = |webhook: &Value| webhook.get("matchConditions").cloned();
        let same = |(new, old)| semantically_equal(conditions(new).as_ref(), conditions(old).as_ref());
        let unknown_review = |webhook: &Value| {
            let versions = texts(webhook, "admissionReviewVersions");
            !versions.is_empty() && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version))
        };
        Self {
            same_conditions: new.len() == old.len() && new.iter().zip(old).all(same),
            side_effects: old.iter().any(|w| !matches!(w.str_at(&["sideEffects"]), "None" | "NoneOnDryRun")),
            review_versions: old.iter().any(unknown_review),
            repeated_names: repeated(old, |webhook| webhook.str_at(&["name"])).contains(&true),
            any_label_value: old.iter().any(|webhook| {
                ["namespaceSelector", "objectSelector"].iter().any(|name| selectors::is_invalid(webhook.get(name)))
            }),
            compiler,
        }
    }
}

fn validate(configuration: &Value, old: Option<&Value>, mutating: bool) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let lenient = Leniency::of(configuration, old);
    let repeated = repeated(configuration.list_at(&["webhooks"]), |webhook| webhook.str_at(&["name"]));
    for (i, (at, webhook)) in errors.while_room(items(configuration, "webhooks", &FieldPath::root()).enumerate()) {
        validate_webhook(webhook, &lenient, mutating, &at, &mut errors);
        review_versions(webhook, &lenient, &at.child("admissionReviewVersions"), &mut errors);
        let name = webhook.str_at(&["name"]);
        if !lenient.repeated_names && !name.is_empty() && repeated[i] {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
    }
    errors
}

fn validate_webhook(webhook: &Value, lenient: &Leniency, mutating: bool, path: &FieldPath, errors: &mut FieldErrors) {
    domains::fully_qualified_name(&path.child("name"), webhook.str_at(&["name"]), errors);
    for (at, item) in errors.while_room(items(webhook, "rules", path)) {
        rule(item, &at, errors);
    }
    let text = |name| present(webhook, name).and_then(Value::as_str);
    if let Some(policy) = text("failurePolicy") {
        failure_policy(policy, path, errors);
    }
    if let Some(policy) = text("matchPolicy") {
        match_policy(policy, path, errors);
    }
    let allowed: &[&str] =
        if lenient.side_effects { &["None", "NoneOnDryRun", "Some", "Unknown"] } else { &["None", "NoneOnDryRun"] };
    match text("sideEffects") {
        None => {
            let detail = format!("must specify one of {}", allowed.join(", "));
            errors.push(FieldError::required(&path.child("sideEffects"), detail));
        }
        Some(effects) => one_of(&path.child("sideEffects"), effects, allowed, errors),
    }
    if let Some(seconds) = webhook.int_at(&["timeoutSeconds"]).filter(|seconds| !(1..=30).contains(seconds)) {
        let detail = "the timeout value must be between 1 and 30 seconds";
        errors.push(FieldError::invalid(&path.child("timeoutSeconds"), seconds, detail));
    }
    for name in ["namespaceSelector", "objectSelector"] {
        selectors::label_selector(webhook.get(name), lenient.any_label_value, &path.child(name), errors);
    }
    if let Some(policy) = text("reinvocationPolicy").filter(|_| mutating) {
        one_of(&path.child("reinvocationPolicy"), policy, &["IfNeeded", "Never"], errors);
    }
    client_config(member(webhook, "clientConfig"), &path.child("clientConfig"), errors);
    if !lenient.same_conditions {
        match_conditions(webhook, &lenient.compiler, path, errors);
    }
}

fn review_versions(webhook: &Value, lenient: &Leniency, path: &FieldPath, errors: &mut FieldErrors) {
    let versions = texts(webhook, "admissionReviewVersions");
    let known = REVIEW_VERSIONS.join(", ");
    if versions.is_empty() {
        errors.push(FieldError::required(path, format!("must specify one of {known}")));
        return;
    }
    let repeated = repeated(&versions, |version| *version);
    for (i, version) in errors.while_room(versions.iter().enumerate()) {
        if repeated[i] {
            errors.push(FieldError::invalid(&path.index(i), *version, "duplicate version"));
        } else {
            invalid_each(&path.index(i), version, &names::dns1035_label(version), errors);
        }
    }
    if !lenient.review_versions && !versions.iter().any(|version| REVIEW_VERSIONS.contains(version)) {
        let detail = format!("must include at least one of {known}");
        errors.push(FieldError::invalid(path, shown(webhook.get("admissionReviewVersions")), detail));
    }
}
