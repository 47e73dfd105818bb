//! The values of labels, for which no client can make up more.

use binnacle_request::{Query, RequestInfo};
use http::HeaderValue;

/// The label of requests for this server's own API.
pub(super) const COMPONENT: &str = "apiserver";

/// Returns the verb label of requests whose bodies are read as a whole.
pub(super) fn verb_with_body(info: &RequestInfo) -> Option<&'static str> {
    match info.verb.as_str() {
        _ if !info.is_resource_request => None,
        "create" => Some("create"),
        "update" => Some("update"),
        "patch" => Some("patch"),
        "delete" => Some("delete"),
        "deletecollection" => Some("delete_collection"),
        _ => None,
    }
}

/// Returns the value of `fieldValidation` in a path and query; others than the three known values are invalid.
pub(super) fn field_validation(uri: &str) -> &'static str {
    let query = Query::parse(uri.split_once('?').map_or("", |(_, query)| query));
    let mut values = query.get_all("fieldValidation");
    match (values.next(), values.next()) {
        (None | Some(""), None) => "",
        (Some("Ignore"), None) => "Ignore",
        (Some("Warn"), None) => "Warn",
        (Some("Strict"), None) => "Strict",
        _ => "invalid",
    }
}

/// Returns the labels for group, version, resource and subresource.
pub(super) fn names(info: &RequestInfo) -> [&str; 4] {
    match info.path.as_str() {
        _ if info.is_resource_request => [&info.api_group, &info.api_version, &info.resource, &info.subresource],
        "/flagz" => ["", "", "flagz", ""],
        "/statusz" => ["", "", "statusz", ""],
        path => ["", "", "", path],
    }
}

/// Returns the label for the component, which Go leaves empty for health.
pub(super) fn component(info: &RequestInfo) -> &'static str {
    let is_health = matches!(info.path.split('/').nth(1), Some("healthz" | "livez" | "readyz"));
    if is_health && !info.is_resource_request { "" } else { COMPONENT }
}

/// Formats three digits without an allocation; zero (no answer had begun) is `0`.
pub(super) fn code_label(code: u16, digits: &mut [u8; 3]) -> &str {
    if !(100..1000).contains(&code) {
        return "0";
    }
    *digits = [(code / 100) as u8 + b'0', (code / 10 % 10) as u8 + b'0', (code % 10) as u8 + b'0'];
    std::str::from_utf8(digits).unwrap_or("0")
}

/// Returns the label of the control plane's own clients; all others share one.
pub(super) fn system_client(agent: &HeaderValue) -> &'static str {
    match agent.to_str().ok().and_then(|agent| agent.split_once('/')).map(|(name, _)| name) {
        Some("kube-apiserver") => "kube-apiserver",
        Some("kube-controller-manager") => "kube-controller-manager",
        Some("kube-scheduler") => "kube-scheduler",
        Some("cluster-policy-controller") => "cluster-policy-controller",
        _ => "",
    }
}

/// Returns one of a few categories instead of a user name: metrics must neither grow with users nor reveal them.
pub(super) fn compressed(name: &str) -> &'static str {
    match name {
        "admin" => "admin",
        "client" => "client",
        "kube_proxy" => "kube_proxy",
        "kubelet" => "kubelet",
        "system:serviceaccount:kube-system:default" => "system:serviceaccount:kube-system:default",
        name if name.contains('@') => "email_id",
        _ => "other",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_of_field_validation() {
        for (uri, want) in [
            ("/a?fieldValidation=Strict", "Strict"),
            ("/a?fieldManager=x&fieldValidation=Warn", "Warn"),
            ("/a?fieldValidation=", ""),
            ("/fieldValidation", ""),
            ("/a?fieldValidation=strict", "invalid"),
            ("/a?fieldValidation=Warn&fieldValidation=Warn", "invalid"),
        ] {
            assert_eq!(field_validation(uri), want, "{uri}");
        }
    }

    #[test]
    fn labels_of_paths() {
        for (path, names_wanted, component_wanted) in [
            ("/healthz", ["", "", "", "/healthz"], ""),
            ("/readyz/ping", ["", "", "", "/readyz/ping"], ""),
            ("/flagz", ["", "", "flagz", ""], COMPONENT),
            ("/statusz", ["", "", "statusz", ""], COMPONENT),
            ("/apis", ["", "", "", "/apis"], COMPONENT),
            ("/api/v1/namespaces/a/pods/b/log", ["", "v1", "pods", "log"], COMPONENT),
        ] {
            let info = RequestInfo::parse(&http::Method::GET, path, &Query::default(), path).unwrap();
            assert_eq!((names(&info), component(&info)), (names_wanted, component_wanted), "{path}");
        }
    }
}
