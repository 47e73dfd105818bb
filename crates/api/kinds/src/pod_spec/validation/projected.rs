//! Validation of projected volumes and downward API volumes.

use std::collections::HashSet;

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::metadata::shown;
use binnacle_validation::{checks, names, selectors, signers};

use super::sources::{file_mode, key_to_path, needs};
use super::{PodValidationOptions, fields, paths};
use crate::tree_names::member;

/// The fields of a pod that a file can hold.
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const TEN_MINUTES: i64 = 600;
const TOKEN_MAX: i64 = 1 << 32;
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const CERTIFICATE_MIN: i64 = 3600;
const CERTIFICATE_MAX: i64 = 7_862_400;
const KUBERNETES_CERTIFICATE_MAX: i64 = 86_400;

pub(super) fn downward_api(source: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    file_mode(source, "defaultMode", path, errors);
    // kube-apiserver's path does not name the file.
    source.list_at(&["items"]).iter().for_each(|file| downward_file(file, path, errors));
}

pub(super) fn projected(
    source: &Value,
    path: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    file_mode(source, "defaultMode", path, errors);
    let mut files = Files { path, known: HashSet::new() };
    for (i, item) in errors.while_room(source.list_at(&["sources"]).iter().enumerate()) {
        let at = path.child("sources").index(i);
        let mut count = 0;
        let mut each = |name: &str| {
            let found = member(item, name);
            count += usize::from(found.is_some());
            found.map(|source| (source, at.child(name)))
        };
        for kind in ["secret", "configMap"] {
            if let Some((source, at)) = each(kind) {
                keys(source, &at, &mut files, errors);
            }
        }
        if let Some((source, at)) = each("downwardAPI") {
            for file in errors.while_room(source.list_at(&["items"])) {
                downward_file(file, &at, errors);
                let name = file.str_at(&["path"]);
                files.add(name, name, errors);
            }
        }
        if let Some((source, at)) = each("serviceAccountToken") {
            token(source, &at, path, options, errors);
        }
        if let Some((source, at)) = each("clusterTrustBundle") {
            trust_bundle(source, &at, &mut files, errors);
        }
        if let Some((source, at)) = each("podCertificate") {
            certificate(source, &at, &mut files, errors);
        }
        if count > 1 {
            errors.push(FieldError::forbidden(&at, "may not specify more than 1 volume type per source"));
        }
    }
}

/// The files of a volume, whose paths must be unique.
struct Files<'a> {
    path: &'a FieldPath,
    known: HashSet<String>,
}

impl Files<'_> {
    fn add(&mut self, file: &str, shown: &str, errors: &mut FieldErrors) {
        if file.is_empty() {
            return;
        }
        if !self.known.insert(file.to_owned()) {
            errors.push(FieldError::invalid(self.path, shown, "conflicting duplicate paths"));
        }
    }
}

fn downward_file(file: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    needs(file, &["path"], path, errors);
    paths::descending_not_reserved(&path.child("path"), file.str_at(&["path"]), errors);
    match (member(file, "fieldRef"), member(file, "resourceFieldRef")) {
        (Some(field), resource) => {
            fields::field(field, &FILE_FIELDS, &path.child("fieldRef"), errors);
            if resource.is_some() {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(FieldError::invalid(path, "resource", why));
            }
        }
        (None, Some(resource)) => fields::resource(resource, true, &path.child("resourceFieldRef"), errors),
        (None, None) => errors.push(FieldError::required(path, "one of fieldRef and resourceFieldRef is required")),
    }
    file_mode(file, "mode", path, errors);
}

fn keys(source: &Value, path: &FieldPath, files: &mut Files<'_>, errors: &mut FieldErrors) {
    needs(source, &["name"], path, errors);
    for (i, item) in errors.while_room(source.list_at(&["items"]).iter().enumerate()) {
        key_to_path(item, &path.child("items").index(i), errors);
        files.add(item.str_at(&["path"]), source.str_at(&["name"]), errors);
    }
}

