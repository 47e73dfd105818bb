//! The core group, `/api/v1`.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Event, EventSource, Namespace, NamespaceStatus, Node, NodeSpec, ObjectReference, PersistentVolume,
    PersistentVolumeClaim, Pod, PodIP, PodSpec, PodStatus, ReplicationController, ReplicationControllerStatus, Secret,
    Service, ServiceSpec,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::Text;
use binnacle_schema::Value;

use binnacle_scheme::fields::{
    FieldLabels, NAME as METADATA_NAME, NAMESPACE, SelectableField, UnknownLabel, boolean, computed, int, text,
};
use binnacle_scheme::{
    Deletion, GarbageCollection, GroupDescription, Storage, SubresourceDescription, SubresourceKind, SubresourceRole,
    VersionDescription, cluster, namespaced, shared,
};
use binnacle_scheme::{Verb, Verbs};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 18000,
        versions: vec![VersionDescription {
            version: "v1",
            priority: 1,
            served_by_default: true,
            resources: shared![
                namespaced!(NAME, "v1", "bindings", "binding", "Binding").without_storage(Verbs::CREATE).since(0),
                cluster!(NAME, "v1", "componentstatuses", "componentstatus", "ComponentStatus")
                    .short(&["cs"])
                    .without_storage(Verbs::of(&[Verb::Get, Verb::List]))
                    .deprecated(19),
                namespaced!(NAME, "v1", "configmaps", "configmap", "ConfigMap").short(&["cm"]).since(2),
                namespaced!(NAME, "v1", "endpoints", "endpoints", "Endpoints")
                    .short(&["ep"])
                    .key_prefix("services/endpoints")
                    .create_on_update()
                    .since(0)
                    .deprecated(33)
                    .replaced_by(["discovery.k8s.io", "v1", "EndpointSlice"]),
                namespaced!(NAME, "v1", "events", "event", "Event")
                    .short(&["ev"])
                    .stored_as(EVENT_STORAGE)
                    .selectable(EVENT_FIELDS, EVENT_LABELS)
                    .create_on_update()
                    .garbage_collection(GarbageCollection::Unsupported)
                    .since(0),
                namespaced!(NAME, "v1", "limitranges", "limitrange", "LimitRange")
                    .short(&["limits"])
                    .create_on_update()
                    .since(0),
                cluster!(NAME, "v1", "namespaces", "namespace", "Namespace")
                    .short(&["ns"])
                    .verbs(Verbs::STORED.without(Verb::DeleteCollection))
                    .selectable(NAMESPACE_FIELDS, NAMESPACE_LABELS)
                    .returns_deleted_object()
                    .deletion(Deletion::Namespace)
                    .resets(&["status"])
                    .subresources(&[
                        SubresourceDescription::new(
                            "finalize",
                            SubresourceRole::Update,
                            SubresourceKind::Resource,
                            Verbs::of(&[Verb::Update]),
                        )
                        .resets(&["status"]),
                        SubresourceDescription::status(&["spec"]),
                    ])
                    .since(0),
                cluster!(NAME, "v1", "nodes", "node", "Node")
                    .short(&["no"])
                    .key_prefix("minions")
                    .selectable(NODE_FIELDS, NODE_LABELS)
                    .resets(&["status"])
                    .subresources(&[proxy("NodeProxyOptions"), SubresourceDescription::status(&["spec"])])
                    .since(0),
                namespaced!(NAME, "v1", "persistentvolumeclaims", "persistentvolumeclaim", "PersistentVolumeClaim")
                    .short(&["pvc"])
                    .selectable(CLAIM_FIELDS, FieldLabels::METADATA)
                    .returns_deleted_object()
                    .resets(&["status"])
                    .subresources(status())
                    .since(0),
                cluster!(NAME, "v1", "persistentvolumes", "persistentvolume", "PersistentVolume")
                    .short(&["pv"])
                    .selectable(VOLUME_FIELDS, FieldLabels::METADATA)
                    .returns_deleted_object()
                    .resets(&["status"])
                    .subresources(status())
                    .since(0),
                namespaced!(NAME, "v1", "pods", "pod", "Pod")
                    .short(&["po"])
                    .categories(&["all"])
                    .selectable(POD_FIELDS, POD_LABELS)
                    .returns_deleted_object()
                    .deletion(Deletion::PodGraceful)
                    .resets(&["status"])
                    .subresources(pod_subresources())
                    .since(0),
                namespaced!(NAME, "v1", "podtemplates", "podtemplate", "PodTemplate").returns_deleted_object().since(0),
                namespaced!(NAME, "v1", "replicationcontrollers", "replicationcontroller", "ReplicationController")
                    .short(&["rc"])
                    .categories(&["all"])
                    .key_prefix("controllers")
                    .selectable(CONTROLLER_FIELDS, CONTROLLER_LABELS)
                    .garbage_collection(GarbageCollection::OrphanDependents)
                    .resets(&["status"])
                    .subresources(&[SubresourceDescription::scale(), SubresourceDescription::status(&["spec"])])
                    .since(0),
                namespaced!(NAME, "v1", "resourcequotas", "resourcequota", "ResourceQuota")
                    .short(&["quota"])
                    .returns_deleted_object()
                    .resets(&["status"])
                    .subresources(status())
                    .since(0),
                namespaced!(NAME, "v1", "secrets", "secret", "Secret")
                    .selectable(SECRET_FIELDS, SECRET_LABELS)
                    .since(0),
                namespaced!(NAME, "v1", "serviceaccounts", "serviceaccount", "ServiceAccount")
                    .short(&["sa"])
                    .returns_deleted_object()
                    .subresources(&[SubresourceDescription::new(
                        "token",
                        SubresourceRole::Create,
                        SubresourceKind::foreign("authentication.k8s.io", "v1", "TokenRequest"),
                        Verbs::CREATE,
                    )])
                    .since(0),
                namespaced!(NAME, "v1", "services", "service", "Service")
                    .short(&["svc"])
                    .categories(&["all"])
                    .key_prefix("services/specs")
                    .selectable(SERVICE_FIELDS, SERVICE_LABELS)
                    .returns_deleted_object()
                    .create_on_update()
                    .resets(&["status"])
                    .subresources(&[proxy("ServiceProxyOptions"), SubresourceDescription::status(&["spec"])])
                    .since(0),
            ],
        }],
    }
}

