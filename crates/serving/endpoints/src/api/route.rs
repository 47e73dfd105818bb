//! Routing: the handler and the verb of a request.

use binnacle_meta::{Status, Text};
use binnacle_request::RequestInfo;
use binnacle_scheme::{ResourceDescription, SubresourceDescription, SubresourceRole, Verb, Verbs};
use http::Method;

/// The collection verbs that are allowed across namespaces.
const CLUSTER_WIDE_VERBS: Verbs = Verbs::of(&[Verb::List, Verb::Watch]);

/// A request for a resource.
#[derive(Clone, Copy)]
pub(super) struct ResourceRequest<'a> {
    pub(super) info: &'a RequestInfo,
    pub(super) method: &'a Method,
}

/// The resource of a request.
#[derive(Clone, Copy)]
pub(super) struct Target<'a> {
    pub(super) description: &'a ResourceDescription,
    pub(super) is_stored: bool,
    pub(super) is_custom: bool,
}

/// The handler of a request. All variants except the last one need a stored resource.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// A custom resource, whose handler has its own rules.
    Custom,
    /// `watch_path` is true for watches by `/watch/` in the path, including those of a single object.
    Collection {
        verb: Verb,
        watch_path: bool,
    },
    /// An object, or a part of it that is written like an object.
    Item {
        verb: Verb,
        subresource: Text,
    },
    Scale {
        verb: Verb,
        subresource: Text,
    },
    /// A subresource or review with its own handler; empty for the resource itself.
    Subresource {
        subresource: Text,
    },
}

