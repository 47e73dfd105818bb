//! Validation of projected volumes and downward API volumes.

use std::collections::HashSet;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    ClusterTrustBundleProjection as TrustBundle, DownwardAPIProjection, DownwardAPIVolumeFile as DownwardFile,
    DownwardAPIVolumeSource as Downward, KeyToPath, PodCertificateProjection as Certificate,
    ProjectedVolumeSource as Projected, SecretProjection, ServiceAccountTokenProjection as Token,
    VolumeProjection as Projection,
};
use binnacle_meta::FieldErrors;
use binnacle_validation::{checks, names, selectors, signers};

use super::sources::{file_mode, key_to_path};
use super::{PodValidationOptions, fields, paths, required};
use crate::internal;

/// The fields of a pod that a file can hold.
const FILE_FIELDS: [&str; 5] =
    ["metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid"];

const TEN_MINUTES: i64 = 600;
const TOKEN_MAX: i64 = 1 << 32;
const KEY_TYPES: [&str; 6] = ["RSA3072", "RSA4096", "ECDSAP256", "ECDSAP384", "ECDSAP521", "ED25519"];
const CERTIFICATE_MIN: i64 = 3600;
const CERTIFICATE_MAX: i64 = 7_862_400;
const KUBERNETES_CERTIFICATE_MAX: i64 = 86_400;

pub(super) fn downward_api(source: FieldRef<Downward>, errors: &mut FieldErrors) {
    file_mode(source.at(Downward::DEFAULT_MODE), errors);
    // kube-apiserver's path does not name the file.
    source.at(Downward::ITEMS).items().for_each(|file| downward_file(file.located_at(&source), errors));
}

pub(super) fn projected(volume: FieldRef<Projected>, options: &PodValidationOptions<'_>, errors: &mut FieldErrors) {
    file_mode(volume.at(Projected::DEFAULT_MODE), errors);
    let mut files = Files { volume, known: HashSet::new() };
    let sources = volume.at(Projected::SOURCES);
    for source in errors.while_room(sources.items()) {
        let mut count = 0;
        let mut is_given = |given: bool| {
            count += usize::from(given);
            given
        };
        // Those of config maps have the same fields.
        for keys in [source.at(Projection::SECRET), source.at(Projection::CONFIG_MAP).cast()] {
            if is_given(keys.is_set()) {
                key_files(keys, &mut files, errors);
            }
        }
        let downward = source.at(Projection::DOWNWARD_API);
        if is_given(downward.is_set()) {
            downward_files(downward, &mut files, errors);
        }
        let own = source.at(Projection::SERVICE_ACCOUNT_TOKEN);
        if is_given(own.is_set()) {
            token(own, volume, options, errors);
        }
        let bundle = source.at(Projection::CLUSTER_TRUST_BUNDLE);
        if is_given(bundle.is_set()) {
            trust_bundle(bundle, &mut files, errors);
        }
        let own = source.at(Projection::POD_CERTIFICATE);
        if is_given(own.is_set()) {
            certificate(own, &mut files, errors);
        }
        if count > 1 {
            errors.push(source.forbidden("may not specify more than 1 volume type per source"));
        }
    }
}

/// The files of a volume, whose paths must be unique.
struct Files<'a> {
    volume: FieldRef<'a, 'a, Projected>,
    known: HashSet<String>,
}

impl Files<'_> {
    fn add(&mut self, file: &str, shown: &str, errors: &mut FieldErrors) {
        if file.is_empty() {
            return;
        }
        if !self.known.insert(file.to_owned()) {
            errors.push(self.volume.invalid_as(shown, "conflicting duplicate paths"));
        }
    }
}

fn downward_files(source: FieldRef<DownwardAPIProjection>, files: &mut Files<'_>, errors: &mut FieldErrors) {
    let list = source.at(DownwardAPIProjection::ITEMS);
    for file in errors.while_room(list.items()) {
        // kube-apiserver's path does not name the file.
        downward_file(file.located_at(&source), errors);
        let path = file.at(DownwardFile::PATH).str();
        files.add(path, path, errors);
    }
}

fn downward_file(file: FieldRef<DownwardFile>, errors: &mut FieldErrors) {
    required(file, &[DownwardFile::PATH], errors);
    let path = file.at(DownwardFile::PATH);
    paths::descending_not_reserved(&path, path.str(), errors);
    let (field, resource) = (file.at(DownwardFile::FIELD_REF), file.at(DownwardFile::RESOURCE_FIELD_REF));
    match (field.is_set(), resource.is_set()) {
        (true, has_resource) => {
            fields::field(field, &FILE_FIELDS, errors);
            if has_resource {
                let why = "fieldRef and resourceFieldRef can not be specified simultaneously";
                errors.push(file.invalid_as("resource", why));
            }
        }
        (false, true) => fields::resource(resource, true, errors),
        (false, false) => errors.push(file.required("one of fieldRef and resourceFieldRef is required")),
    }
    file_mode(file.at(DownwardFile::MODE), errors);
}

