//! Versions that are no longer served: clusters that were upgraded from release to release may still store objects in
//! them. These are the versions that Kubernetes v1.36 reads; each object is converted to the version that its kind is
//! stored in today.

use binnacle_fields::admissionregistration::v1beta1 as admission;
use binnacle_fields::apps::v1beta1 as apps;
use binnacle_fields::extensions::v1beta1 as extensions;
use binnacle_fields::flowcontrol::{v1 as flowcontrol, v1beta1 as old_flowcontrol};
use binnacle_fields::meta::v1::{LabelSelector, LabelSelectorRequirement, ObjectMeta};
use binnacle_fields::types::{Int, Kind};
use binnacle_fields::{Field, FieldMut, FieldRef, apps::v1beta2, discovery, networking, node, policy, rbac};
use binnacle_schema::{Value, value};

use super::{Conversion, definitions, events, finish, old_workloads, rename, set_some, set_type};
use crate::workload::validation::is_empty;

pub(super) const CONVERSIONS: &[Conversion] = &[
    Conversion {
        group: "apiextensions.k8s.io",
        version: "v1beta1",
        kind: "CustomResourceDefinition",
        to: definitions::to_v1,
        from: definitions::from_v1,
    },
    converted!("admissionregistration.k8s.io", "v1beta1" => "v1", "MutatingWebhookConfiguration", mutating_webhook_defaults, same),
    converted!("admissionregistration.k8s.io", "v1beta1" => "v1", "ValidatingWebhookConfiguration", validating_webhook_defaults, same),
    renamed!("admissionregistration.k8s.io", "v1alpha1" => "v1", "ValidatingAdmissionPolicy"),
    renamed!("admissionregistration.k8s.io", "v1alpha1" => "v1", "ValidatingAdmissionPolicyBinding"),
    renamed!("apiregistration.k8s.io", "v1beta1" => "v1", "APIService"),
    renamed!("apps", "v1beta1" => "v1", "ControllerRevision"),
    converted!("apps", "v1beta1" => "v1", "Deployment", deployment_to_v1, rollback_from_annotation),
    converted!("apps", "v1beta1" => "v1", "StatefulSet", old_workloads::stateful_set, same),
    renamed!("apps", "v1beta2" => "v1", "ControllerRevision"),
    converted!("apps", "v1beta2" => "v1", "DaemonSet", complete_generation, same),
    renamed!("apps", "v1beta2" => "v1", "Deployment"),
    renamed!("apps", "v1beta2" => "v1", "ReplicaSet"),
    renamed!("apps", "v1beta2" => "v1", "StatefulSet"),
    renamed!("batch", "v1beta1" => "v1", "CronJob"),
    renamed!("certificates.k8s.io", "v1beta1" => "v1", "CertificateSigningRequest"),
    renamed!("coordination.k8s.io", "v1beta1" => "v1", "Lease"),
    converted!("discovery.k8s.io", "v1beta1" => "v1", "EndpointSlice", topology_to_fields, topology_from_fields),
    Conversion {
        group: "events.k8s.io",
        version: "v1beta1",
        kind: "Event",
        to: events::to_core,
        from: |event| {
            events::from_core(event);
            set_type(event, "events.k8s.io/v1beta1", "Event");
        },
    },
    converted!("extensions", "v1beta1" => "apps", "v1", "DaemonSet", daemon_set_to_v1, generation_from_annotation),
    converted!("extensions", "v1beta1" => "apps", "v1", "Deployment", deployment_of_extensions_to_v1, rollback_from_annotation),
    converted!("extensions", "v1beta1" => "networking.k8s.io", "v1", "Ingress", backends_to_services, backends_from_services),
    converted!("extensions", "v1beta1" => "networking.k8s.io", "v1", "NetworkPolicy", same, same),
    converted!("extensions", "v1beta1" => "apps", "v1", "ReplicaSet", old_workloads::labels_and_selector::<extensions::ReplicaSet>, same),
    renamed!("flowcontrol.apiserver.k8s.io", "v1beta1" => "v1", "FlowSchema"),
    converted!("flowcontrol.apiserver.k8s.io", "v1beta1" => "v1", "PriorityLevelConfiguration", shares_to_nominal, shares_from_nominal),
    renamed!("flowcontrol.apiserver.k8s.io", "v1beta2" => "v1", "FlowSchema"),
    converted!("flowcontrol.apiserver.k8s.io", "v1beta2" => "v1", "PriorityLevelConfiguration", shares_to_nominal, shares_from_nominal),
    renamed!("flowcontrol.apiserver.k8s.io", "v1beta3" => "v1", "FlowSchema"),
    converted!("flowcontrol.apiserver.k8s.io", "v1beta3" => "v1", "PriorityLevelConfiguration", no_shares_to_field, no_shares_from_field),
    converted!("networking.k8s.io", "v1beta1" => "v1", "Ingress", backends_to_services, backends_from_services),
    renamed!("networking.k8s.io", "v1beta1" => "v1", "IngressClass"),
    converted!("node.k8s.io", "v1alpha1" => "v1", "RuntimeClass", runtime_class_without_spec, runtime_class_with_spec),
    renamed!("node.k8s.io", "v1beta1" => "v1", "RuntimeClass"),
    converted!("policy", "v1beta1" => "v1", "PodDisruptionBudget", selector_to_v1, selector_from_v1),
    renamed!("rbac.authorization.k8s.io", "v1alpha1" => "v1", "ClusterRole"),
    converted!("rbac.authorization.k8s.io", "v1alpha1" => "v1", "ClusterRoleBinding", subjects_to_groups, subjects_from_groups),
    renamed!("rbac.authorization.k8s.io", "v1alpha1" => "v1", "Role"),
    converted!("rbac.authorization.k8s.io", "v1alpha1" => "v1", "RoleBinding", subjects_to_groups, subjects_from_groups),
    renamed!("rbac.authorization.k8s.io", "v1beta1" => "v1", "ClusterRole"),
    renamed!("rbac.authorization.k8s.io", "v1beta1" => "v1", "ClusterRoleBinding"),
    renamed!("rbac.authorization.k8s.io", "v1beta1" => "v1", "Role"),
    renamed!("rbac.authorization.k8s.io", "v1beta1" => "v1", "RoleBinding"),
    renamed!("scheduling.k8s.io", "v1beta1" => "v1", "PriorityClass"),
    renamed!("storage.k8s.io", "v1alpha1" => "v1", "CSIStorageCapacity"),
    renamed!("storage.k8s.io", "v1alpha1" => "v1", "VolumeAttachment"),
    renamed!("storage.k8s.io", "v1alpha1" => "v1", "VolumeAttributesClass"),
    renamed!("storage.k8s.io", "v1beta1" => "v1", "CSIDriver"),
    renamed!("storage.k8s.io", "v1beta1" => "v1", "CSINode"),
    renamed!("storage.k8s.io", "v1beta1" => "v1", "CSIStorageCapacity"),
    renamed!("storage.k8s.io", "v1beta1" => "v1", "StorageClass"),
    renamed!("storage.k8s.io", "v1beta1" => "v1", "VolumeAttachment"),
];

