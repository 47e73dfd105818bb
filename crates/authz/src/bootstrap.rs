//! The little that everyone may read, for as long as there is no RBAC authorizer.
//!
//! With `--authorization-mode=Node,RBAC` the reference decides by roles and bindings; of those that exist right after its
//! start, two give something to callers who are nobody in particular: `system:public-info-viewer` (for authenticated and
//! unauthenticated callers) and `system:discovery` (for authenticated ones). This authorizer knows exactly these two and
//! nothing that a role or binding in the store says: it refuses what RBAC might allow, and never the reverse.

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, Decision, User};

use crate::{Attributes, Authorizer, AuthzError, PathRule, Rules};

/// A role over paths, given to groups; the only verb is `get`.
struct Role {
    name: &'static str,
    groups: &'static [&'static str],
    /// A `*` at the end stands for whatever follows.
    paths: &'static [&'static str],
}

const ROLES: [Role; 2] = [
    Role {
        name: "system:public-info-viewer",
        groups: &[User::AUTHENTICATED, User::UNAUTHENTICATED],
        paths: &["/healthz", "/livez", "/readyz", "/version", "/version/"],
    },
    Role {
        name: "system:discovery",
        groups: &[User::AUTHENTICATED],
        paths: &[
            "/api",
            "/api/*",
            "/apis",
            "/apis/*",
            "/healthz",
            "/livez",
            "/openapi",
            "/openapi/*",
            "/readyz",
            "/version",
            "/version/",
        ],
    },
];

/// Allows what the bootstrap roles allow to everyone.
pub struct BootstrapRoles;

impl Authorizer for BootstrapRoles {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async { Ok(decide(attributes)) })
    }

    fn rules_for<'a>(&'a self, user: &'a User, _: &'a str) -> BoxFuture<'a, Rules> {
        let mut rules = Rules::unknown("roles and bindings are not looked at");
        for role in ROLES.iter().filter(|role| role.groups.iter().any(|group| user.is_in(group))) {
            let paths = role.paths.iter().map(|path| Text::new_static(path)).collect();
            rules.paths.push(PathRule { verbs: vec![Text::new_static("get")], paths });
        }
        Box::pin(async { rules })
    }
}

fn decide(attributes: &Attributes<'_>) -> Decision {
    if attributes.is_resource_request || attributes.verb != "get" {
        return Decision::NoOpinion(Text::default());
    }
    for role in &ROLES {
        let group = role.groups.iter().find(|group| attributes.user.is_in(group));
        if let Some(group) = group
            && role.paths.iter().any(|path| covers(path, attributes.path))
        {
            let name = role.name;
            let reason = format!(
                "RBAC: allowed by ClusterRoleBinding \"{name}\" of ClusterRole \"{name}\" to Group \"{group}\""
            );
            return Decision::Allow(reason.into());
        }
    }
    Decision::NoOpinion(Text::default())
}

fn covers(rule: &str, path: &str) -> bool {
    match rule.strip_suffix('*') {
        Some(prefix) => path.starts_with(prefix),
        None => rule == path,
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::{Query, RequestInfo};
    use http::Method;

    use super::*;

    #[test]
    fn decisions() {
        let anonymous = User::new(User::ANONYMOUS, &[User::UNAUTHENTICATED]);
        let somebody = User::new("somebody", &[User::AUTHENTICATED]);
        let nobody = User::new("nobody", &[]);
        for (method, path, want) in [
            // (anonymous, somebody)
            (Method::GET, "/healthz", (true, true)),
            (Method::GET, "/healthz/ping", (false, false)),
            (Method::GET, "/version", (true, true)),
            (Method::GET, "/version/", (true, true)),
            (Method::GET, "/readyz", (true, true)),
            (Method::HEAD, "/readyz", (false, false)),
            (Method::POST, "/version", (false, false)),
            (Method::GET, "/", (false, false)),
            (Method::GET, "/metrics", (false, false)),
            (Method::GET, "/api", (false, true)),
            (Method::GET, "/api/v1", (false, true)),
            (Method::GET, "/apis/apps/v1", (false, true)),
            (Method::GET, "/apix", (false, false)),
            (Method::GET, "/openapi/v3/apis/apps/v1", (false, true)),
            (Method::GET, "/api/v1/pods", (false, false)),
            (Method::GET, "/apis/apps/v1/deployments", (false, false)),
        ] {
            let info = RequestInfo::parse(&method, path, &Query::default(), path).unwrap();
            let allowed = |user| decide(&Attributes::of(&info, user)).is_allow();
            assert_eq!((allowed(&anonymous), allowed(&somebody)), want, "{method} {path}");
            assert!(!allowed(&nobody), "{method} {path}");
        }
    }
}
