//! Validation of the sources of persistent volumes. Rules that pods have too read those whose secrets have a namespace as
//! the types of pods, which have the same other fields.

use binnacle_fields::core::v1::{
    AzureFilePersistentVolumeSource as AzureFile, CSIPersistentVolumeSource as Csi,
    GlusterfsPersistentVolumeSource as Glusterfs, HostPathVolumeSource as HostPath,
    ISCSIPersistentVolumeSource as Iscsi, LocalVolumeSource as Local, PersistentVolumeSpec as Spec,
    PhotonPersistentDiskVolumeSource as PhotonDisk, PortworxVolumeSource as Portworx,
    ScaleIOPersistentVolumeSource as ScaleIo, SecretReference, VsphereVirtualDiskVolumeSource as VsphereDisk,
};
use binnacle_fields::{Field, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_validation::{checks, names};

use crate::pod_spec::validation::{paths, required, sources};

/// Validates the source of a volume, in kube-apiserver's order; `name` is the name of the volume.
pub(super) fn source(spec: FieldRef<Spec>, name: &str, has_affinity: bool, errors: &mut FieldErrors) {
    let mut check = SourceCheck { spec, is_found: false, errors };
    check.source(Spec::HOST_PATH, sources::host_path);
    check.source(Spec::GCE_PERSISTENT_DISK, |disk, errors| {
        sources::gce_disk(disk.reported_as("persistentDisk"), errors);
    });
    check.source(Spec::AWS_ELASTIC_BLOCK_STORE, sources::aws_store);
    check.source(Spec::GLUSTERFS, glusterfs);
    check.source(Spec::FLOCKER, sources::flocker);
    check.source(Spec::NFS, sources::nfs);
    check.source(Spec::RBD, |source, errors| sources::rbd(source.cast(), errors));
    check.source(Spec::QUOBYTE, sources::quobyte);
    check.source_as(Spec::CEPHFS, "cephFS", |source, errors| sources::ceph_fs(source.cast(), errors));
    check.source(Spec::ISCSI, |source, errors| iscsi(source, name, errors));
    check.source(Spec::CINDER, |source, errors| sources::cinder(source.cast(), true, errors));
    check.source(Spec::FC, sources::fibre_channel);
    check.source(Spec::FLEX_VOLUME, |source, errors| sources::flex(source.cast(), errors));
    check.source(Spec::AZURE_FILE, azure_file);
    check.source(Spec::VSPHERE_VOLUME, |disk, errors| required(disk, &[VsphereDisk::VOLUME_PATH], errors));
    check.source(Spec::PHOTON_PERSISTENT_DISK, |disk, errors| required(disk, &[PhotonDisk::PD_ID], errors));
    check.source(Spec::PORTWORX_VOLUME, |volume, errors| required(volume, &[Portworx::VOLUME_ID], errors));
    check.source(Spec::AZURE_DISK, sources::azure_disk);
    check.source(Spec::SCALE_IO, |source, errors| {
        required(source, &[ScaleIo::GATEWAY, ScaleIo::SYSTEM, ScaleIo::VOLUME_NAME], errors);
    });
    check.source(Spec::LOCAL, |source, errors| {
        local(source, errors);
        if !has_affinity {
            errors.push(spec.at(Spec::NODE_AFFINITY).required("Local volume requires node affinity"));
        }
    });
    check.source(Spec::STORAGEOS, |source, errors| sources::storage_os(source.cast(), true, errors));
    check.source(Spec::CSI, csi);
    if !check.is_found {
        errors.push(spec.required("must specify a volume type"));
    }
    // The recycler would delete all files of the node.
    let policy = spec.at(Spec::PERSISTENT_VOLUME_RECLAIM_POLICY);
    if policy.str() == "Recycle" && is_root(spec.at(Spec::HOST_PATH).at(HostPath::PATH).str()) {
        errors.push(policy.forbidden("may not be 'recycle' for a hostPath mount of '/'"));
    }
}

/// The validation of the sources of a volume, which may have only one.
struct SourceCheck<'p, 'v, 'e> {
    spec: FieldRef<'p, 'v, Spec>,
    is_found: bool,
    errors: &'e mut FieldErrors,
}

