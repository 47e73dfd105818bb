//! Validation of volume sources that pods and persistent volumes share. Those of persistent volumes have types of their
//! own where a secret has a namespace; the other fields are the same, and are read as those of pods.

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    AWSElasticBlockStoreVolumeSource as AwsStore, AzureDiskVolumeSource as AzureDisk, CephFSVolumeSource as CephFs,
    CinderVolumeSource as Cinder, ConfigMapVolumeSource as ConfigMap, FCVolumeSource as FibreChannel,
    FlexVolumeSource as Flex, FlockerVolumeSource as Flocker, GCEPersistentDiskVolumeSource as GceDisk,
    GitRepoVolumeSource as GitRepo, HostPathVolumeSource as HostPath, ISCSIVolumeSource as Iscsi, KeyToPath,
    NFSVolumeSource as Nfs, QuobyteVolumeSource as Quobyte, RBDVolumeSource as Rbd, SecretReference,
    SecretVolumeSource as Secret, StorageOSVolumeSource as StorageOs,
};
use binnacle_fields::types::{Int, List, Str};
use binnacle_meta::{FieldError, FieldErrors, Location};
use binnacle_validation::checks;
use binnacle_validation::names::{self, inclusive_range_error};

use super::{optional_one_of, paths, required, required_by};

const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
pub(crate) const ISCSI_NAMES: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
const CSI_DRIVER_MAX: usize = 63;
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

pub(crate) fn host_path(source: FieldRef<HostPath>, errors: &mut FieldErrors) {
    let directory = source.at(HostPath::PATH);
    if directory.is_empty() {
        return errors.push(directory.required(""));
    }
    paths::no_backsteps(&directory, directory.str(), errors);
    optional_one_of(source.at(HostPath::TYPE), &HOST_PATH_TYPES, errors);
}

pub(super) fn git_repo(source: FieldRef<GitRepo>, errors: &mut FieldErrors) {
    required(source, &[GitRepo::REPOSITORY], errors);
    let directory = source.at(GitRepo::DIRECTORY);
    paths::descending(&directory, directory.str(), errors);
}

pub(crate) fn gce_disk(source: FieldRef<GceDisk>, errors: &mut FieldErrors) {
    required(source, &[GceDisk::PD_NAME], errors);
    partition(source.at(GceDisk::PARTITION), errors);
}

pub(crate) fn aws_store(source: FieldRef<AwsStore>, errors: &mut FieldErrors) {
    required(source, &[AwsStore::VOLUME_ID], errors);
    partition(source.at(AwsStore::PARTITION), errors);
}

/// Validates a secret as files.
pub(super) fn secret(source: FieldRef<Secret>, errors: &mut FieldErrors) {
    required(source, &[Secret::SECRET_NAME], errors);
    keys(source.at(Secret::DEFAULT_MODE), source.at(Secret::ITEMS), errors);
}

/// Validates a config map as files.
pub(super) fn config_map(source: FieldRef<ConfigMap>, errors: &mut FieldErrors) {
    required(source, &[ConfigMap::NAME], errors);
    keys(source.at(ConfigMap::DEFAULT_MODE), source.at(ConfigMap::ITEMS), errors);
}

fn keys(mode: FieldRef<Int>, items: FieldRef<List<KeyToPath>>, errors: &mut FieldErrors) {
    file_mode(mode, errors);
    for item in errors.while_room(items.items()) {
        key_to_path(item, errors);
    }
}

pub(super) fn key_to_path(item: FieldRef<KeyToPath>, errors: &mut FieldErrors) {
    required(item, &[KeyToPath::KEY, KeyToPath::PATH], errors);
    let path = item.at(KeyToPath::PATH);
    paths::descending_not_reserved(&path, path.str(), errors);
    file_mode(item.at(KeyToPath::MODE), errors);
}

pub(super) fn file_mode(mode: FieldRef<Int>, errors: &mut FieldErrors) {
    if mode.int().is_some_and(|mode| !(0..=0o777).contains(&mode)) {
        errors.push(mode.invalid(FILE_MODE));
    }
}

pub(crate) fn nfs(source: FieldRef<Nfs>, errors: &mut FieldErrors) {
    required(source, &[Nfs::SERVER, Nfs::PATH], errors);
    let directory = source.at(Nfs::PATH);
    if !directory.str().starts_with('/') {
        errors.push(directory.invalid_as(directory.str(), "must be an absolute path"));
    }
}

pub(super) fn iscsi(source: FieldRef<Iscsi>, errors: &mut FieldErrors) {
    const PREFIXES: &str = "must be valid format starting with iqn, eui, or naa";
    required(source, &[Iscsi::TARGET_PORTAL], errors);
    iscsi_rules(source, PREFIXES, errors);
    iscsi_initiator(source, PREFIXES, errors);
}

