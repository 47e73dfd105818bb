//! Compares the descriptions with the recorded OpenAPI documents of all versions: exactly the same paths and verbs.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_resources::{all, groups};
use binnacle_scheme::{Release, ResourceDescription, SubresourceRole, Verb, Verbs};
use binnacle_test_requirements::shared;
use serde_json::Value;

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn describes_every_path_of_every_version() {
    let mut recorded = BTreeMap::new();
    for entry in std::fs::read_dir(shared("reference/openapi/all-v3")).unwrap() {
        let document: Value = serde_json::from_slice(&std::fs::read(entry.unwrap().path()).unwrap()).unwrap();
        let Some(paths) = document["paths"].as_object() else { continue };
        for (path, item) in paths {
            let operations: BTreeSet<Operation> = ["get", "put", "post", "delete", "patch", "head", "options"]
                .iter()
                .filter_map(|method| operation(&item[*method]))
                .filter(|(action, _)| !action.starts_with("watch"))
                .collect();
            if !operations.is_empty() {
                recorded.insert(path.clone(), operations);
            }
        }
    }
    let mut described = BTreeMap::new();
    // Versions that are removed are served only where an older release is emulated.
    for resource in all().filter(|resource| resource.lifecycle.exists_in(Release::v1(36))) {
        describe(resource, &mut described);
    }
    for (path, operations) in &recorded {
        assert_eq!(Some(operations), described.get(path), "{path}");
    }
    assert_eq!(recorded.len(), described.len(), "{:?}", difference(&described, &recorded));
}

/// An operation on a path: its action, and its kind (group/version/kind).
type Operation = (String, String);

fn operation(item: &Value) -> Option<Operation> {
    let action = item["x-kubernetes-action"].as_str()?;
    let kind = &item["x-kubernetes-group-version-kind"];
    let part = |name: &str| kind[name].as_str().unwrap_or_default();
    Some((action.to_owned(), format!("{}/{}/{}", part("group"), part("version"), part("kind"))))
}

/// Adds the paths of one resource in the notation of OpenAPI.
fn describe(resource: &ResourceDescription, paths: &mut BTreeMap<String, BTreeSet<Operation>>) {
    let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let root = format!("{root}/{}", resource.version);
    let scoped = if resource.namespaced { format!("{root}/namespaces/{{namespace}}") } else { root.clone() };
    let kind = |gvk: binnacle_meta::GroupVersionKind| format!("{}/{}/{}", gvk.group, gvk.version, gvk.kind);
    let own = kind(resource.group_version_kind());

    let collection = format!("{scoped}/{}", resource.plural);
    let one = format!("{collection}/{{name}}");
    let mut add = |path: &str, verbs: Verbs, wanted: &[(Verb, &str)], kind: &str| {
        let operations: BTreeSet<Operation> = wanted
            .iter()
            .filter(|(verb, _)| verbs.contains(*verb))
            .map(|(_, action)| ((*action).to_owned(), kind.to_owned()))
            .collect();
        if !operations.is_empty() {
            paths.insert(path.to_owned(), operations);
        }
    };
    let many = [(Verb::List, "list"), (Verb::Create, "post"), (Verb::DeleteCollection, "deletecollection")];
    let single = [(Verb::Get, "get"), (Verb::Update, "put"), (Verb::Patch, "patch"), (Verb::Delete, "delete")];
    add(&collection, resource.verbs, &many, &own);
    add(&one, resource.verbs, &single, &own);
    if resource.namespaced {
        add(&format!("{root}/{}", resource.plural), resource.verbs, &many[..1], &own);
    }
    for subresource in &resource.subresources {
        let kind = kind(subresource.group_version_kind(resource));
        let path = format!("{one}/{}", subresource.name);
        if subresource.role == SubresourceRole::Connect {
            let connect = [(Verb::Get, "connect")];
            add(&path, subresource.verbs, &connect, &kind);
            if subresource.name == "proxy" {
                add(&format!("{path}/{{path}}"), subresource.verbs, &connect, &kind);
            }
        } else {
            let wanted = [(Verb::Get, "get"), (Verb::Update, "put"), (Verb::Patch, "patch"), (Verb::Create, "post")];
            add(&path, subresource.verbs, &wanted, &kind);
        }
    }
}

#[test]
fn descriptions_are_ordered_and_consistent() {
    let mut kinds = BTreeSet::new();
    for group in groups() {
        assert!(group.versions.is_sorted_by(|a, b| a.priority > b.priority), "{}", group.name);
        for version in &group.versions {
            assert!(version.resources.is_sorted_by(|a, b| a.plural < b.plural), "{}/{}", group.name, version.version);
        }
    }
    let order: Vec<_> = groups().iter().skip(1).map(|group| (-group.priority, group.name)).collect();
    assert!(order.is_sorted(), "{order:?}");
    for resource in all() {
        let name = format!("{}/{}/{}", resource.group, resource.version, resource.plural);
        assert!(kinds.insert((&resource.group, &resource.version, &resource.kind)), "{name} twice");
        assert!(resource.subresources.is_sorted_by(|a, b| a.name < b.name), "{name}");
        assert_eq!(resource.singular, resource.kind.to_lowercase(), "{name}");
        assert!(resource.field_labels.resolve("metadata.name").is_ok(), "{name}");
        assert_eq!(resource.storage.is_some(), resource.verbs.contains(Verb::Watch), "{name}");
        if let Some(storage) = &resource.storage {
            let hub = binnacle_resources::find_kind(&storage.group, &storage.version, &storage.kind);
            assert_eq!(
                hub.and_then(|hub| hub.storage.as_ref()),
                Some(storage),
                "{name} is stored in a version that stores itself elsewhere"
            );
        }
        assert_eq!(resource.has_status_subresource(), resource.puts_back.contains(&"status".into()), "{name}");
    }
}

fn difference<V>(ours: &BTreeMap<String, V>, theirs: &BTreeMap<String, V>) -> Vec<String> {
    ours.keys().filter(|path| !theirs.contains_key(*path)).cloned().collect()
}
