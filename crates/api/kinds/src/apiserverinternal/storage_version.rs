//! StorageVersion: the versions in which the servers of a cluster store a resource.

use std::collections::{HashMap, HashSet};

use binnacle_fields::apiserverinternal::v1alpha1::{
    self, ServerStorageVersion as Server, StorageVersionCondition as Condition, StorageVersionStatus as Status,
};
use binnacle_fields::types::{List, Str};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{ErrorValue, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::checks::{qualified_name, required, subdomain};
use binnacle_validation::names;

use crate::Features;
use crate::checks::repeated;
use crate::prepare::keep_metadata;
use crate::{MetadataChecks, Strategy, StrategyContext};

type Version = v1alpha1::StorageVersion;

pub(crate) struct StorageVersion;

impl Strategy for StorageVersion {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::NONE
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        FieldMut::root(object).remove(Version::STATUS);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::root(object).keep(FieldRef::root(old), Version::STATUS);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let (mut new, old) = (FieldMut::<Version>::root(object), FieldRef::root(old));
        new.keep(old, Version::SPEC);
        keep_metadata(&mut new, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        status(FieldRef::root(object))
    }

    fn validate_update(&self, _: &StrategyContext<'_>, _: &Value, _: &Value) -> FieldErrors {
        FieldErrors::new()
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        status(FieldRef::root(object))
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

fn status(version: FieldRef<Version>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let status = version.at(Version::STATUS);
    let servers = status.at(Status::STORAGE_VERSIONS);
    let repeated = repeated(servers, Server::API_SERVER_ID);
    for (i, server) in errors.while_room(servers.items().enumerate()) {
        if repeated[i] {
            errors.push(server.at(Server::API_SERVER_ID).duplicate());
        }
        validate_server(server, &mut errors);
    }
    common_version(status, &mut errors);
    // kube-apiserver reports conditions with their index only.
    conditions(status.at(Status::CONDITIONS).located_at(&status), &mut errors);
    errors
}

fn validate_server(server: FieldRef<Server>, errors: &mut FieldErrors) {
    let (id, encoding) = (server.at(Server::API_SERVER_ID), server.at(Server::ENCODING_VERSION));
    subdomain(&id, id.str(), errors);
    api_version(encoding, errors);
    let decodable = server.at(Server::DECODABLE_VERSIONS);
    for version in errors.while_room(decodable.items()) {
        api_version(version, errors);
    }
    if !decodable.contains(encoding.str()) {
        let detail = format!("decodableVersions must include encodingVersion {}", encoding.str());
        errors.push(decodable.invalid(detail));
    }
    let known: HashSet<&str> = decodable.strs().collect();
    let mut all = None;
    for version in errors.while_room(server.at(Server::SERVED_VERSIONS).items()) {
        api_version(version, errors);
        if !known.contains(version.str()) {
            let all = all.get_or_insert_with(|| decodable.strs().collect::<Vec<_>>().join(" "));
            let detail = format!(
                "individual served version : {} must be included in decodableVersions : [{all}]",
                version.str()
            );
            errors.push(version.invalid(detail));
        }
    }
}

/// Validates the common version: the one that all servers write, if they agree.
fn common_version(status: FieldRef<Status>, errors: &mut FieldErrors) {
    let servers = status.at(Status::STORAGE_VERSIONS);
    let mut versions = servers.items().map(|server| server.at(Server::ENCODING_VERSION).str());
    let actual = versions.next().filter(|first| versions.all(|version| version == *first));
    let common = status.at(Status::COMMON_ENCODING_VERSION);
    match (actual, common.get_str()) {
        (None, Some(_)) => {
            let detail = "should be nil if servers do not agree on the same encoding version, or if there is no server reporting the supported versions yet";
            errors.push(common.invalid(detail));
        }
        (Some(actual), None) => {
            let detail = format!("the common encoding version is {actual}");
            errors.push(common.invalid_as(ErrorValue::raw("null"), detail));
        }
        (Some(actual), Some(stated)) if actual != stated => {
            errors.push(common.invalid(format!("the actual common encoding version is {actual}")));
        }
        _ => {}
    }
}

fn conditions(conditions: FieldRef<List<Condition>>, errors: &mut FieldErrors) {
    let mut last = HashMap::new();
    for (i, condition) in errors.while_room(conditions.items().enumerate()) {
        let (kind, status) = (condition.at(Condition::TYPE), condition.at(Condition::STATUS));
        if let Some(earlier) = last.insert(kind.str(), i) {
            let detail = format!("the type of the condition is not unique, it also appears in conditions[{earlier}]");
            errors.push(kind.invalid(detail));
        }
        qualified_name(&kind, kind.str(), errors);
        qualified_name(&status, status.str(), errors);
        for field in [Condition::REASON, Condition::MESSAGE] {
            let field = condition.at(field);
            required(&field, field.str(), errors);
        }
    }
}

/// Validates `VERSION` or `GROUP/VERSION`.
fn api_version(version: FieldRef<Str>, errors: &mut FieldErrors) {
    let messages = api_version_messages(version.str());
    if !messages.is_empty() {
        errors.push(version.invalid(messages.join(",")));
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