const NAME: &str = "";

fn status() -> Vec<SubresourceDescription> {
    vec![SubresourceDescription::status(&["spec"])]
}

fn pod_subresources() -> Vec<SubresourceDescription> {
    vec![
        stream("attach", "PodAttachOptions"),
        SubresourceDescription::new(
            "binding",
            SubresourceRole::Create,
            SubresourceKind::sibling("Binding"),
            Verbs::CREATE,
        ),
        SubresourceDescription::new(
            "ephemeralcontainers",
            SubresourceRole::Update,
            SubresourceKind::Resource,
            Verbs::READ_WRITE,
        )
        .changes_only(&["spec.ephemeralContainers"]),
        SubresourceDescription::new(
            "eviction",
            SubresourceRole::Create,
            SubresourceKind::foreign("policy", "v1", "Eviction"),
            Verbs::CREATE,
        ),
        stream("exec", "PodExecOptions"),
        SubresourceDescription::new("log", SubresourceRole::Log, SubresourceKind::Resource, Verbs::of(&[Verb::Get])),
        stream("portforward", "PodPortForwardOptions"),
        proxy("PodProxyOptions"),
        SubresourceDescription::new("resize", SubresourceRole::Update, SubresourceKind::Resource, Verbs::READ_WRITE)
            .changes_only(&[
                "spec.containers.*.resources",
                "spec.containers.*.resizePolicy",
                "spec.initContainers.*.resources",
                "spec.initContainers.*.resizePolicy",
            ]),
        SubresourceDescription::status(&["metadata.deletionTimestamp", "metadata.ownerReferences", "spec"]),
    ]
}

