use binnacle_authz::{Attributes, AuthzError};
use binnacle_metrics::Registry;
use binnacle_request::{BoxFuture, Decision, Query};
use http::Method;

use super::*;

/// Allows requests that are listed as `verb group/resource/subresource namespace/name`.
struct AllowList(&'static [&'static str]);

impl Authorizer for AllowList {
    fn authorize<'a>(&'a self, a: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        let request = format!("{} {}/{}/{} {}/{}", a.verb, a.api_group, a.resource, a.subresource, a.namespace, a.name);
        let allowed = self.0.contains(&request.as_str());
        Box::pin(async move { Ok(if allowed { Decision::Allow("".into()) } else { Decision::NoOpinion("".into()) }) })
    }
}

/// Impersonation with an authorizer, and its metrics.
struct Rig {
    impersonation: Impersonation,
    registry: Registry,
}

impl Rig {
    fn new(authorizer: impl Authorizer + 'static) -> Self {
        Self::with(CACHE_TTL, true, authorizer)
    }

    fn with(ttl: Duration, constrained: bool, authorizer: impl Authorizer + 'static) -> Self {
        let registry = Registry::new();
        let metrics = ImpersonationMetrics::register(&registry).unwrap();
        let impersonation = Impersonation::with_ttl(ttl, Arc::new(authorizer), constrained, metrics);
        Self { impersonation, registry }
    }

    async fn impersonate(&self, path: &str, sent: &[(&str, &str)], requestor: &User) -> Result<String, String> {
        let mut headers = HeaderMap::new();
        for (name, value) in sent {
            headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
        }
        let info = RequestInfo::parse(&Method::GET, path, &Query::default(), "").unwrap();
        let record = Record::open(Method::GET, path.into(), None, None);
        match self.impersonation.impersonate(&mut headers, &info, requestor, &record).await {
            Ok(None) => Ok("nobody".to_owned()),
            Ok(Some(ImpersonatedUser { user, constraint })) => {
                assert!(headers.is_empty());
                assert_eq!(record.latency(Part::Impersonation).is_zero(), !self.impersonation.constrained);
                let extra: Vec<String> = user.extra.iter().map(|(k, v)| format!(" {k}={}", v.join(","))).collect();
                Ok(format!("{constraint} {} {} {}{}", user.name, user.uid, user.groups.join(","), extra.concat()))
            }
            Err(status) => Err(format!("{} {}", status.code(), status.message())),
        }
    }

    /// The counts so far, as `mode decision count`.
    fn counts(&self, family: &str) -> Vec<String> {
        let name = format!("apiserver_impersonation_{family}_total");
        let families = self.registry.gather();
        let family = families.iter().find(|family| family.name() == name);
        let metrics = family.map(|family| family.get_metric()).unwrap_or_default();
        let mut counts: Vec<String> = metrics
            .iter()
            .map(|metric| {
                // Labels are sorted by name: the decision comes first.
                let [decision, mode] = metric.get_label() else { panic!("{metric:?}") };
                format!("{} {} {}", mode.value(), decision.value(), metric.get_counter().get_value())
            })
            .collect();
        counts.sort_unstable();
        counts
    }
}

async fn impersonate(
    allows: &'static [&'static str],
    sent: &[(&str, &str)],
    requestor: &User,
) -> Result<String, String> {
    Rig::new(AllowList(allows)).impersonate("/api/v1/nodes", sent, requestor).await
}

/// Permissions of users who may impersonate `other`.
const LIST: &str = "impersonate-on:user-info:list /nodes/ /";
const OTHER: &[&str] = &[LIST, "impersonate:user-info authentication.k8s.io/users/ /other"];
const NODES_DENIED: &str = "403 nodes is forbidden: User \"me\" cannot impersonate-on:user-info:list resource \"nodes\" in API group \"\" at the cluster scope";

fn group(group: &str) -> (&str, &str) {
    ("Impersonate-Group", group)
}

