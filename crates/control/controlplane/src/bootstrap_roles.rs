//! The roles and bindings that every cluster has. The server adds missing rules and subjects when it starts, except to
//! roles and bindings that forbid it, and keeps additions of administrators.

mod split;
mod table;

use binnacle_authz::{Rule, uncovered};
use binnacle_features::Features;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_fields::rbac::v1::{AggregationRule, ClusterRole, ClusterRoleBinding, RoleRef};
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::Catalog;
use binnacle_schema::{Object, Value};
use futures::future::join_all;

use binnacle_controllers::Objects;

const GROUP: &str = "rbac.authorization.k8s.io";
const AUTO_UPDATE: &str = "rbac.authorization.kubernetes.io/autoupdate";

pub(crate) async fn ensure(resources: &Catalog) -> Result<(), Status> {
    // Roles first: otherwise subjects could be bound to a role that still lacks rules.
    let table = table::parse(resources.features())?;
    let bindings = Objects::new(resources, GROUP, "v1", "clusterrolebindings")?;
    split::ensure(&bindings, &table.cluster_role_bindings).await?;
    for (plural, wanted) in [
        ("clusterroles", table.cluster_roles),
        ("roles", table.roles),
        ("clusterrolebindings", table.cluster_role_bindings),
        ("rolebindings", table.role_bindings),
    ] {
        let objects = Objects::new(resources, GROUP, "v1", plural)?;
        reconcile(&objects, wanted).await?;
    }
    Ok(())
}

/// Returns the cluster roles that every cluster with these features has.
pub(crate) fn cluster_roles(features: &Features) -> Result<Vec<Value>, Status> {
    Ok(table::parse(features)?.cluster_roles)
}

async fn reconcile(objects: &Objects, wanted: Vec<Value>) -> Result<(), Status> {
    let existing = objects.list("").await?;
    let (mut missing, mut changes) = (Vec::new(), Vec::new());
    for wanted in wanted {
        match existing.iter().find(|existing| key(existing) == key(&wanted)) {
            None => missing.push(wanted),
            Some(existing) if is_protected(existing) => {}
            Some(existing) if role_ref(existing) != role_ref(&wanted) => changes.push((wanted, true)),
            Some(existing) if with_missing_parts(existing, &wanted)?.is_some() => changes.push((wanted, false)),
            Some(_) => {}
        }
    }
    objects.create_missing_of(&existing, missing).await?;
    let changed = join_all(changes.into_iter().map(|(wanted, replace)| async move {
        let (namespace, name) = key(&wanted);
        if !replace {
            let complete = |object: &mut Value| {
                // Only an exceeded work budget could be an error, and the work at the start has no budget.
                if let Ok(Some(completed)) = with_missing_parts(object, &wanted) {
                    *object = completed;
                }
            };
            return objects.update(namespace, name, "", complete).await;
        }
        // The `roleRef` of a binding is immutable.
        objects.delete(namespace, name).await?;
        match objects.create(namespace, wanted.clone()).await {
            Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
            created => created.map(|_| ()),
        }
    }));
    changed.await.into_iter().collect()
}

/// Returns the namespace and name.
fn key(object: &Value) -> (&str, &str) {
    let metadata = metadata(object);
    (metadata.at(ObjectMeta::NAMESPACE).str(), metadata.at(ObjectMeta::NAME).str())
}

fn is_protected(object: &Value) -> bool {
    metadata(object).at(ObjectMeta::ANNOTATIONS).key(AUTO_UPDATE).str() == "false"
}

/// Returns the `roleRef` of a binding; `None` for roles.
fn role_ref(object: &Value) -> Option<(&str, &str, &str)> {
    let role = FieldRef::<ClusterRoleBinding>::root(object).at(ClusterRoleBinding::ROLE_REF).detached().set()?;
    Some((role.at(RoleRef::API_GROUP).str(), role.at(RoleRef::KIND).str(), role.at(RoleRef::NAME).str()))
}

