//! Validation of the conversion of resources between versions.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::shown;
use binnacle_validation::names;
use binnacle_validation::repeated;

use crate::admissionregistration::client::{webhook_service, webhook_url};
use crate::certificates::ca_bundle_problem;
use crate::checks::{invalid_each, items, member, one_of, present, texts};

const ACCEPTED: [&str; 2] = ["v1", "v1beta1"];
const CLIENT: &str = "webhookClientConfig";
const VERSIONS: &str = "conversionReviewVersions";

/// Rules that an update may keep breaking.
pub(super) struct Leniency {
    pub(super) unknown_versions: bool,
    pub(super) any_bundle: bool,
}

/// Validates `spec.conversion`.
pub(super) fn conversion(conversion: &Value, leniency: &Leniency, path: &FieldPath, errors: &mut FieldErrors) {
    let (strategy, at) = (conversion.str_at(&["strategy"]), path.child("strategy"));
    if strategy.is_empty() {
        errors.push(FieldError::required(&at, ""));
    } else {
        one_of(&at, strategy, &["None", "Webhook"], errors);
    }
    let webhook = member(conversion, "webhook");
    let (config, at) = (present(webhook, "clientConfig"), path.child(CLIENT));
    if strategy != "Webhook" {
        const NOT_SET: &str = "should not be set when strategy is not set to Webhook";
        if config.is_some() {
            errors.push(FieldError::forbidden(&at, NOT_SET));
        }
        if !webhook.list_at(&[VERSIONS]).is_empty() {
            errors.push(FieldError::forbidden(&path.child(VERSIONS), NOT_SET));
        }
        return;
    }
    match config {
        None => errors.push(FieldError::required(&at, "required when strategy is set to Webhook")),
        Some(config) => client(config, leniency.any_bundle, &at, errors),
    }
    review_versions(webhook, leniency.unknown_versions, path, errors);
}

fn client(config: &Value, any_bundle: bool, path: &FieldPath, errors: &mut FieldErrors) {
    match (present(config, "url").and_then(Value::as_str), present(config, "service")) {
        (Some(url), None) => webhook_url(url, &path.child("url"), errors),
        (None, Some(service)) => webhook_service(service, &path.child("service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
    let bundle = config.str_at(&["caBundle"]);
    if !any_bundle && let Some(problem) = ca_bundle_problem(bundle) {
        errors.push(FieldError::invalid(&path.child("caBundle"), bundle, problem));
    }
}

fn review_versions(webhook: &Value, unknown: bool, path: &FieldPath, errors: &mut FieldErrors) {
    let versions = texts(webhook, VERSIONS);
    let at = path.child(VERSIONS);
    if versions.is_empty() {
        errors.push(FieldError::required(&at, ""));
        return;
    }
    let repeated = repeated(&versions, |version| *version);
    for (i, (at, version)) in errors.while_room(items(webhook, VERSIONS, path).enumerate()) {
        let version = version.as_str().unwrap_or_default();
        if repeated[i] {
            errors.push(FieldError::invalid(&at, version, "duplicate version"));
        } else {
            invalid_each(&at, version, &names::dns1035_label(version), errors);
        }
    }
    if !unknown && !is_known(&versions) {
        let detail = format!("must include at least one of {}", ACCEPTED.join(", "));
        errors.push(FieldError::invalid(&at, shown(webhook.get(VERSIONS)), detail));
    }
}

fn is_known(versions: &[&str]) -> bool {
    versions.iter().any(|version| ACCEPTED.contains(version))
}

/// Returns true if a stored definition has review versions and the server knows none of them.
pub(super) fn lacks_known_version(conversion: Option<&Value>) -> bool {
    let versions = conversion.map(|conversion| texts(member(conversion, "webhook"), VERSIONS)).unwrap_or_default();
    !versions.is_empty() && !is_known(&versions)
}

/// Returns true if a stored definition has an invalid CA bundle.
pub(super) fn has_invalid_bundle(conversion: Option<&Value>) -> bool {
    let bundle = conversion.map(|conversion| conversion.str_at(&["webhook", "clientConfig", "caBundle"]));
    bundle.is_some_and(|bundle| ca_bundle_problem(bundle).is_some())
}