impl Route {
    /// Routes a request; `has_handler` is true if a subresource has its own handler.
    ///
    /// # Errors
    ///
    /// Returns 404 for paths without a handler, and 405 for methods.
    pub(super) fn of(
        request: ResourceRequest<'_>,
        target: Target<'_>,
        has_handler: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Status> {
        let (info, description) = (request.info, target.description);
        // A custom resource may be namespaced and have the plural `namespaces`.
        let has_namespace =
            !info.namespace.is_empty() && (info.resource != "namespaces" || is_namespace_in_another(info));
        if has_namespace && !description.namespaced {
            return Err(Status::path_not_found());
        }
        // Resources without watch support have no watch paths.
        if has_watch_segment(info) && !description.verbs.contains(Verb::Watch) {
            return Err(Status::path_not_found());
        }
        // `/namespaces//pods` is routed like the pods of a namespace, and rejected where the namespace is required.
        let is_cluster_wide = description.namespaced && !has_namespace && !has_namespace_segment(info);
        if target.is_custom && info.verb != "watch" {
            return match is_cluster_wide && info.verb != "list" {
                true => Err(Status::path_not_found()),
                false => Ok(Self::Custom),
            };
        }
        match info.parts.len() {
            1 => Self::of_collection(request, target, is_cluster_wide),
            _ if is_cluster_wide => Err(Status::path_not_found()),
            2 => Self::of_item(request, target),
            depth => Self::of_subresource(request, target, depth, has_handler),
        }
    }

    fn of_collection(request: ResourceRequest<'_>, target: Target<'_>, is_cluster_wide: bool) -> Result<Self, Status> {
        let (info, verbs) = (request.info, target.description.verbs);
        // Resources without list support have no path across namespaces.
        if is_cluster_wide && !verbs.contains(Verb::List) {
            return Err(Status::path_not_found());
        }
        let is_allowed =
            |verb: &Verb| verbs.contains(*verb) && (!is_cluster_wide || CLUSTER_WIDE_VERBS.contains(*verb));
        let verb = collection_verb(request.method).filter(is_allowed);
        let verb = verb.filter(|verb| is_allowed_as(info, *verb)).ok_or_else(Status::method_not_allowed)?;
        Ok(match target.is_stored {
            true => Self::Collection { verb, watch_path: has_watch_segment(info) },
            false => Self::Subresource { subresource: Text::default() },
        })
    }

    fn of_item(request: ResourceRequest<'_>, target: Target<'_>) -> Result<Self, Status> {
        let verbs = target.description.verbs;
        let Some(verb) = item_verb(request.method).filter(|verb| verbs.contains(*verb)) else {
            let any = [Verb::Get, Verb::Update, Verb::Patch, Verb::Delete];
            let has_item_verbs = any.iter().any(|verb| verbs.contains(*verb));
            return Err(if has_item_verbs { Status::method_not_allowed() } else { Status::path_not_found() });
        };
        if !is_allowed_as(request.info, verb) {
            return Err(Status::method_not_allowed());
        }
        let subresource = Text::default();
        Ok(match target.is_stored {
            true if has_watch_segment(request.info) => Self::Collection { verb: Verb::List, watch_path: true },
            true => Self::Item { verb, subresource },
            false => Self::Subresource { subresource },
        })
    }

    fn of_subresource(
        request: ResourceRequest<'_>,
        target: Target<'_>,
        depth: usize,
        has_handler: &dyn Fn(&str) -> bool,
    ) -> Result<Self, Status> {
        let description =
            target.description.subresource(&request.info.subresource).ok_or_else(Status::path_not_found)?;
        // Subresources do not support watches, and a request that was authorized as a watch must not do anything else.
        let has_paths = is_connect(description) && description.name == "proxy";
        if depth > 3 && !has_paths || request.info.verb == "watch" {
            return Err(Status::path_not_found());
        }
        let verb = match *request.method {
            Method::POST => Some(Verb::Create),
            // A proxy accepts every method, including those without a verb.
            Method::HEAD | Method::OPTIONS if is_connect(description) && description.verbs.contains(Verb::Update) => {
                Some(Verb::Get)
            }
            ref method => item_verb(method),
        };
        let verb = verb.filter(|verb| description.verbs.contains(*verb)).ok_or_else(Status::method_not_allowed)?;
        let subresource = description.name.clone();
        Ok(match description.role {
            SubresourceRole::Scale if target.is_stored => Self::Scale { verb, subresource },
            SubresourceRole::Status | SubresourceRole::Update
                if target.is_stored && !has_handler(&description.name) =>
            {
                Self::Item { verb, subresource }
            }
            _ => Self::Subresource { subresource },
        })
    }
}

fn is_connect(description: &SubresourceDescription) -> bool {
    description.role == SubresourceRole::Connect
}

fn collection_verb(method: &Method) -> Option<Verb> {
    match method.as_str() {
        "GET" => Some(Verb::List),
        "POST" => Some(Verb::Create),
        "DELETE" => Some(Verb::DeleteCollection),
        _ => None,
    }
}

fn item_verb(method: &Method) -> Option<Verb> {
    match method.as_str() {
        "GET" => Some(Verb::Get),
        "PUT" => Some(Verb::Update),
        "PATCH" => Some(Verb::Patch),
        "DELETE" => Some(Verb::Delete),
        _ => None,
    }
}

/// Returns true for `/api/v1/namespaces/a/namespaces/b`, which would be authorized in the namespace `a` but change `b`.
fn is_namespace_in_another(info: &RequestInfo) -> bool {
    info.resource == "namespaces" && has_namespace_segment(info)
}

/// Returns true if the path has a namespace segment, possibly empty, before the resource.
fn has_namespace_segment(info: &RequestInfo) -> bool {
    let segments: Vec<&str> = info.path.trim_matches('/').split('/').collect();
    let before = segments.len().saturating_sub(info.parts.len());
    segments[..before].contains(&"namespaces")
}

/// Returns true if the path has `/watch/` after the version, which makes any GET a watch.
fn has_watch_segment(info: &RequestInfo) -> bool {
    let version = if info.api_prefix == "api" { 1 } else { 2 };
    info.path.trim_matches('/').split('/').nth(version + 1) == Some("watch")
}

/// Returns true if the request was authorized for `verb`. For authorization, `/watch/` in the path makes a request with
/// any method a watch, which must not reach a handler that writes.
fn is_allowed_as(info: &RequestInfo, verb: Verb) -> bool {
    match info.verb.as_str() {
        "create" => verb == Verb::Create,
        "update" => verb == Verb::Update,
        "patch" => verb == Verb::Patch,
        "delete" => verb == Verb::Delete,
        "deletecollection" => verb == Verb::DeleteCollection,
        "get" => verb == Verb::Get,
        "list" => verb == Verb::List,
        // A watch of a single object is routed like a `get`.
        "watch" => matches!(verb, Verb::List | Verb::Get),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::Query;

    use super::*;

    fn info(method: &Method, path: &str) -> RequestInfo {
        RequestInfo::parse(method, path, &Query::default(), path).unwrap()
    }

    #[test]
    fn detects_namespaces_inside_namespaces() {
        for (path, nested) in [
            ("/api/v1/namespaces", false),
            ("/api/v1/namespaces/a", false),
            ("/api/v1/namespaces/namespaces", false),
            ("/api/v1/namespaces/namespaces/status", false),
            ("/api/v1/namespaces/a/finalize", false),
            ("/api/v1/watch/namespaces/a", false),
            ("/api/v1/namespaces/a/pods/namespaces", false),
            ("/api/v1/namespaces/a/namespaces", true),
            ("/api/v1/namespaces/a/namespaces/", true),
            ("/api/v1/namespaces/a/namespaces/a", true),
            ("/api/v1/namespaces/a/namespaces/b", true),
            ("/api/v1/namespaces/a/namespaces/b/finalize", true),
            ("/api/v1/watch/namespaces/a/namespaces/b", true),
        ] {
            assert_eq!(is_namespace_in_another(&info(&Method::GET, path)), nested, "{path}");
        }
    }

    #[test]
    fn recognizes_watches_by_path() {
        for (path, want) in [
            ("/api/v1/watch/pods", true),
            ("/api/v1/watch/namespaces/a/pods/p", true),
            ("/apis/apps/v1/watch/deployments", true),
            ("/apis/apps/watch/watch/deployments", true),
            ("/api/v1/pods/watch", false),
            ("/api/v1/namespaces/watch/pods", false),
            ("/apis/watch/v1/deployments", false),
            ("/apis/apps/watch/deployments", false),
        ] {
            assert_eq!(has_watch_segment(&info(&Method::GET, path)), want, "{path}");
        }
    }

    #[test]
    fn allows_only_the_authorized_verb() {
        let all =
            [Verb::Create, Verb::Update, Verb::Patch, Verb::Delete, Verb::DeleteCollection, Verb::List, Verb::Get];
        for (method, path, want) in [
            (Method::POST, "/api/v1/watch/namespaces/a/pods", &[Verb::List, Verb::Get][..]),
            (Method::DELETE, "/api/v1/watch/namespaces/a/pods", &[Verb::List, Verb::Get]),
            (Method::POST, "/api/v1/namespaces/a/pods", &[Verb::Create]),
            (Method::DELETE, "/api/v1/namespaces/a/pods", &[Verb::DeleteCollection]),
            (Method::DELETE, "/api/v1/namespaces/a/pods/p", &[Verb::Delete]),
            (Method::PUT, "/api/v1/namespaces/a/pods/p", &[Verb::Update]),
            (Method::GET, "/api/v1/namespaces/a/pods/p", &[Verb::Get]),
            (Method::GET, "/api/v1/namespaces/a/pods", &[Verb::List]),
        ] {
            let info = info(&method, path);
            let allowed: Vec<Verb> = all.into_iter().filter(|verb| is_allowed_as(&info, *verb)).collect();
            assert_eq!(allowed, want, "{method} {path}");
        }
    }
}
