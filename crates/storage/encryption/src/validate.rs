//! Validation of a configuration file, with kube-apiserver's messages.

use std::collections::HashSet;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath, GroupResource};
use binnacle_schema::{Value, json};

use crate::config_values::{kms_timeout, kms_version, parse_group_resource, present, texts};

const AES_KEY_SIZES: &[usize] = &[16, 24, 32];
/// The FIPS module does not encrypt with keys of 24 bytes, because it cannot choose the nonces.
const AES_GCM_KEY_SIZES: &[usize] = if binnacle_crypto::FIPS { &[16, 32] } else { AES_KEY_SIZES };
const SECRETBOX_KEY_SIZES: &[usize] = &[32];
/// The members of a provider, in the order in which an error names them.
const PROVIDERS: [&str; 5] = ["kms", "aesgcm", "aescbc", "secretbox", "identity"];
/// Resources that are stored but not served by the API.
const UNSERVED_RESOURCES: [&str; 3] = ["apiserveripinfo", "serviceipallocations", "servicenodeportallocations"];

pub(crate) fn validate(file: &Value, reload: bool) -> FieldErrors {
    let root = FieldPath::new("resources");
    let mut errors = FieldErrors::new();
    let resources = file.list_at(&["resources"]);
    if resources.is_empty() {
        errors.push(at_least_one(&root));
    }
    let mut kms_names = HashSet::new();
    for (at, configuration) in resources.iter().enumerate() {
        let (r, p) = (root.index(at).child("resources"), root.index(at).child("providers"));
        let names = texts(configuration.list_at(&["resources"]));
        if names.is_empty() {
            errors.push(at_least_one(&r));
        }
        check_overlap(&names, &r, &mut errors);
        for (at, name) in names.iter().enumerate() {
            if let Some(why) = name_problem(name) {
                errors.push(FieldError::invalid(&r.index(at), name, why));
            }
        }
        let providers = configuration.list_at(&["providers"]);
        if providers.is_empty() {
            errors.push(at_least_one(&p));
        }
        for (at, provider) in providers.iter().enumerate() {
            check_provider(provider, &p.index(at), reload, &mut kms_names, &mut errors);
        }
    }
    errors
}

fn at_least_one(path: &FieldPath) -> FieldError {
    FieldError::required(path, format!("at least one {} is required", path.as_str()))
}

fn check_overlap(names: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    let parsed: Vec<GroupResource> = names.iter().map(|name| parse_group_resource(name)).collect();
    let pairs = || parsed.iter().enumerate().flat_map(|(i, a)| parsed[i + 1..].iter().map(move |b| (a, b)));
    let display_value = || {
        let list = names.iter().map(|name| Value::Str(name.as_str().into())).collect();
        ErrorValue::raw(json::to_string(&Value::List(list)))
    };
    let is_any = |r: &GroupResource| r.group == "*" && r.resource == "*";
    let overlap = |(a, b): (&GroupResource, &GroupResource)| {
        is_any(a) || is_any(b) || a.group == b.group && (a.resource == "*" || b.resource == "*")
    };
    let duplicates = pairs().filter(|(a, b)| a == b).count();
    if duplicates > 0 {
        errors.push(FieldError::invalid(path, display_value(), "the same resource cannot be specified multiple times"));
    }
    // kube-apiserver reports only the first pair of equal wildcards as a duplicate, and the reverse pair as an overlap.
    if pairs().any(overlap) {
        errors.push(FieldError::invalid(
            path,
            display_value(),
            "using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they \
             will be masked",
        ));
    }
}

fn name_problem(name: &str) -> Option<&'static str> {
    let parsed = parse_group_resource(name);
    Some(match () {
        () if name.to_lowercase() != name => "resource name should not contain capital letters",
        () if name == "*" => {
            "use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources"
        }
        () if UNSERVED_RESOURCES.contains(&name) => "resources which do not have REST API/s cannot be encrypted",
        () if parsed.group == "events.k8s.io" => {
            "'*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the \
             config file"
        }
        () if parsed.group == "extensions" => "'extensions' group has been removed and cannot be used for encryption",
        () if parsed.group == "*" && parsed.resource != "*" => {
            "encrypting the same resource across groups is not supported"
        }
        () => return None,
    })
}