/// Describes a subresource that upgrades the connection to a stream, by GET or POST.
fn stream(name: &'static str, options: &'static str) -> SubresourceDescription {
    SubresourceDescription::new(
        name,
        SubresourceRole::Connect,
        SubresourceKind::sibling(options),
        Verbs::of(&[Verb::Create, Verb::Get]),
    )
}

/// Describes a subresource that proxies whole requests, with any method.
fn proxy(options: &'static str) -> SubresourceDescription {
    SubresourceDescription::new(
        "proxy",
        SubresourceRole::Connect,
        SubresourceKind::sibling(options),
        Verbs::of(&[Verb::Create, Verb::Delete, Verb::Get, Verb::Patch, Verb::Update]),
    )
}

/// Shared by both groups that serve events. Without a watch cache, since events are many and short-lived.
pub(crate) const EVENT_STORAGE: Storage = Storage {
    key_prefix: Text::new_static("events"),
    group: Text::new_static(NAME),
    version: Text::new_static("v1"),
    kind: Text::new_static("Event"),
    announced_version: Text::new_static("v1"),
    is_announced: true,
    expires: true,
    watch_cache: false,
};

// === Selectable fields ===

pub(crate) const EVENT_FIELDS: &[SelectableField] = &[
    METADATA_NAME,
    NAMESPACE,
    text("involvedObject.kind", path![Event::INVOLVED_OBJECT, ObjectReference::KIND]),
    text("involvedObject.namespace", path![Event::INVOLVED_OBJECT, ObjectReference::NAMESPACE]),
    text("involvedObject.name", path![Event::INVOLVED_OBJECT, ObjectReference::NAME]),
    text("involvedObject.uid", path![Event::INVOLVED_OBJECT, ObjectReference::UID]),
    text("involvedObject.apiVersion", path![Event::INVOLVED_OBJECT, ObjectReference::API_VERSION]),
    text("involvedObject.resourceVersion", path![Event::INVOLVED_OBJECT, ObjectReference::RESOURCE_VERSION]),
    text("involvedObject.fieldPath", path![Event::INVOLVED_OBJECT, ObjectReference::FIELD_PATH]),
    text("reason", path![Event::REASON]),
    text("reportingComponent", path![Event::REPORTING_COMPONENT]),
    computed(
        "source",
        &[path![Event::SOURCE, EventSource::COMPONENT], path![Event::REPORTING_COMPONENT]],
        event_source,
    ),
    text("type", path![Event::TYPE]),
];

const EVENT_LABELS: FieldLabels = FieldLabels::new(
    &[
        ("involvedObject.kind", "involvedObject.kind"),
        ("involvedObject.namespace", "involvedObject.namespace"),
        ("involvedObject.name", "involvedObject.name"),
        ("involvedObject.uid", "involvedObject.uid"),
        ("involvedObject.apiVersion", "involvedObject.apiVersion"),
        ("involvedObject.resourceVersion", "involvedObject.resourceVersion"),
        ("involvedObject.fieldPath", "involvedObject.fieldPath"),
        ("reason", "reason"),
        ("reportingComponent", "reportingComponent"),
        ("source", "source"),
        ("type", "type"),
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.name", "metadata.name"),
    ],
    UnknownLabel::NotSupported,
);

/// Returns the component that old clients set, or else the controller that newer clients set.
fn event_source(event: &Value) -> Text {
    let event = FieldRef::<Event>::root(event);
    match event.at(Event::SOURCE).at(EventSource::COMPONENT).str() {
        "" => Text::from(event.at(Event::REPORTING_COMPONENT).str()),
        component => Text::from(component),
    }
}

