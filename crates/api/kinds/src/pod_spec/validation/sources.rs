//! Validation of volume sources that pods and persistent volumes share.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks;
use binnacle_validation::metadata::shown;
use binnacle_validation::names::{self, inclusive_range_error};

use super::paths;
use crate::tree_names::member;

pub(crate) const FILE_MODE: &str = "must be a number between 0 and 0777 (octal), both inclusive";
pub(crate) const ISCSI_NAMES: &str = "Total length of <volume name>:<iscsi.targetPortal> must be under 64 characters if iscsi.initiatorName is specified.";
const CSI_DRIVER_MAX: usize = 63;
const HOST_PATH_TYPES: [&str; 8] =
    ["", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket"];

/// Requires texts, for sources without further rules.
pub(crate) fn needs(source: &Value, fields: &[&str], path: &FieldPath, errors: &mut FieldErrors) {
    for field in fields {
        checks::required(&path.child(field), source.str_at(&[field]), errors);
    }
}

pub(crate) fn host_path(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let directory = source.str_at(&["path"]);
    if directory.is_empty() {
        return errors.push(FieldError::required(&path.child("path"), ""));
    }
    paths::no_backsteps(&path.child("path"), directory, errors);
    if let Some(kind) = source.get("type").and_then(Value::as_str) {
        checks::one_of(&path.child("type"), kind, &HOST_PATH_TYPES, errors);
    }
}

pub(crate) fn git_repo(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    needs(source, &["repository"], path, errors);
    paths::descending(&path.child("directory"), source.str_at(&["directory"]), errors);
}

pub(crate) fn gce_disk(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    needs(source, &["pdName"], path, errors);
    partition(source, path, errors);
}

pub(crate) fn aws_store(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    needs(source, &["volumeID"], path, errors);
    partition(source, path, errors);
}

/// Validates a secret or config map as files.
pub(crate) fn keys(source: &Value, name: &str, path: &FieldPath, errors: &mut FieldErrors) {
    needs(source, &[name], path, errors);
    file_mode(source, "defaultMode", path, errors);
    for (i, item) in errors.while_room(source.list_at(&["items"]).iter().enumerate()) {
        key_to_path(item, &path.child("items").index(i), errors);
    }
}

pub(crate) fn key_to_path(item: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    needs(item, &["key", "path"], path, errors);
    paths::descending_not_reserved(&path.child("path"), item.str_at(&["path"]), errors);
    file_mode(item, "mode", path, errors);
}

pub(crate) fn file_mode(holder: &Value, field: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(mode) = holder.int_at(&[field])
        && !(0..=0o777).contains(&mode)
    {
        errors.push(FieldError::invalid(&path.child(field), mode, FILE_MODE));
    }
}

pub(crate) fn nfs(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    needs(source, &["server", "path"], path, errors);
    let directory = source.str_at(&["path"]);
    if !directory.starts_with('/') {
        errors.push(FieldError::invalid(&path.child("path"), directory, "must be an absolute path"));
    }
}

pub(crate) fn iscsi(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const PREFIXES: &str = "must be valid format starting with iqn, eui, or naa";
    needs(source, &["targetPortal"], path, errors);
    iscsi_rules(source, path, PREFIXES, errors);
    iscsi_initiator(source, path, PREFIXES, errors);
}

/// Validates an iSCSI source: the qualified name, the unit and the secret; `unknown` is the error for names of unknown
/// types.
pub(crate) fn iscsi_rules(source: &Value, path: &FieldPath, unknown: &str, errors: &mut FieldErrors) {
    let name = source.str_at(&["iqn"]);
    let at = path.child("iqn");
    match iscsi_name(name) {
        _ if name.is_empty() => errors.push(FieldError::required(&at, "")),
        Some(true) => {}
        Some(false) => errors.push(FieldError::invalid(&at, name, "must be valid format")),
        None => errors.push(FieldError::invalid(&at, name, unknown)),
    }
    let unit = source.int_at(&["lun"]).unwrap_or(0);
    if !(0..=255).contains(&unit) {
        errors.push(FieldError::invalid(&path.child("lun"), unit, inclusive_range_error(0, 255)));
    }
    let authenticated = source.bool_at(&["chapAuthDiscovery"]) || source.bool_at(&["chapAuthSession"]);
    if authenticated && member(source, "secretRef").is_none() {
        errors.push(FieldError::required(&path.child("secretRef"), ""));
    }
}

pub(crate) fn iscsi_initiator(source: &Value, path: &FieldPath, unknown: &str, errors: &mut FieldErrors) {
    let Some(name) = source.get("initiatorName").and_then(Value::as_str) else { return };
    let at = path.child("initiatorname");
    match iscsi_name(name) {
        Some(true) => {}
        Some(false) => errors.push(FieldError::invalid(&at, name, "must be valid format")),
        None => errors.push(FieldError::invalid(&at, name, unknown)),
    }
}

pub(crate) fn flocker(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (name, uuid) = (source.str_at(&["datasetName"]), source.str_at(&["datasetUUID"]));
    if name.is_empty() && uuid.is_empty() {
        errors.push(FieldError::required(path, "one of datasetName and datasetUUID is required"));
    }
    if !name.is_empty() && !uuid.is_empty() {
        let why = "datasetName and datasetUUID can not be specified simultaneously";
        errors.push(FieldError::invalid(path, "resource", why));
    }
    if name.contains('/') {
        errors.push(FieldError::invalid(&path.child("datasetName"), name, "must not contain '/'"));
    }
}

pub(crate) fn rbd(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    monitors(source, path, errors);
    needs(source, &["image"], path, errors);
}

pub(crate) fn monitors(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if source.list_at(&["monitors"]).is_empty() {
        errors.push(FieldError::required(&path.child("monitors"), ""));
    }
}

/// Validates a Cinder source; secrets of persistent volumes have a namespace.
pub(crate) fn cinder(source: &Value, persistent: bool, path: &FieldPath, errors: &mut FieldErrors) {
    needs(source, &["volumeID"], path, errors);
    secret_reference(source, persistent, path, errors);
}

pub(crate) fn storage_os(source: &Value, persistent: bool, path: &FieldPath, errors: &mut FieldErrors) {
    match source.str_at(&["volumeName"]) {
        "" => errors.push(FieldError::required(&path.child("volumeName"), "")),
        name => checks::label(&path.child("volumeName"), name, errors),
    }
    let namespace = source.str_at(&["volumeNamespace"]);
    if !namespace.is_empty() {
        checks::label(&path.child("volumeNamespace"), namespace, errors);
    }
    secret_reference(source, persistent, path, errors);
}

pub(crate) fn quobyte(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const PAIRS: &str = "must be a host:port pair or multiple pairs separated by commas";
    let registry = source.str_at(&["registry"]);
    let at = path.child("registry");
    if registry.is_empty() {
        errors.push(FieldError::required(&at, PAIRS));
    } else if source.str_at(&["tenant"]).len() >= 65 {
        let why = "must be a UUID and may not exceed a length of 64 characters";
        errors.push(FieldError::required(&path.child("tenant"), why));
    } else {
        let wrong = registry.split(',').filter(|pair| !is_host_port(pair));
        errors.extend(wrong.map(|_| FieldError::invalid(&at, registry, PAIRS)));
    }
    needs(source, &["volume"], path, errors);
}

pub(crate) fn fibre_channel(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let (names, ids) = (source.list_at(&["targetWWNs"]), source.list_at(&["wwids"]));
    let at = path.child("targetWWNs");
    if names.is_empty() && ids.is_empty() {
        errors.push(FieldError::required(&at, "must specify either targetWWNs or wwids, but not both"));
    }
    if !names.is_empty() && !ids.is_empty() {
        let why = "targetWWNs and wwids can not be specified simultaneously";
        errors.push(FieldError::invalid(&at, shown(source.get("targetWWNs")), why));
    }
    if !names.is_empty() {
        match source.int_at(&["lun"]) {
            None => {
                errors.push(FieldError::required(&path.child("lun"), "lun is required if targetWWNs is specified"));
            }
            Some(unit) if !(0..=255).contains(&unit) => {
                errors.push(FieldError::invalid(&path.child("lun"), unit, inclusive_range_error(0, 255)));
            }
            Some(_) => {}
        }
    }
}

pub(crate) fn flex(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    needs(source, &["driver"], path, errors);
    for (key, _) in errors.while_room(source.object_at(&["options"]).into_iter().flat_map(|options| options.iter())) {
        let namespace = key.split('/').next().unwrap_or("");
        let domain = format!(".{}", namespace.to_lowercase());
        if domain.ends_with(".kubernetes.io") || domain.ends_with(".k8s.io") {
            let why = "kubernetes.io and k8s.io namespaces are reserved";
            errors.push(FieldError::invalid(&path.child("options").key(key), key, why));
        }
    }
}

pub(crate) fn azure_disk(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const MANAGED: &str =
        "/subscriptions/{sub-id}/resourcegroups/{group-name}/providers/microsoft.compute/disks/{disk-id}";
    const BLOB: &str = "https://{account-name}.blob.core.windows.net/{container-name}/{disk-name}.vhd";
    needs(source, &["diskName", "diskURI"], path, errors);
    if let Some(mode) = source.get("cachingMode").and_then(Value::as_str) {
        checks::one_of(&path.child("cachingMode"), mode, &["None", "ReadOnly", "ReadWrite"], errors);
    }
    let Some(kind) = source.get("kind").and_then(Value::as_str) else { return };
    checks::one_of(&path.child("kind"), kind, &["Dedicated", "Managed", "Shared"], errors);
    let uri = source.str_at(&["diskURI"]);
    let (prefix, supported) = if kind == "Managed" { ("/subscriptions/", MANAGED) } else { ("https://", BLOB) };
    if !uri.starts_with(prefix) {
        errors.push(FieldError::not_supported(&path.child("diskURI"), uri, &[supported]));
    }
}

pub(crate) fn csi_driver_name(path: &FieldPath, name: &str, errors: &mut FieldErrors) {
    if name.is_empty() {
        return errors.push(FieldError::required(path, ""));
    }
    if name.len() > CSI_DRIVER_MAX {
        errors.push(FieldError::too_long(path, CSI_DRIVER_MAX));
    }
    checks::invalid_for(path, name, names::dns1123_subdomain(&name.to_lowercase()), errors);
}

fn secret_reference(source: &Value, with_namespace: bool, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(secret) = member(source, "secretRef") {
        let fields: &[&str] = if with_namespace { &["name", "namespace"] } else { &["name"] };
        needs(secret, fields, &path.child("secretRef"), errors);
    }
}

fn partition(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let partition = source.int_at(&["partition"]).unwrap_or(0);
    if !(0..=255).contains(&partition) {
        errors.push(FieldError::invalid(&path.child("partition"), partition, inclusive_range_error(1, 255)));
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
    fn iscsi_names() {
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
    fn pairs() {
        for (text, want) in
            [("a:1", true), ("a", false), ("[::1]:1", true), ("::1:1", false), (":1", true), ("[a:1", false)]
        {
            assert_eq!(is_host_port(text), want, "{text}");
        }
    }
}