const ROLLBACK_TO: &str = "deprecated.deployment.rollback.to";
const TEMPLATE_GENERATION: &str = "deprecated.daemonset.template.generation";
/// The annotation by which v1beta3 distinguishes zero shares from absent ones.
const NO_SHARES: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";
const ZONE: &str = "topology.kubernetes.io/zone";
const HOSTNAME: &str = "kubernetes.io/hostname";
/// The label of selectors that mean the same in v1beta1 or v1 as an empty selector in the other version.
const BUDGET_LABEL: &str = "pdb.kubernetes.io/deprecated-v1beta1-empty-selector-match";
const RBAC: &str = "rbac.authorization.k8s.io";

fn same(_: &mut Value) {}

fn take_annotation<K: Kind>(object: &mut FieldMut<K>, name: &str) -> Option<Value> {
    object.structure(K::METADATA)?.map(ObjectMeta::ANNOTATIONS)?.remove(name)
}

fn annotate<K: Kind>(object: &mut FieldMut<K>, name: &'static str, value: impl Into<Value>) {
    object.entry(K::METADATA).map_entry(ObjectMeta::ANNOTATIONS).insert(name, value);
}

// === Webhooks ===

fn mutating_webhook_defaults(object: &mut Value) {
    use admission::{MutatingWebhook, MutatingWebhookConfiguration};
    for mut webhook in FieldMut::root(object).items(MutatingWebhookConfiguration::WEBHOOKS) {
        // A mutating webhook has all fields of a validating one.
        webhook_defaults(&mut webhook.reborrow().cast());
        webhook.default_nil(MutatingWebhook::REINVOCATION_POLICY, "Never");
    }
}

