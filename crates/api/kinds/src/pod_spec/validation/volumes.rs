//! Validation of a pod's volumes: each has a unique name and exactly one source.

use std::collections::{HashMap, HashSet};

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    AzureFileVolumeSource as AzureFile, CSIVolumeSource as Csi, EmptyDirVolumeSource as EmptyDir,
    EphemeralVolumeSource as Ephemeral, GlusterfsVolumeSource as Glusterfs, ISCSIVolumeSource as Iscsi,
    ImageVolumeSource as Image, LocalObjectReference, PersistentVolumeClaimVolumeSource as Claim,
    PhotonPersistentDiskVolumeSource as PhotonDisk, PortworxVolumeSource as Portworx, ScaleIOVolumeSource as ScaleIo,
    Volume, VsphereVirtualDiskVolumeSource as Vsphere,
};
use binnacle_fields::types::{List, Str};
use binnacle_meta::{FieldErrors, go_quote};
use binnacle_validation::pod_resources::quantity;
use binnacle_validation::{checks, names};

use super::{PodValidationOptions, projected, pull_policy, required, sources};
use crate::volume_claims;

/// Volumes without errors, which can be mounted.
pub(super) struct Volumes<'a>(HashMap<&'a str, FieldRef<'a, 'a, Volume>>);

impl<'a> Volumes<'a> {
    pub(super) fn get(&self, name: &str) -> Option<FieldRef<'a, 'a, Volume>> {
        self.0.get(name).copied()
    }
}

pub(super) fn validate<'a>(
    volumes: &'a FieldRef<'a, 'a, List<Volume>>,
    pod_name: &str,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) -> Volumes<'a> {
    let ephemeral: HashSet<&str> = volumes
        .items()
        .filter(|volume| !pod_name.is_empty() && volume.at(Volume::EPHEMERAL).is_set())
        .map(|volume| volume.at(Volume::NAME).str())
        .collect();
    // The name of a generated claim consists of the names of the pod and the volume.
    let made_for_ephemeral = |claim: &str| {
        let volume = claim.strip_prefix(pod_name).and_then(|rest| rest.strip_prefix('-'));
        volume.is_some_and(|volume| ephemeral.contains(volume))
    };
    let mut valid = HashMap::with_capacity(volumes.len());
    for volume in errors.while_room(volumes.items()) {
        let before = errors.len();
        let name = volume.at(Volume::NAME);
        source(volume, pod_name, options, errors);
        if name.is_empty() {
            errors.push(name.required(""));
        } else {
            checks::label(&name, name.str(), errors);
        }
        if valid.contains_key(name.str()) {
            errors.push(name.duplicate());
        }
        if errors.len() == before {
            valid.insert(name.str(), volume);
        }
        let reference = volume.at(Volume::PERSISTENT_VOLUME_CLAIM);
        let claim = reference.at(Claim::CLAIM_NAME);
        if reference.is_set() && made_for_ephemeral(claim.str()) {
            errors.push(claim.invalid("must not reference a PVC that gets created for an ephemeral volume"));
        }
    }
    Volumes(valid)
}

