//! Ingress: routes of HTTP from outside the cluster to services.

use binnacle_fields::core::v1::TypedLocalObjectReference;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::networking::v1::{
    self, HTTPIngressPath, HTTPIngressRuleValue, IngressBackend, IngressLoadBalancerIngress, IngressLoadBalancerStatus,
    IngressRule, IngressServiceBackend, IngressSpec as Spec, IngressStatus as Status, IngressTLS, ServiceBackendPort,
};
use binnacle_fields::types::Str;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks::{self, invalid_for};
use binnacle_validation::ip::LegacyIpRules;
use binnacle_validation::{ip, names, ports};

use crate::checks::path_segment;
use crate::prepare::{count_generation, start_generation};
use crate::{MetadataChecks, Strategy, StrategyContext};

/// The annotation of the ingress class, from before there was a field for it.
const CLASS_ANNOTATION: &str = "kubernetes.io/ingress.class";

pub(crate) struct Ingress;

impl Strategy for Ingress {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::CHANGE_THEN_WHOLE
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        let mut ingress = FieldMut::<v1::Ingress>::root(object);
        ingress.remove(v1::Ingress::STATUS);
        start_generation(&mut ingress);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<v1::Ingress>::root(object), FieldRef::root(old));
        new.keep(old, v1::Ingress::STATUS);
        count_generation(&mut new, old, v1::Ingress::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let ingress = FieldRef::<v1::Ingress>::root(object);
        spec_rules(ingress, Leniency::default(), &mut errors);
        let metadata = ingress.at(v1::Ingress::METADATA);
        let annotation = metadata.at(ObjectMeta::ANNOTATIONS).key(CLASS_ANNOTATION).get_str();
        let class = ingress.at(v1::Ingress::SPEC).at(Spec::INGRESS_CLASS_NAME).get_str();
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
        spec_rules(FieldRef::root(object), Leniency::of(FieldRef::root(old)), &mut errors);
        errors
    }

    fn validate_subresource(&self, _: &str, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (ingress, old) = (FieldRef::<v1::Ingress>::root(object), FieldRef::<v1::Ingress>::root(old));
        let (status, old_status) = (ingress.at(v1::Ingress::STATUS), old.at(v1::Ingress::STATUS));
        let (balancer, old_balancer) = (status.at(Status::LOAD_BALANCER), old_status.at(Status::LOAD_BALANCER));
        let old_points = old_balancer.at(IngressLoadBalancerStatus::INGRESS);
        let known = old_points.items().map(|point| point.at(IngressLoadBalancerIngress::IP).str());
        let legacy = LegacyIpRules::of(ctx.features).allowing_existing(known);
        for point in errors.while_room(balancer.at(IngressLoadBalancerStatus::INGRESS).items()) {
            let address = point.at(IngressLoadBalancerIngress::IP);
            if !address.is_empty() {
                ip::legacy_ip(&address, address.str(), &legacy, &mut errors);
            }
            let hostname = point.at(IngressLoadBalancerIngress::HOSTNAME);
            if !hostname.is_empty() {
                checks::subdomain(&hostname, hostname.str(), &mut errors);
                no_address(hostname, &mut errors);
            }
        }
        errors
    }

    fn warnings_on_subresource(&self, _: &str, object: &Value) -> Vec<String> {
        ip::load_balancer_warnings(object)
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let ingress = FieldRef::<v1::Ingress>::root(object);
        let has_class = ingress.at(v1::Ingress::SPEC).at(Spec::INGRESS_CLASS_NAME).is_set();
        let is_annotated = ingress.at(v1::Ingress::METADATA).at(ObjectMeta::ANNOTATIONS).has_key(CLASS_ANNOTATION);
        if old.is_none() && is_annotated && !has_class {
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
    fn of(old: FieldRef<v1::Ingress>) -> Self {
        let spec = old.at(v1::Ingress::SPEC);
        let has_invalid_secret =
            |tls: FieldRef<IngressTLS>| !secret_name_messages(tls.at(IngressTLS::SECRET_NAME).str()).is_empty();
        let is_invalid_wildcard = |rule: FieldRef<IngressRule>| {
            let mut errors = FieldErrors::new();
            rule_value(rule, &mut errors);
            rule.at(IngressRule::HOST).str().contains('*') && !errors.is_empty()
        };
        Self {
            secret_names: spec.at(Spec::TLS).items().any(has_invalid_secret),
            wildcard_rules: spec.at(Spec::RULES).items().any(is_invalid_wildcard),
        }
    }
}

fn spec_rules(ingress: FieldRef<v1::Ingress>, lenient: Leniency, errors: &mut FieldErrors) {
    let spec = ingress.at(v1::Ingress::SPEC);
    let (rules, backend) = (spec.at(Spec::RULES), spec.at(Spec::DEFAULT_BACKEND));
    if rules.is_empty() && !backend.is_set() {
        let detail = "either `defaultBackend` or `rules` must be specified";
        errors.push(spec.invalid_as(rules.value(), detail));
    }
    if backend.is_set() {
        validate_backend(backend, errors);
    }
    for rule in errors.while_room(rules.items()) {
        let wildcard = host(rule.at(IngressRule::HOST), errors);
        if !wildcard || !lenient.wildcard_rules {
            rule_value(rule, errors);
        }
    }
    for tls in errors.while_room(spec.at(Spec::TLS).items()) {
        for host in errors.while_room(tls.at(IngressTLS::HOSTS).items()) {
            invalid_for(&host, host.str(), host_messages(host.str()), errors);
        }
        let secret = tls.at(IngressTLS::SECRET_NAME);
        if !lenient.secret_names {
            invalid_for(&secret, secret.str(), secret_name_messages(secret.str()), errors);
        }
    }
    let class = spec.at(Spec::INGRESS_CLASS_NAME);
    if let Some(name) = class.get_str() {
        checks::subdomain(&class, name, errors);
    }
}

/// Validates the host of a rule. Returns true if it is a wildcard.
fn host(host: FieldRef<Str>, errors: &mut FieldErrors) -> bool {
    if host.is_empty() {
        return false;
    }
    no_address(host, errors);
    invalid_for(&host, host.str(), host_messages(host.str()), errors);
    host.str().contains('*')
}

fn host_messages(host: &str) -> Vec<String> {
    if host.contains('*') { names::wildcard_dns1123_subdomain(host) } else { names::dns1123_subdomain(host) }
}

fn no_address(host: FieldRef<Str>, errors: &mut FieldErrors) {
    if ip::parse_ip(host.str()).is_some() {
        errors.push(host.invalid("must be a DNS name, not an IP address"));
    }
}

fn rule_value(rule: FieldRef<IngressRule>, errors: &mut FieldErrors) {
    let http = rule.at(IngressRule::HTTP);
    if !http.is_set() {
        return;
    }
    let paths = http.at(HTTPIngressRuleValue::PATHS);
    if paths.is_empty() {
        errors.push(paths.required(""));
    }
    for path in errors.while_room(paths.items()) {
        validate_path(path, errors);
    }
}

fn validate_path(http_path: FieldRef<HTTPIngressPath>, errors: &mut FieldErrors) {
    let kind = http_path.at(HTTPIngressPath::PATH_TYPE);
    if !kind.is_set() {
        errors.push(kind.required("pathType must be specified"));
        return;
    }
    let path = http_path.at(HTTPIngressPath::PATH);
    let text = path.str();
    let absolute = text.starts_with('/');
    match kind.str() {
        "Exact" | "Prefix" => {
            if !absolute {
                errors.push(path.invalid("must be an absolute path"));
            }
            for sequence in ["//", "/./", "/../", "%2f", "%2F"].iter().filter(|s| text.contains(**s)) {
                errors.push(path.invalid(format!("must not contain '{sequence}'")));
            }
            for suffix in ["/..", "/."].iter().filter(|s| text.ends_with(**s)) {
                errors.push(path.invalid(format!("cannot end with '{suffix}'")));
            }
        }
        "ImplementationSpecific" => {
            if !text.is_empty() && !absolute {
                errors.push(path.invalid("must be an absolute path"));
            }
        }
        _ => errors.push(kind.not_supported(&["Exact", "ImplementationSpecific", "Prefix"])),
    }
    validate_backend(http_path.at(HTTPIngressPath::BACKEND), errors);
}

fn validate_backend(backend: FieldRef<IngressBackend>, errors: &mut FieldErrors) {
    let (resource, service) = (backend.at(IngressBackend::RESOURCE), backend.at(IngressBackend::SERVICE));
    match (resource.is_set(), service.is_set()) {
        (true, true) => errors.push(backend.invalid_as("", "cannot set both resource and service backends")),
        (true, false) => local_reference(resource, errors),
        (false, true) => service_backend(backend, service, errors),
        (false, false) => errors.push(backend.invalid_as("", "resource or service backend is required")),
    }
}

fn service_backend(
    backend: FieldRef<IngressBackend>,
    service: FieldRef<IngressServiceBackend>,
    errors: &mut FieldErrors,
) {
    let name = service.at(IngressServiceBackend::NAME);
    if name.is_empty() {
        errors.push(name.required(""));
    } else {
        checks::label(&name, name.str(), errors);
    }
    let port = service.at(IngressServiceBackend::PORT);
    let (name, number) = (port.at(ServiceBackendPort::NAME), port.at(ServiceBackendPort::NUMBER));
    match (name.is_empty(), number.int_or_zero()) {
        (false, 0) => invalid_for(&name, name.str(), names::port_name(name.str()), errors),
        (false, _) => errors.push(backend.invalid_as("", "cannot set both port name & port number")),
        (true, 0) => errors.push(backend.required("port name or number is required")),
        (true, value) => ports::number(&number, value, errors),
    }
}

/// Validates a reference to an object of any kind in the same namespace.
pub(super) fn local_reference(reference: FieldRef<TypedLocalObjectReference>, errors: &mut FieldErrors) {
    let group = reference.at(TypedLocalObjectReference::API_GROUP);
    if let Some(text) = group.get_str() {
        checks::subdomain(&group, text, errors);
    }
    path_segment(reference.at(TypedLocalObjectReference::KIND), errors);
    path_segment(reference.at(TypedLocalObjectReference::NAME), errors);
}

fn secret_name_messages(name: &str) -> Vec<String> {
    if name.is_empty() { Vec::new() } else { names::dns1123_subdomain(name) }
}