fn validating_webhook_defaults(object: &mut Value) {
    use admission::ValidatingWebhookConfiguration;
    for mut webhook in FieldMut::root(object).items(ValidatingWebhookConfiguration::WEBHOOKS) {
        webhook_defaults(&mut webhook);
    }
}

/// Sets the defaults of v1beta1 for fields of webhooks where they differ from those of v1.
fn webhook_defaults(webhook: &mut FieldMut<admission::ValidatingWebhook>) {
    use admission::ValidatingWebhook;
    webhook.default_nil(ValidatingWebhook::FAILURE_POLICY, "Ignore");
    webhook.default_nil(ValidatingWebhook::MATCH_POLICY, "Exact");
    webhook.default_nil(ValidatingWebhook::SIDE_EFFECTS, "Unknown");
    webhook.default_nil(ValidatingWebhook::TIMEOUT_SECONDS, 30i64);
    if webhook.read().at(ValidatingWebhook::ADMISSION_REVIEW_VERSIONS).is_empty() {
        webhook.set(ValidatingWebhook::ADMISSION_REVIEW_VERSIONS, value!(["v1beta1"]));
    }
}

// === Workloads ===

fn deployment_of_extensions_to_v1(deployment: &mut Value) {
    old_workloads::deployment_of_extensions(deployment);
    rollback_to_annotation(deployment);
}

fn deployment_to_v1(deployment: &mut Value) {
    old_workloads::deployment(deployment);
    rollback_to_annotation(deployment);
}

/// Converts a Deployment of `apps/v1beta1` or `extensions/v1beta1`, which have the same field.
fn rollback_to_annotation(object: &mut Value) {
    let mut deployment = FieldMut::<apps::Deployment>::root(object);
    match deployment.entry(apps::Deployment::SPEC).take(apps::DeploymentSpec::ROLLBACK_TO) {
        Some(rollback) => {
            let revision = FieldRef::root(&rollback).at(apps::RollbackConfig::REVISION).int_or_zero();
            annotate(&mut deployment, ROLLBACK_TO, revision.to_string());
        }
        None => drop(take_annotation(&mut deployment, ROLLBACK_TO)),
    }
}

fn rollback_from_annotation(object: &mut Value) {
    let mut deployment = FieldMut::<apps::Deployment>::root(object);
    if let Some(revision) = take_number(&mut deployment, ROLLBACK_TO) {
        let rollback = FieldMut::build(|mut rollback| rollback.set(apps::RollbackConfig::REVISION, revision));
        deployment.entry(apps::Deployment::SPEC).set(apps::DeploymentSpec::ROLLBACK_TO, rollback);
    }
}

fn take_number<K: Kind>(object: &mut FieldMut<K>, annotation: &str) -> Option<i64> {
    take_annotation(object, annotation)?.as_str()?.parse().ok()
}

fn daemon_set_to_v1(object: &mut Value) {
    old_workloads::daemon_set(object);
    let mut set = FieldMut::<extensions::DaemonSet>::root(object);
    let generation = set.entry(extensions::DaemonSet::SPEC).remove(extensions::DaemonSetSpec::TEMPLATE_GENERATION);
    let generation = generation.and_then(|generation| generation.as_i64()).unwrap_or_default();
    annotate(&mut set, TEMPLATE_GENERATION, generation.to_string());
}

fn generation_from_annotation(object: &mut Value) {
    let mut set = FieldMut::<extensions::DaemonSet>::root(object);
    if let Some(generation) = take_number(&mut set, TEMPLATE_GENERATION) {
        set.entry(extensions::DaemonSet::SPEC).set(extensions::DaemonSetSpec::TEMPLATE_GENERATION, generation);
    }
}

/// Sets the annotation with the template generation, which Go always has.
fn complete_generation(object: &mut Value) {
    let mut set = FieldMut::root(object);
    let mut metadata = set.entry(v1beta2::DaemonSet::METADATA);
    metadata.map_entry(ObjectMeta::ANNOTATIONS).entry(TEMPLATE_GENERATION, || "0".into());
}

// === Endpoints ===