/// Requires exactly one source, and validates it.
fn source(volume: FieldRef<Volume>, pod_name: &str, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let mut found = false;
    // kube-apiserver uses other field names in the paths of some errors within a source, and of the error about a
    // second source.
    macro_rules! one {
        ($field:ident, $rules:expr $(, own: $own:literal)? $(, second: $second:literal)?) => {{
            let source = volume.at(Volume::$field);
            let (own, second) = (source, source);
            $(let own = own.reported_as($own);)?
            $(let second = second.reported_as($second);)?
            one_source(own, second, &mut found, errors, $rules);
        }};
    }
    one!(EMPTY_DIR, empty_dir);
    one!(HOST_PATH, sources::host_path);
    one!(GIT_REPO, sources::git_repo);
    one!(GCE_PERSISTENT_DISK, sources::gce_disk, own: "persistentDisk");
    one!(AWS_ELASTIC_BLOCK_STORE, sources::aws_store);
    one!(SECRET, sources::secret);
    one!(NFS, sources::nfs);
    one!(ISCSI, sources::iscsi);
    iscsi_names(volume, errors);
    one!(GLUSTERFS, |s, e| required(s, &[Glusterfs::ENDPOINTS, Glusterfs::PATH], e));
    one!(FLOCKER, sources::flocker);
    one!(PERSISTENT_VOLUME_CLAIM, |s, e| required(s, &[Claim::CLAIM_NAME], e));
    one!(RBD, sources::rbd);
    one!(CINDER, |s, e| sources::cinder(s, false, e));
    one!(CEPHFS, sources::ceph_fs, second: "cephFS");
    one!(QUOBYTE, sources::quobyte);
    one!(DOWNWARD_API, projected::downward_api, second: "downwarAPI");
    one!(FC, sources::fibre_channel);
    one!(FLEX_VOLUME, sources::flex);
    one!(CONFIG_MAP, sources::config_map);
    one!(AZURE_FILE, |s, e| required(s, &[AzureFile::SECRET_NAME, AzureFile::SHARE_NAME], e));
    one!(VSPHERE_VOLUME, |s, e| required(s, &[Vsphere::VOLUME_PATH], e));
    one!(PHOTON_PERSISTENT_DISK, |s, e| required(s, &[PhotonDisk::PD_ID], e));
    one!(PORTWORX_VOLUME, |s, e| required(s, &[Portworx::VOLUME_ID], e));
    one!(AZURE_DISK, sources::azure_disk);
    one!(STORAGEOS, |s, e| sources::storage_os(s, false, e));
    one!(PROJECTED, |s, e| projected::projected(s, options, e));
    one!(SCALE_IO, |s, e| required(s, &[ScaleIo::GATEWAY, ScaleIo::SYSTEM, ScaleIo::VOLUME_NAME], e));
    one!(CSI, csi);
    one!(EPHEMERAL, |s, e| ephemeral(volume.at(Volume::NAME), s, pod_name, e));
    one!(IMAGE, |s, e| image(s, options, e));
    if !found {
        errors.push(volume.required("must specify a volume type"));
    }
}

/// Validates a source, unless another was found before it.
fn one_source<S>(
    own: FieldRef<S>,
    second: FieldRef<S>,
    found: &mut bool,
    errors: &mut FieldErrors,
    rules: impl FnOnce(FieldRef<S>, &mut FieldErrors),
) {
    if !own.is_set() {
        return;
    }
    if *found {
        errors.push(second.forbidden("may not specify more than 1 volume type"));
    } else {
        *found = true;
        rules(own, errors);
    }
}

fn empty_dir(source: FieldRef<EmptyDir>, errors: &mut FieldErrors) {
    let limit = source.at(EmptyDir::SIZE_LIMIT);
    if quantity(limit.value()).is_some_and(|limit| limit.sign() < 0) {
        errors.push(limit.forbidden("SizeLimit field must be a valid resource quantity"));
    }
}

/// Limits the length of the initiator, which is named after the volume.
fn iscsi_names(volume: FieldRef<Volume>, errors: &mut FieldErrors) {
    let (name, source) = (volume.at(Volume::NAME), volume.at(Volume::ISCSI));
    let length = name.str().len() + 1 + source.at(Iscsi::TARGET_PORTAL).str().len();
    if source.at(Iscsi::INITIATOR_NAME).is_set() && length > 64 {
        errors.push(name.invalid_as(name.str(), sources::ISCSI_NAMES));
    }
}

fn csi(source: FieldRef<Csi>, errors: &mut FieldErrors) {
    let driver = source.at(Csi::DRIVER);
    sources::csi_driver_name(&driver, driver.str(), errors);
    let secret = source.at(Csi::NODE_PUBLISH_SECRET_REF);
    if secret.is_set() {
        let name = secret.at(LocalObjectReference::NAME);
        match name.str() {
            "" => errors.push(name.required("")),
            // kube-apiserver's path lacks that field.
            given => checks::subdomain(&secret.located_at(&source).at(LocalObjectReference::NAME), given, errors),
        }
    }
}

fn ephemeral(volume: FieldRef<Str>, source: FieldRef<Ephemeral>, pod_name: &str, errors: &mut FieldErrors) {
    let template = source.at(Ephemeral::VOLUME_CLAIM_TEMPLATE);
    match template.set() {
        Some(template) => volume_claims::validate_template(template, errors),
        None => errors.push(template.required("")),
    }
    if !pod_name.is_empty() && !volume.is_empty() {
        let claim = format!("{pod_name}-{}", volume.str());
        for message in names::dns1123_subdomain(&claim) {
            errors.push(volume.invalid(format!("PVC name {}: {message}", go_quote(&claim))));
        }
    }
}

fn image(source: FieldRef<Image>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    if options.is_pod {
        required(source, &[Image::REFERENCE], errors);
    }
    pull_policy(source.at(Image::PULL_POLICY), errors);
}
