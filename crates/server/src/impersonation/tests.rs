use binnacle_authz::{Attributes, AuthzError};
use binnacle_request::{BoxFuture, Decision, Query};
use http::Method;

use super::*;

/// Allows what is listed as `verb group/resource/subresource namespace/name`.
struct Allows(&'static [&'static str]);

impl Authorizer for Allows {
    fn authorize<'a>(&'a self, a: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        let asked = format!("{} {}/{}/{} {}/{}", a.verb, a.api_group, a.resource, a.subresource, a.namespace, a.name);
        let allowed = self.0.contains(&asked.as_str());
        Box::pin(async move { Ok(if allowed { Decision::Allow("".into()) } else { Decision::NoOpinion("".into()) }) })
    }
}

async fn ask(allows: &'static [&'static str], sent: &[(&str, &str)], requestor: &User) -> Result<String, String> {
    let impersonation = Impersonation::new(Arc::new(Allows(allows)));
    let mut headers = HeaderMap::new();
    for (name, value) in sent {
        headers.append(http::HeaderName::try_from(*name).unwrap(), value.parse().unwrap());
    }
    let info = RequestInfo::parse(&Method::GET, "/api/v1/nodes", &Query::default(), "").unwrap();
    match impersonation.become_other(&mut headers, &info, requestor).await {
        Ok(None) => Ok("nobody".to_owned()),
        Ok(Some(Impersonated { user, constraint })) => {
            assert!(headers.is_empty());
            let extra: Vec<String> = user.extra.iter().map(|(k, v)| format!(" {k}={}", v.join(","))).collect();
            Ok(format!("{constraint} {} {} {}{}", user.name, user.uid, user.groups.join(","), extra.concat()))
        }
        Err(status) => Err(format!("{} {}", status.code(), status.message())),
    }
}

#[tokio::test]
async fn who_may_act_as_whom() {
    let me = User::new("me", &["system:authenticated"]);
    let user = ("Impersonate-User", "other");
    let group = |group| ("Impersonate-Group", group);
    const LIST: &str = "impersonate-on:user-info:list /nodes/ /";
    for (allows, sent, want) in [
        (&[][..], vec![], Ok("nobody")),
        (
            &[],
            vec![user],
            Err(
                "403 nodes is forbidden: User \"me\" cannot impersonate-on:user-info:list resource \"nodes\" in API group \"\" at the cluster scope",
            ),
        ),
        (&["impersonate /users/ /other"], vec![user], Ok(" other  system:authenticated")),
        (
            &[LIST, "impersonate:user-info authentication.k8s.io/users/ /other"],
            vec![user],
            Ok("impersonate:user-info other  system:authenticated"),
        ),
        // Leave to do it as somebody is not leave to be somebody, nor the other way round.
        (
            &[LIST],
            vec![user],
            Err(
                "403 users.authentication.k8s.io \"other\" is forbidden: User \"me\" cannot impersonate:user-info resource \"users\" in API group \"authentication.k8s.io\" at the cluster scope",
            ),
        ),
        (
            &["impersonate:user-info authentication.k8s.io/users/ /other"],
            vec![user],
            Err(
                "403 nodes is forbidden: User \"me\" cannot impersonate-on:user-info:list resource \"nodes\" in API group \"\" at the cluster scope",
            ),
        ),
        (
            &["impersonate /users/ /other", "impersonate /groups/ /a"],
            vec![user, group("a"), group("a")],
            Ok(" other  a,a,system:authenticated"),
        ),
        // Every part needs leave of its own.
        (
            &["impersonate /users/ /other", "impersonate /groups/ /a"],
            vec![user, group("a"), group("system:masters")],
            Err(
                "403 nodes is forbidden: User \"me\" cannot impersonate-on:user-info:list resource \"nodes\" in API group \"\" at the cluster scope",
            ),
        ),
        (
            &[LIST, "impersonate:user-info authentication.k8s.io/users/ /other"],
            vec![user, group("system:masters")],
            Err(
                "403 groups.authentication.k8s.io \"system:masters\" is forbidden: User \"me\" cannot impersonate:user-info resource \"groups\" in API group \"authentication.k8s.io\" at the cluster scope: impersonating the system:masters group is not allowed",
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
        (
            &[],
            vec![group("a")],
            Err(
                "400 requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string{\"a\"}, Extra:map[string][]string(nil)} without impersonating a user name",
            ),
        ),
        (
            &[],
            vec![("Impersonate-Extra-A", "b"), ("Impersonate-User", "")],
            Err(
                "400 requested &user.DefaultInfo{Name:\"\", UID:\"\", Groups:[]string(nil), Extra:map[string][]string{\"a\":[]string{\"b\"}}} without impersonating a user name",
            ),
        ),
    ] {
        let got = ask(allows, &sent, &me).await;
        assert_eq!(got, want.map(str::to_owned).map_err(str::to_owned), "{allows:?} {sent:?}");
    }
}

#[tokio::test]
async fn a_pod_acts_as_its_own_node() {
    let mut pod = User::new("system:serviceaccount:ns:agent", &[]);
    pod.extra.insert("authentication.kubernetes.io/node-name".into(), vec!["n".into()]);
    let allows = &[
        "impersonate-on:associated-node:list /nodes/ /",
        "impersonate:associated-node authentication.k8s.io/nodes/ /*",
    ];
    let own = ask(allows, &[("Impersonate-User", "system:node:n")], &pod).await;
    assert_eq!(own.unwrap(), "impersonate:associated-node system:node:n  system:nodes,system:authenticated");
    let other = ask(allows, &[("Impersonate-User", "system:node:m")], &pod).await;
    assert!(other.unwrap_err().starts_with("403 "));
}
