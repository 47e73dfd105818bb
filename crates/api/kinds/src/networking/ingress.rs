//! Ingress: routes of HTTP from outside the cluster to services.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::ip::Legacy;
use binnacle_validation::metadata::shown;
use binnacle_validation::{ip, names, ports};

use crate::checks::{invalid_each, items, member, present, required_path_segment, spec_path};
use crate::prepare::{clear_status, first_generation, is_set, next_generation, put_back};
use crate::{MetadataChecks, Strategy, StrategyContext};

/// The annotation of the ingress class, from before there was a field for it.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(crate) struct Ingress;

impl Strategy for Ingress {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
        first_generation(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
        next_generation(object, old, &["spec"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec(object, Leniency::default(), &mut errors);
        let annotation = object.at(&["metadata", "annotations", CLASS_ANNOTATION]).and_then(Value::as_str);
        let class = object.at(&["spec", "ingressClassName"]).and_then(Value::as_str);
        if let (Some(annotation), Some(class)) = (annotation, class)
            && annotation != class
        {
            let path = FieldPath::new("annotations").child(CLASS_ANNOTATION);
            let detail = "must match `ingressClassName` when both are specified";
            errors.push(FieldError::invalid(&path, annotation, detail));
        }
        errors
    }

    fn validate_update(&self, _: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        spec(object, Leniency::of(old), &mut errors);
        errors
    }

    fn validate_subresource(
        &self,
        _: &str,
        situation: &StrategyContext<'_>,
        object: &Value,
        old: &Value,
    ) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let path = FieldPath::new("status").child("loadBalancer");
        let known = old.list_at(&["status", "loadBalancer", "ingress"]).iter().map(|point| point.str_at(&["ip"]));
        let legacy = Legacy::of(situation.features).knowing(known);
        let balancer = object.at(&["status", "loadBalancer"]).unwrap_or(&Value::Null);
        for (at, point) in errors.while_room(items(balancer, "ingress", &path)) {
            let address = point.str_at(&["ip"]);
            if !address.is_empty() {
                ip::legacy_ip(&at.child("ip"), address, &legacy, &mut errors);
            }
            let hostname = point.str_at(&["hostname"]);
            if !hostname.is_empty() {
                let at = at.child("hostname");
                invalid_each(&at, hostname, &names::dns1123_subdomain(hostname), &mut errors);
                no_address(&at, hostname, &mut errors);
            }
        }
        errors
    }

    fn warnings_on_subresource(&self, _: &str, object: &Value) -> Vec<String> {
        ip::load_balancer_warnings(object)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let annotated = object.at(&["metadata", "annotations", CLASS_ANNOTATION]).is_some();
        if old.is_none() && annotated && !is_set(object, &["spec", "ingressClassName"]) {
            return vec![format!(
                "annotation {CLASS_ANNOTATION:?} is deprecated, please use 'spec.ingressClassName' instead"
            )];
        }
        Vec::new()
    }
}

/// Rules that are newer than some stored objects: updates of an object may keep breaking them.
#[derive(Clone, Copy, Default)]
struct Leniency {
    secret_names: bool,
    wildcard_rules: bool,
}

impl Leniency {
    fn of(old: &Value) -> Self {
        let secret_names = old
            .list_at(&["spec", "tls"])
            .iter()
            .any(|tls| !secret_name_messages(tls.str_at(&["secretName"])).is_empty());
        let wildcard_rules = old.list_at(&["spec", "rules"]).iter().any(|rule| {
            let mut errors = FieldErrors::new();
            rule_value(rule, &FieldPath::root(), &mut errors);
            rule.str_at(&["host"]).contains('*') && !errors.is_empty()
        });
        Self { secret_names, wildcard_rules }
    }
}

fn spec(ingress: &Value, lenient: Leniency, errors: &mut FieldErrors) {
    let (spec, path) = (member(ingress, "spec"), spec_path());
    let backend = present(spec, "defaultBackend");
    if spec.list_at(&["rules"]).is_empty() && backend.is_none() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(FieldError::invalid(&path, shown(Some(member(spec, "rules"))), detail));
    }
    if let Some(backend) = backend {
        validate_backend(backend, &path.child("defaultBackend"), errors);
    }
    for (at, rule) in errors.while_room(items(spec, "rules", &path)) {
        let wildcard = host(rule.str_at(&["host"]), &at.child("host"), errors);
        if !wildcard || !lenient.wildcard_rules {
            rule_value(rule, &at, errors);
        }
    }
    for (at, tls) in errors.while_room(items(spec, "tls", &path)) {
        for (at, host) in errors.while_room(items(tls, "hosts", &at)) {
            let host = host.as_str().unwrap_or_default();
            let messages = if host.contains('*') {
                names::wildcard_dns1123_subdomain(host)
            } else {
                names::dns1123_subdomain(host)
            };
            invalid_each(&at, host, &messages, errors);
        }
        let secret = tls.str_at(&["secretName"]);
        if !lenient.secret_names {
            invalid_each(&at.child("secretName"), secret, &secret_name_messages(secret), errors);
        }
    }
    if let Some(class) = present(spec, "ingressClassName").and_then(Value::as_str) {
        invalid_each(&path.child("ingressClassName"), class, &names::dns1123_subdomain(class), errors);
    }
}

