//! Validation of a webhook's client config: a URL or a service. Definitions of custom resources have webhooks as well.

use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{ServiceReference, WebhookClientConfig};
use binnacle_fields::types::Str;
use binnacle_meta::{FieldError, FieldErrors, Location};
use binnacle_validation::url::Url;
use binnacle_validation::{checks, names};

/// Validates a webhook's client config: exactly one of a URL and a service.
pub(super) fn client_config(config: FieldRef<WebhookClientConfig>, errors: &mut FieldErrors) {
    let (url, service) = (config.at(WebhookClientConfig::URL), config.at(WebhookClientConfig::SERVICE));
    match (url.is_set(), service.is_set()) {
        (true, false) => webhook_url(url.str(), &url, errors),
        (false, true) => service_reference(service, errors),
        _ => errors.push(config.required("exactly one of url or service is required")),
    }
}

/// Validates the URL of a webhook.
pub(crate) fn webhook_url(text: &str, path: &dyn Location, errors: &mut FieldErrors) {
    const FORM: &str = "; desired format: https://host[/path]";
    let url = match Url::parse(text) {
        Ok(url) => url,
        Err(problem) => {
            errors.push(FieldError::required(path, format!("url must be a valid URL: {problem}{FORM}")));
            return;
        }
    };
    let mut refuse = |value: &str, detail: &str| errors.push(FieldError::invalid(path, value, detail));
    if url.scheme != "https" {
        refuse(&url.scheme, &format!("'https' is the only allowed URL scheme{FORM}"));
    }
    if url.host.is_empty() {
        refuse("", &format!("host must be specified{FORM}"));
    }
    if let Some(user) = url.user {
        refuse(user, "user information is not permitted in the URL");
    }
    if !url.fragment.is_empty() {
        refuse(url.fragment, "fragments are not permitted in the URL");
    }
    if !url.query.is_empty() {
        refuse(url.query, "query parameters are not permitted in the URL");
    }
}

/// Validates the service of a webhook. The messages for a missing name and a missing namespace are swapped, as in
/// kube-apiserver.
pub(crate) fn service_reference(service: FieldRef<ServiceReference>, errors: &mut FieldErrors) {
    let (name, namespace) = (service.at(ServiceReference::NAME), service.at(ServiceReference::NAMESPACE));
    checks::required(&name, namespace.str(), errors);
    checks::required(&namespace, name.str(), errors);
    let port = service.at(ServiceReference::PORT);
    let messages = names::port_number(port.int_or_zero());
    if !messages.is_empty() {
        errors.push(port.invalid(format!("port is not valid: {}", messages.join(", "))));
    }
    url_path(service.at(ServiceReference::PATH), errors);
}

fn url_path(path: FieldRef<Str>, errors: &mut FieldErrors) {
    let text = path.str();
    match text {
        "" | "/" => return,
        "//" => {
            errors.push(path.invalid("segment[0] may not be empty"));
            return;
        }
        _ => {}
    }
    if !text.starts_with('/') {
        errors.push(path.invalid("must start with a '/'"));
    }
    // The first character is skipped without a check.
    let rest = text.char_indices().nth(1).map_or("", |(i, _)| &text[i..]);
    for (i, step) in errors.while_room(rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate()) {
        if step.is_empty() {
            errors.push(path.invalid(format!("segment[{i}] may not be empty")));
            continue;
        }
        for message in names::dns1123_subdomain(step) {
            errors.push(path.invalid(format!("segment[{i}]: {message}")));
        }
    }
}