/// Returns the object with its missing parts added; `None` if no part is missing.
fn with_missing_parts(existing: &Value, wanted: &Value) -> Result<Option<Value>, Status> {
    let mut completed = existing.clone();
    let mut is_incomplete = false;
    for field in [ObjectMeta::LABELS, ObjectMeta::ANNOTATIONS] {
        let present = metadata(existing).at(field).detached();
        for (name, value) in metadata(wanted).at(field).object().into_iter().flat_map(Object::iter) {
            if !present.key(name).is_set() {
                let mut completed = FieldMut::<PartialObjectMetadata>::root(&mut completed);
                let mut metadata = completed.entry(PartialObjectMetadata::METADATA);
                metadata.map_entry(field).insert(name.clone(), value.clone());
                is_incomplete = true;
            }
        }
    }
    let [role, wanted_role] = [existing, wanted].map(FieldRef::<ClusterRole>::root);
    let [binding, wanted_binding] = [existing, wanted].map(FieldRef::<ClusterRoleBinding>::root);
    if wanted_role.at(ClusterRole::AGGREGATION_RULE).is_set() {
        // A controller writes the rules of aggregated roles.
        let [existing, wanted] = [role, wanted_role]
            .map(|role| role.at(ClusterRole::AGGREGATION_RULE).at(AggregationRule::CLUSTER_ROLE_SELECTORS).list());
        if let Some(all) = appended(existing, missing_items(existing, wanted)) {
            let mut rule = FieldMut::<ClusterRole>::root(&mut completed).into_entry(ClusterRole::AGGREGATION_RULE);
            rule.set(AggregationRule::CLUSTER_ROLE_SELECTORS, all);
            is_incomplete = true;
        }
    } else if wanted_binding.at(ClusterRoleBinding::ROLE_REF).is_set() {
        let [existing, wanted] =
            [binding, wanted_binding].map(|binding| binding.at(ClusterRoleBinding::SUBJECTS).list());
        if let Some(all) = appended(existing, missing_items(existing, wanted)) {
            FieldMut::root(&mut completed).set(ClusterRoleBinding::SUBJECTS, all);
            is_incomplete = true;
        }
    } else {
        let missing = uncovered(&Rule::read_all(existing), &Rule::read_all(wanted))?;
        if let Some(all) = appended(role.at(ClusterRole::RULES).list(), missing.iter().map(Rule::write).collect()) {
            FieldMut::root(&mut completed).set(ClusterRole::RULES, all);
            is_incomplete = true;
        }
    }
    Ok(is_incomplete.then_some(completed))
}

fn missing_items(existing: &[Value], wanted: &[Value]) -> Vec<Value> {
    wanted.iter().filter(|item| !existing.contains(item)).cloned().collect()
}