#[tokio::test]
async fn authorizes_each_part_of_the_target_user() {
    let me = User::new("me", &["system:authenticated"]);
    let user = ("Impersonate-User", "other");
    for (allows, sent, want) in [
        (&[][..], vec![], Ok("nobody")),
        (&[], vec![user], Err(NODES_DENIED)),
        (&["impersonate /users/ /other"], vec![user], Ok(" other  system:authenticated")),
        (OTHER, vec![user], Ok("impersonate:user-info other  system:authenticated")),
        // Permission to run a request as a user does not imply permission to impersonate the user, nor vice versa.
        (
            &[LIST],
            vec![user],
            Err(
                "403 users.authentication.k8s.io \"other\" is forbidden: User \"me\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope",
            ),
        ),
        (&["impersonate:user-info authentication.k8s.io/users/ /other"], vec![user], Err(NODES_DENIED)),
        (
            &["impersonate /users/ /other", "impersonate /groups/ /a"],
            vec![user, group("a"), group("a")],
            Ok(" other  a,a,system:authenticated"),
        ),
        // Every part needs its own permission.
        (
            &["impersonate /users/ /other", "impersonate /groups/ /a"],
            vec![user, group("a"), group("system:masters")],
            Err(NODES_DENIED),
        ),
        // Many parts can be allowed by one permission.
        (
            &[
                LIST,
                "impersonate:user-info authentication.k8s.io/users/ /other",
                "impersonate:user-info authentication.k8s.io/groups/ /*",
                "impersonate:user-info authentication.k8s.io/userextras/* /*",
            ],
            vec![
                user,
                group("a"),
                group("b"),
                group("c"),
                group("d"),
                ("Impersonate-Extra-A.io%2fa", "1"),
                ("Impersonate-Extra-A.io%2fa", "2"),
                ("Impersonate-Extra-A.io%2fa", "3"),
                ("Impersonate-Extra-A.io%2fb", "4"),
            ],
            Ok("impersonate:user-info other  a,b,c,d,system:authenticated a.io/a=1,2,3 a.io/b=4"),
        ),
        // Few parts cannot.
        (
            &[
                LIST,
                "impersonate:user-info authentication.k8s.io/users/ /other",
                "impersonate:user-info authentication.k8s.io/groups/ /*",
            ],
            vec![user, group("a"), group("b"), group("c")],
            Err(
                "403 groups.authentication.k8s.io \"a\" is forbidden: User \"me\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope",
            ),
        ),
        (
            &["impersonate /users/ /system:anonymous"],
            vec![("Impersonate-User", "system:anonymous")],
            Ok(" system:anonymous  system:unauthenticated"),
        ),
        (
            &["impersonate /serviceaccounts/ ns/sa"],
            vec![("Impersonate-User", "system:serviceaccount:ns:sa")],
            Ok(" system:serviceaccount:ns:sa  system:serviceaccounts,system:serviceaccounts:ns,system:authenticated"),
        ),
        (
            &[
                "impersonate-on:arbitrary-node:list /nodes/ /",
                "impersonate:arbitrary-node authentication.k8s.io/nodes/ /n",
            ],
            vec![("Impersonate-User", "system:node:n")],
            Ok("impersonate:arbitrary-node system:node:n  system:nodes,system:authenticated"),
        ),
        (
            &[
                "impersonate /users/ /other",
                "impersonate authentication.k8s.io/uids/ /7",
                "impersonate authentication.k8s.io/userextras/scope /a",
                "impersonate authentication.k8s.io/userextras/x.y/z /b",
            ],
            vec![user, ("Impersonate-Uid", "7"), ("Impersonate-Extra-Scope", "a"), ("impersonate-extra-x.y%2fz", "b")],
            Ok(" other 7 system:authenticated scope=a x.y/z=b"),
        ),
    ] {
        let got = impersonate(allows, &sent, &me).await;
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{allows:?} {sent:?}");
    }
}

