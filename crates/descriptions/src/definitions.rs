//! The definitions whose fields can be asked for: one line a package, with what somebody asks for today.
//! A type that is not listed is not in the program.

use std::borrow::Cow;

use schemars::{JsonSchema, Schema, SchemaGenerator};

/// How to build the schema of a definition.
pub(crate) type Build = fn(&mut SchemaGenerator) -> Schema;

/// The schema of a definition, by the name it has in the published documents (`io.k8s.api.core.v1.Pod`).
pub(crate) fn schema(definition: &str) -> Option<Build> {
    DEFINITIONS.iter().find(|entry| (entry.name)() == definition).map(|entry| entry.build)
}

#[cfg(test)]
pub(crate) fn names() -> impl Iterator<Item = Cow<'static, str>> {
    DEFINITIONS.iter().map(|entry| (entry.name)())
}

struct Definition {
    name: fn() -> Cow<'static, str>,
    build: Build,
}

const fn definition<T: JsonSchema>() -> Definition {
    Definition { name: T::schema_name, build: T::json_schema }
}

macro_rules! definitions {
    ($( $package:tt { $($kind:ident),+ $(,)? } )+) => { &[ $( $( definitions!($package $kind), )+ )+ ] };
    ([$($package:ident)::+] $kind:ident) => { definition::<k8s_openapi::$($package)::+::$kind>() };
}

const DEFINITIONS: &[Definition] = definitions! {
    [api::apiserverinternal::v1alpha1] { StorageVersionStatus }
    [api::apps::v1] {
        ControllerRevision, DaemonSetSpec, DaemonSetStatus, DeploymentSpec, DeploymentStatus, ReplicaSetSpec,
        ReplicaSetStatus,
    }
    [api::autoscaling::v1] { ScaleSpec, ScaleStatus }
    [api::autoscaling::v2] { HorizontalPodAutoscalerSpec, HorizontalPodAutoscalerStatus }
    [api::batch::v1] { CronJobSpec, CronJobStatus, JobSpec, JobStatus }
    [api::certificates::v1] { CertificateSigningRequestSpec, CertificateSigningRequestStatus }
    [api::certificates::v1beta1] { ClusterTrustBundleSpec, PodCertificateRequestSpec }
    [api::coordination::v1] { LeaseSpec }
    [api::coordination::v1alpha2] { LeaseCandidateSpec }
    [api::core::v1] {
        ConfigMap, Endpoints, Event, NodeStatus, NodeSystemInfo, ObjectReference, PersistentVolumeClaimSpec,
        PersistentVolumeClaimStatus, PersistentVolumeSpec, PersistentVolumeStatus, PodSpec, PodStatus,
        ReplicationControllerSpec, ReplicationControllerStatus, Secret, ServiceSpec,
    }
    [api::discovery::v1] { EndpointSlice }
    [api::flowcontrol::v1] {
        FlowSchemaSpec, LimitedPriorityLevelConfiguration, PriorityLevelConfigurationReference,
        PriorityLevelConfigurationSpec, QueuingConfiguration,
    }
    [api::networking::v1] { IPAddressSpec, NetworkPolicySpec, ServiceCIDRSpec }
    [api::rbac::v1] { ClusterRoleBinding, RoleBinding }
    [api::resource::v1] { DeviceTaint, ResourcePool, ResourceSliceSpec }
    [api::scheduling::v1] { PriorityClass }
    [api::scheduling::v1alpha2] { PodGroupSpec }
    [api::storage::v1] {
        CSIDriverSpec, CSIStorageCapacity, StorageClass, VolumeAttachmentSource, VolumeAttachmentSpec,
        VolumeAttachmentStatus, VolumeAttributesClass,
    }
    [apimachinery::pkg::apis::meta::v1] { ObjectMeta }
};