/// Validates the host of a rule. Returns true if it is a wildcard.
fn host(host: &str, path: &FieldPath, errors: &mut FieldErrors) -> bool {
    if host.is_empty() {
        return false;
    }
    no_address(path, host, errors);
    let wildcard = host.contains('*');
    let messages = if wildcard { names::wildcard_dns1123_subdomain(host) } else { names::dns1123_subdomain(host) };
    invalid_each(path, host, &messages, errors);
    wildcard
}

fn no_address(path: &FieldPath, host: &str, errors: &mut FieldErrors) {
    if ip::parse_ip(host).is_some() {
        errors.push(FieldError::invalid(path, host, "must be a DNS name, not an IP address"));
    }
}

fn rule_value(rule: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(http) = present(rule, "http") else { return };
    let path = path.child("http");
    if http.list_at(&["paths"]).is_empty() {
        errors.push(FieldError::required(&path.child("paths"), ""));
    }
    for (at, http_path) in errors.while_room(items(http, "paths", &path)) {
        validate_path(http_path, &at, errors);
    }
}

fn validate_path(http_path: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let Some(kind) = present(http_path, "pathType").and_then(Value::as_str) else {
        errors.push(FieldError::required(&path.child("pathType"), "pathType must be specified"));
        return;
    };
    let (value, at) = (http_path.str_at(&["path"]), path.child("path"));
    let absolute = value.starts_with('/');
    match kind {
        "Exact" | "Prefix" => {
            if !absolute {
                errors.push(FieldError::invalid(&at, value, "must be an absolute path"));
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|s| value.contains(**s)) {
                errors.push(FieldError::invalid(&at, value, format!("must not contain '{sequence}'")));
            }
            for suffix in ["/..", "/."].iter().filter(|s| value.ends_with(**s)) {
                errors.push(FieldError::invalid(&at, value, format!("cannot end with '{suffix}'")));
            }
        }
        "ImplementationSpecific" => {
            if !value.is_empty() && !absolute {
                errors.push(FieldError::invalid(&at, value, "must be an absolute path"));
            }
        }
        _ => {
            let supported = ["Exact", "ImplementationSpecific", "Prefix"];
            errors.push(FieldError::not_supported(&path.child("pathType"), kind, &supported));
        }
    }
    validate_backend(member(http_path, "backend"), &path.child("backend"), errors);
}

fn validate_backend(backend: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    match (present(backend, "resource"), present(backend, "service")) {
        (Some(_), Some(_)) => {
            errors.push(FieldError::invalid(path, "", "cannot set both resource and service backends"));
        }
        (Some(resource), None) => local_reference(resource, &path.child("resource"), errors),
        (None, Some(service)) => service_backend(service, path, errors),
        (None, None) => errors.push(FieldError::invalid(path, "", "resource or service backend is required")),
    }
}

fn service_backend(service: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("service");
    let name = service.str_at(&["name"]);
    if name.is_empty() {
        errors.push(FieldError::required(&at.child("name"), ""));
    } else {
        invalid_each(&at.child("name"), name, &names::dns1123_label(name), errors);
    }
    let port_name = service.str_at(&["port", "name"]);
    let number = service.int_at(&["port", "number"]).unwrap_or(0);
    let at = at.child("port");
    match (port_name.is_empty(), number == 0) {
        (false, false) => errors.push(FieldError::invalid(path, "", "cannot set both port name & port number")),
        (false, true) => invalid_each(&at.child("name"), port_name, &names::port_name(port_name), errors),
        (true, false) => ports::number(&at.child("number"), number, errors),
        (true, true) => errors.push(FieldError::required(path, "port name or number is required")),
    }
}

/// Validates a reference to an object of any kind in the same namespace.
pub(super) fn local_reference(reference: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(group) = present(reference, "apiGroup").and_then(Value::as_str) {
        invalid_each(&path.child("apiGroup"), group, &names::dns1123_subdomain(group), errors);
    }
    required_path_segment(&path.child("kind"), reference.str_at(&["kind"]), errors);
    required_path_segment(&path.child("name"), reference.str_at(&["name"]), errors);
}

fn secret_name_messages(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::dns1123_subdomain(name) }
}