fn topology_to_fields(object: &mut Value) {
    use discovery::{v1, v1beta1};
    for mut endpoint in FieldMut::root(object).items(v1beta1::EndpointSlice::ENDPOINTS) {
        let Some(Value::Object(mut topology)) = endpoint.remove(v1beta1::Endpoint::TOPOLOGY) else { continue };
        // A host name that equals the name of the node is dropped.
        let node = endpoint.get(v1beta1::Endpoint::NODE_NAME).as_str();
        if node.is_some() && topology.get(HOSTNAME).and_then(Value::as_str) == node {
            topology.remove(HOSTNAME);
        }
        let mut endpoint = endpoint.reborrow().cast();
        set_some(&mut endpoint, v1::Endpoint::ZONE, topology.remove(ZONE));
        if !topology.is_empty() {
            endpoint.set(v1::Endpoint::DEPRECATED_TOPOLOGY, Value::Object(topology));
        }
    }
}

fn topology_from_fields(object: &mut Value) {
    use discovery::{v1, v1beta1};
    for mut endpoint in FieldMut::root(object).items(v1::EndpointSlice::ENDPOINTS) {
        rename(&mut endpoint, v1::Endpoint::DEPRECATED_TOPOLOGY, v1beta1::Endpoint::TOPOLOGY);
        let zone = endpoint.take(v1::Endpoint::ZONE);
        let mut endpoint = endpoint.reborrow().cast();
        if let Some(zone) = zone {
            endpoint.map_entry(v1beta1::Endpoint::TOPOLOGY).insert(ZONE, zone);
        }
        let node = endpoint.get(v1beta1::Endpoint::NODE_NAME).clone();
        if !node.is_null() && endpoint.read().at(v1beta1::Endpoint::TOPOLOGY).key(HOSTNAME).is_empty() {
            endpoint.map_entry(v1beta1::Endpoint::TOPOLOGY).insert(HOSTNAME, node);
        }
    }
}

// === Ingresses: those of `extensions/v1beta1` have the fields of `networking.k8s.io/v1beta1` ===

fn backends_to_services(object: &mut Value) {
    use networking::{v1, v1beta1};
    let mut ingress = FieldMut::root(object);
    let mut spec = ingress.entry(v1beta1::Ingress::SPEC);
    if let Some(mut backend) = spec.take(v1beta1::IngressSpec::BACKEND) {
        name_to_service(FieldMut::root(&mut backend));
        spec.reborrow().cast().set(v1::IngressSpec::DEFAULT_BACKEND, backend);
    }
    for mut rule in spec.items(v1beta1::IngressSpec::RULES) {
        let Some(mut http) = rule.structure(v1beta1::IngressRule::HTTP) else { continue };
        for mut path in http.items(v1beta1::HTTPIngressRuleValue::PATHS) {
            path.structure(v1beta1::HTTPIngressPath::BACKEND).into_iter().for_each(name_to_service);
        }
    }
}

fn backends_from_services(object: &mut Value) {
    use networking::{v1, v1beta1};
    let mut ingress = FieldMut::root(object);
    let mut spec = ingress.entry(v1::Ingress::SPEC);
    if let Some(mut backend) = spec.take(v1::IngressSpec::DEFAULT_BACKEND) {
        name_from_service(FieldMut::root(&mut backend));
        spec.reborrow().cast().set(v1beta1::IngressSpec::BACKEND, backend);
    }
    for mut rule in spec.items(v1::IngressSpec::RULES) {
        let Some(mut http) = rule.structure(v1::IngressRule::HTTP) else { continue };
        for mut path in http.items(v1::HTTPIngressRuleValue::PATHS) {
            path.structure(v1::HTTPIngressPath::BACKEND).into_iter().for_each(name_from_service);
        }
    }
}

/// Replaces the service name and port of a backend by the service of v1.
fn name_to_service(mut backend: FieldMut<networking::v1beta1::IngressBackend>) {
    use networking::v1::{IngressBackend, IngressServiceBackend, ServiceBackendPort};
    let name = backend.take(networking::v1beta1::IngressBackend::SERVICE_NAME);
    let port = backend.take(networking::v1beta1::IngressBackend::SERVICE_PORT);
    let has_name = name.as_ref().and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let has_port = port.as_ref().is_some_and(|port| *port != Value::Int(0));
    if !has_name && !has_port {
        return;
    }
    let mut backend = backend.reborrow().cast();
    let mut service = backend.entry(IngressBackend::SERVICE);
    service.set(IngressServiceBackend::NAME, name.unwrap_or_else(|| value!("")));
    service.set(
        IngressServiceBackend::PORT,
        FieldMut::build(|mut of_service| match port {
            Some(Value::Int(0)) | None => {}
            Some(Value::Int(number)) => of_service.set(ServiceBackendPort::NUMBER, number),
            Some(name) => of_service.set(ServiceBackendPort::NAME, name),
        }),
    );
}

