//! The definitions from which all others are reachable: kinds, and the few structs that are sent on their own.

use k8s_openapi::apimachinery::pkg::apis::meta::v1::WatchEvent;
use schemars::{JsonSchema, SchemaGenerator};

/// Adds the schemas of all types of `k8s-openapi`.
pub(crate) fn add_to(generator: &mut SchemaGenerator) {
    for add in ROOTS {
        add(generator);
    }
}

fn add<T: JsonSchema>(generator: &mut SchemaGenerator) {
    generator.subschema_for::<T>();
}

macro_rules! roots {
    ($( $package:tt { $($kind:ident),+ $(,)? } )+) => { &[ $( $( roots!($package $kind), )+ )+ add::<WatchEvent<()>> ] };
    ([$($package:ident)::+] $kind:ident) => { add::<k8s_openapi::$($package)::+::$kind> };
}

const ROOTS: &[fn(&mut SchemaGenerator)] = roots! {
    [api::admissionregistration::v1] {
        MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding, MutatingWebhookConfiguration,
        ValidatingAdmissionPolicy, ValidatingAdmissionPolicyBinding, ValidatingWebhookConfiguration,
    }
    [api::admissionregistration::v1alpha1] { MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding }
    [api::admissionregistration::v1beta1] { MutatingAdmissionPolicy, MutatingAdmissionPolicyBinding }
    [api::apiserverinternal::v1alpha1] { StorageVersion }
    [api::apps::v1] { ControllerRevision, DaemonSet, Deployment, ReplicaSet, StatefulSet }
    [api::authentication::v1] { SelfSubjectReview, TokenRequest, TokenReview }
    [api::authorization::v1] {
        LocalSubjectAccessReview, SelfSubjectAccessReview, SelfSubjectRulesReview, SubjectAccessReview,
    }
    [api::autoscaling::v1] { HorizontalPodAutoscaler, Scale }
    [api::autoscaling::v2] { HorizontalPodAutoscaler }
    [api::batch::v1] { CronJob, Job }
    [api::certificates::v1] { CertificateSigningRequest }
    [api::certificates::v1alpha1] { ClusterTrustBundle }
    [api::certificates::v1beta1] { ClusterTrustBundle, PodCertificateRequest }
    [api::coordination::v1] { Lease }
    [api::coordination::v1alpha2] { LeaseCandidate }
    [api::coordination::v1beta1] { LeaseCandidate }
    [api::core::v1] {
        Binding, ComponentStatus, ConfigMap, Endpoints, Event, LimitRange, Namespace, Node, PersistentVolume, Pod,
        PodTemplate, ReplicationController, ResourceQuota, Secret, Service, ServiceAccount,
    }
    [api::discovery::v1] { EndpointSlice }
    [api::events::v1] { Event }
    [api::flowcontrol::v1] { FlowSchema, PriorityLevelConfiguration }
    [api::networking::v1] { IPAddress, Ingress, IngressClass, NetworkPolicy, ServiceCIDR }
    [api::networking::v1beta1] { IPAddress, ServiceCIDR }
    [api::node::v1] { RuntimeClass }
    [api::policy::v1] { Eviction, PodDisruptionBudget }
    [api::rbac::v1] { ClusterRole, ClusterRoleBinding, Role, RoleBinding }
    [api::resource::v1] { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice }
    [api::resource::v1alpha3] { DeviceTaintRule, ResourcePoolStatusRequest }
    [api::resource::v1beta1] { DeviceClass, ResourceClaim, ResourceClaimTemplate, ResourceSlice }
    [api::resource::v1beta2] { DeviceClass, DeviceTaintRule, ResourceClaim, ResourceClaimTemplate, ResourceSlice }
    [api::scheduling::v1] { PriorityClass }
    [api::scheduling::v1alpha2] { PodGroup, Workload }
    [api::storage::v1] {
        CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
    }
    [api::storage::v1beta1] { VolumeAttributesClass }
    [api::storagemigration::v1beta1] { StorageVersionMigration }
    [apiextensions_apiserver::pkg::apis::apiextensions::v1] { CustomResourceDefinition }
    [apimachinery::pkg::apis::meta::v1] { APIGroupList, APIResourceList, APIVersions, Patch, Status }
    [apimachinery::pkg::version] { Info }
    [kube_aggregator::pkg::apis::apiregistration::v1] { APIService }
};
