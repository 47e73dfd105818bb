//! Decisions over small sets of roles and bindings.

use std::sync::Arc;

use binnacle_request::{Decision, User};
use binnacle_schema::{Value, value};
use binnacle_work::{WorkBudget, WorkLimits};

use super::{Rbac, RbacIndex, RbacKind, RoleRef, confirm_no_escalation};
use crate::{Attributes, Authorizer, Rule};

const GROUP: &str = "rbac.authorization.k8s.io";

fn role(namespace: &str, name: &str, verbs: &[&str], resource: &str) -> Value {
    let verbs = verbs.to_vec();
    value!({
        "metadata": {"namespace": namespace, "name": name},
        "rules": [{"verbs": verbs, "apiGroups": [""], "resources": [resource]}]
    })
}

/// Returns a binding; subjects are `kind:name` or `ServiceAccount:name/namespace`.
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
        let kind_of_binding = if namespace.is_empty() { RbacKind::ClusterRoleBinding } else { RbacKind::RoleBinding };
        index.put(kind_of_binding, &binding(namespace, name, kind, role, subjects));
    }
    index.ready.all();
    Arc::new(index)
}

async fn authorize(index: &Arc<RbacIndex>, user: &User, verb: &str, namespace: &str) -> (bool, String) {
    let attributes =
        Attributes { verb, is_resource_request: true, resource: "pods", namespace, ..Attributes::nothing(user) };
    let decision = Rbac::new(index.clone()).authorize(&attributes).await.unwrap();
    assert!(!matches!(decision, Decision::Deny(_)), "roles never veto");
    (decision.is_allow(), decision.reason().to_owned())
}

#[tokio::test]
async fn decides_with_reasons() {
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
        assert_eq!(authorize(&index, user, verb, namespace).await, (allowed, reason), "{user:?} {verb} {namespace}");
    }
}

#[tokio::test]
async fn applies_changes_immediately() {
    let index = index();
    let (bob, dora) = (User::new("bob", &[]), User::new("dora", &["team"]));
    assert!(authorize(&index, &bob, "get", "b").await.0);
    // The same binding with another subject.
    index.put(RbacKind::RoleBinding, &binding("b", "given", "ClusterRole", "reader", &["Group:team"]));
    assert!(!authorize(&index, &bob, "get", "b").await.0);
    assert!(authorize(&index, &dora, "get", "b").await.0);
    // The rules of the role change.
    index.put(RbacKind::ClusterRole, &role("", "reader", &["list"], "pods"));
    assert!(!authorize(&index, &dora, "get", "b").await.0 && authorize(&index, &dora, "list", "b").await.0);
    index.remove(RbacKind::ClusterRole, "", "reader");
    assert_eq!(
        authorize(&index, &dora, "list", "b").await,
        (false, "RBAC: clusterrole.rbac.authorization.k8s.io \"reader\" not found".into())
    );
    index.put(RbacKind::ClusterRole, &role("", "reader", &["list"], "pods"));
    index.remove(RbacKind::RoleBinding, "b", "given");
    index.remove(RbacKind::RoleBinding, "b", "never");
    assert!(!authorize(&index, &dora, "list", "b").await.0);
    // Objects that are not retained are removed; those of other kinds stay.
    let alice = User::new("alice", &[]);
    index.retain(RbacKind::ClusterRoleBinding, |_, _| false);
    assert!(!authorize(&index, &alice, "list", "").await.0 && authorize(&index, &alice, "create", "a").await.0);
    index.retain(RbacKind::Role, |namespace, _| namespace == "b");
    assert!(!authorize(&index, &alice, "create", "a").await.0);
    index.put(RbacKind::RoleBinding, &binding("n", "x", "ClusterRole", "reader", &["User:alice"]));
    index.retain(RbacKind::RoleBinding, |namespace, _| namespace == "n");
    assert!(authorize(&index, &alice, "list", "n").await.0);
    assert_eq!(authorize(&index, &alice, "create", "a").await, (false, String::new()));
}