/// `name` is computed for clients that watch the fields of the store directly, but has no field label.
const NAMESPACE_FIELDS: &[SelectableField] = &[
    METADATA_NAME,
    text("status.phase", path![Namespace::STATUS, NamespaceStatus::PHASE]),
    text("name", path![Namespace::METADATA, ObjectMeta::NAME]),
];

const NAMESPACE_LABELS: FieldLabels = FieldLabels::new(
    &[("status.phase", "status.phase"), ("metadata.name", "metadata.name")],
    UnknownLabel::NotSupported,
);

const NODE_FIELDS: &[SelectableField] =
    &[METADATA_NAME, boolean("spec.unschedulable", path![Node::SPEC, NodeSpec::UNSCHEDULABLE])];

const NODE_LABELS: FieldLabels = FieldLabels::new(
    &[("metadata.name", "metadata.name"), ("spec.unschedulable", "spec.unschedulable")],
    UnknownLabel::NotSupported,
);

const CLAIM_FIELDS: &[SelectableField] =
    &[METADATA_NAME, NAMESPACE, text("name", path![PersistentVolumeClaim::METADATA, ObjectMeta::NAME])];

const VOLUME_FIELDS: &[SelectableField] =
    &[METADATA_NAME, text("name", path![PersistentVolume::METADATA, ObjectMeta::NAME])];

const POD_FIELDS: &[SelectableField] = &[
    METADATA_NAME,
    NAMESPACE,
    text("spec.nodeName", path![Pod::SPEC, PodSpec::NODE_NAME]),
    text("spec.restartPolicy", path![Pod::SPEC, PodSpec::RESTART_POLICY]),
    text("spec.schedulerName", path![Pod::SPEC, PodSpec::SCHEDULER_NAME]),
    computed(
        "spec.serviceAccountName",
        &[path![Pod::SPEC, PodSpec::SERVICE_ACCOUNT_NAME], path![Pod::SPEC, PodSpec::SERVICE_ACCOUNT]],
        pod_service_account,
    ),
    boolean("spec.hostNetwork", path![Pod::SPEC, PodSpec::HOST_NETWORK]),
    text("status.phase", path![Pod::STATUS, PodStatus::PHASE]),
    computed("status.podIP", &[path![Pod::STATUS, PodStatus::POD_IP], path![Pod::STATUS, PodStatus::POD_IPS]], pod_ip),
    text("status.nominatedNodeName", path![Pod::STATUS, PodStatus::NOMINATED_NODE_NAME]),
];

const POD_LABELS: FieldLabels = FieldLabels::new(
    &[
        ("metadata.name", "metadata.name"),
        ("metadata.namespace", "metadata.namespace"),
        ("spec.nodeName", "spec.nodeName"),
        ("spec.restartPolicy", "spec.restartPolicy"),
        ("spec.schedulerName", "spec.schedulerName"),
        ("spec.serviceAccountName", "spec.serviceAccountName"),
        ("spec.hostNetwork", "spec.hostNetwork"),
        ("status.phase", "status.phase"),
        ("status.podIP", "status.podIP"),
        ("status.podIPs", "status.podIPs"),
        ("status.nominatedNodeName", "status.nominatedNodeName"),
        ("spec.host", "spec.nodeName"),
    ],
    UnknownLabel::NotSupported,
);

/// Returns `status.podIP`, which takes precedence over the first of `status.podIPs`, or else the latter.
fn pod_ip(pod: &Value) -> Text {
    let pod = FieldRef::<Pod>::root(pod);
    let status = pod.at(Pod::STATUS);
    match status.at(PodStatus::POD_IP).str() {
        "" => Text::from(status.at(PodStatus::POD_IPS).item(0).map_or("", |ip| ip.at(PodIP::IP).str())),
        ip => Text::from(ip),
    }
}

