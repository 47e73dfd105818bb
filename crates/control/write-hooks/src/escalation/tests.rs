//! Writes of roles and bindings by several users, with the real registry.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use binnacle_authz::{Authorizer, PrivilegedGroups, Rbac, Union};
use binnacle_meta::Status;
use binnacle_registry::{Catalog, Context, UpdateOptions};
use binnacle_request::{CreatePermit, ShutdownTrigger, User};
use binnacle_schema::{Value, value};
use tokio::task::JoinSet;

use super::{RbacInformers, escalation_hooks};

const GROUP: &str = "rbac.authorization.k8s.io";

struct Fixture {
    resources: Catalog,
    _trigger: ShutdownTrigger,
    _informers: JoinSet<()>,
}

impl Fixture {
    /// Gives alice the permissions `held` in the namespace `n`.
    async fn new(held: Value) -> Self {
        let feed = OnceLock::new();
        let resources = binnacle_test_cluster::resources_with(|set| {
            let feed = feed.get_or_init(|| RbacInformers::new(set.clone()));
            let known: Vec<Box<dyn Authorizer>> =
                vec![Box::new(PrivilegedGroups::masters()), Box::new(Rbac::new(feed.index().clone()))];
            let authorizer: Arc<dyn Authorizer> = Arc::new(Union::new(known));
            HashMap::from(escalation_hooks(feed, &authorizer))
        });
        let (trigger, shutdown) = ShutdownTrigger::new();
        let mut informers = JoinSet::new();
        feed.get().unwrap().start(false, &mut informers, &shutdown);
        let fixture = Self { resources, _trigger: trigger, _informers: informers };
        fixture.create(&masters(), "roles", "n", role("held", held)).await.unwrap();
        fixture.create(&masters(), "rolebindings", "n", binding("held", "Role", "held", "alice")).await.unwrap();
        fixture
    }

    async fn create(&self, user: &User, plural: &str, namespace: &str, mut object: Value) -> Result<(), Status> {
        let resource = self.resources.require(GROUP, "v1", plural)?;
        let members = object.make_object();
        members.insert("apiVersion", resource.api_version());
        members.insert("kind", resource.description.kind.clone());
        resource.set_defaults(&mut object);
        #[expect(clippy::disallowed_methods, reason = "what may be created is not what is tested")]
        let permit = CreatePermit::system();
        resource.create(&Context::new(user.clone(), namespace.into(), false), &permit, object).await.map(drop)
    }

    async fn update(&self, plural: &str, name: &str, change: impl Fn(&mut Value) + Send + Sync) -> Result<(), Status> {
        let resource = self.resources.require(GROUP, "v1", plural)?;
        let mut apply = |old: Option<&Value>| {
            let mut object = old.cloned().unwrap_or_default();
            change(&mut object);
            Ok(object.into())
        };
        let namespace = if plural.starts_with("cluster") { "" } else { "n" };
        let context = Context::new(alice(), namespace.into(), false).with_name(name.into());
        resource.update(&context, name, &UpdateOptions::default(), &mut apply).await.map(drop)
    }
}

fn masters() -> User {
    User::new("root", &["system:masters"])
}

fn alice() -> User {
    User::new("alice", &["g"])
}

fn role(name: &str, rules: Value) -> Value {
    value!({"metadata": {"name": name}, "rules": rules})
}

fn binding(name: &str, kind: &str, role: &str, user: &str) -> Value {
    value!({
        "metadata": {"name": name}, "roleRef": {"apiGroup": GROUP, "kind": kind, "name": role},
        "subjects": [{"kind": "User", "apiGroup": GROUP, "name": user}]
    })
}

fn rules(verbs: &[&str], resource: &str) -> Value {
    let verbs = verbs.to_vec();
    let group = if resource.starts_with("role") || resource.starts_with("clusterrole") { GROUP } else { "" };
    value!([{"verbs": verbs, "apiGroups": [group], "resources": [resource]}])
}

fn outcome(result: Result<(), Status>) -> (u16, String) {
    result.map_or_else(|status| (status.code(), status.message().to_owned()), |()| (200, String::new()))
}

#[tokio::test]
async fn rejects_roles_with_permissions_not_held() {
    let fixture = Fixture::new(rules(&["get", "list"], "configmaps")).await;
    let missing = |resource: &str, verbs: &str| {
        format!(
            "user \"alice\" (groups=[\"g\"]) is attempting to grant RBAC permissions not currently \
             held:\n{{APIGroups:[\"\"], Resources:[\"{resource}\"], Verbs:[{verbs}]}}"
        )
    };
    let more = fixture.create(&alice(), "roles", "n", role("more", rules(&["get", "delete"], "configmaps"))).await;
    let why = missing("configmaps", "\"delete\"");
    assert_eq!(outcome(more), (403, format!("roles.rbac.authorization.k8s.io \"more\" is forbidden: {why}")));
    fixture.create(&alice(), "roles", "n", role("same", rules(&["get"], "configmaps"))).await.unwrap();
    // A permission in one namespace holds neither in another one nor cluster-wide.
    let elsewhere = fixture.create(&alice(), "roles", "m", role("same", rules(&["get"], "configmaps"))).await;
    assert_eq!(outcome(elsewhere).0, 403);
    let everywhere = fixture.create(&alice(), "clusterroles", "", role("same", rules(&["get"], "configmaps"))).await;
    assert_eq!(outcome(everywhere).0, 403);

    let grown =
        fixture.update("roles", "same", |role| drop(role.make_object().insert("rules", rules(&["*"], "*")))).await;
    let why = missing("*", "\"*\"");
    assert_eq!(outcome(grown), (403, format!("roles.rbac.authorization.k8s.io \"same\" is forbidden: {why}")));
    fixture.update("roles", "same", |role| drop(role.make_at(&["metadata", "labels"]).insert("a", "b"))).await.unwrap();
    // Alice may change only the garbage collector's fields of a role with more permissions than hers.
    fixture.create(&masters(), "roles", "n", role("strong", rules(&["*"], "secrets"))).await.unwrap();
    let labelled =
        fixture.update("roles", "strong", |role| drop(role.make_at(&["metadata", "labels"]).insert("a", "b"))).await;
    assert_eq!(outcome(labelled).0, 403);
    let finalize = |role: &mut Value| drop(role.make_at(&["metadata"]).insert("finalizers", vec!["x.io/y"]));
    fixture.update("roles", "strong", finalize).await.unwrap();
}