#[tokio::test]
async fn rejects_parts_that_nobody_may_impersonate() {
    let me = User::new("me", &["system:authenticated"]);
    let user = ("Impersonate-User", "other");
    for (allows, sent, want) in [
        (
            OTHER,
            vec![user, group("system:masters")],
            "403 groups.authentication.k8s.io \"system:masters\" is forbidden: User \"me\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the system:masters group is not allowed",
        ),
        (
            OTHER,
            vec![user, group("")],
            "403 groups.authentication.k8s.io is forbidden: User \"me\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the empty string group is not allowed",
        ),
        (
            OTHER,
            vec![user, ("Impersonate-Extra-A.io%2fa%41", "1")],
            "403 userextras.authentication.k8s.io is forbidden: User \"me\" cannot impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating a non-lowercase key in extra is not allowed: \"a.io/aA\"",
        ),
        (
            OTHER,
            vec![user, ("Impersonate-Extra-A.io%2fa", "")],
            "403 userextras.authentication.k8s.io is forbidden: User \"me\" cannot impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the empty string value in extra is not allowed",
        ),
        (
            OTHER,
            vec![user, ("Impersonate-Extra-", "a")],
            "403 userextras.authentication.k8s.io is forbidden: User \"me\" cannot impersonate:user-info resource \"userextras\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the empty string key in extra is not allowed",
        ),
        (
            &[],
            vec![group("a")],
            "400 requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"a\"}, Extra:map[string][]string(nil)} without impersonating a user name",
        ),
        (
            &[],
            vec![("Impersonate-Extra-A", "b"), ("Impersonate-User", "")],
            "400 requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string(nil), Extra:map[string][]string{\"a\":[]string{\"b\"}}} without impersonating a user name",
        ),
    ] {
        assert_eq!(impersonate(allows, &sent, &me).await.err().as_deref(), Some(want), "{allows:?} {sent:?}");
    }
}

#[tokio::test]
async fn pods_impersonate_only_their_own_node() {
    let mut pod = User::new("system:serviceaccount:ns:agent", &[]);
    pod.extra.insert("authentication.kubernetes.io/node-name".into(), vec!["n".into()]);
    let allows = &[
        "impersonate-on:associated-node:list /nodes/ /",
        "impersonate:associated-node authentication.k8s.io/nodes/ /*",
    ];
    let own = impersonate(allows, &[("Impersonate-User", "system:node:n")], &pod).await;
    assert_eq!(own.unwrap(), "impersonate:associated-node system:node:n  system:nodes,system:authenticated");
    let other = impersonate(allows, &[("Impersonate-User", "system:node:m")], &pod).await;
    assert!(other.unwrap_err().starts_with("403 "));
}

#[tokio::test]
async fn caches_allowed_impersonations() {
    let me = User::new("me", &[]);
    let allows = &[
        "impersonate-on:user-info:list /nodes/ /",
        "impersonate-on:user-info:list /pods/ /",
        "impersonate:user-info authentication.k8s.io/users/ /other",
        "impersonate:user-info authentication.k8s.io/groups/ /a",
    ];
    let rig = Rig::new(AllowList(allows));
    let other = [("Impersonate-User", "other"), ("Impersonate-Group", "a")];
    for (path, total_checks) in [
        ("/api/v1/nodes", 3),
        ("/api/v1/nodes", 3),
        // The permission to impersonate the user is cached; the one for this request is not.
        ("/api/v1/pods", 4),
        ("/api/v1/pods", 4),
        ("/api/v1/nodes", 4),
    ] {
        let got = rig.impersonate(path, &other, &me).await;
        assert_eq!(got.unwrap(), "impersonate:user-info other  a,system:authenticated");
        assert_eq!(rig.counts("authorization_attempts"), [format!("user-info allowed {total_checks}")], "{path}");
    }
    // Neither another caller nor another user has the cached permission.
    assert!(rig.impersonate("/api/v1/nodes", &other[..1], &me).await.is_ok());
    assert_eq!(rig.counts("authorization_attempts"), ["user-info allowed 6"]);
    assert!(rig.impersonate("/api/v1/nodes", &other, &User::new("you", &[])).await.is_ok());
    assert_eq!(rig.counts("authorization_attempts"), ["user-info allowed 9"]);
    assert_eq!(rig.counts("attempts"), ["user-info allowed 7"]);
    // Denials are counted.
    for times in 1..3 {
        assert!(rig.impersonate("/api/v1/secrets", &other, &me).await.is_err());
        let denied =
            [format!("legacy denied {times}"), "user-info allowed 9".to_owned(), format!("user-info denied {times}")];
        assert_eq!(rig.counts("authorization_attempts"), denied);
        assert_eq!(rig.counts("attempts"), [format!(" denied {times}"), "user-info allowed 7".to_owned()]);
    }
}