/// Validates an iSCSI source: the qualified name, the unit and the secret; `unknown` is the error for names of unknown
/// types.
pub(crate) fn iscsi_rules(source: FieldRef<Iscsi>, unknown: &str, errors: &mut FieldErrors) {
    let name = source.at(Iscsi::IQN);
    match iscsi_name(name.str()) {
        _ if name.is_empty() => errors.push(name.required("")),
        Some(true) => {}
        Some(false) => errors.push(name.invalid("must be valid format")),
        None => errors.push(name.invalid(unknown)),
    }
    let unit = source.at(Iscsi::LUN);
    if !(0..=255).contains(&unit.int_or_zero()) {
        errors.push(unit.invalid(inclusive_range_error(0, 255)));
    }
    let authenticated = source.at(Iscsi::CHAP_AUTH_DISCOVERY).bool() || source.at(Iscsi::CHAP_AUTH_SESSION).bool();
    let secret = source.at(Iscsi::SECRET_REF);
    if authenticated && !secret.is_set() {
        errors.push(secret.required(""));
    }
}

pub(crate) fn iscsi_initiator(source: FieldRef<Iscsi>, unknown: &str, errors: &mut FieldErrors) {
    let initiator = source.at(Iscsi::INITIATOR_NAME);
    let Some(name) = initiator.get_str() else { return };
    let initiator = initiator.reported_as("initiatorname");
    match iscsi_name(name) {
        Some(true) => {}
        Some(false) => errors.push(initiator.invalid("must be valid format")),
        None => errors.push(initiator.invalid(unknown)),
    }
}