#[tokio::test]
async fn lists_rules_of_a_user() {
    let index = index();
    // The rules are listed once for a user who matches both subjects of a binding.
    let both = User::new("alice", &["ops"]);
    let listed = Rbac::new(index.clone()).rules_for(&both, "a").await;
    let verbs: Vec<&str> = listed.resources().map(|rule| rule.verbs[0].as_str()).collect();
    assert_eq!((verbs, listed.incomplete, listed.error().as_str()), (vec!["get", "create"], false, ""));
    let bob = User::new("bob", &[]);
    let listed = Rbac::new(index).rules_for(&bob, "c").await;
    assert!(listed.roles.is_empty() && !listed.incomplete);
    assert!(listed.error().contains("\"gone\" not found"));
}

#[test]
fn prevents_escalation() {
    let index = index();
    let alice = User::new("alice", &["g", "system:authenticated"]);
    let (held, unknown) = index.roles_of(&alice, "a");
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

fn numbered(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}{number}")).collect()
}

fn group_binding(name: &str, role: &str, groups: &[String]) -> Value {
    let groups: Vec<String> = groups.iter().map(|group| format!("Group:{group}")).collect();
    let groups: Vec<&str> = groups.iter().map(String::as_str).collect();
    binding("n", name, "Role", role, &groups)
}

/// Returns the decision, its reason, and its cost in steps.
fn decide(index: &Arc<RbacIndex>, user: &User, verb: &str) -> (bool, String, u64) {
    let attributes =
        Attributes { verb, is_resource_request: true, resource: "pods", namespace: "n", ..Attributes::nothing(user) };
    let budget = WorkBudget::new(WorkLimits::REQUEST);
    let decision = budget.enter(|| Rbac::new(index.clone()).decide(&attributes));
    (decision.is_allow(), decision.reason().to_owned(), budget.steps())
}

/// Both the bindings and the users have many groups: the cost is that of looking up the user's groups.
#[test]
fn cost_is_linear_in_the_groups_of_the_user() {
    let index = RbacIndex::default();
    index.put(RbacKind::Role, &role("n", "reader", &["get"], "pods"));
    let groups = numbered("group-with-a-long-name-", 18_000);
    for number in 0..5 {
        index.put(RbacKind::RoleBinding, &group_binding(&format!("b{number}"), "reader", &groups));
    }
    let index = Arc::new(index);
    let (strange, own) = (numbered("other-", 11_499), &groups[17_000]);
    let names = |last: &str| strange.iter().map(String::as_str).chain([last]).map(Into::into).collect();
    let stranger = User { groups: names("x"), ..User::new("s", &[]) };
    let (allowed, reason, steps) = decide(&index, &stranger, "get");
    assert!(!allowed && reason.is_empty() && steps < 200_000, "{steps}");
    let member = User { groups: names(own), ..User::new("m", &[]) };
    let (allowed, reason, steps) = decide(&index, &member, "get");
    let want = format!("RBAC: allowed by RoleBinding \"b0/n\" of Role \"reader\" to Group \"{own}\"");
    assert!(allowed && steps < 200_000, "{steps}");
    assert_eq!(reason, want);
    // A user in all groups: the reason has the first subject of the first binding, and the role is visited once.
    let everywhere = User { groups: groups.iter().map(Into::into).collect(), ..User::new("e", &[]) };
    let (allowed, reason, steps) = decide(&index, &everywhere, "get");
    assert!(allowed && reason.ends_with(&format!("Group \"{}\"", groups[0])) && steps < 500_000, "{reason} {steps}");
    let (allowed, _, steps) = decide(&index, &everywhere, "delete");
    assert!(!allowed && steps < 500_000, "{steps}");
    assert_eq!(index.roles_of(&everywhere, "n").0.len(), 1);
}

/// Each group has a role: each role is visited once and deduplicated by hash.
#[test]
fn visits_each_role_of_many_groups_once() {
    let index = RbacIndex::default();
    let groups = numbered("g", 5_000);
    for group in &groups {
        index.put(RbacKind::Role, &role("n", group, &["get"], "secrets"));
        index.put(RbacKind::RoleBinding, &group_binding(group, group, std::slice::from_ref(group)));
    }
    let user = User { groups: groups.iter().map(Into::into).collect(), ..User::new("u", &[]) };
    let (allowed, _, steps) = decide(&Arc::new(index), &user, "get");
    assert!(!allowed && steps < 200_000, "{steps}");
}

