//! Label values, which are restricted so that clients cannot create new ones.

use binnacle_request::{Query, RequestInfo};
use http::HeaderValue;

/// The label of requests for this server's own API.
pub(super) const COMPONENT: &str = "apiserver";

/// Returns the verb label of requests whose bodies are read completely.
pub(super) fn verb_with_body(info: &RequestInfo, verb: &str) -> Option<&'static str> {
    match info.verb.as_str() {
        _ if !info.is_resource_request || verb == "CONNECT" => None,
        "create" => Some("create"),
        "update" => Some("update"),
        "patch" => Some("patch"),
        "delete" => Some("delete"),
        "deletecollection" => Some("delete_collection"),
        _ => None,
    }
}

/// Returns the value of `fieldValidation` in a path and query; values other than the three known ones are labeled as
/// invalid.
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
        "/api" => ["", "", "", "api"],
        "/apis" => ["", "", "", "apis"],
        "/openapi/v3" => ["", "", "", "openapi/v3"],
        path if path.starts_with("/openapi/v3/") => ["", "", "", "openapi/v3/"],
        path => ["", "", "", path],
    }
}

/// Returns the component label, which is empty for health and OpenAPI, as in Go.
pub(super) fn component(info: &RequestInfo) -> &'static str {
    let unnamed = matches!(info.path.split('/').nth(1), Some("healthz" | "livez" | "readyz" | "openapi"));
    if unnamed && !info.is_resource_request { "" } else { COMPONENT }
}

/// The labels that depend on the handler which kube-apiserver would have used for the request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct HandlerLabels {
    pub(super) verb: &'static str,
    pub(super) scope: &'static str,
    /// True if the size of the response is counted: the handler is for reads, regardless of the actual request.
    pub(super) counts_response_size: bool,
}

impl HandlerLabels {
    /// `verb` is the label of the request; `routed` is true for built-in resources.
    pub(super) fn of(info: &RequestInfo, verb: &'static str, routed: bool) -> Self {
        if !info.is_resource_request {
            return Self { verb, scope: "", counts_response_size: true };
        }
        if !routed {
            return Self {
                verb,
                scope: info.scope(),
                counts_response_size: matches!(info.verb.as_str(), "get" | "list"),
            };
        }
        let scope = match () {
            () if info.parts.len() > 1 || info.verb == "create" => "resource",
            () if !info.namespace.is_empty() => "namespace",
            () => "cluster",
        };
        // A name in the field selector does not turn a list into a get.
        let verb = if verb == "GET" && scope != "resource" { "LIST" } else { verb };
        let version = if info.api_prefix == "api" { 2 } else { 3 };
        let is_watch_path = info.path.split('/').nth(version + 1) == Some("watch");
        let counts_response_size = matches!(verb, "GET" | "LIST") || verb == "WATCH" && !is_watch_path;
        Self { verb, scope, counts_response_size }
    }
}

/// Formats three digits without an allocation; zero (no response had started) is `0`.
pub(super) fn code_label(code: u16, digits: &mut [u8; 3]) -> &str {
    if !(100..1000).contains(&code) {
        return "0";
    }
    *digits = [(code / 100) as u8 + b'0', (code / 10 % 10) as u8 + b'0', (code % 10) as u8 + b'0'];
    std::str::from_utf8(digits).unwrap_or("0")
}

/// Returns the label of clients of the control plane; all other clients share one.
pub(super) fn system_client(agent: &HeaderValue) -> &'static str {
    match agent.to_str().ok().and_then(|agent| agent.split_once('/')).map(|(name, _)| name) {
        Some("kube-apiserver") => "kube-apiserver",
        Some("kube-controller-manager") => "kube-controller-manager",
        Some("kube-scheduler") => "kube-scheduler",
        Some("cluster-policy-controller") => "cluster-policy-controller",
        _ => "",
    }
}

/// Returns a category instead of a user name: metrics must neither grow with users nor reveal them.
pub(super) fn username_category(name: &str) -> &'static str {
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
    fn labels_field_validation() {
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
    fn labels_paths_and_components() {
        for (path, names_wanted, component_wanted) in [
            ("/healthz", ["", "", "", "/healthz"], ""),
            ("/readyz/ping", ["", "", "", "/readyz/ping"], ""),
            ("/flagz", ["", "", "flagz", ""], COMPONENT),
            ("/statusz", ["", "", "statusz", ""], COMPONENT),
            ("/apis", ["", "", "", "apis"], COMPONENT),
            ("/openapi/v3", ["", "", "", "openapi/v3"], ""),
            ("/openapi/v3/apis/apps/v1", ["", "", "", "openapi/v3/"], ""),
            ("/api/v1/namespaces/a/pods/b/log", ["", "v1", "pods", "log"], COMPONENT),
        ] {
            let info = RequestInfo::parse(&http::Method::GET, path, &Query::default(), path).unwrap();
            assert_eq!((names(&info), component(&info)), (names_wanted, component_wanted), "{path}");
        }
    }

    #[test]
    fn derives_labels_from_the_handler() {
        for (uri, verb, routed, want) in [
            ("/healthz", "PATCH", false, ("PATCH", "", true)),
            ("/api/v1/namespaces/a/pods", "LIST", true, ("LIST", "namespace", true)),
            ("/api/v1/pods?fieldSelector=metadata.name%3Da", "GET", true, ("LIST", "cluster", true)),
            (
                "/api/v1/namespaces/a/pods?watch=1&fieldSelector=metadata.name%3Da",
                "WATCH",
                true,
                ("WATCH", "namespace", true),
            ),
            ("/api/v1/watch/namespaces/a/pods", "WATCH", true, ("WATCH", "namespace", false)),
            ("/apis/apps/v1/watch/deployments", "WATCH", true, ("WATCH", "cluster", false)),
            ("/api/v1/namespaces/a/pods/b/log", "CONNECT", true, ("CONNECT", "resource", false)),
            ("/apis/a.b/v1/namespaces/a/things?watch=1", "WATCH", false, ("WATCH", "namespace", false)),
            (
                "/apis/a.b/v1/namespaces/a/things?fieldSelector=metadata.name%3Da",
                "GET",
                false,
                ("GET", "resource", true),
            ),
        ] {
            let (path, query) = uri.split_once('?').unwrap_or((uri, ""));
            let info = RequestInfo::parse(&http::Method::GET, path, &Query::parse(query), uri).unwrap();
            let labels = HandlerLabels::of(&info, verb, routed);
            assert_eq!((labels.verb, labels.scope, labels.counts_response_size), want, "{uri}");
        }
    }
}
