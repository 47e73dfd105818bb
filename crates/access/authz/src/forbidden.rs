//! The 403 for an unauthorized request.

use binnacle_meta::{Status, go_quote};

use crate::Attributes;

/// Returns the Status of an unauthorized request, with the authorizers' reason if there is one.
pub fn forbidden(attributes: &Attributes<'_>, reason: &str) -> Status {
    let mut why = sanitize(&sentence(attributes));
    if !reason.is_empty() {
        why = format!("{why}: {reason}");
    }
    Status::forbidden(&attributes.group_resource(), attributes.name, why)
}

fn sentence(attributes: &Attributes<'_>) -> String {
    let user = go_quote(&attributes.user.name);
    let verb = attributes.verb;
    if !attributes.is_resource_request {
        return format!("User {user} cannot {verb} path {}", go_quote(attributes.path));
    }
    let resource = match attributes.subresource {
        "" => go_quote(attributes.resource),
        subresource => go_quote(&format!("{}/{subresource}", attributes.resource)),
    };
    let group = go_quote(attributes.api_group);
    let scope = match attributes.namespace {
        "" => "at the cluster scope".to_owned(),
        namespace => format!("in the namespace {}", go_quote(namespace)),
    };
    format!("User {user} cannot {verb} resource {resource} in API group {group} {scope}")
}

/// Escapes text that a client chose, so that browsers do not interpret it as HTML.
fn sanitize(message: &str) -> String {
    message.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

#[cfg(test)]
mod tests {
    use binnacle_request::{Query, RequestInfo, User};
    use http::Method;

    use super::*;

    #[test]
    fn formats_messages_of_kube_apiserver() {
        let user = User::new("x", &[]);
        for (method, path, reason, want) in [
            (
                Method::GET,
                "/api/v1/namespaces/ns/pods",
                "",
                r#"pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "ns""#,
            ),
            (
                Method::GET,
                "/apis/apps/v1/namespaces/ns/deployments/d/scale",
                "no",
                r#"deployments.apps "d" is forbidden: User "x" cannot get resource "deployments/scale" in API group "apps" in the namespace "ns": no"#,
            ),
            (
                Method::POST,
                "/api/v1/nodes",
                "",
                r#"nodes is forbidden: User "x" cannot create resource "nodes" in API group "" at the cluster scope"#,
            ),
            (Method::GET, "/x", "", r#"forbidden: User "x" cannot get path "/x""#),
            (Method::GET, "/<b>", "", r#"forbidden: User "x" cannot get path "/&lt;b&gt;""#),
        ] {
            let info = RequestInfo::parse(&method, path, &Query::default(), path).unwrap();
            let status = forbidden(&Attributes::of(&info, &user), reason);
            assert_eq!((status.code(), status.message()), (403, want));
        }
    }
}
