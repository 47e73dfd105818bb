//! Defaults of volumes, and of the claims made for ephemeral volumes and stateful sets.

use binnacle_fields::FieldMut;
use binnacle_fields::core::v1::{
    AzureDiskVolumeSource as AzureDisk, ConfigMapVolumeSource, DownwardAPIProjection, DownwardAPIVolumeFile,
    DownwardAPIVolumeSource, EphemeralVolumeSource, HostPathVolumeSource, ISCSIVolumeSource, ImageVolumeSource,
    PersistentVolumeClaimSpec, PersistentVolumeClaimTemplate, ProjectedVolumeSource, RBDVolumeSource as Rbd,
    ScaleIOVolumeSource as ScaleIo, SecretVolumeSource, ServiceAccountTokenProjection, Volume, VolumeProjection,
};
use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;

use super::containers::set_field_selector_defaults;
use super::image;
use super::write;

/// The default mode of files of secrets, config maps and the like: readable by all, writable by the owner.
const FILE_MODE: i64 = 0o644;
const TOKEN_EXPIRATION: i64 = 3600;

pub(super) fn set_volume_defaults(mut volume: FieldMut<Volume>) {
    let has_source = volume.object().iter().any(|(name, value)| name != Volume::NAME.name() && !value.is_null());
    if !has_source {
        volume.set(Volume::EMPTY_DIR, Value::from(Object::new()));
    }
    if let Some(mut image) = volume.structure(Volume::IMAGE) {
        let policy = image::pull_policy(image.str(ImageVolumeSource::REFERENCE));
        image.default_zero(ImageVolumeSource::PULL_POLICY, policy);
    }
    if let Some(mut path) = volume.structure(Volume::HOST_PATH) {
        path.default_nil(HostPathVolumeSource::TYPE, "");
    }
    macro_rules! default_modes {
        ($($field:ident: $source:ident),*) => {$(
            if let Some(mut source) = volume.structure(Volume::$field) {
                source.default_nil($source::DEFAULT_MODE, FILE_MODE);
            }
        )*};
    }
    default_modes!(SECRET: SecretVolumeSource, CONFIG_MAP: ConfigMapVolumeSource);
    default_modes!(DOWNWARD_API: DownwardAPIVolumeSource, PROJECTED: ProjectedVolumeSource);
    if let Some(mut source) = volume.structure(Volume::DOWNWARD_API) {
        source.items(DownwardAPIVolumeSource::ITEMS).for_each(set_downward_defaults);
    }
    if let Some(mut projected) = volume.structure(Volume::PROJECTED) {
        projected.items(ProjectedVolumeSource::SOURCES).for_each(set_projection_defaults);
    }
    remote_volume_defaults(volume.reborrow());
    if let Some(mut ephemeral) = volume.structure(Volume::EPHEMERAL)
        && let Some(mut claim) = ephemeral.structure(EphemeralVolumeSource::VOLUME_CLAIM_TEMPLATE)
    {
        claim_spec_defaults(claim.entry(PersistentVolumeClaimTemplate::SPEC));
    }
}

fn set_projection_defaults(mut source: FieldMut<VolumeProjection>) {
    if let Some(mut downward) = source.structure(VolumeProjection::DOWNWARD_API) {
        downward.items(DownwardAPIProjection::ITEMS).for_each(set_downward_defaults);
    }
    if let Some(mut token) = source.structure(VolumeProjection::SERVICE_ACCOUNT_TOKEN) {
        token.default_nil(ServiceAccountTokenProjection::EXPIRATION_SECONDS, TOKEN_EXPIRATION);
    }
}

/// Sets the constant defaults of network volumes, in pods and in persistent volumes.
pub(crate) fn set_remote_volume_defaults(source: &mut Object) {
    write(source, remote_volume_defaults);
}

/// Persistent volumes have their sources in fields of the same names.
fn remote_volume_defaults(mut volume: FieldMut<Volume>) {
    if let Some(mut rbd) = volume.structure(Volume::RBD) {
        rbd.default_zero(Rbd::POOL, "rbd");
        rbd.default_zero(Rbd::USER, "admin");
        rbd.default_zero(Rbd::KEYRING, "/etc/ceph/keyring");
    }
    if let Some(mut iscsi) = volume.structure(Volume::ISCSI) {
        iscsi.default_zero(ISCSIVolumeSource::ISCSI_INTERFACE, "default");
    }
    if let Some(mut disk) = volume.structure(Volume::AZURE_DISK) {
        disk.default_nil(AzureDisk::CACHING_MODE, "ReadWrite");
        disk.default_nil(AzureDisk::FS_TYPE, "ext4");
        disk.default_nil(AzureDisk::READ_ONLY, false);
        disk.default_nil(AzureDisk::KIND, "Shared");
    }
    if let Some(mut scale_io) = volume.structure(Volume::SCALE_IO) {
        scale_io.default_zero(ScaleIo::STORAGE_MODE, "ThinProvisioned");
        scale_io.default_zero(ScaleIo::FS_TYPE, "xfs");
    }
}

/// Sets the defaults of the spec of a claim.
pub(crate) fn set_claim_spec_defaults(spec: &mut Object) {
    write(spec, claim_spec_defaults);
}

fn claim_spec_defaults(mut spec: FieldMut<PersistentVolumeClaimSpec>) {
    spec.default_nil(PersistentVolumeClaimSpec::VOLUME_MODE, "Filesystem");
    if let Some(mut requirements) = spec.structure(PersistentVolumeClaimSpec::RESOURCES) {
        resources::round_up_requirements(requirements.object());
    }
}

fn set_downward_defaults(mut file: FieldMut<DownwardAPIVolumeFile>) {
    if let Some(field) = file.structure(DownwardAPIVolumeFile::FIELD_REF) {
        set_field_selector_defaults(field);
    }
}