/// The reverse of [`name_to_service`].
fn name_from_service(mut backend: FieldMut<networking::v1::IngressBackend>) {
    use networking::v1::{IngressBackend, IngressServiceBackend, ServiceBackendPort};
    let Some(service) = backend.take(IngressBackend::SERVICE) else { return };
    let service = FieldRef::root(&service);
    let port = service.at(IngressServiceBackend::PORT);
    let port = match port.at(ServiceBackendPort::NAME).str() {
        "" => value!(port.at(ServiceBackendPort::NUMBER).int_or_zero()),
        name => value!(name),
    };
    let mut backend = backend.reborrow().cast();
    let name = service.at(IngressServiceBackend::NAME).str();
    backend.set(networking::v1beta1::IngressBackend::SERVICE_NAME, name);
    backend.set(networking::v1beta1::IngressBackend::SERVICE_PORT, port);
}

// === Priority levels ===

/// Changes the limits of a priority level, which are in the same place in all versions.
fn change_limited(
    level: &mut FieldMut<flowcontrol::PriorityLevelConfiguration>,
    change: impl FnOnce(FieldMut<flowcontrol::LimitedPriorityLevelConfiguration>),
) {
    if let Some(mut spec) = level.structure(flowcontrol::PriorityLevelConfiguration::SPEC)
        && let Some(limited) = spec.structure(flowcontrol::PriorityLevelConfigurationSpec::LIMITED)
    {
        change(limited);
    }
}

const NOMINAL: Field<flowcontrol::LimitedPriorityLevelConfiguration, Int> =
    flowcontrol::LimitedPriorityLevelConfiguration::NOMINAL_CONCURRENCY_SHARES;
const ASSURED: Field<old_flowcontrol::LimitedPriorityLevelConfiguration, Int> =
    old_flowcontrol::LimitedPriorityLevelConfiguration::ASSURED_CONCURRENCY_SHARES;
/// The old default of shares, also of zero ones.
const DEFAULT_SHARES: i64 = 30;

fn shares_to_nominal(object: &mut Value) {
    change_limited(&mut FieldMut::root(object), |mut limited| {
        rename(&mut limited.reborrow().cast(), ASSURED, NOMINAL);
        limited.default_zero(NOMINAL, DEFAULT_SHARES);
    });
}

fn shares_from_nominal(object: &mut Value) {
    change_limited(&mut FieldMut::root(object), |mut limited| rename(&mut limited, NOMINAL, ASSURED));
}

fn no_shares_to_field(object: &mut Value) {
    let mut level = FieldMut::root(object);
    let shares = if take_annotation(&mut level, NO_SHARES).is_some() { 0 } else { DEFAULT_SHARES };
    change_limited(&mut level, |mut limited| limited.default_zero(NOMINAL, shares));
}

fn no_shares_from_field(object: &mut Value) {
    use flowcontrol::{PriorityLevelConfiguration, PriorityLevelConfigurationSpec};
    let mut level = FieldMut::<PriorityLevelConfiguration>::root(object);
    let limits = (PriorityLevelConfiguration::SPEC, PriorityLevelConfigurationSpec::LIMITED);
    if level.read().at(limits.0).at(limits.1).at(NOMINAL).int() == Some(0) {
        annotate(&mut level, NO_SHARES, "");
    }
}

// === Runtime classes ===

fn runtime_class_without_spec(object: &mut Value) {
    use node::v1::RuntimeClass;
    use node::v1alpha1::{self, RuntimeClassSpec};
    let mut spec = FieldMut::root(object).remove(v1alpha1::RuntimeClass::SPEC).unwrap_or_default();
    let mut spec = FieldMut::root(&mut spec);
    let mut class = FieldMut::root(object);
    class.set(RuntimeClass::HANDLER, spec.str(RuntimeClassSpec::RUNTIME_HANDLER));
    set_some(&mut class, RuntimeClass::OVERHEAD, spec.take(RuntimeClassSpec::OVERHEAD));
    set_some(&mut class, RuntimeClass::SCHEDULING, spec.take(RuntimeClassSpec::SCHEDULING));
}

