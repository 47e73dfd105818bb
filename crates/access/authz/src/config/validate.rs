//! Validation of an authorization configuration, with kube-apiserver's messages.

use std::path::Path;

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath, GoDuration, go_quote, io_error};
use binnacle_validation::names;

use super::AuthorizerMode;
use super::entry::{AuthorizerEntry, WebhookEntry};
use crate::webhook::MatchConditions;

const MAX_TIMEOUT: i64 = 30_000_000_000;
const MAX_CONDITIONS: usize = 64;

pub(super) fn validate(authorizers: &[AuthorizerEntry]) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("authorizers");
    if authorizers.is_empty() {
        errors.push(FieldError::required(&path, "at least one authorization mode must be defined"));
    }
    for (at, authorizer) in authorizers.iter().enumerate() {
        let path = path.index(at);
        let kind = authorizer.kind.as_str();
        let repeated = kind != "Webhook" && authorizers[..at].iter().any(|earlier| earlier.kind == kind);
        let error = match kind {
            "" => Some(FieldError::required(&path.child("type"), "")),
            _ if !AuthorizerMode::NAMES.contains(&kind) => {
                Some(FieldError::not_supported(&path.child("type"), kind, &AuthorizerMode::NAMES))
            }
            _ if repeated => Some(FieldError::duplicate(&path.child("type"), kind)),
            _ => None,
        };
        if let Some(error) = error {
            errors.push(error);
            continue;
        }
        name(authorizer, &authorizers[..at], &path.child("name"), &mut errors);
        match (&authorizer.webhook, kind) {
            (Some(hook), "Webhook") => webhook(hook, &path, &mut errors),
            (None, "Webhook") => {
                errors.push(FieldError::required(&path.child("webhook"), "required when type=Webhook"))
            }
            (Some(_), _) => {
                let detail = "may only be specified when type=Webhook";
                errors.push(FieldError::invalid(&path.child("webhook"), "non-null", detail));
            }
            (None, _) => {}
        }
    }
    errors
}

fn name(authorizer: &AuthorizerEntry, earlier: &[AuthorizerEntry], path: &FieldPath, errors: &mut FieldErrors) {
    let name = authorizer.name.as_str();
    if name.is_empty() {
        errors.push(FieldError::required(path, ""));
        return;
    }
    if earlier.iter().any(|earlier| earlier.name == name) {
        errors.push(FieldError::duplicate(path, name));
        return;
    }
    let problems = names::dns1123_subdomain(name);
    if !problems.is_empty() {
        let detail = format!("authorizer name is invalid: {}", problems.join(", "));
        errors.push(FieldError::invalid(path, name, detail));
    }
}

/// Validates a webhook. kube-apiserver omits `webhook` from these field paths.
fn webhook(hook: &WebhookEntry, path: &FieldPath, errors: &mut FieldErrors) {
    let timeout = path.child("timeout");
    if hook.timeout == 0 {
        errors.push(FieldError::required(&timeout, ""));
    } else if !(1..=MAX_TIMEOUT).contains(&hook.timeout) {
        let shown = GoDuration(hook.timeout).to_string();
        errors.push(FieldError::invalid(&timeout, shown.as_str(), "must be > 0s and <= 30s"));
    }
    for (member, ttl) in [("authorizedTTL", hook.authorized_ttl), ("unauthorizedTTL", hook.unauthorized_ttl)] {
        if ttl < 0 {
            errors.push(FieldError::invalid(&path.child(member), GoDuration(ttl).to_string().as_str(), "must be > 0s"));
        }
    }
    one_of(&hook.version, &["v1", "v1beta1"], &path.child("subjectAccessReviewVersion"), errors);
    let version = path.child("matchConditionSubjectAccessReviewVersion");
    match hook.condition_version.as_str() {
        "" if !hook.conditions.is_empty() => {
            errors.push(FieldError::required(&version, "required if match conditions are specified"));
        }
        "" => {}
        other => one_of(other, &["v1"], &version, errors),
    }
    one_of(&hook.failure_policy, &["NoOpinion", "Deny"], &path.child("failurePolicy"), errors);
    connection(hook, &path.child("connectionInfo"), errors);
    conditions(&hook.conditions, &path.child("matchConditions"), errors);
}

fn one_of(given: &str, known: &[&str], path: &FieldPath, errors: &mut FieldErrors) {
    if given.is_empty() {
        errors.push(FieldError::required(path, ""));
    } else if !known.contains(&given) {
        errors.push(FieldError::not_supported(path, given, known));
    }
}

fn connection(hook: &WebhookEntry, path: &FieldPath, errors: &mut FieldErrors) {
    let file = path.child("kubeConfigFile");
    let given = hook.kubeconfig.as_deref();
    match hook.connection.as_str() {
        "" => errors.push(FieldError::required(&path.child("type"), "")),
        "InClusterConfig" => {
            match given {
                Some(given) => {
                    errors.push(FieldError::invalid(&file, given, "can only be set when type=KubeConfigFile"));
                }
                // kube-apiserver accepts it and then fails to start, since an API server does not run in its own
                // cluster.
                None => {
                    errors.push(FieldError::forbidden(&path.child("type"), "kube-apiserver needs a KubeConfigFile"))
                }
            }
        }
        "KubeConfigFile" => match given {
            None | Some("") => errors.push(FieldError::required(&file, "")),
            Some(given) if !Path::new(given).is_absolute() => {
                errors.push(FieldError::invalid(&file, given, "must be an absolute path"));
            }
            Some(given) => match std::fs::metadata(given) {
                Ok(found) if found.is_file() => {}
                Ok(_) => errors.push(FieldError::invalid(&file, given, "must be a regular file")),
                Err(error) => {
                    let why = io_error(&error);
                    errors.push(FieldError::invalid(&file, given, format!("error loading file: stat {given}: {why}")));
                }
            },
        },
        other => {
            let file = given.map_or_else(|| "null".to_owned(), go_quote);
            let shown = ErrorValue::raw(format!("{{\"Type\":{},\"KubeConfigFile\":{file}}}", go_quote(other)));
            let known = ["InClusterConfig", "KubeConfigFile"];
            errors.push(FieldError::not_supported(&path.child("type"), shown, &known));
        }
    }
}

fn conditions(expressions: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    if expressions.len() > MAX_CONDITIONS {
        errors.push(FieldError::too_many(path, expressions.len(), MAX_CONDITIONS));
        return;
    }
    for (at, expression) in expressions.iter().enumerate() {
        let path = path.index(at).child("expression");
        if expression.trim().is_empty() {
            errors.push(FieldError::required(&path, ""));
        } else if expressions[..at].contains(expression) {
            errors.push(FieldError::duplicate(&path, expression.as_str()));
        } else if let Err(why) = MatchConditions::compile(std::slice::from_ref(expression)) {
            errors.push(FieldError::invalid(&path, expression.as_str(), why));
        }
    }
}