fn key_files(source: FieldRef<SecretProjection>, files: &mut Files<'_>, errors: &mut FieldErrors) {
    required(source, &[SecretProjection::NAME], errors);
    let items = source.at(SecretProjection::ITEMS);
    for item in errors.while_room(items.items()) {
        key_to_path(item, errors);
        files.add(item.at(KeyToPath::PATH).str(), source.at(SecretProjection::NAME).str(), errors);
    }
}

fn token(
    token: FieldRef<Token>,
    volume: FieldRef<Projected>,
    options: &PodValidationOptions<'_>,
    errors: &mut FieldErrors,
) {
    let expiration = token.at(Token::EXPIRATION_SECONDS);
    let seconds = expiration.int_or_zero();
    if seconds < TEN_MINUTES {
        errors.push(expiration.invalid_as(seconds, "may not specify a duration less than 10 minutes"));
    }
    if seconds > TOKEN_MAX {
        errors.push(expiration.invalid("may not specify a duration larger than 2^32 seconds"));
    }
    // kube-apiserver reports the path of the file in the volume.
    let token = token.located_at(&volume);
    let path = token.at(Token::PATH);
    if path.is_empty() {
        errors.push(path.required(""));
    } else if !options.any_token_path {
        paths::descending_not_reserved(&path, path.str(), errors);
    }
}

fn trust_bundle(bundle: FieldRef<TrustBundle>, files: &mut Files<'_>, errors: &mut FieldErrors) {
    let (name, signer) = (bundle.at(TrustBundle::NAME), bundle.at(TrustBundle::SIGNER_NAME));
    let selector = bundle.at(TrustBundle::LABEL_SELECTOR);
    match (name.get_str(), signer.get_str()) {
        (Some(_), Some(_)) => {
            let why = "only one of name and signerName may be used";
            errors.push(bundle.invalid_as(internal::shown(bundle), why));
        }
        (Some(given), None) => {
            if given.is_empty() {
                errors.push(name.required("must be a valid object name"));
            }
            for message in trust_bundle_name(given) {
                errors.push(name.invalid(format!("not a valid clustertrustbundlename: {message}")));
            }
            if selector.is_set() {
                let why = "labelSelector must be unset if name is specified";
                errors.push(selector.invalid_as(internal::shown(selector), why));
            }
        }
        (None, Some(given)) => {
            if given.is_empty() {
                errors.push(signer.required("must be a valid signer name"));
            }
            signers::signer_name(&signer, given, errors);
            selectors::validate(selector, false, errors);
        }
        (None, None) => errors.push(bundle.required("either name or signerName must be specified")),
    }
    required(bundle, &[TrustBundle::PATH], errors);
    let path = bundle.at(TrustBundle::PATH);
    paths::descending_not_reserved(&path, path.str(), errors);
    files.add(path.str(), path.str(), errors);
}

/// Validates the name of a trust bundle: `signer.domain:path:name` if it belongs to a signer.
fn trust_bundle_name(name: &str) -> Vec<String> {
    let own = match name.rsplit_once(':') {
        Some((_, own)) => own,
        None => name,
    };
    names::dns1123_subdomain_name(own, false)
}

fn certificate(certificate: FieldRef<Certificate>, files: &mut Files<'_>, errors: &mut FieldErrors) {
    let (signer, key_type) = (certificate.at(Certificate::SIGNER_NAME), certificate.at(Certificate::KEY_TYPE));
    signers::signer_name(&signer, signer.str(), errors);
    checks::string_one_of(&key_type, key_type.str(), &KEY_TYPES, errors);
    let expiration = certificate.at(Certificate::MAX_EXPIRATION_SECONDS);
    if let Some(seconds) = expiration.int() {
        if seconds < CERTIFICATE_MIN {
            errors.push(expiration.invalid(format!("if provided, maxExpirationSeconds must be >= {CERTIFICATE_MIN}")));
        }
        let domain = signer.str().split('/').next().unwrap_or("");
        let own = signer.str().starts_with("kubernetes.io/") || domain.ends_with(".kubernetes.io");
        let max = if own { KUBERNETES_CERTIFICATE_MAX } else { CERTIFICATE_MAX };
        if seconds > max {
            errors.push(expiration.invalid(format!("if provided, maxExpirationSeconds must be <= {max}")));
        }
    }
    let mut any = false;
    for path in [Certificate::CREDENTIAL_BUNDLE_PATH, Certificate::KEY_PATH, Certificate::CERTIFICATE_CHAIN_PATH] {
        let path = certificate.at(path);
        if !path.is_empty() {
            any = true;
            paths::descending_not_reserved(&path, path.str(), errors);
            files.add(path.str(), path.str(), errors);
        }
    }
    if !any {
        let why = "specify at least one of credentialBundlePath, keyPath, and certificateChainPath";
        errors.push(certificate.required(why));
    }
}