/// Changing one of many subjects only changes the grants of that subject.
#[test]
fn update_costs_only_the_changed_subjects() {
    let index = RbacIndex::default();
    index.ready.all();
    index.put(RbacKind::Role, &role("n", "reader", &["get"], "pods"));
    let mut groups = numbered("g", 18_000);
    let put = |groups: &[String]| {
        let object = group_binding("b", "reader", groups);
        let budget = WorkBudget::new(WorkLimits::NONE);
        budget.enter(|| index.put(RbacKind::RoleBinding, &object));
        budget.steps()
    };
    let first = put(&groups);
    groups[9_000] = "new".to_owned();
    let second = put(&groups);
    assert!(second * 2 < first, "{first} {second}");
    let may = |group: &str| !index.roles_of(&User::new("u", &[group]), "n").0.is_empty();
    assert!(may("new") && may("g0") && may("g17999") && !may("g9000"));
    // The order of subjects only affects reasons, and duplicates count once.
    groups.reverse();
    groups.push("new".to_owned());
    put(&groups);
    assert!(may("new") && may("g0"));
    put(&groups[..9_000]);
    assert!(may("g17999") && !may("g0"));
    index.remove(RbacKind::RoleBinding, "n", "b");
    assert!(!may("g17999") && !may("new"));
}

/// An update does not block readers, and subjects that are in both versions never lose the grant.
#[test]
fn keeps_common_grants_during_an_update() {
    let index = RbacIndex::default();
    index.put(RbacKind::Role, &role("n", "reader", &["get"], "pods"));
    let stays = "stays".to_owned();
    let with = |prefix: &str| {
        let mut groups = numbered(prefix, 300);
        groups.insert(150, stays.clone());
        group_binding("b", "reader", &groups)
    };
    let (one, other) = (with("a"), with("b"));
    index.put(RbacKind::RoleBinding, &one);
    index.ready.all();
    let user = User::new("u", &[&stays]);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| {
            for round in 0..50 {
                index.put(RbacKind::RoleBinding, if round % 2 == 0 { &other } else { &one });
            }
        });
        while !writer.is_finished() {
            assert_eq!(index.roles_of(&user, "n").0.len(), 1);
        }
    });
}

#[test]
fn reason_names_a_limited_number_of_unknown_roles() {
    let index = RbacIndex::default();
    for name in numbered("r", 10_000) {
        index.put(RbacKind::RoleBinding, &binding("n", &name, "Role", &name, &["User:u"]));
    }
    let (allowed, reason, _) = decide(&Arc::new(index), &User::new("u", &[]), "get");
    assert!(!allowed && reason.len() < 10_000 && reason.ends_with(" not found, 9900 more]"), "{reason}");
}

/// Matching the rules of large roles is charged, and the rules are never copied.
#[test]
fn shares_large_roles_and_charges_their_comparison() {
    let index = RbacIndex::default();
    let verbs = numbered("verb-with-a-long-name-", 20_000);
    let verbs: Vec<&str> = verbs.iter().map(String::as_str).collect();
    for number in 0..20 {
        let name = number.to_string();
        index.put(RbacKind::Role, &role("n", &name, &verbs, "pods"));
        index.put(RbacKind::RoleBinding, &binding("n", &name, "Role", &name, &["User:u"]));
    }
    let user = User::new("u", &[]);
    let held = index.role_rules(RoleRef { kind: "Role", name: "0" }, "n").unwrap();
    let (roles, _) = index.roles_of(&user, "n");
    assert!(roles.len() == 20 && roles.iter().any(|role| Arc::ptr_eq(role, &held)));
    let index = Arc::new(index);
    let (allowed, _, steps) = decide(&index, &user, "none");
    assert!(!allowed && (50_000..1_000_000).contains(&steps), "{steps}");
    // An exhausted budget allows nothing.
    let few = WorkBudget::new(WorkLimits { steps: 1_000, memory: 1 << 20 });
    let attributes = Attributes {
        verb: "verb-with-a-long-name-7",
        is_resource_request: true,
        resource: "pods",
        namespace: "n",
        ..Attributes::nothing(&user)
    };
    let rbac = Rbac::new(index);
    assert!(!few.enter(|| rbac.decide(&attributes)).is_allow() && few.check().is_err());
    assert!(rbac.decide(&attributes).is_allow());
}
