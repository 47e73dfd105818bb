//! Parses the table of roles and bindings (`data/rbac.txt`, which describes its syntax).

use binnacle_features::Features;
use binnacle_fields::FieldMut;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use binnacle_meta::Status;
use binnacle_schema::{Object, Value, value};

use super::{AUTO_UPDATE, GROUP};

static TEXT: &str = include_str!("../../data/rbac.txt");

const BOOTSTRAPPING: (&str, &str) = ("kubernetes.io/bootstrapping", "rbac-defaults");
const GATES: &str = "gate=";
const AGGREGATE_TO: &str = "rbac.authorization.k8s.io/aggregate-to-";

#[derive(Default)]
pub(super) struct Table {
    pub(super) cluster_roles: Vec<Value>,
    pub(super) roles: Vec<Value>,
    pub(super) cluster_role_bindings: Vec<Value>,
    pub(super) role_bindings: Vec<Value>,
}

/// Parses the table and returns its objects for these features; the error names the line that cannot be parsed.
pub(super) fn parse(features: &Features) -> Result<Table, Status> {
    let mut table = Table::default();
    // A rule belongs to the role before it.
    let (mut cluster, mut is_role_skipped) = (true, false);
    for line in TEXT.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let unreadable = || Status::internal(format!("the table of bootstrap roles has the line {line:?}"));
        let (gates, words): (Vec<&str>, Vec<&str>) = line.split_whitespace().partition(|word| word.starts_with(GATES));
        let enabled = gates.iter().all(|gates| is_enabled(&gates[GATES.len()..], features));
        let is_rule = line.starts_with(' ');
        if !is_rule {
            is_role_skipped = !enabled;
        }
        if is_role_skipped || !enabled {
            continue;
        }
        match words[..] {
            _ if is_rule => {
                let roles = if cluster { &mut table.cluster_roles } else { &mut table.roles };
                let rules = roles.last_mut().and_then(|role| role.get_mut(ClusterRole::RULES.name()));
                let rules = rules.and_then(Value::as_list_mut);
                rules.ok_or_else(unreadable)?.push(rule(&words).ok_or_else(unreadable)?);
            }
            ["clusterrole", name, ref options @ ..] => {
                cluster = true;
                table.cluster_roles.push(cluster_role(name, options).ok_or_else(unreadable)?);
            }
            ["role", name] => {
                cluster = false;
                table.roles.push(value!({"metadata": (metadata(name, true)), "rules": []}));
            }
            ["clusterrolebinding", name, role, ref subjects @ ..] => {
                let binding = binding(metadata(name, false), "ClusterRole", role, subjects);
                table.cluster_role_bindings.push(binding.ok_or_else(unreadable)?);
            }
            ["rolebinding", name, role, ref subjects @ ..] => {
                let binding = binding(metadata(name, true), "Role", role, subjects);
                table.role_bindings.push(binding.ok_or_else(unreadable)?);
            }
            _ => return Err(unreadable()),
        }
    }
    Ok(table)
}

/// Returns true if the features of a line are enabled, and those with `!` disabled.
fn is_enabled(gates: &str, features: &Features) -> bool {
    gates.split(',').all(|gate| match gate.strip_prefix('!') {
        Some(gate) => !features.enabled(gate),
        None => features.enabled(gate),
    })
}

fn cluster_role(name: &str, options: &[&str]) -> Option<Value> {
    let mut role = value!({"metadata": (metadata(name, false)), "rules": []});
    for option in options {
        match option.split_once('=')? {
            ("aggregate-to", to) => {
                let mut role = FieldMut::<ClusterRole>::root(&mut role);
                let mut metadata = role.entry(ClusterRole::METADATA);
                metadata.map_entry(ObjectMeta::LABELS).insert(format!("{AGGREGATE_TO}{to}"), "true");
            }
            ("aggregates", from) => {
                let labels = Object::from_iter([(format!("{AGGREGATE_TO}{from}"), "true")]);
                let rule = value!({"clusterRoleSelectors": [{"matchLabels": labels}]});
                let mut role = FieldMut::<ClusterRole>::root(&mut role);
                role.set(ClusterRole::AGGREGATION_RULE, rule);
                role.remove(ClusterRole::RULES);
            }
            _ => return None,
        }
    }
    Some(role)
}

fn rule(words: &[&str]) -> Option<Value> {
    let (verbs, rest) = words.split_first()?;
    let verbs = list(verbs);
    match rest {
        ["paths", paths] => Some(value!({"verbs": verbs, "nonResourceURLs": (list(paths))})),
        [groups, resources, names @ ..] => {
            let groups: Vec<&str> = groups.split(',').map(|group| if group == "core" { "" } else { group }).collect();
            let mut rule = value!({"verbs": verbs, "apiGroups": groups, "resources": (list(resources))});
            match names {
                [] => {}
                [names] => {
                    let names = Value::from(list(names.strip_prefix("names=")?));
                    FieldMut::root(&mut rule).set(PolicyRule::RESOURCE_NAMES, names);
                }
                _ => return None,
            }
            Some(rule)
        }
        _ => None,
    }
}

fn binding(metadata: Value, kind: &str, role: &str, subjects: &[&str]) -> Option<Value> {
    let subjects: Option<Vec<Value>> = subjects.iter().map(|subject| self::subject(subject)).collect();
    let mut binding = value!({"metadata": metadata, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}});
    let subjects = subjects?;
    if !subjects.is_empty() {
        FieldMut::root(&mut binding).set(ClusterRoleBinding::SUBJECTS, subjects);
    }
    Some(binding)
}

fn subject(text: &str) -> Option<Value> {
    let (kind, name) = text.split_once(':')?;
    Some(match kind {
        "user" => value!({"kind": "User", "apiGroup": GROUP, "name": name}),
        "group" => value!({"kind": "Group", "apiGroup": GROUP, "name": name}),
        "account" => {
            let (namespace, name) = name.split_once('/')?;
            value!({"kind": "ServiceAccount", "name": name, "namespace": namespace})
        }
        _ => return None,
    })
}

fn metadata(name: &str, namespaced: bool) -> Value {
    let labels = Object::from_iter([BOOTSTRAPPING]);
    let annotations = Object::from_iter([(AUTO_UPDATE, "true")]);
    let mut metadata = value!({"name": name, "labels": labels, "annotations": annotations});
    if namespaced && let Some((namespace, name)) = name.split_once('/') {
        let mut metadata = FieldMut::root(&mut metadata);
        metadata.set(ObjectMeta::NAMESPACE, namespace);
        metadata.set(ObjectMeta::NAME, name);
    }
    metadata
}

fn list(text: &str) -> Vec<&str> {
    text.split(',').collect()
}
