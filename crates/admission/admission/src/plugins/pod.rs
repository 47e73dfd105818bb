//! Accessors of pods that several plugins share.

use binnacle_fields::core::v1::{
    AzureFileVolumeSource, CSIVolumeSource, CephFSVolumeSource, CinderVolumeSource, Container, FlexVolumeSource,
    ISCSIVolumeSource, LocalObjectReference, Pod, PodSpec, RBDVolumeSource, ScaleIOVolumeSource, SecretVolumeSource,
    StorageOSVolumeSource, Volume,
};
use binnacle_fields::{FieldRef, Route, route};
use binnacle_schema::Value;

/// The fields for the names of secrets in volumes other than projected ones.
pub(crate) const VOLUME_SECRETS: [Route<Volume>; 10] = [
    route![Volume::AZURE_FILE, AzureFileVolumeSource::SECRET_NAME],
    route![Volume::CEPHFS, CephFSVolumeSource::SECRET_REF, LocalObjectReference::NAME],
    route![Volume::CINDER, CinderVolumeSource::SECRET_REF, LocalObjectReference::NAME],
    route![Volume::FLEX_VOLUME, FlexVolumeSource::SECRET_REF, LocalObjectReference::NAME],
    route![Volume::RBD, RBDVolumeSource::SECRET_REF, LocalObjectReference::NAME],
    route![Volume::SECRET, SecretVolumeSource::SECRET_NAME],
    route![Volume::SCALE_IO, ScaleIOVolumeSource::SECRET_REF, LocalObjectReference::NAME],
    route![Volume::ISCSI, ISCSIVolumeSource::SECRET_REF, LocalObjectReference::NAME],
    route![Volume::STORAGEOS, StorageOSVolumeSource::SECRET_REF, LocalObjectReference::NAME],
    route![Volume::CSI, CSIVolumeSource::NODE_PUBLISH_SECRET_REF, LocalObjectReference::NAME],
];

/// Returns the spec of a pod.
pub(crate) fn spec(pod: &Value) -> FieldRef<'static, '_, PodSpec> {
    FieldRef::<Pod>::root(pod).at(Pod::SPEC).detached()
}

/// Iterates over all containers: init containers, containers and ephemeral containers.
pub(crate) fn all_containers<'v>(
    spec: FieldRef<'_, 'v, PodSpec>,
) -> impl Iterator<Item = FieldRef<'static, 'v, Container>> + use<'v> {
    let [init, regular] = [PodSpec::INIT_CONTAINERS, PodSpec::CONTAINERS].map(|list| spec.at(list).values());
    init.chain(regular).chain(ephemeral_containers(spec))
}

/// Iterates over the ephemeral containers, which have all fields of containers.
pub(crate) fn ephemeral_containers<'v>(
    spec: FieldRef<'_, 'v, PodSpec>,
) -> impl Iterator<Item = FieldRef<'static, 'v, Container>> + use<'v> {
    spec.at(PodSpec::EPHEMERAL_CONTAINERS).values().map(|container| container.cast())
}
