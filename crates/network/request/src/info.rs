//! `RequestInfo`: the parsed method, path and query of a request.
//!
//! The rules are those of Go's `RequestInfoFactory`. Authorization, flow control, audit and metrics all use this
//! result: a path must never be parsed in another way.

use binnacle_meta::{FieldSelector, GroupResource, GroupVersion, GroupVersionResource, LabelSelector, Text};
use http::Method;

use crate::Query;

/// The Kubernetes verb of a resource request, or the lower-case HTTP method of any other request.
pub type Verb = Text;

/// The parsed method, path and query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestInfo {
    /// True if the path names an API resource.
    pub is_resource_request: bool,
    /// The decoded path.
    pub path: Text,
    /// The path at which the client reaches this API, which is not part of `path`: empty, or that of a logical cluster.
    pub base_path: Text,
    /// `create`, `get`, `list`, `watch`, `update`, `patch`, `delete`, `deletecollection` or `proxy`; empty for a method
    /// without meaning for resources; the lower-case HTTP method for non-resource requests.
    pub verb: Verb,
    /// `api` or `apis`; empty if the path is too short for a resource.
    pub api_prefix: Text,
    pub api_group: Text,
    pub api_version: Text,
    pub namespace: Text,
    /// The plural name in the path.
    pub resource: Text,
    pub subresource: Text,
    /// The name in the path, or required by a field selector on `metadata.name`; empty if there is none.
    pub name: Text,
    /// The path segments, starting with the resource: `[resource, name, subresource, ...]`.
    pub parts: Vec<Text>,
    /// The unparsed selectors of list, watch and deletecollection, for authorizers.
    pub field_selector: Text,
    pub label_selector: Text,
}

/// A request extension: [`RequestInfo::base_path`], if it is not empty.
#[derive(Clone, Debug)]
pub struct BasePath(pub Text);

/// The error for a special verb in the path (`/api/v1/watch`) without a resource.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unable to determine kind and namespace from url, {url}")]
pub struct InfoError {
    pub url: String,
    /// The information that was parsed before the error.
    pub info: Box<RequestInfo>,
}

/// Verbs in the path, between version and resource. After `proxy`, everything behind the name is a path of its own.
const SPECIAL_VERBS: [&str; 2] = ["proxy", "watch"];
/// The segments after a namespace's name that are subresources of the namespace, not resources in it.
const NAMESPACE_SUBRESOURCES: [&str; 2] = ["status", "finalize"];