#[tokio::test]
async fn aggregation_rule_requires_all_permissions() {
    let fixture = Fixture::new(value!([])).await;
    let aggregated = || {
        let mut role = role("sum", value!([]));
        let rule = value!({"clusterRoleSelectors": [{"matchLabels": {"a": "b"}}]});
        role.make_object().insert("aggregationRule", rule);
        role
    };
    let why = "clusterroles.rbac.authorization.k8s.io \"sum\" is forbidden: must have cluster-admin privileges to use the \
               aggregationRule";
    assert_eq!(outcome(fixture.create(&alice(), "clusterroles", "", aggregated()).await), (403, why.to_owned()));
    fixture.create(&masters(), "clusterroles", "", aggregated()).await.unwrap();
    // The aggregation rule cannot be removed either.
    let drop_rule = |role: &mut Value| drop(role.make_object().remove("aggregationRule"));
    assert_eq!(outcome(fixture.update("clusterroles", "sum", drop_rule).await), (403, why.to_owned()));
}

#[tokio::test]
async fn escalate_and_bind_verbs_permit_escalation() {
    let fixture = Fixture::new(rules(&["escalate"], "roles")).await;
    fixture.create(&alice(), "roles", "n", role("more", rules(&["*"], "secrets"))).await.unwrap();
    let elsewhere = fixture.create(&alice(), "roles", "m", role("more", rules(&["*"], "secrets"))).await;
    assert_eq!(outcome(elsewhere).0, 403);
    // The permission to write a role does not include the permission to bind it.
    let bound = fixture.create(&alice(), "rolebindings", "n", binding("b", "Role", "more", "bob")).await;
    assert!(outcome(bound).1.starts_with("rolebindings.rbac.authorization.k8s.io \"b\" is forbidden: user \"alice\""));

    let named = value!([{"verbs": ["bind"], "apiGroups": [GROUP], "resources": ["roles", "clusterroles"],
        "resourceNames": ["strong"]}]);
    let fixture = Fixture::new(named).await;
    for plural in ["roles", "clusterroles"] {
        let namespace = if plural == "roles" { "n" } else { "" };
        fixture.create(&masters(), plural, namespace, role("strong", rules(&["*"], "secrets"))).await.unwrap();
        fixture.create(&masters(), plural, namespace, role("other", rules(&["*"], "secrets"))).await.unwrap();
    }
    for (plural, namespace, kind, role, want) in [
        ("rolebindings", "n", "Role", "strong", 200),
        ("rolebindings", "n", "ClusterRole", "strong", 200),
        ("rolebindings", "n", "Role", "other", 403),
        ("rolebindings", "m", "ClusterRole", "strong", 403),
        ("clusterrolebindings", "", "ClusterRole", "strong", 403),
        ("clusterrolebindings", "", "Role", "strong", 400),
        ("rolebindings", "n", "Role", "gone", 404),
        ("rolebindings", "n", "Role", "", 400),
        ("clusterrolebindings", "", "ClusterRole", "", 400),
        ("rolebindings", "n", "Robot", "strong", 500),
    ] {
        let name = format!("{kind}-{role}").to_lowercase();
        let bound = fixture.create(&alice(), plural, namespace, binding(&name, kind, role, "bob")).await;
        assert_eq!(outcome(bound).0, want, "{plural} {namespace} {kind} {role}");
    }
    let gone = fixture.create(&alice(), "rolebindings", "n", binding("x", "Role", "gone", "bob")).await;
    assert_eq!(outcome(gone).1, "rolebindings.rbac.authorization.k8s.io \"gone\" not found");
    let robot = fixture.create(&alice(), "rolebindings", "n", binding("x", "Robot", "gone", "bob")).await;
    assert_eq!(outcome(robot).1, "unsupported role reference kind: \"Robot\"");
}

#[tokio::test]
async fn ignores_revoked_permissions() {
    let fixture = Fixture::new(rules(&["get"], "configmaps")).await;
    for round in 0..20 {
        let name = format!("r{round}");
        fixture.create(&alice(), "roles", "n", role(&name, rules(&["get"], "configmaps"))).await.unwrap();
        let bindings = fixture.resources.require(GROUP, "v1", "rolebindings").unwrap();
        let context = Context::internal("n");
        bindings.delete(&context, "held", &Default::default()).await.unwrap();
        let late = fixture.create(&alice(), "roles", "n", role("late", rules(&["get"], "configmaps"))).await;
        assert_eq!(outcome(late).0, 403);
        fixture.create(&masters(), "rolebindings", "n", binding("held", "Role", "held", "alice")).await.unwrap();
    }
}