pub(crate) fn flocker(source: FieldRef<Flocker>, errors: &mut FieldErrors) {
    let (name, uuid) = (source.at(Flocker::DATASET_NAME), source.at(Flocker::DATASET_UUID));
    if name.is_empty() && uuid.is_empty() {
        errors.push(source.required("one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        errors.push(source.invalid_as("resource", "datasetName and datasetUUID can not be specified simultaneously"));
    }
    if name.str().contains('/') {
        errors.push(name.invalid("must not contain '/'"));
    }
}

pub(crate) fn rbd(source: FieldRef<Rbd>, errors: &mut FieldErrors) {
    some_monitors(source.at(Rbd::MONITORS), errors);
    required(source, &[Rbd::IMAGE], errors);
}

pub(crate) fn ceph_fs(source: FieldRef<CephFs>, errors: &mut FieldErrors) {
    some_monitors(source.at(CephFs::MONITORS), errors);
}

fn some_monitors(monitors: FieldRef<List<Str>>, errors: &mut FieldErrors) {
    if monitors.is_empty() {
        errors.push(monitors.required(""));
    }
}

/// Validates a Cinder source; secrets of persistent volumes have a namespace.
pub(crate) fn cinder(source: FieldRef<Cinder>, persistent: bool, errors: &mut FieldErrors) {
    required(source, &[Cinder::VOLUME_ID], errors);
    secret_reference(source.at(Cinder::SECRET_REF).cast(), persistent, errors);
}

pub(crate) fn storage_os(source: FieldRef<StorageOs>, persistent: bool, errors: &mut FieldErrors) {
    required_by(source.at(StorageOs::VOLUME_NAME), names::dns1123_label, errors);
    let namespace = source.at(StorageOs::VOLUME_NAMESPACE);
    if !namespace.is_empty() {
        checks::label(&namespace, namespace.str(), errors);
    }
    secret_reference(source.at(StorageOs::SECRET_REF).cast(), persistent, errors);
}

pub(crate) fn quobyte(source: FieldRef<Quobyte>, errors: &mut FieldErrors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let (registry, tenant) = (source.at(Quobyte::REGISTRY), source.at(Quobyte::TENANT));
    if registry.is_empty() {
        errors.push(registry.required(PAIRS));
    } else if tenant.str().len() >= 65 {
        errors.push(tenant.required("must be a UUID and may not exceed a length of 64 characters"));
    } else {
        let wrong = registry.str().split(',').filter(|pair| !is_host_port(pair));
        errors.extend(wrong.map(|_| registry.invalid(PAIRS)));
    }
    required(source, &[Quobyte::VOLUME], errors);
}

pub(crate) fn fibre_channel(source: FieldRef<FibreChannel>, errors: &mut FieldErrors) {
    let (names, ids) = (source.at(FibreChannel::TARGET_WWNS), source.at(FibreChannel::WWIDS));
    if names.is_empty() && ids.is_empty() {
        errors.push(names.required("must specify either targetWWNs or wwids, but not both"));
    }
    if !names.is_empty() && !ids.is_empty() {
        errors.push(names.invalid("targetWWNs and wwids can not be specified simultaneously"));
    }
    let unit = source.at(FibreChannel::LUN);
    match unit.int() {
        _ if names.is_empty() => {}
        None => errors.push(unit.required("lun is required if targetWWNs is specified")),
        Some(0..=255) => {}
        Some(_) => errors.push(unit.invalid(inclusive_range_error(0, 255))),
    }
}

pub(crate) fn flex(source: FieldRef<Flex>, errors: &mut FieldErrors) {
    required(source, &[Flex::DRIVER], errors);
    let options = source.at(Flex::OPTIONS);
    for (key, option) in errors.while_room(options.entries()) {
        let namespace = key.split('/').next().unwrap_or("");
        let domain = format!(".{}", namespace.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            errors.push(option.invalid_as(key, "kubernetes.io and k8s.io namespaces are reserved"));
        }
    }
}

pub(crate) fn azure_disk(source: FieldRef<AzureDisk>, errors: &mut FieldErrors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    required(source, &[AzureDisk::DISK_NAME, AzureDisk::DISK_URI], errors);
    optional_one_of(source.at(AzureDisk::CACHING_MODE), &["None", "ReadOnly", "ReadWrite"], errors);
    let (kind, uri) = (source.at(AzureDisk::KIND), source.at(AzureDisk::DISK_URI));
    optional_one_of(kind, &["Dedicated", "Managed", "Shared"], errors);
    let (prefix, supported) = match kind.get_str() {
        None => return,
        Some("Managed") => ("/subscriptions/", MANAGED),
        Some(_) => ("https://", BLOB),
    };
    if !uri.str().starts_with(prefix) {
        errors.push(FieldError::not_supported(&uri, uri.str(), &[supported]));
    }
}

pub(crate) fn csi_driver_name(path: &dyn Location, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if name.len() > CSI_DRIVER_MAX {
        errors.push(FieldError::too_long(path, CSI_DRIVER_MAX));
    }
    checks::invalid_for(path, name, names::dns1123_subdomain(&name.to_lowercase()), errors);
}

fn secret_reference(secret: FieldRef<SecretReference>, with_namespace: bool, errors: &mut FieldErrors) {
    if secret.is_set() {
        let fields = [SecretReference::NAME, SecretReference::NAMESPACE];
        required(secret, if with_namespace { &fields } else { &fields[..1] }, errors);
    }
}

fn partition(partition: FieldRef<Int>, errors: &mut FieldErrors) {
    if !(0..=255).contains(&partition.int_or_zero()) {
        errors.push(partition.invalid(inclusive_range_error(1, 255)));
    }
}

/// Returns true if an iSCSI name is well formed; `None` for names of unknown types.
fn iscsi_name(name: &str) -> Option<bool> {
    let alphanumeric = |rest: &str, n: usize| {
        // Any character may be between the type and the number.
        let mut letters = rest.chars();
        letters.next().is_some() && letters.as_str().len() == n && letters.all(|c| c.is_ascii_alphanumeric())
    };
    if name.starts_with("iqn") {
        return Some(name.match_indices("iqn.").any(|(at, prefix)| is_qualified(&name[at + prefix.len()..])));
    }
    if let Some(rest) = name.strip_prefix("eui") {
        return Some(alphanumeric(rest, 16));
    }
    name.strip_prefix("naa").map(|rest| alphanumeric(rest, 32))
}

/// Returns true for `yyyy-mm.domain:anything`.
fn is_qualified(rest: &str) -> bool {
    let bytes = rest.as_bytes();
    let date = bytes.len() > 8
        && bytes[..4].iter().all(u8::is_ascii_digit)
        && bytes[4] == b'-'
        && bytes[5..7].iter().all(u8::is_ascii_digit)
        && bytes[7] == b'.';
    let Some((domain, own)) = date.then(|| rest[8..].split_once(':')).flatten() else { return false };
    !domain.is_empty()
        && domain.bytes().all(|c| c.is_ascii_alphanumeric() || c == b'-' || c == b'.')
        && !own.is_empty()
        && !own.contains([',', ';', '*', '&', '$', '|', ' ', '\t', '\n', '\r', '\u{c}'])
}

/// Returns true for an address that Go's `net.SplitHostPort` accepts.
fn is_host_port(text: &str) -> bool {
    let Some((host, port)) = text.rsplit_once(':') else { return false };
    let host = match host.strip_prefix('[') {
        Some(inner) => match inner.strip_suffix(']') {
            Some(inner) => inner,
            None => return false,
        },
        None if host.contains(':') => return false,
        None => host,
    };
    !host.contains(['[', ']']) && !port.contains(['[', ']'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn validates_iscsi_names() {
        for (name, want) in [
            ("iqn.2001-04.com.example:storage.disk1", Some(true)),
            ("iqn.2001-04.com.example", Some(false)),
            ("iqn.2001-4.com.example:x", Some(false)),
            ("eui.0123456789ABCDEF", Some(true)),
            ("eui.0123456789ABCDE", Some(false)),
            ("naa.62004567BA64678D0123456789ABCDEF", Some(true)),
            ("other", None),
        ] {
            assert_eq!(iscsi_name(name), want, "{name}");
        }
    }

    #[test]
    fn validates_host_ports() {
        for (text, want) in
            [("a:1", true), ("a", false), ("[::1]:1", true), ("::1:1", false), (":1", true), ("[a:1", false)]
        {
            assert_eq!(is_host_port(text), want, "{text}");
        }
    }
}
