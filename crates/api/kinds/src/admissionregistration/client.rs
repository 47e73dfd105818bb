//! Validation of a webhook's client config: a URL or a service. Definitions of custom resources have webhooks as well.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::url::Url;
use binnacle_validation::{checks, names};

use crate::checks::present;

/// Validates a webhook's client config: exactly one of a URL and a service.
pub(crate) fn client_config(config: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match (present(config, "url"), present(config, "service")) {
        (Some(url), None) => webhook_url(url.as_str().unwrap_or_default(), &path.child("url"), errors),
        (None, Some(service)) => webhook_service(service, &path.child("service"), errors),
        _ => errors.push(FieldError::required(path, "exactly one of url or service is required")),
    }
}

/// Validates the URL of a webhook.
pub(crate) fn webhook_url(text: &str, path: &FieldPath, errors: &mut FieldErrors) {
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
pub(crate) fn webhook_service(service: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    checks::required(&path.child("name"), service.str_at(&["namespace"]), errors);
    checks::required(&path.child("namespace"), service.str_at(&["name"]), errors);
    let port = service.int_at(&["port"]).unwrap_or(0);
    let messages = names::port_number(port);
    if !messages.is_empty() {
        let detail = format!("port is not valid: {}", messages.join(", "));
        errors.push(FieldError::invalid(&path.child("port"), port, detail));
    }
    let at = path.child("path");
    let url_path = service.str_at(&["path"]);
    match url_path {
        "" | "/" => return,
        "//" => {
            errors.push(FieldError::invalid(&at, url_path, "segment[0] may not be empty"));
            return;
        }
        _ => {}
    }
    if !url_path.starts_with('/') {
        errors.push(FieldError::invalid(&at, url_path, "must start with a '/'"));
    }
    // The first character is skipped without a check.
    let rest = url_path.char_indices().nth(1).map_or("", |(i, _)| &url_path[i..]);
    for (i, step) in errors.while_room(rest.strip_suffix('/').unwrap_or(rest).split('/').enumerate()) {
        if step.is_empty() {
            errors.push(FieldError::invalid(&at, url_path, format!("segment[{i}] may not be empty")));
            continue;
        }
        for message in names::dns1123_subdomain(step) {
            errors.push(FieldError::invalid(&at, url_path, format!("segment[{i}]: {message}")));
        }
    }
}