/// Returns all items; `None` if `more` is empty.
fn appended(existing: &[Value], more: Vec<Value>) -> Option<Vec<Value>> {
    (!more.is_empty()).then(|| [existing, &more].concat())
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    /// A feature's role, rules and binding exist with that feature only.
    #[test]
    fn feature_gate_adds_roles_and_bindings() {
        use binnacle_features::{Gates, Version};
        let role = "system:controller:storage-version-migrator-controller";
        let rules = |features: &Features| {
            let table = table::parse(features).expect("the table can be read");
            let named = |object: &&Value| object.str_at(&["metadata", "name"]) == role;
            assert_eq!(
                table.cluster_role_bindings.iter().filter(named).count(),
                table.cluster_roles.iter().filter(named).count()
            );
            let last = table.cluster_roles.iter().map(|role| role.list_at(&["rules"]).len()).sum::<usize>();
            (table.cluster_roles.iter().find(named).map(|role| role.list_at(&["rules"]).len()), last)
        };
        let gates = Gates::parse(&["StorageVersionMigrator=true"], Version::BINARY, Version::BINARY.previous());
        let on = Features { gates: gates.expect("a beta gate"), allow_privileged: false };
        let ((without, fewer), (with, more)) = (rules(&Features::default()), rules(&on));
        assert_eq!((without, with, more - fewer), (None, Some(4), 4));
    }

    /// The same holds for single rules of roles that always exist, and for rules that replace others.
    #[test]
    fn feature_gates_add_and_replace_rules() {
        use binnacle_features::{Gates, Version};
        let features = |given: &[&str]| {
            let gates =
                Gates::parse(given, Version::BINARY, Version::BINARY.previous()).expect("gates that can be set");
            Features { gates, allow_privileged: false }
        };
        let role = |features: &Features, name: &str| {
            let roles = cluster_roles(features).expect("the table can be read");
            roles.into_iter().find(|role| role.str_at(&["metadata", "name"]) == name)
        };
        let (requests, accounts) = ("podcertificaterequests", "serviceaccounts");
        for (gates, resource, expected) in [
            (&[][..], requests, false),
            (&["PodCertificateRequest=true"], requests, true),
            (&[], accounts, true),
            (&["KubeletServiceAccountTokenForCredentialProviders=false"], accounts, false),
        ] {
            let node = role(&features(gates), "system:node").expect("the role of nodes");
            let named = |rule: &&Value| rule.list_at(&["resources"]).iter().any(|one| one.as_str() == Some(resource));
            assert_eq!(node.list_at(&["rules"]).iter().any(|rule| named(&rule)), expected, "{gates:?} {resource}");
        }
        for (gates, paths) in [(&[][..], 10), (&["ComponentFlagz=false"], 9), (&["AllBeta=false"], 8)] {
            let monitoring = role(&features(gates), "system:monitoring").expect("the role of monitoring");
            let rules = monitoring.list_at(&["rules"]);
            let all: usize = rules.iter().map(|rule| rule.list_at(&["nonResourceURLs"]).len()).sum();
            assert_eq!((rules.len(), all), (2, paths), "{gates:?}");
        }
        let publisher = "system:controller:kube-apiserver-serving-clustertrustbundle-publisher";
        assert!(role(&features(&[]), publisher).is_none() && role(&features(&["AllBeta=true"]), publisher).is_some());
    }

    #[tokio::test]
    async fn adds_missing_rules_and_keeps_additions() {
        let resources = binnacle_test_cluster::resources();
        ensure(&resources).await.unwrap();
        let roles = Objects::new(&resources, GROUP, "v1", "clusterroles").unwrap();
        let bindings = Objects::new(&resources, GROUP, "v1", "clusterrolebindings").unwrap();
        assert_eq!((roles.list("").await.unwrap().len(), bindings.list("").await.unwrap().len()), (70, 51));
        let before = roles.get("", "system:discovery").await.unwrap();
        ensure(&resources).await.unwrap();
        assert_eq!(roles.get("", "system:discovery").await.unwrap(), before, "what is complete is not written");

        let own = value!([{"verbs": ["get"], "nonResourceURLs": ["/own"]}]);
        let reset = |role: &mut Value| drop(role.make_object().insert("rules", own.clone()));
        roles.update("", "system:discovery", "", reset).await.unwrap();
        let protect = |role: &mut Value| {
            reset(role);
            role.make_at(&["metadata", "annotations"]).insert(AUTO_UPDATE, "false");
        };
        roles.update("", "system:monitoring", "", protect).await.unwrap();
        let drop_subject = |binding: &mut Value| drop(binding.make_object().remove("subjects"));
        bindings.update("", "system:discovery", "", drop_subject).await.unwrap();
        bindings.delete("", "system:basic-user").await.unwrap();
        let other = value!({
            "metadata": {"name": "system:basic-user"}, "subjects": [],
            "roleRef": {"apiGroup": GROUP, "kind": "ClusterRole", "name": "other"}
        });
        bindings.create("", other).await.unwrap();
        ensure(&resources).await.unwrap();

        let role = roles.get("", "system:discovery").await.unwrap().unwrap();
        assert_eq!(role.list_at(&["rules"])[0], own.list_at(&[])[0], "what was added stays");
        assert_eq!(uncovered(&Rule::read_all(&role), &Rule::read_all(&before.unwrap())), Ok(Vec::new()));
        assert_eq!(roles.get("", "system:monitoring").await.unwrap().unwrap().get("rules"), Some(&own));
        let binding = bindings.get("", "system:discovery").await.unwrap().unwrap();
        assert_eq!(binding.list_at(&["subjects"])[0].str_at(&["name"]), "system:authenticated");
        let binding = bindings.get("", "system:basic-user").await.unwrap().unwrap();
        assert_eq!(binding.str_at(&["roleRef", "name"]), "system:basic-user");
    }
}