fn check_provider(
    provider: &Value,
    path: &FieldPath,
    reload: bool,
    kms_names: &mut HashSet<String>,
    errors: &mut FieldErrors,
) {
    let present_providers: Vec<&str> = PROVIDERS.into_iter().filter(|name| present(provider, name).is_some()).collect();
    let invalid = |why: &str| FieldError::invalid(path, ErrorValue::raw(redacted(&present_providers)), why);
    match present_providers.len() {
        0 => errors.push(invalid(
            "provider does not contain any of the expected providers: KMS, AESGCM, AESCBC, Secretbox, Identity",
        )),
        1 => {}
        _ => errors.push(invalid(
            "more than one provider specified in a single element, should split into different list elements",
        )),
    }
    let Some(first) = present_providers.first().copied() else { return };
    let path = path.child(first);
    match first {
        "kms" => {
            let kms = &provider.get("kms").cloned().unwrap_or_default();
            check_kms(kms, &path, reload, kms_names, errors);
            kms_names.insert(kms.str_at(&["name"]).to_owned());
        }
        "aesgcm" => {
            check_keys(provider.list_at(&[first, "keys"]), &path.child("keys"), AES_GCM_KEY_SIZES, errors);
        }
        "aescbc" => {
            check_keys(provider.list_at(&[first, "keys"]), &path.child("keys"), AES_KEY_SIZES, errors);
        }
        "secretbox" if binnacle_crypto::FIPS => {
            errors.push(FieldError::invalid(&path, ErrorValue::raw("{}"), "secretbox is not available in FIPS mode"));
        }
        "secretbox" => {
            check_keys(provider.list_at(&[first, "keys"]), &path.child("keys"), SECRETBOX_KEY_SIZES, errors);
        }
        _ => {}
    }
}

/// Formats a provider for messages, without secrets.
fn redacted(names: &[&str]) -> String {
    let members: Vec<String> = names.iter().map(|name| format!("\"{name}\":\"REDACTED\"")).collect();
    format!("{{{}}}", members.join(","))
}

fn check_keys(keys: &[Value], path: &FieldPath, sizes: &[usize], errors: &mut FieldErrors) {
    if keys.is_empty() {
        errors.push(FieldError::required(path, "at least one keys is required"));
    }
    for (at, key) in keys.iter().enumerate() {
        let path = path.index(at);
        if key.str_at(&["name"]).is_empty() {
            errors.push(FieldError::required(&path.child("name"), "name is a mandatory field for a key"));
        }
        let path = path.child("secret");
        let secret = key.str_at(&["secret"]);
        if secret.is_empty() {
            errors.push(FieldError::required(&path, "secret is a mandatory field for a key"));
            continue;
        }
        match BASE64_STANDARD.decode(secret) {
            Err(_) => errors.push(FieldError::invalid(&path, "REDACTED", "secrets must be base64 encoded")),
            Ok(secret) if !sizes.contains(&secret.len()) => {
                let sizes = sizes.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ");
                let why =
                    format!("secret is not of the expected length, got {}, expected one of [{sizes}]", secret.len());
                errors.push(FieldError::invalid(&path, "REDACTED", why));
            }
            Ok(_) => {}
        }
    }
}

fn check_kms(kms: &Value, path: &FieldPath, reload: bool, names: &HashSet<String>, errors: &mut FieldErrors) {
    let version = kms_version(kms);
    let name = kms.str_at(&["name"]);
    let at = path.child("name");
    if name.is_empty() {
        errors.push(FieldError::required(&at, "name is a mandatory field for a provider"));
    }
    if version != "v1" && name.contains(':') {
        errors.push(FieldError::invalid(&at, name, format!("invalid KMS provider name {name}, must not contain ':'")));
    }
    if (reload || version != "v1") && names.contains(name) {
        errors.push(FieldError::invalid(
            &at,
            name,
            format!("duplicate KMS provider name {name}, names must be unique"),
        ));
    }
    if kms_timeout(kms).is_zero() {
        let display_value = ErrorValue::raw(format!("\"{}\"", kms.str_at(&["timeout"])));
        errors.push(FieldError::invalid(&path.child("timeout"), display_value, "timeout should be a positive value"));
    }
    check_endpoint(kms.str_at(&["endpoint"]), &path.child("endpoint"), errors);
    match present(kms, "cachesize").and_then(Value::as_i64) {
        Some(size) if version != "v1" => {
            let why = "cachesize is not supported in v2";
            errors.push(FieldError::invalid(&path.child("cachesize"), size, why));
        }
        Some(0) => {
            let why = "cachesize should be a positive value, or negative to disable";
            errors.push(FieldError::invalid(&path.child("cachesize"), 0, why));
        }
        _ => {}
    }
    if !["v1", "v2"].contains(&version) {
        let why = "unsupported apiVersion apiVersion for KMS provider, only v1 and v2 are supported";
        errors.push(FieldError::invalid(&path.child("apiVersion"), version, why));
    }
}

fn check_endpoint(endpoint: &str, path: &FieldPath, errors: &mut FieldErrors) {
    if endpoint.is_empty() {
        errors.push(FieldError::invalid(path, "", "endpoint is a mandatory field for a kms"));
        return;
    }
    let scheme = endpoint.split_once(':').map_or("", |(scheme, _)| scheme);
    if scheme != "unix" {
        let why = format!("unsupported scheme \"{scheme}\" for KMS provider, only unix is supported");
        errors.push(FieldError::invalid(path, endpoint, why));
    }
}

#[cfg(test)]
mod tests {
    use binnacle_crypto::FIPS;

    use crate::Configuration;