impl RequestInfo {
    /// Parses a request. `path` is decoded (see [`decode_path`](crate::decode_path)); `url` is used in errors.
    pub fn parse(method: &Method, path: &str, query: &Query, url: &str) -> Result<Self, InfoError> {
        let mut info = Self { path: path.into(), verb: lower(method), ..Self::default() };
        let trimmed = path.trim_matches('/');
        let segments: Vec<&str> = if trimmed.is_empty() { Vec::new() } else { trimmed.split('/').collect() };
        let (prefix, group, rest) = match segments.as_slice() {
            ["api", rest @ ..] if rest.len() >= 2 => ("api", "", rest),
            ["apis", group, rest @ ..] if rest.len() >= 2 => ("apis", *group, rest),
            ["apis", _, _] => {
                info.api_prefix = Text::new_static("apis");
                return Ok(info);
            }
            _ => return Ok(info),
        };
        info.api_prefix = Text::new_static(prefix);
        info.api_group = group.into();
        info.is_resource_request = true;
        info.api_version = rest[0].into();
        let mut parts = &rest[1..];

        let verb_in_path = SPECIAL_VERBS.contains(&parts[0]);
        if verb_in_path {
            if parts.len() < 2 {
                return Err(InfoError { url: url.to_owned(), info: Box::new(info) });
            }
            info.verb = parts[0].into();
            parts = &parts[1..];
        } else {
            info.verb = Text::new_static(match *method {
                Method::POST => "create",
                Method::GET | Method::HEAD => "get",
                Method::PUT => "update",
                Method::PATCH => "patch",
                Method::DELETE => "delete",
                _ => "",
            });
        }

        if parts[0] == "namespaces" && parts.len() > 1 {
            info.namespace = parts[1].into();
            if parts.len() > 2 && !NAMESPACE_SUBRESOURCES.contains(&parts[2]) {
                parts = &parts[2..];
            }
        }
        info.parts = parts.iter().map(Text::new).collect();
        info.resource = info.parts[0].clone();
        if let Some(name) = info.parts.get(1) {
            info.name = name.clone();
        }
        if let Some(subresource) = info.parts.get(2)
            && info.verb != "proxy"
        {
            info.subresource = subresource.clone();
        }

        if info.name.is_empty() && info.verb == "get" {
            info.verb = Text::new_static(if query.flag("watch") { "watch" } else { "list" });
            if let Some(name) = selected_name(query) {
                info.name = name;
            }
        }
        if info.name.is_empty() && info.verb == "delete" {
            info.verb = Text::new_static("deletecollection");
        }
        // Watches with the verb in the path do not support selectors consistently, so selectors are ignored there.
        if !verb_in_path && matches!(info.verb.as_str(), "list" | "watch" | "deletecollection") {
            info.field_selector = query.get("fieldSelector").unwrap_or_default().into();
            info.label_selector = query.get("labelSelector").unwrap_or_default().into();
        }
        Ok(info)
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.api_group.clone(), version: self.api_version.clone() }
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.api_group.clone(), resource: self.resource.clone() }
    }

    pub fn group_version_resource(&self) -> GroupVersionResource {
        GroupVersionResource {
            group: self.api_group.clone(),
            version: self.api_version.clone(),
            resource: self.resource.clone(),
        }
    }

    /// Returns the scope of the request for metrics: `resource`, `namespace`, `cluster`, or empty.
    pub fn scope(&self) -> &'static str {
        match () {
            () if !self.name.is_empty() || self.verb == "create" => "resource",
            () if !self.namespace.is_empty() => "namespace",
            () if self.is_resource_request => "cluster",
            () => "",
        }
    }

    /// Returns true for requests that may stay open: watches, streams to nodes and pods, profiles, and the socket of
    /// the live page.
    pub fn is_long_running(&self) -> bool {
        if !self.is_resource_request {
            return self.path.starts_with("/debug/pprof/") || self.path == "/debug/live/socket";
        }
        matches!(self.verb.as_str(), "watch" | "proxy")
            || matches!(self.subresource.as_str(), "attach" | "exec" | "proxy" | "log" | "portforward")
    }

    /// Returns true if the verb changes nothing.
    pub fn is_read_only(&self) -> bool {
        matches!(self.verb.as_str(), "get" | "list" | "watch" | "head" | "options")
    }
}

fn lower(method: &Method) -> Text {
    match *method {
        Method::GET => Text::new_static("get"),
        Method::HEAD => Text::new_static("head"),
        Method::POST => Text::new_static("post"),
        Method::PUT => Text::new_static("put"),
        Method::PATCH => Text::new_static("patch"),
        Method::DELETE => Text::new_static("delete"),
        Method::OPTIONS => Text::new_static("options"),
        ref other => other.as_str().to_lowercase().into(),
    }
}

