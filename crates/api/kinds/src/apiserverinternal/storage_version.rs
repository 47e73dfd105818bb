//! StorageVersion: the versions in which the servers of a cluster store a resource.

use binnacle_validation::repeated;
use std::collections::{HashMap, HashSet};

use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::checks::qualified_name;
use binnacle_validation::metadata::shown;
use binnacle_validation::names;

use crate::Features;
use crate::checks::{invalid_each, items, member, present, texts};
use crate::prepare::{clear_status, put_back, put_back_metadata};
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(crate) struct StorageVersion;

impl Strategy for StorageVersion {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::NONE
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        clear_status(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "status");
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        put_back(object, old, "spec");
        put_back_metadata(object, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        status(object)
    }

    fn validate_update(&self, _: &StrategyContext<'_>, _: &Value, _: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        status(object)
    }

    fn validate_name(&self, _: &Features, name: &str, _: bool) -> Vec<String> {
        let Some((group, resource)) = name.rsplit_once('.') else {
            return vec!["name must be in the form of <group>.<resource>".to_owned()];
        };
        let group = names::dns1123_subdomain(group).into_iter().map(|m| format!("the group segment {m}"));
        let resource = names::dns1035_label(resource).into_iter().map(|m| format!("the resource segment {m}"));
        group.chain(resource).collect()
    }
}

fn status(object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let (status, path) = (member(object, "status"), FieldPath::new("status"));
    let servers = status.list_at(&["storageVersions"]);
    let repeated = repeated(servers, |server| server.str_at(&["apiServerID"]));
    for (i, (at, server)) in errors.while_room(items(status, "storageVersions", &path).enumerate()) {
        let id = server.str_at(&["apiServerID"]);
        if repeated[i] {
            errors.push(FieldError::duplicate(&at.child("apiServerID"), id));
        }
        validate_server(server, &at, &mut errors);
    }
    common_version(status, servers, &path.child("commonEncodingVersion"), &mut errors);
    conditions(status.list_at(&["conditions"]), &path, &mut errors);
    errors
}

fn validate_server(server: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let id = server.str_at(&["apiServerID"]);
    invalid_each(&path.child("apiServerID"), id, &names::dns1123_subdomain(id), errors);
    let encoding = server.str_at(&["encodingVersion"]);
    api_version(&path.child("encodingVersion"), encoding, errors);
    let decodable = texts(server, "decodableVersions");
    let at = path.child("decodableVersions");
    for (i, version) in errors.while_room(decodable.iter().enumerate()) {
        api_version(&at.index(i), version, errors);
    }
    if !decodable.contains(&encoding) {
        let detail = format!("decodableVersions must include encodingVersion {encoding}");
        errors.push(FieldError::invalid(&at, shown(server.get("decodableVersions")), detail));
    }
    let at = path.child("servedVersions");
    let known: HashSet<&str> = decodable.iter().copied().collect();
    let mut all = None;
    for (i, version) in errors.while_room(texts(server, "servedVersions").into_iter().enumerate()) {
        api_version(&at.index(i), version, errors);
        if !known.contains(version) {
            let all = all.get_or_insert_with(|| decodable.join(" "));
            let detail =
                format!("individual served version : {version} must be included in decodableVersions : [{all}]");
            errors.push(FieldError::invalid(&at.index(i), version, detail));
        }
    }
}

/// Validates the common version: the one that all servers write, if they agree.
fn common_version(status: &Value, servers: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let version = |server: &Value| server.str_at(&["encodingVersion"]).to_owned();
    let actual = servers.first().map(version).filter(|first| servers.iter().all(|server| version(server) == *first));
    let stated = present(status, "commonEncodingVersion").and_then(Value::as_str);
    match (actual, stated) {
        (None, Some(stated)) => {
            let detail = "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet";
            errors.push(FieldError::invalid(path, stated, detail));
        }
        (Some(actual), None) => {
            let detail = format!("the common encoding version is {actual}");
            errors.push(FieldError::invalid(path, ErrorValue::raw("null"), detail));
        }
        (Some(actual), Some(stated)) if actual != stated => {
            let detail = format!("the actual common encoding version is {actual}");
            errors.push(FieldError::invalid(path, stated, detail));
        }
        _ => {}
    }
}

fn conditions(conditions: &[Value], path: &FieldPath, errors: &mut FieldErrors) {
    let mut last = HashMap::new();
    for (i, condition) in errors.while_room(conditions.iter().enumerate()) {
        let at = path.index(i);
        let kind = condition.str_at(&["type"]);
        if let Some(earlier) = last.insert(kind, i) {
            let detail = format!("the type of the condition is not unique, it also appears in conditions[{earlier}]");
            errors.push(FieldError::invalid(&at.child("type"), kind, detail));
        }
        qualified_name(&at.child("type"), kind, errors);
        qualified_name(&at.child("status"), condition.str_at(&["status"]), errors);
        for field in ["reason", "message"] {
            if condition.str_at(&[field]).is_empty() {
                errors.push(FieldError::required(&at.child(field), ""));
            }
        }
    }
}

/// Validates `VERSION` or `GROUP/VERSION`.
fn api_version(path: &FieldPath, value: &str, errors: &mut FieldErrors) {
    let messages = api_version_messages(value);
    if !messages.is_empty() {
        errors.push(FieldError::invalid(path, value, messages.join(",")));
    }
}

fn api_version_messages(value: &str) -> Vec<String> {
    const VERSION: &str = "a DNS-1035 label, which must consist of lower case alphanumeric characters or '-', start with an alphabetic character, and end with an alphanumeric character";
    let part = |name: &str, value: &str, rule: fn(&str) -> Vec<String>| -> Vec<String> {
        let messages = if value.is_empty() { vec!["must be non-empty".to_owned()] } else { rule(value) };
        messages.into_iter().map(|message| format!("{name} part: {message}")).collect()
    };
    let mut parts = value.split('/');
    let (group, version) = match (parts.next(), parts.next(), parts.next()) {
        (Some(version), None, _) => (None, version),
        (Some(group), Some(version), None) => (Some(group), version),
        _ => {
            let regex = names::regex_error(VERSION, "[a-z]([-a-z0-9]*[a-z0-9])?", &["my-name", "abc-123"]);
            return vec![format!(
                "an apiVersion is {regex} with an optional DNS subdomain prefix and '/' (e.g. 'example.com/MyVersion')"
            )];
        }
    };
    let mut messages = group.map(|group| part("group", group, names::dns1123_subdomain)).unwrap_or_default();
    messages.extend(part("version", version, names::dns1035_label));
    messages
}