    /// Returns the error of a file with these `resources`.
    fn error_of(resources: &str) -> String {
        let text = format!("kind: EncryptionConfiguration\napiVersion: apiserver.config.k8s.io/v1\n{resources}");
        Configuration::parse("f", text.as_bytes(), true).map_or_else(|error| error.to_string(), |_| String::new())
    }

    #[test]
    fn reports_errors_like_kube_apiserver() {
        let key = "{name: k, secret: AAAAAAAAAAAAAAAAAAAAAA==}";
        let with = |resources: &str, provider: &str| {
            format!("resources: [{{resources: [{resources}], providers: [{provider}]}}]")
        };
        let kms = |more: &str| with("secrets", &format!("{{kms: {{{more}}}}}"));
        let v2 = "apiVersion: v2, endpoint: 'unix:///x'";
        let one_byte = "resources[0].providers[0].secretbox.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 1, expected one of [32]";
        let without_secretbox =
            "resources[0].providers[0].secretbox: Invalid value: {}: secretbox is not available in FIPS mode";
        let long = "{name: k, secret: AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA}";
        let only_16_and_32 = "resources[0].providers[0].aesgcm.keys[0].secret: Invalid value: \"REDACTED\": secret is not of the expected length, got 24, expected one of [16 32]";
        for (resources, want) in [
            (&*with("secrets", &format!("{{aesgcm: {{keys: [{long}]}}}}")), if FIPS { only_16_and_32 } else { "" }),
            (&with("secrets", &format!("{{aescbc: {{keys: [{long}]}}}}")), ""),
            ("", "resources: Required value: at least one resources is required"),
            (&with("secrets", &format!("{{aesgcm: {{keys: [{key}]}}}}")), ""),
            (
                &with("secrets, '*.apps', '*.'", "{identity: {}}"),
                "resources[0].resources: Invalid value: [\"secrets\",\"*.apps\",\"*.\"]: using overlapping resources such as 'secrets' and '*.' in the same resource list is not allowed as they will be masked",
            ),
            (
                &with("secrets, secrets", "{identity: {}}"),
                "resources[0].resources: Invalid value: [\"secrets\",\"secrets\"]: the same resource cannot be specified multiple times",
            ),
            (
                &with("'*'", "{identity: {}}"),
                "resources[0].resources[0]: Invalid value: \"*\": use '*.' to encrypt all the resources from core API group or *.* to encrypt all resources",
            ),
            (
                &with("Secrets", "{identity: {}}"),
                "resources[0].resources[0]: Invalid value: \"Secrets\": resource name should not contain capital letters",
            ),
            (
                &with("events.events.k8s.io", "{identity: {}}"),
                "resources[0].resources[0]: Invalid value: \"events.events.k8s.io\": '*.events.k8s.io' objects are stored using the 'events' API group in etcd. Use 'events' instead in the config file",
            ),
            (
                &with("'secrets.*'", "{identity: {}}"),
                "resources[0].resources[0]: Invalid value: \"secrets.*\": encrypting the same resource across groups is not supported",
            ),
            (
                &with("secrets", ""),
                "resources[0].providers: Required value: at least one resources[0].providers is required",
            ),
            (
                &with("secrets", "{secretbox: {keys: [{name: k, secret: YQ==}]}}"),
                if FIPS { without_secretbox } else { one_byte },
            ),
            (
                &with("secrets", "{aescbc: {keys: [{name: '', secret: '?'}]}}"),
                "[resources[0].providers[0].aescbc.keys[0].name: Required value: name is a mandatory field for a key, resources[0].providers[0].aescbc.keys[0].secret: Invalid value: \"REDACTED\": secrets must be base64 encoded]",
            ),
            (
                &with("secrets", "{aescbc: {keys: []}}"),
                "resources[0].providers[0].aescbc.keys: Required value: at least one keys is required",
            ),
            (&kms(&format!("name: a, {v2}")), ""),
            (
                &kms(&format!("name: 'a:b', {v2}")),
                "resources[0].providers[0].kms.name: Invalid value: \"a:b\": invalid KMS provider name a:b, must not contain ':'",
            ),
            (
                &kms(&format!("name: a, cachesize: 5, {v2}")),
                "resources[0].providers[0].kms.cachesize: Invalid value: 5: cachesize is not supported in v2",
            ),
            (
                &kms("name: a, apiVersion: v2, endpoint: 'tcp://x'"),
                "resources[0].providers[0].kms.endpoint: Invalid value: \"tcp://x\": unsupported scheme \"tcp\" for KMS provider, only unix is supported",
            ),
            (
                &kms(&format!("name: a, timeout: -1s, {v2}")),
                "resources[0].providers[0].kms.timeout: Invalid value: \"-1s\": timeout should be a positive value",
            ),
            (
                "other: 1",
                "error decoding encryption provider configuration file \"f\": strict decoding error: unknown field \"other\"",
            ),
        ] {
            assert_eq!(error_of(resources), want, "{resources}");
        }
    }
}