fn runtime_class_with_spec(object: &mut Value) {
    use node::v1::RuntimeClass;
    use node::v1alpha1::{self, RuntimeClassSpec};
    let mut class = FieldMut::root(object);
    let handler = class.remove(RuntimeClass::HANDLER).unwrap_or_default();
    let (overhead, scheduling) = (class.remove(RuntimeClass::OVERHEAD), class.remove(RuntimeClass::SCHEDULING));
    let mut class = class.reborrow().cast();
    let mut spec = class.entry(v1alpha1::RuntimeClass::SPEC);
    spec.set(RuntimeClassSpec::RUNTIME_HANDLER, handler);
    set_some(&mut spec, RuntimeClassSpec::OVERHEAD, overhead);
    set_some(&mut spec, RuntimeClassSpec::SCHEDULING, scheduling);
}

// === Disruption budgets ===

/// Returns the selector that selects all pods in v1beta1, or no pods in v1.
fn labelled(operator: &'static str) -> Value {
    let requirement = FieldMut::build(|mut requirement| {
        requirement.set(LabelSelectorRequirement::KEY, BUDGET_LABEL);
        requirement.set(LabelSelectorRequirement::OPERATOR, operator);
    });
    FieldMut::build(|mut selector| selector.set(LabelSelector::MATCH_EXPRESSIONS, vec![requirement]))
}

fn selector_to_v1(object: &mut Value) {
    use policy::v1beta1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
    let mut budget = FieldMut::root(object);
    let Some(mut spec) = budget.structure(PodDisruptionBudget::SPEC) else { return };
    let Some(mut selector) = spec.structure(PodDisruptionBudgetSpec::SELECTOR) else { return };
    if is_empty(selector.read()) {
        *selector.value() = labelled("Exists");
    } else if *selector.value() == labelled("DoesNotExist") {
        *selector.value() = value!({});
    } else if let Some(Value::List(requirements)) = selector.get_mut(LabelSelector::MATCH_EXPRESSIONS) {
        requirements.retain(|one| FieldRef::root(one).at(LabelSelectorRequirement::KEY).str() != BUDGET_LABEL);
    }
}

fn selector_from_v1(object: &mut Value) {
    use policy::v1::{PodDisruptionBudget, PodDisruptionBudgetSpec};
    let mut budget = FieldMut::root(object);
    let Some(mut spec) = budget.structure(PodDisruptionBudget::SPEC) else { return };
    let Some(mut selector) = spec.structure(PodDisruptionBudgetSpec::SELECTOR) else { return };
    if *selector.value() == labelled("Exists") {
        *selector.value() = value!({});
    } else if is_empty(selector.read()) {
        *selector.value() = labelled("DoesNotExist");
    }
}

// === Subjects: those of ClusterRoleBindings are in the same field ===

fn subjects_to_groups(object: &mut Value) {
    use rbac::{v1::Subject, v1alpha1};
    for mut subject in FieldMut::root(object).items(v1alpha1::RoleBinding::SUBJECTS) {
        let api_version = subject.remove(v1alpha1::Subject::API_VERSION).unwrap_or_default();
        let mut subject = subject.reborrow().cast();
        let group = match subject.str(Subject::KIND) {
            "ServiceAccount" => "",
            "User" | "Group" => RBAC,
            _ => api_version.as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group),
        };
        subject.set(Subject::API_GROUP, group);
        // All authenticated users, as a group.
        if subject.str(Subject::KIND) == "User" && subject.str(Subject::NAME) == "*" {
            subject.set(Subject::KIND, "Group");
            subject.set(Subject::NAME, "system:authenticated");
        }
    }
}

fn subjects_from_groups(object: &mut Value) {
    use rbac::{v1::Subject, v1alpha1};
    for mut subject in FieldMut::root(object).items(rbac::v1::RoleBinding::SUBJECTS) {
        let group = subject.remove(Subject::API_GROUP).unwrap_or_default();
        let api_version = match (subject.str(Subject::KIND), group.as_str().unwrap_or_default()) {
            ("ServiceAccount", "") => "v1".to_owned(),
            ("User" | "Group", RBAC) => format!("{RBAC}/v1alpha1"),
            (_, "") => String::new(),
            (_, group) => format!("{group}/"),
        };
        subject.reborrow().cast().set(v1alpha1::Subject::API_VERSION, api_version);
    }
}
