//! Decisions over small sets of roles and bindings.

use std::sync::Arc;

use binnacle_request::{Decision, User};
use binnacle_schema::{Value, value};

use super::{Rbac, RbacIndex, RbacKind, RoleRef, Rule, confirm_no_escalation};
use crate::{Attributes, Authorizer};

const GROUP: &str = "rbac.authorization.k8s.io";

fn role(namespace: &str, name: &str, verbs: &[&str], resource: &str) -> Value {
    let verbs = verbs.to_vec();
    value!({
        "metadata": {"namespace": namespace, "name": name},
        "rules": [{"verbs": verbs, "apiGroups": [""], "resources": [resource]}]
    })
}

/// Makes a binding; subjects are `kind:name` or `ServiceAccount:name/namespace`.
fn binding(namespace: &str, name: &str, kind: &str, role: &str, subjects: &[&str]) -> Value {
    let subject = |text: &&str| {
        let (kind, name) = text.split_once(':').unwrap();
        let (name, namespace) = name.split_once('/').unwrap_or((name, ""));
        value!({"kind": kind, "name": name, "namespace": namespace})
    };
    let subjects: Vec<Value> = subjects.iter().map(subject).collect();
    value!({
        "metadata": {"namespace": namespace, "name": name}, "subjects": subjects,
        "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role}
    })
}

fn index() -> Arc<RbacIndex> {
    let index = RbacIndex::default();
    index.put(RbacKind::ClusterRole, &role("", "reader", &["get"], "pods"));
    index.put(RbacKind::Role, &role("a", "writer", &["create"], "pods"));
    index.put(RbacKind::Role, &role("b", "writer", &["delete"], "pods"));
    for (namespace, name, kind, role, subjects) in [
        ("", "everywhere", "ClusterRole", "reader", &["User:alice", "Group:ops", "ServiceAccount:robot/a"][..]),
        ("", "nowhere", "ClusterRole", "reader", &["ServiceAccount:robot"]),
        ("a", "local", "Role", "writer", &["User:alice", "ServiceAccount:robot"]),
        ("b", "other", "Role", "writer", &["Group:ops"]),
        ("b", "given", "ClusterRole", "reader", &["User:bob"]),
        ("c", "broken", "Role", "gone", &["User:bob"]),
        ("c", "broken2", "ClusterRole", "gone", &["User:bob"]),
        ("c", "broken3", "Robot", "gone", &["User:bob"]),
    ] {
        let which = if namespace.is_empty() { RbacKind::ClusterRoleBinding } else { RbacKind::RoleBinding };
        index.put(which, &binding(namespace, name, kind, role, subjects));
    }
    index.ready.all();
    Arc::new(index)
}

async fn ask(index: &Arc<RbacIndex>, user: &User, verb: &str, namespace: &str) -> (bool, String) {
    let attributes =
        Attributes { verb, is_resource_request: true, resource: "pods", namespace, ..Attributes::nothing(user) };
    let decision = Rbac::new(index.clone()).authorize(&attributes).await.unwrap();
    assert!(!matches!(decision, Decision::Deny(_)), "roles never veto");
    (decision.is_allow(), decision.reason().to_owned())
}

#[tokio::test]
async fn decisions() {
    let index = index();
    let alice = User::new("alice", &["system:authenticated"]);
    let bob = User::new("bob", &["x"]);
    let ops = User::new("carol", &["x", "ops"]);
    let robot = User::new("system:serviceaccount:a:robot", &[]);
    let stranger = User::new("system:serviceaccount:b:robot", &["Ops", "alice"]);
    let everywhere =
        |to: &str| format!("RBAC: allowed by ClusterRoleBinding \"everywhere\" of ClusterRole \"reader\" to {to}");
    let broken = "RBAC: [clusterrole.rbac.authorization.k8s.io \"gone\" not found, unsupported role reference kind: \
                  \"Robot\", role.rbac.authorization.k8s.io \"gone\" not found]";
    for (user, verb, namespace, allowed, reason) in [
        (&alice, "get", "", true, everywhere("User \"alice\"")),
        (&alice, "get", "zzz", true, everywhere("User \"alice\"")),
        (
            &alice,
            "create",
            "a",
            true,
            "RBAC: allowed by RoleBinding \"local/a\" of Role \"writer\" to User \"alice\"".into(),
        ),
        (&alice, "create", "b", false, String::new()),
        (&alice, "create", "", false, String::new()),
        (&ops, "get", "a", true, everywhere("Group \"ops\"")),
        (
            &ops,
            "delete",
            "b",
            true,
            "RBAC: allowed by RoleBinding \"other/b\" of Role \"writer\" to Group \"ops\"".into(),
        ),
        (&ops, "create", "b", false, String::new()),
        (&robot, "get", "q", true, everywhere("ServiceAccount \"robot/a\"")),
        (
            &robot,
            "create",
            "a",
            true,
            "RBAC: allowed by RoleBinding \"local/a\" of Role \"writer\" to ServiceAccount \"robot/a\"".into(),
        ),
        (&stranger, "get", "a", false, String::new()),
        (
            &bob,
            "get",
            "b",
            true,
            "RBAC: allowed by RoleBinding \"given/b\" of ClusterRole \"reader\" to User \"bob\"".into(),
        ),
        (&bob, "get", "a", false, String::new()),
        (&bob, "get", "c", false, broken.into()),
    ] {
        assert_eq!(ask(&index, user, verb, namespace).await, (allowed, reason), "{user:?} {verb} {namespace}");
    }
}

