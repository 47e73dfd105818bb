//! Validation of a pod's volumes: each has a unique name and exactly one source.

use std::collections::{HashMap, HashSet};

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::{checks, names};

use super::{PodValidationOptions, projected, sources};
use crate::core::persistent_volume_claim;
use crate::tree_names::member;

/// Validates one type of volume source; called with the source and its path.
type Rule = fn(&Value, &FieldPath, &PodValidationOptions<'_>, &mut FieldErrors);

/// Every source in kube-apiserver's order: its field, the path of its own errors, and the path of the error that it is
/// a second source. (The three differ in places.)
#[rustfmt::skip]
const SOURCES: &[(&str, &str, &str, Rule)] = &[
    ("emptyDir", "emptyDir", "emptyDir", empty_dir),
    ("hostPath", "hostPath", "hostPath", |s, p, _, e| sources::host_path(s, p, e)),
    ("gitRepo", "gitRepo", "gitRepo", |s, p, _, e| sources::git_repo(s, p, e)),
    ("gcePersistentDisk", "persistentDisk", "gcePersistentDisk", |s, p, _, e| sources::gce_disk(s, p, e)),
    ("awsElasticBlockStore", "awsElasticBlockStore", "awsElasticBlockStore", |s, p, _, e| sources::aws_store(s, p, e)),
    ("secret", "secret", "secret", |s, p, _, e| sources::keys(s, "secretName", p, e)),
    ("nfs", "nfs", "nfs", |s, p, _, e| sources::nfs(s, p, e)),
    ("iscsi", "iscsi", "iscsi", |s, p, _, e| sources::iscsi(s, p, e)),
    ("glusterfs", "glusterfs", "glusterfs", |s, p, _, e| sources::needs(s, &["endpoints", "path"], p, e)),
    ("flocker", "flocker", "flocker", |s, p, _, e| sources::flocker(s, p, e)),
    ("persistentVolumeClaim", "persistentVolumeClaim", "persistentVolumeClaim", |s, p, _, e| sources::needs(s, &["claimName"], p, e)),
    ("rbd", "rbd", "rbd", |s, p, _, e| sources::rbd(s, p, e)),
    ("cinder", "cinder", "cinder", |s, p, _, e| sources::cinder(s, false, p, e)),
    ("cephfs", "cephfs", "cephFS", |s, p, _, e| sources::monitors(s, p, e)),
    ("quobyte", "quobyte", "quobyte", |s, p, _, e| sources::quobyte(s, p, e)),
    ("downwardAPI", "downwardAPI", "downwarAPI", |s, p, _, e| projected::downward_api(s, p, e)),
    ("fc", "fc", "fc", |s, p, _, e| sources::fibre_channel(s, p, e)),
    ("flexVolume", "flexVolume", "flexVolume", |s, p, _, e| sources::flex(s, p, e)),
    ("configMap", "configMap", "configMap", |s, p, _, e| sources::keys(s, "name", p, e)),
    ("azureFile", "azureFile", "azureFile", |s, p, _, e| sources::needs(s, &["secretName", "shareName"], p, e)),
    ("vsphereVolume", "vsphereVolume", "vsphereVolume", |s, p, _, e| sources::needs(s, &["volumePath"], p, e)),
    ("photonPersistentDisk", "photonPersistentDisk", "photonPersistentDisk", |s, p, _, e| sources::needs(s, &["pdID"], p, e)),
    ("portworxVolume", "portworxVolume", "portworxVolume", |s, p, _, e| sources::needs(s, &["volumeID"], p, e)),
    ("azureDisk", "azureDisk", "azureDisk", |s, p, _, e| sources::azure_disk(s, p, e)),
    ("storageos", "storageos", "storageos", |s, p, _, e| sources::storage_os(s, false, p, e)),
    ("projected", "projected", "projected", projected::projected),
    ("scaleIO", "scaleIO", "scaleIO", |s, p, _, e| sources::needs(s, &["gateway", "system", "volumeName"], p, e)),
    ("csi", "csi", "csi", |s, p, _, e| csi(s, p, e)),
    ("ephemeral", "ephemeral", "ephemeral", ephemeral),
    ("image", "image", "image", image),
];

/// Volumes without errors, which can be mounted.
pub(super) struct Volumes<'a>(HashMap<&'a str, &'a Value>);

impl<'a> Volumes<'a> {
    pub(super) fn get(&self, name: &str) -> Option<&'a Value> {
        self.0.get(name).copied()
    }
}

