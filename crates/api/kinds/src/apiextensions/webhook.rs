//! Validation of the conversion of resources between versions.

use binnacle_fields::FieldRef;
use binnacle_fields::apiextensions::v1::{
    CustomResourceConversion as Conversion, WebhookClientConfig as Client, WebhookConversion as Webhook,
};
use binnacle_fields::types::{List, Str};
use binnacle_meta::FieldErrors;
use binnacle_validation::checks;
use binnacle_validation::names;
use binnacle_validation::repeated;

use crate::admissionregistration::client::{service_reference, webhook_url};
use crate::certificates::ca_bundle_problem;

const ACCEPTED: [&str; 2] = ["v1", "v1beta1"];

/// Rules that an update may keep breaking.
pub(super) struct Leniency {
    pub(super) unknown_versions: bool,
    pub(super) any_bundle: bool,
}

/// Validates `spec.conversion`.
pub(super) fn conversion(conversion: FieldRef<Conversion>, leniency: &Leniency, errors: &mut FieldErrors) {
    let strategy = conversion.at(Conversion::STRATEGY);
    checks::required_string_one_of(&strategy, strategy.str(), &["None", "Webhook"], errors);
    // As in Go's internal form, the fields of the webhook are reported as fields of the conversion.
    let webhook = conversion.at(Conversion::WEBHOOK).located_at(&conversion);
    let config = webhook.at(Webhook::CLIENT_CONFIG).reported_as("webhookClientConfig");
    let versions = webhook.at(Webhook::CONVERSION_REVIEW_VERSIONS);
    if strategy.str() != "Webhook" {
        const NOT_SET: &str = "should not be set when strategy is not set to Webhook";
        if config.is_set() {
            errors.push(config.forbidden(NOT_SET));
        }
        if !versions.is_empty() {
            errors.push(versions.forbidden(NOT_SET));
        }
        return;
    }
    if config.is_set() {
        client(config, leniency.any_bundle, errors);
    } else {
        errors.push(config.required("required when strategy is set to Webhook"));
    }
    review_versions(versions, leniency.unknown_versions, errors);
}

fn client(config: FieldRef<Client>, any_bundle: bool, errors: &mut FieldErrors) {
    let (url, service) = (config.at(Client::URL), config.at(Client::SERVICE));
    match (url.get_str(), service.set()) {
        (Some(text), None) => webhook_url(text, &url, errors),
        // The references of both groups have the same fields.
        (None, Some(service)) => service_reference(service.cast(), errors),
        _ => errors.push(config.required("exactly one of url or service is required")),
    }
    let bundle = config.at(Client::CA_BUNDLE);
    if !any_bundle && let Some(problem) = ca_bundle_problem(bundle.str()) {
        errors.push(bundle.invalid(problem));
    }
}

fn review_versions(list: FieldRef<List<Str>>, unknown: bool, errors: &mut FieldErrors) {
    let versions: Vec<&str> = list.strs().collect();
    if versions.is_empty() {
        errors.push(list.required(""));
        return;
    }
    let repeated = repeated(&versions, |version| *version);
    for (version, is_repeated) in errors.while_room(list.items().zip(repeated)) {
        if is_repeated {
            errors.push(version.invalid("duplicate version"));
        } else {
            checks::invalid_for(&version, version.str(), names::dns1035_label(version.str()), errors);
        }
    }
    if !unknown && !is_known(&versions) {
        errors.push(list.invalid(format!("must include at least one of {}", ACCEPTED.join(", "))));
    }
}

fn is_known(versions: &[&str]) -> bool {
    versions.iter().any(|version| ACCEPTED.contains(version))
}

/// Returns true if a stored definition has review versions but none that the server supports.
pub(super) fn lacks_known_version(conversion: FieldRef<Conversion>) -> bool {
    let webhook = conversion.at(Conversion::WEBHOOK);
    let versions: Vec<&str> = webhook.at(Webhook::CONVERSION_REVIEW_VERSIONS).strs().collect();
    !versions.is_empty() && !is_known(&versions)
}

/// Returns true if a stored definition has an invalid CA bundle.
pub(super) fn has_invalid_bundle(conversion: FieldRef<Conversion>) -> bool {
    let bundle = conversion.at(Conversion::WEBHOOK).at(Webhook::CLIENT_CONFIG).at(Client::CA_BUNDLE).str();
    ca_bundle_problem(bundle).is_some()
}