fn token(
    source: &Value,
    path: &FieldPath,
    volume: &FieldPath,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let seconds = source.int_at(&["expirationSeconds"]).unwrap_or(0);
    let at = path.child("expirationSeconds");
    if seconds < TEN_MINUTES {
        errors.push(FieldError::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > TOKEN_MAX {
        errors.push(FieldError::invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds"));
    }
    let file = source.str_at(&["path"]);
    if file.is_empty() {
        errors.push(FieldError::required(&volume.child("path"), ""));
    } else if !options.any_token_path {
        paths::descending_not_reserved(&volume.child("path"), file, errors);
    }
}

fn trust_bundle(source: &Value, path: &FieldPath, files: &mut Files<'_>, errors: &mut FieldErrors) {
    let text = |name: &str| source.get(name).and_then(Value::as_str);
    match (text("name"), text("signerName")) {
        (Some(_), Some(_)) => {
            let bundle = crate::internal::shown_as("io.k8s.api.core.v1.ClusterTrustBundleProjection", Some(source));
            errors.push(FieldError::invalid(path, bundle, "only one of name and signerName may be used"));
        }
        (Some(name), None) => {
            let at = path.child("name");
            if name.is_empty() {
                errors.push(FieldError::required(&at, "must be a valid object name"));
            }
            for message in trust_bundle_name(name) {
                errors.push(FieldError::invalid(&at, name, format!("not a valid clustertrustbundlename: {message}")));
            }
            if let Some(selector) = member(source, "labelSelector") {
                let why = "labelSelector must be unset if name is specified";
                errors.push(FieldError::invalid(&path.child("labelSelector"), shown(Some(selector)), why));
            }
        }
        (None, Some(signer)) => {
            let at = path.child("signerName");
            if signer.is_empty() {
                errors.push(FieldError::required(&at, "must be a valid signer name"));
            }
            signers::signer_name(&at, signer, errors);
            selectors::label_selector(source.get("labelSelector"), false, &path.child("labelSelector"), errors);
        }
        (None, None) => errors.push(FieldError::required(path, "either name or signerName must be specified")),
    }
    needs(source, &["path"], path, errors);
    let file = source.str_at(&["path"]);
    paths::descending_not_reserved(&path.child("path"), file, errors);
    files.add(file, file, errors);
}

/// Validates the name of a trust bundle: `signer.domain:path:name` if it belongs to a signer.
fn trust_bundle_name(name: &str) -> Vec<String> {
    let own = match name.rsplit_once(':') {
        Some((_, own)) => own,
        None => name,
    };
    names::dns1123_subdomain_name(own, false)
}

fn certificate(source: &Value, path: &FieldPath, files: &mut Files<'_>, errors: &mut FieldErrors) {
    let signer = source.str_at(&["signerName"]);
    signers::signer_name(&path.child("signerName"), signer, errors);
    let key_type = source.str_at(&["keyType"]);
    checks::one_of(&path.child("keyType"), key_type, &KEY_TYPES, errors);
    if let Some(seconds) = source.int_at(&["maxExpirationSeconds"]) {
        let at = path.child("maxExpirationSeconds");
        if seconds < CERTIFICATE_MIN {
            let why = format!("if provided, maxExpirationSeconds must be >= {CERTIFICATE_MIN}");
            errors.push(FieldError::invalid(&at, seconds, why));
        }
        let own = signer.starts_with("kubernetes.io/")
            || signer.split('/').next().is_some_and(|d| d.ends_with(".kubernetes.io"));
        let max = if own { KUBERNETES_CERTIFICATE_MAX } else { CERTIFICATE_MAX };
        if seconds > max {
            let why = format!("if provided, maxExpirationSeconds must be <= {max}");
            errors.push(FieldError::invalid(&at, seconds, why));
        }
    }
    let mut any = false;
    for field in ["credentialBundlePath", "keyPath", "certificateChainPath"] {
        let file = source.str_at(&[field]);
        if !file.is_empty() {
            any = true;
            paths::descending_not_reserved(&path.child(field), file, errors);
            files.add(file, file, errors);
        }
    }
    if !any {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(FieldError::required(path, why));
    }
}