#[tokio::test]
async fn checks_again_after_expiry() {
    let rig = Rig::with(
        Duration::ZERO,
        true,
        AllowList(&[
            "impersonate-on:serviceaccount:list /nodes/ /",
            "impersonate:serviceaccount authentication.k8s.io/serviceaccounts/ n/a",
        ]),
    );
    for times in 1..4 {
        let account = [("Impersonate-User", "system:serviceaccount:n:a")];
        assert!(rig.impersonate("/api/v1/nodes", &account, &User::new("me", &[])).await.is_ok());
        assert_eq!(rig.counts("authorization_attempts"), [format!("serviceaccount allowed {}", 2 * times)]);
    }
}

/// The pods of a daemon set share cached decisions on all nodes; each becomes its own node.
#[tokio::test]
async fn pods_on_all_nodes_share_cached_decisions() {
    let rig = Rig::new(AllowList(&[
        "impersonate-on:associated-node:list /nodes/ /",
        "impersonate:associated-node authentication.k8s.io/nodes/ /*",
    ]));
    for node in ["m", "n"] {
        let mut pod = User::new("system:serviceaccount:ns:agent", &[]);
        pod.extra.insert("authentication.kubernetes.io/node-name".into(), vec![node.into()]);
        let target = format!("system:node:{node}");
        let got = rig.impersonate("/api/v1/nodes", &[("Impersonate-User", &target)], &pod).await;
        let want = format!("impersonate:associated-node {target}  system:nodes,system:authenticated");
        assert_eq!(got.unwrap(), want);
        assert_eq!(rig.counts("authorization_attempts"), ["associated-node allowed 2"]);
    }
}

/// Without the feature only the legacy mode exists.
#[tokio::test]
async fn supports_only_legacy_mode_without_the_feature() {
    let me = User::new("me", &["system:authenticated"]);
    let user = ("Impersonate-User", "other");
    for (allows, sent, want) in [
        (&["impersonate /users/ /other"][..], vec![user], Ok(" other  system:authenticated")),
        (
            &["impersonate-on:user-info:list /nodes/ /", "impersonate:user-info authentication.k8s.io/users/ /other"],
            vec![user],
            Err(
                "403 users \"other\" is forbidden: User \"me\" cannot impersonate resource \"users\" in API group \"\" at the cluster scope",
            ),
        ),
        (
            &["impersonate /serviceaccounts/ n/a", "impersonate /groups/ /system:masters"],
            vec![("Impersonate-User", "system:serviceaccount:n:a"), ("Impersonate-Group", "system:masters")],
            Ok(" system:serviceaccount:n:a  system:masters,system:authenticated"),
        ),
        (
            &["impersonate /users/ /other", "impersonate authentication.k8s.io/userextras/a /b"],
            vec![user, ("Impersonate-Extra-A", "b"), ("Impersonate-Uid", "u")],
            Err(
                "403 uids.authentication.k8s.io \"u\" is forbidden: User \"me\" cannot impersonate resource \"uids\" in API group \"authentication.k8s.io\" at the cluster scope",
            ),
        ),
        (
            &[],
            vec![("Impersonate-Group", "a"), ("Impersonate-Extra-A", "b"), ("Impersonate-Uid", "u")],
            Err(
                "400 requested [{Group  a    } {UserExtra  b  authentication.k8s.io/v1  a} {UID  u  authentication.k8s.io/v1  }] without impersonating a user",
            ),
        ),
    ] {
        let rig = Rig::with(CACHE_TTL, false, AllowList(allows));
        let got = rig.impersonate("/api/v1/nodes", &sent, &me).await;
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{allows:?} {sent:?}");
        assert!(rig.counts("attempts").is_empty());
    }
}