/// Returns the name that a field selector requires. Invalid list options yield none; the handler reports them.
fn selected_name(query: &Query) -> Option<Text> {
    let fields = query.get("fieldSelector")?;
    let integers_parse =
        ["limit", "timeoutSeconds"].iter().all(|key| query.get(key).is_none_or(|value| value.parse::<i64>().is_ok()));
    if !integers_parse || query.get("labelSelector").is_some_and(|labels| LabelSelector::parse(labels).is_err()) {
        return None;
    }
    let fields = FieldSelector::parse(fields).ok()?;
    let name = fields.requires_exact_match("metadata.name")?;
    let is_path_segment = name != "." && name != ".." && !name.contains(['/', '%']);
    is_path_segment.then(|| name.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(method: &str, url: &str) -> Result<RequestInfo, InfoError> {
        let (path, query) = url.split_once('?').unwrap_or((url, ""));
        let method = Method::from_bytes(method.as_bytes()).unwrap();
        RequestInfo::parse(&method, &crate::decode_path(path).unwrap(), &Query::parse(query), url)
    }

    /// Formats `verb prefix group version namespace resource subresource name parts`, with `-` for empty ones.
    fn summary(info: &RequestInfo) -> String {
        let show = |text: &str| if text.is_empty() { "-".to_owned() } else { text.to_owned() };
        [
            &info.verb,
            &info.api_prefix,
            &info.api_group,
            &info.api_version,
            &info.namespace,
            &info.resource,
            &info.subresource,
            &info.name,
        ]
        .map(|text| show(text))
        .join(" ")
            + " "
            + &show(&info.parts.join("/"))
    }

    #[test]
    fn parses_resource_requests_like_go() {
        let cases = [
            ("GET", "/api/v1/namespaces", "list api - v1 - namespaces - - namespaces"),
            ("GET", "/api/v1/namespaces/other", "get api - v1 other namespaces - other namespaces/other"),
            ("GET", "/api/v1/namespaces/other/pods", "list api - v1 other pods - - pods"),
            ("GET", "/api/v1/namespaces/other/pods/foo", "get api - v1 other pods - foo pods/foo"),
            ("HEAD", "/api/v1/namespaces/other/pods/foo", "get api - v1 other pods - foo pods/foo"),
            ("GET", "/api/v1/pods", "list api - v1 - pods - - pods"),
            ("HEAD", "/api/v1/pods", "list api - v1 - pods - - pods"),
            ("GET", "/api/v1/proxy/namespaces/other/pods/foo", "proxy api - v1 other pods - foo pods/foo"),
            (
                "GET",
                "/api/v1/proxy/namespaces/other/pods/foo/sub/path",
                "proxy api - v1 other pods - foo pods/foo/sub/path",
            ),
            ("GET", "/api/v1/watch/pods", "watch api - v1 - pods - - pods"),
            ("GET", "/api/v1/pods?watch=true", "watch api - v1 - pods - - pods"),
            ("GET", "/api/v1/pods?watch=false", "list api - v1 - pods - - pods"),
            ("GET", "/api/v1/pods?watch", "watch api - v1 - pods - - pods"),
            ("GET", "/api/v1/watch/namespaces/other/pods", "watch api - v1 other pods - - pods"),
            ("GET", "/api/v1/watch/namespaces/other/pods/foo", "watch api - v1 other pods - foo pods/foo"),
            ("GET", "/api/v1/namespaces/other/pods?watch=1", "watch api - v1 other pods - - pods"),
            ("GET", "/api/v1/namespaces/other/pods/foo/status", "get api - v1 other pods status foo pods/foo/status"),
            (
                "PUT",
                "/api/v1/namespaces/other/finalize",
                "update api - v1 other namespaces finalize other namespaces/other/finalize",
            ),
            (
                "PUT",
                "/api/v1/namespaces/other/status",
                "update api - v1 other namespaces status other namespaces/other/status",
            ),
            ("POST", "/api/v1/namespaces/other/pods", "create api - v1 other pods - - pods"),
            (
                "POST",
                "/api/v1/namespaces/other/pods/foo/binding",
                "create api - v1 other pods binding foo pods/foo/binding",
            ),
            ("PATCH", "/api/v1/namespaces/other/pods/foo", "patch api - v1 other pods - foo pods/foo"),
            ("DELETE", "/api/v1/namespaces/other/pods/foo", "delete api - v1 other pods - foo pods/foo"),
            ("DELETE", "/api/v1/namespaces/other/pods", "deletecollection api - v1 other pods - - pods"),
            ("DELETE", "/api/v1/nodes", "deletecollection api - v1 - nodes - - nodes"),
            ("GET", "/apis/apps/v1/namespaces/ns/deployments/d", "get apis apps v1 ns deployments - d deployments/d"),
            ("GET", "/apis/apps/v1/deployments", "list apis apps v1 - deployments - - deployments"),
            ("TRACE", "/api/v1/pods", "- api - v1 - pods - - pods"),
            ("GET", "/api/v1/namespaces//pods", "list api - v1 - pods - - pods"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name%3Dfoo", "list api - v1 - pods - foo pods"),
            ("GET", "/api/v1/pods?watch=1&fieldSelector=metadata.name==foo,a!=b", "watch api - v1 - pods - foo pods"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name=foo/bar", "list api - v1 - pods - - pods"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name=foo,bad", "list api - v1 - pods - - pods"),
            ("GET", "/api/v1/pods?fieldSelector=metadata.name!=foo", "list api - v1 - pods - - pods"),
            ("GET", "/api/v1/pods?limit=x&fieldSelector=metadata.name=foo", "list api - v1 - pods - - pods"),
            ("GET", "/api/v1/pods?labelSelector=a!!b&fieldSelector=metadata.name=foo", "list api - v1 - pods - - pods"),
            ("DELETE", "/api/v1/pods?fieldSelector=metadata.name=foo", "deletecollection api - v1 - pods - - pods"),
        ];
        for (method, url, want) in cases {
            let info = parse(method, url).unwrap();
            assert!(info.is_resource_request, "{url}");
            assert_eq!(summary(&info), want, "{method} {url}");
        }
    }

    #[test]
    fn parses_non_resource_requests_with_the_http_method_as_verb() {
        for (method, url, verb) in [
            ("GET", "/", "get"),
            ("GET", "", "get"),
            ("POST", "/api", "post"),
            ("GET", "/api/v1", "get"),
            ("GET", "/apis/apps", "get"),
            ("GET", "/apis/apps/v1", "get"),
            ("GET", "/apis/apps/v1/", "get"),
            ("DELETE", "/healthz/ping/a/b", "delete"),
            ("BREW", "/version/", "brew"),
        ] {
            let info = parse(method, url).unwrap();
            assert!(!info.is_resource_request, "{url}");
            assert_eq!(info.verb, verb, "{url}");
        }
    }

    #[test]
    fn rejects_a_special_verb_without_a_resource() {
        for url in ["/api/v1/watch", "/apis/apps/v1/proxy/"] {
            let error = parse("GET", url).unwrap_err();
            assert_eq!(error.to_string(), format!("unable to determine kind and namespace from url, {url}"));
        }
    }

    #[test]
    fn reads_selectors_only_of_lists_watches_and_deletecollection() {
        let url = "?fieldSelector=a%3Db&labelSelector=x";
        for (method, path, want) in [
            ("GET", "/api/v1/pods", ("a=b", "x")),
            ("DELETE", "/api/v1/pods", ("a=b", "x")),
            ("GET", "/api/v1/namespaces/n/pods/p", ("", "")),
            ("GET", "/api/v1/watch/pods", ("", "")),
        ] {
            let info = parse(method, &format!("{path}{url}")).unwrap();
            assert_eq!((info.field_selector.as_str(), info.label_selector.as_str()), want, "{method} {path}");
        }
    }

    #[test]
    fn classifies_long_running_requests() {
        for (url, want) in [
            ("/api/v1/pods?watch=1", true),
            ("/api/v1/pods", false),
            ("/api/v1/namespaces/n/pods/p/log", true),
            ("/api/v1/namespaces/n/pods/p/status", false),
            ("/debug/pprof/profile", true),
            ("/debug/live/socket", true),
            ("/debug/live/ticket", false),
            ("/healthz", false),
        ] {
            assert_eq!(parse("GET", url).unwrap().is_long_running(), want, "{url}");
        }
    }
}