pub(super) fn validate<'a>(
    volumes: &'a [Value],
    pod_name: &str,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) -> Volumes<'a> {
    let ephemeral: HashSet<&str> = volumes
        .iter()
        .filter(|volume| !pod_name.is_empty() && member(volume, "ephemeral").is_some())
        .map(|volume| volume.str_at(&["name"]))
        .collect();
    // The name of a generated claim is made of the pod's and the volume's.
    let made_for_ephemeral = |claim: &str| {
        let volume = claim.strip_prefix(pod_name).and_then(|rest| rest.strip_prefix('-'));
        volume.is_some_and(|volume| ephemeral.contains(volume))
    };
    let mut valid: HashMap<&str, &Value> = HashMap::with_capacity(volumes.len());
    for (i, volume) in errors.while_room(volumes.iter().enumerate()) {
        let at = path.index(i);
        let before = errors.len();
        let name = volume.str_at(&["name"]);
        source(volume, name, pod_name, &at, options, errors);
        if name.is_empty() {
            errors.push(FieldError::required(&at.child("name"), ""));
        } else {
            checks::label(&at.child("name"), name, errors);
        }
        if valid.contains_key(name) {
            errors.push(FieldError::duplicate(&at.child("name"), name));
        }
        if errors.len() == before {
            valid.insert(name, volume);
        }
        let claim = volume.str_at(&["persistentVolumeClaim", "claimName"]);
        if member(volume, "persistentVolumeClaim").is_some() && made_for_ephemeral(claim) {
            let at = at.child("persistentVolumeClaim").child("claimName");
            let why = "must not reference a PVC that gets created for an ephemeral volume";
            errors.push(FieldError::invalid(&at, claim, why));
        }
    }
    Volumes(valid)
}

fn source(
    volume: &Value,
    name: &str,
    pod_name: &str,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let mut found = false;
    for (field, own, second, rule) in SOURCES {
        let Some(source) = member(volume, field) else { continue };
        if found {
            errors.push(FieldError::forbidden(&path.child(second), "may not specify more than 1 volume type"));
        } else {
            rule(source, &path.child(own), options, errors);
            if *field == "ephemeral" && !pod_name.is_empty() && !name.is_empty() {
                let claim = format!("{pod_name}-{name}");
                for message in names::dns1123_subdomain(&claim) {
                    let why = format!("PVC name {claim:?}: {message}");
                    errors.push(FieldError::invalid(&path.child("name"), name, why));
                }
            }
        }
        if *field == "iscsi" {
            iscsi_names(source, name, path, errors);
        }
        found = true;
    }
    if !found {
        errors.push(FieldError::required(path, "must specify a volume type"));
    }
}

fn empty_dir(source: &Value, path: &FieldPath, _: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let limit = member(source, "sizeLimit").and_then(binnacle_validation::pod_resources::quantity);
    if limit.is_some_and(|limit| limit.sign() < 0) {
        let why = "SizeLimit field must be a valid resource quantity";
        errors.push(FieldError::forbidden(&path.child("sizeLimit"), why));
    }
}

/// Limits the length of the initiator, which is named after the volume.
fn iscsi_names(source: &Value, name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let length = name.len() + 1 + source.str_at(&["targetPortal"]).len();
    if member(source, "initiatorName").is_some() && length > 64 {
        errors.push(FieldError::invalid(&path.child("name"), name, sources::ISCSI_NAMES));
    }
}

fn csi(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    sources::csi_driver_name(&path.child("driver"), source.str_at(&["driver"]), errors);
    if let Some(secret) = member(source, "nodePublishSecretRef") {
        match secret.str_at(&["name"]) {
            "" => errors.push(FieldError::required(&path.child("nodePublishSecretRef").child("name"), "")),
            name => checks::subdomain(&path.child("name"), name, errors),
        }
    }
}

fn ephemeral(source: &Value, path: &FieldPath, _: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    let path = path.child("volumeClaimTemplate");
    match member(source, "volumeClaimTemplate") {
        Some(template) => persistent_volume_claim::validate_template(template, &path, errors),
        None => errors.push(FieldError::required(&path, "")),
    }
}

fn image(source: &Value, path: &FieldPath, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    if options.is_pod {
        checks::required(&path.child("reference"), source.str_at(&["reference"]), errors);
    }
    super::pull_policy(&path.child("pullPolicy"), source.str_at(&["pullPolicy"]), errors);
}