/// Returns the service account; old clients only set `spec.serviceAccount`.
fn pod_service_account(pod: &Value) -> Text {
    let pod = FieldRef::<Pod>::root(pod);
    let spec = pod.at(Pod::SPEC);
    match spec.at(PodSpec::SERVICE_ACCOUNT_NAME).str() {
        "" => Text::from(spec.at(PodSpec::SERVICE_ACCOUNT).str()),
        name => Text::from(name),
    }
}

const CONTROLLER_FIELDS: &[SelectableField] = &[
    METADATA_NAME,
    NAMESPACE,
    int("status.replicas", path![ReplicationController::STATUS, ReplicationControllerStatus::REPLICAS]),
];

const CONTROLLER_LABELS: FieldLabels = FieldLabels::new(
    &[
        ("metadata.name", "metadata.name"),
        ("metadata.namespace", "metadata.namespace"),
        ("status.replicas", "status.replicas"),
    ],
    UnknownLabel::NotSupported,
);

const SECRET_FIELDS: &[SelectableField] = &[METADATA_NAME, NAMESPACE, text("type", path![Secret::TYPE])];

const SECRET_LABELS: FieldLabels = FieldLabels::new(
    &[("type", "type"), ("metadata.namespace", "metadata.namespace"), ("metadata.name", "metadata.name")],
    UnknownLabel::NotSupported,
);

const SERVICE_FIELDS: &[SelectableField] = &[
    METADATA_NAME,
    NAMESPACE,
    text("spec.clusterIP", path![Service::SPEC, ServiceSpec::CLUSTER_IP]),
    text("spec.type", path![Service::SPEC, ServiceSpec::TYPE]),
];

const SERVICE_LABELS: FieldLabels = FieldLabels::new(
    &[
        ("metadata.namespace", "metadata.namespace"),
        ("metadata.name", "metadata.name"),
        ("spec.clusterIP", "spec.clusterIP"),
        ("spec.type", "spec.type"),
    ],
    UnknownLabel::NotSupported,
);

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn computes_selectable_fields() {
        let field = |fields: &[SelectableField], name: &str, object: &Value| {
            fields.iter().find(|field| field.name == name).map(|field| field.of(object)).unwrap()
        };
        let empty = value!({});
        let pod = value!({
            "metadata": {"name": "a", "namespace": "b"},
            "spec": {"nodeName": "n1", "hostNetwork": true, "serviceAccount": "old"},
            "status": {"podIPs": [{"ip": "10.0.0.1"}, {"ip": "fd00::1"}]}
        });
        for (name, of_empty, of_pod) in [
            ("metadata.name", "", "a"),
            ("metadata.namespace", "", "b"),
            ("spec.nodeName", "", "n1"),
            ("spec.hostNetwork", "false", "true"),
            ("spec.serviceAccountName", "", "old"),
            ("status.podIP", "", "10.0.0.1"),
            ("status.phase", "", ""),
        ] {
            assert_eq!(field(POD_FIELDS, name, &empty), of_empty, "{name}");
            assert_eq!(field(POD_FIELDS, name, &pod), of_pod, "{name}");
        }
        let differing = value!({"status": {"podIP": "10.0.0.2", "podIPs": [{"ip": "10.0.0.1"}]}});
        assert_eq!(field(POD_FIELDS, "status.podIP", &differing), "10.0.0.2");

        assert_eq!(field(CONTROLLER_FIELDS, "status.replicas", &empty), "0");
        assert_eq!(field(CONTROLLER_FIELDS, "status.replicas", &value!({"status": {"replicas": 3i64}})), "3");

        let old = value!({"source": {"component": "kubelet"}, "reportingComponent": "x"});
        let new = value!({"source": {}, "reportingComponent": "x"});
        assert_eq!(field(EVENT_FIELDS, "source", &old), "kubelet");
        assert_eq!(field(EVENT_FIELDS, "source", &new), "x");
    }
}
