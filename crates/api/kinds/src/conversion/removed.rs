//! Versions that are no longer served: clusters that were upgraded from release to release may still store objects in
//! them. These are the versions that Kubernetes v1.36 reads; each object is converted to the version that its kind is
//! stored in today.

use binnacle_schema::{Object, Value, value};

use super::{Conversion, definitions, each, events, finish, old_workloads, rename, set_type};

pub(super) const CONVERSIONS: &[Conversion] = &[
    Conversion {
        group: "apiextensions.k8s.io",
        version: "v1beta1",
        kind: "CustomResourceDefinition",
        to: definitions::to_v1,
        from: definitions::from_v1,
    },
    converted!("admissionregistration.k8s.io", "v1beta1" => "v1", "MutatingWebhookConfiguration", webhook_defaults, same),
    converted!("admissionregistration.k8s.io", "v1beta1" => "v1", "ValidatingWebhookConfiguration", webhook_defaults, same),
    renamed!("admissionregistration.k8s.io", "v1alpha1" => "v1", "ValidatingAdmissionPolicy"),
    renamed!("admissionregistration.k8s.io", "v1alpha1" => "v1", "ValidatingAdmissionPolicyBinding"),
    renamed!("apiregistration.k8s.io", "v1beta1" => "v1", "APIService"),
    renamed!("apps", "v1beta1" => "v1", "ControllerRevision"),
    converted!("apps", "v1beta1" => "v1", "Deployment", deployment_to_v1, rollback_from_annotation),
    converted!("apps", "v1beta1" => "v1", "StatefulSet", old_workloads::updated_on_delete, same),
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
    converted!("extensions", "v1beta1" => "apps", "v1", "ReplicaSet", old_workloads::labels_and_selector, same),
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

/// Sets the defaults of v1beta1 for fields of webhooks where they differ from those of v1.
fn webhook_defaults(configuration: &mut Value) {
    let is_mutating = configuration.str_at(&["kind"]) == "MutatingWebhookConfiguration";
    each(configuration, &["webhooks"], |webhook| {
        let mut defaults = vec![
            ("failurePolicy", value!("Ignore")),
            ("matchPolicy", value!("Exact")),
            ("sideEffects", value!("Unknown")),
            ("timeoutSeconds", value!(30)),
            ("admissionReviewVersions", value!(["v1beta1"])),
        ];
        if is_mutating {
            defaults.push(("reinvocationPolicy", value!("Never")));
        }
        let webhook = webhook.make_object();
        for (name, default) in defaults {
            if webhook.get(name).is_none_or(|value| value.is_null() || value.as_list().is_some_and(<[Value]>::is_empty))
            {
                webhook.insert(name, default);
            }
        }
    });
}

fn annotations(object: &mut Value) -> Option<&mut Object> {
    object.at_mut(&["metadata", "annotations"]).and_then(Value::as_object_mut)
}

fn deployment_of_extensions_to_v1(deployment: &mut Value) {
    old_workloads::deployment_of_extensions(deployment);
    rollback_to_annotation(deployment);
}

fn deployment_to_v1(deployment: &mut Value) {
    old_workloads::deployment(deployment);
    rollback_to_annotation(deployment);
}

fn rollback_to_annotation(deployment: &mut Value) {
    let rollback = deployment.make_at(&["spec"]).remove("rollbackTo").filter(|rollback| !rollback.is_null());
    match rollback {
        Some(rollback) => {
            let revision = rollback.int_at(&["revision"]).unwrap_or_default().to_string();
            deployment.make_at(&["metadata", "annotations"]).insert(ROLLBACK_TO, revision);
        }
        None => drop(annotations(deployment).and_then(|annotations| annotations.remove(ROLLBACK_TO))),
    }
}

fn rollback_from_annotation(deployment: &mut Value) {
    let revision = annotations(deployment).and_then(|annotations| annotations.remove(ROLLBACK_TO));
    let revision = revision.as_ref().and_then(Value::as_str).and_then(|revision| revision.parse::<i64>().ok());
    if let Some(revision) = revision {
        deployment.make_at(&["spec"]).insert("rollbackTo", value!({"revision": revision}));
    }
}

fn daemon_set_to_v1(set: &mut Value) {
    old_workloads::updated_on_delete(set);
    generation_to_annotation(set);
}

fn generation_to_annotation(set: &mut Value) {
    let generation = set.make_at(&["spec"]).remove("templateGeneration");
    let generation = generation.as_ref().and_then(Value::as_i64).unwrap_or_default().to_string();
    set.make_at(&["metadata", "annotations"]).insert(TEMPLATE_GENERATION, generation);
}

fn generation_from_annotation(set: &mut Value) {
    let generation = annotations(set).and_then(|annotations| annotations.remove(TEMPLATE_GENERATION));
    let generation = generation.as_ref().and_then(Value::as_str).and_then(|generation| generation.parse::<i64>().ok());
    if let Some(generation) = generation {
        set.make_at(&["spec"]).insert("templateGeneration", generation);
    }
}

/// Sets the annotation with the template generation, which Go always has.
fn complete_generation(set: &mut Value) {
    if set.at(&["metadata", "annotations", TEMPLATE_GENERATION]).is_none() {
        set.make_at(&["metadata", "annotations"]).insert(TEMPLATE_GENERATION, "0");
    }
}

fn topology_to_fields(slice: &mut Value) {
    each(slice, &["endpoints"], |endpoint| {
        let Some(Value::Object(mut topology)) = endpoint.make_object().remove("topology") else { return };
        if let Some(zone) = topology.remove(ZONE) {
            endpoint.make_object().insert("zone", zone);
        }
        // A host name that equals the name of the node is dropped.
        let node = endpoint.at(&["nodeName"]).and_then(Value::as_str);
        if node.is_some() && topology.get(HOSTNAME).and_then(Value::as_str) == node {
            topology.remove(HOSTNAME);
        }
        if !topology.is_empty() {
            endpoint.make_object().insert("deprecatedTopology", Value::Object(topology));
        }
    });
}

fn topology_from_fields(slice: &mut Value) {
    each(slice, &["endpoints"], |endpoint| {
        let node = endpoint.at(&["nodeName"]).filter(|node| !node.is_null()).cloned();
        rename(endpoint, "deprecatedTopology", "topology");
        let zone = endpoint.make_object().remove("zone").filter(|zone| !zone.is_null());
        if let Some(zone) = zone {
            endpoint.make_at(&["topology"]).insert(ZONE, zone);
        }
        if let Some(node) = node
            && endpoint.str_at(&["topology", HOSTNAME]).is_empty()
        {
            endpoint.make_at(&["topology"]).insert(HOSTNAME, node);
        }
    });
}

fn backends_to_services(ingress: &mut Value) {
    let spec = ingress.make_at(&["spec"]);
    if let Some(backend) = spec.remove("backend").filter(|backend| !backend.is_null()) {
        spec.insert("defaultBackend", service_of(backend));
    }
    each_backend(ingress, service_of);
}

fn backends_from_services(ingress: &mut Value) {
    let spec = ingress.make_at(&["spec"]);
    if let Some(backend) = spec.remove("defaultBackend").filter(|backend| !backend.is_null()) {
        spec.insert("backend", name_of(backend));
    }
    each_backend(ingress, name_of);
}

fn each_backend(ingress: &mut Value, change: fn(Value) -> Value) {
    each(ingress, &["spec", "rules"], |rule| {
        each(rule, &["http", "paths"], |path| {
            if let Some(backend) = path.make_object().remove("backend") {
                path.make_object().insert("backend", change(backend));
            }
        });
    });
}

/// Returns a backend with service and port in the form of v1.
fn service_of(mut backend: Value) -> Value {
    let members = backend.make_object();
    let name = members.remove("serviceName").filter(|name| !name.is_null());
    let port = members.remove("servicePort").filter(|port| !port.is_null());
    let has_name = name.as_ref().and_then(Value::as_str).is_some_and(|name| !name.is_empty());
    let port = match port {
        Some(Value::Int(0)) | None => value!({}),
        Some(Value::Int(number)) => value!({"number": number}),
        Some(name) => value!({"name": name}),
    };
    if has_name || port.as_object().is_some_and(|port| !port.is_empty()) {
        let name = name.unwrap_or_else(|| value!(""));
        members.insert("service", value!({"name": name, "port": port}));
    }
    backend
}

fn name_of(mut backend: Value) -> Value {
    let members = backend.make_object();
    if let Some(service) = members.remove("service").filter(|service| !service.is_null()) {
        let port = match service.str_at(&["port", "name"]) {
            "" => value!(service.int_at(&["port", "number"]).unwrap_or_default()),
            name => value!(name),
        };
        members.insert("serviceName", value!(service.str_at(&["name"])));
        members.insert("servicePort", port);
    }
    backend
}

fn limited(level: &mut Value) -> Option<&mut Value> {
    level.at_mut(&["spec", "limited"]).filter(|limited| !limited.is_null())
}

fn shares_to_nominal(level: &mut Value) {
    if let Some(limited) = limited(level) {
        rename(limited, "assuredConcurrencyShares", "nominalConcurrencyShares");
        default_shares(limited);
    }
}

fn shares_from_nominal(level: &mut Value) {
    if let Some(limited) = limited(level) {
        rename(limited, "nominalConcurrencyShares", "assuredConcurrencyShares");
    }
}

/// Sets absent and zero shares to 30, the old default.
fn default_shares(limited: &mut Value) {
    if limited.int_at(&["nominalConcurrencyShares"]).unwrap_or_default() == 0 {
        limited.make_object().insert("nominalConcurrencyShares", value!(30));
    }
}

fn no_shares_to_field(level: &mut Value) {
    let is_zero = annotations(level).and_then(|annotations| annotations.remove(NO_SHARES)).is_some();
    if let Some(limited) = limited(level) {
        match is_zero && limited.int_at(&["nominalConcurrencyShares"]).unwrap_or_default() == 0 {
            true => drop(limited.make_object().insert("nominalConcurrencyShares", value!(0))),
            false => default_shares(limited),
        }
    }
}

fn no_shares_from_field(level: &mut Value) {
    if limited(level).is_some_and(|limited| limited.int_at(&["nominalConcurrencyShares"]) == Some(0)) {
        level.make_at(&["metadata", "annotations"]).insert(NO_SHARES, "");
    }
}

fn runtime_class_without_spec(class: &mut Value) {
    let spec = class.make_object().remove("spec").unwrap_or_default();
    let class = class.make_object();
    class.insert("handler", value!(spec.str_at(&["runtimeHandler"])));
    for name in ["overhead", "scheduling"] {
        if let Some(value) = spec.get(name).filter(|value| !value.is_null()) {
            class.insert(name, value.clone());
        }
    }
}

fn runtime_class_with_spec(class: &mut Value) {
    let handler = class.make_object().remove("handler").unwrap_or_default();
    class.make_at(&["spec"]).insert("runtimeHandler", handler);
    for name in ["overhead", "scheduling"] {
        if let Some(value) = class.make_object().remove(name) {
            class.make_at(&["spec"]).insert(name, value);
        }
    }
}

/// Returns the selector that selects all pods in v1beta1, or no pods in v1.
fn labelled(operator: &str) -> Value {
    value!({"matchExpressions": [{"key": BUDGET_LABEL, "operator": operator}]})
}

fn selector_to_v1(budget: &mut Value) {
    let Some(selector) = budget.at_mut(&["spec", "selector"]).filter(|selector| !selector.is_null()) else { return };
    if is_empty_selector(selector) {
        *selector = labelled("Exists");
    } else if *selector == labelled("DoesNotExist") {
        *selector = value!({});
    } else {
        without_budget_label(selector);
    }
}

fn selector_from_v1(budget: &mut Value) {
    let Some(selector) = budget.at_mut(&["spec", "selector"]).filter(|selector| !selector.is_null()) else { return };
    if *selector == labelled("Exists") {
        *selector = value!({});
    } else if is_empty_selector(selector) {
        *selector = labelled("DoesNotExist");
    }
}

fn is_empty_selector(selector: &Value) -> bool {
    selector.list_at(&["matchExpressions"]).is_empty()
        && selector.get("matchLabels").and_then(Value::as_object).is_none_or(Object::is_empty)
}

fn without_budget_label(selector: &mut Value) {
    if let Some(Value::List(expressions)) = selector.at_mut(&["matchExpressions"]) {
        expressions.retain(|expression| expression.str_at(&["key"]) != BUDGET_LABEL);
    }
}

fn subjects_to_groups(binding: &mut Value) {
    each(binding, &["subjects"], |subject| {
        let api_version = subject.make_object().remove("apiVersion").unwrap_or_default();
        let group = match subject.str_at(&["kind"]) {
            "ServiceAccount" => "",
            "User" | "Group" => RBAC,
            _ => api_version.as_str().and_then(|version| version.split_once('/')).map_or("", |(group, _)| group),
        };
        let is_everybody = subject.str_at(&["kind"]) == "User" && subject.str_at(&["name"]) == "*";
        let group = value!(group);
        subject.make_object().insert("apiGroup", group);
        // All authenticated users, as a group.
        if is_everybody {
            subject.make_object().insert("kind", "Group");
            subject.make_object().insert("name", "system:authenticated");
        }
    });
}

fn subjects_from_groups(binding: &mut Value) {
    each(binding, &["subjects"], |subject| {
        let group = subject.make_object().remove("apiGroup").unwrap_or_default();
        let group = group.as_str().unwrap_or_default();
        let api_version = match (subject.str_at(&["kind"]), group) {
            ("ServiceAccount", "") => "v1".to_owned(),
            ("User" | "Group", RBAC) => format!("{RBAC}/v1alpha1"),
            (_, "") => String::new(),
            (_, group) => format!("{group}/"),
        };
        subject.make_object().insert("apiVersion", api_version);
    });
}