#[tokio::test]
async fn changes_count_at_once() {
    let index = index();
    let (bob, dora) = (User::new("bob", &[]), User::new("dora", &["team"]));
    assert!(ask(&index, &bob, "get", "b").await.0);
    // The same binding with another subject.
    index.put(RbacKind::RoleBinding, &binding("b", "given", "ClusterRole", "reader", &["Group:team"]));
    assert!(!ask(&index, &bob, "get", "b").await.0);
    assert!(ask(&index, &dora, "get", "b").await.0);
    // The role has other rules.
    index.put(RbacKind::ClusterRole, &role("", "reader", &["list"], "pods"));
    assert!(!ask(&index, &dora, "get", "b").await.0 && ask(&index, &dora, "list", "b").await.0);
    index.remove(RbacKind::ClusterRole, "", "reader");
    assert_eq!(
        ask(&index, &dora, "list", "b").await,
        (false, "RBAC: clusterrole.rbac.authorization.k8s.io \"reader\" not found".into())
    );
    index.put(RbacKind::ClusterRole, &role("", "reader", &["list"], "pods"));
    index.remove(RbacKind::RoleBinding, "b", "given");
    index.remove(RbacKind::RoleBinding, "b", "never");
    assert!(!ask(&index, &dora, "list", "b").await.0);
    // Objects that are not kept are removed; those of other kinds stay.
    let alice = User::new("alice", &[]);
    index.retain(RbacKind::ClusterRoleBinding, |_, _| false);
    assert!(!ask(&index, &alice, "list", "").await.0 && ask(&index, &alice, "create", "a").await.0);
    index.retain(RbacKind::Role, |namespace, _| namespace == "b");
    assert!(!ask(&index, &alice, "create", "a").await.0);
    index.put(RbacKind::RoleBinding, &binding("n", "x", "ClusterRole", "reader", &["User:alice"]));
    index.retain(RbacKind::RoleBinding, |namespace, _| namespace == "n");
    assert!(ask(&index, &alice, "list", "n").await.0);
    assert_eq!(ask(&index, &alice, "create", "a").await, (false, String::new()));
}

#[tokio::test]
async fn lists() {
    let index = index();
    // With both subjects of a binding, its rules are listed once.
    let both = User::new("alice", &["ops"]);
    let listed = Rbac::new(index.clone()).rules_for(&both, "a").await;
    let verbs: Vec<&str> = listed.resources.iter().map(|rule| rule.verbs[0].as_str()).collect();
    assert_eq!((verbs, listed.incomplete, listed.error().as_str()), (vec!["get", "create"], false, ""));
    let bob = User::new("bob", &[]);
    let listed = Rbac::new(index).rules_for(&bob, "c").await;
    assert!(listed.resources.is_empty() && !listed.incomplete);
    assert!(listed.error().contains("\"gone\" not found"));
}

#[test]
fn escalation() {
    let index = index();
    let alice = User::new("alice", &["g", "system:authenticated"]);
    let (held, unknown) = index.rules_of(&alice, "a");
    let unknown: Vec<String> = unknown.iter().map(ToString::to_string).collect();
    let check = |rules: &[Rule]| confirm_no_escalation(&alice, &held, &unknown, rules).map_err(|e| e.to_string());
    let rules = |role: RoleRef<'_>, namespace: &str| index.role_rules(role, namespace).unwrap();
    assert_eq!(check(&rules(RoleRef { kind: "Role", name: "writer" }, "a")), Ok(()));
    assert_eq!(
        check(&rules(RoleRef { kind: "Role", name: "writer" }, "b")),
        Err("user \"alice\" (groups=[\"g\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
             currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"
            .into())
    );
    assert!(index.role_rules(RoleRef { kind: "Role", name: "writer" }, "").is_err());
    let refused = confirm_no_escalation(&alice, &[], &["x not found".into()], &Rule::everything()).unwrap_err();
    assert!(refused.to_string().ends_with(
        "{APIGroups:[\"*\"], Resources:[\"*\"], Verbs:[\"*\"]}\n{NonResourceURLs:[\"*\"], Verbs:[\"*\"]}; resolution \
         errors: [x not found]"
    ));
}