impl SourceCheck<'_, '_, '_> {
    fn source<T>(&mut self, field: Field<Spec, T>, rule: impl FnOnce(FieldRef<T>, &mut FieldErrors)) {
        self.source_as(field, field.name(), rule);
    }

    /// Validates a source, which is called `second` in the error that it is a second source.
    fn source_as<T>(&mut self, field: Field<Spec, T>, second: &str, rule: impl FnOnce(FieldRef<T>, &mut FieldErrors)) {
        let source = self.spec.at(field);
        if !source.is_set() {
            return;
        }
        // A flex volume may be combined with another source.
        if self.is_found && field.name() != Spec::FLEX_VOLUME.name() {
            let why = "may not specify more than 1 volume type";
            return self.errors.push(source.reported_as(second).forbidden(why));
        }
        self.is_found = true;
        rule(source, self.errors);
    }
}

fn is_root(path: &str) -> bool {
    let mut depth = 0_usize;
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => depth = depth.saturating_sub(1),
            _ => depth += 1,
        }
    }
    path.starts_with('/') && depth == 0
}

fn glusterfs(source: FieldRef<Glusterfs>, errors: &mut FieldErrors) {
    required(source, &[Glusterfs::ENDPOINTS, Glusterfs::PATH], errors);
    let namespace = source.at(Glusterfs::ENDPOINTS_NAMESPACE);
    match namespace.get_str() {
        None => {}
        Some("") => {
            let why = "if the endpointnamespace is set, it must be a valid namespace name";
            errors.push(namespace.invalid(why));
        }
        Some(name) => checks::invalid_for(&namespace, name, names::dns1123_label_name(name, false), errors),
    }
}

fn iscsi(source: FieldRef<Iscsi>, name: &str, errors: &mut FieldErrors) {
    const FORMAT: &str = "must be valid format";
    required(source, &[Iscsi::TARGET_PORTAL], errors);
    let portal = source.at(Iscsi::TARGET_PORTAL);
    if source.at(Iscsi::INITIATOR_NAME).is_set() && name.len() + 1 + portal.str().len() > 64 {
        errors.push(portal.reported_as("targetportal").invalid_as(portal.str(), sources::ISCSI_NAMES));
    }
    sources::iscsi_rules(source.cast(), FORMAT, errors);
    let secret = source.at(Iscsi::SECRET_REF);
    if secret.is_set() {
        required(secret, &[SecretReference::NAME], errors);
    }
    sources::iscsi_initiator(source.cast(), FORMAT, errors);
}

fn azure_file(source: FieldRef<AzureFile>, errors: &mut FieldErrors) {
    required(source, &[AzureFile::SECRET_NAME, AzureFile::SHARE_NAME], errors);
    let namespace = source.at(AzureFile::SECRET_NAMESPACE);
    if namespace.get_str() == Some("") {
        errors.push(namespace.required(""));
    }
}

fn local(source: FieldRef<Local>, errors: &mut FieldErrors) {
    let directory = source.at(Local::PATH);
    if directory.is_empty() {
        return errors.push(directory.required(""));
    }
    paths::no_backsteps(&directory, directory.str(), errors);
}

fn csi(source: FieldRef<Csi>, errors: &mut FieldErrors) {
    let driver = source.at(Csi::DRIVER);
    sources::csi_driver_name(&driver, driver.str(), errors);
    required(source, &[Csi::VOLUME_HANDLE], errors);
    for secret in [
        Csi::CONTROLLER_PUBLISH_SECRET_REF,
        Csi::CONTROLLER_EXPAND_SECRET_REF,
        Csi::NODE_PUBLISH_SECRET_REF,
        Csi::NODE_EXPAND_SECRET_REF,
    ] {
        let Some(secret) = source.at(secret).set() else { continue };
        let (name, namespace) = (secret.at(SecretReference::NAME), secret.at(SecretReference::NAMESPACE));
        match name.str() {
            "" => errors.push(name.required("")),
            text => checks::subdomain(&name, text, errors),
        }
        match namespace.str() {
            "" => errors.push(namespace.required("")),
            text => checks::label(&namespace, text, errors),
        }
    }
}
