//! The aggregator as a handler, which comes before the server's own resources.

use std::sync::Arc;

use binnacle_endpoints::discovery_response;
use binnacle_request::{BoxFuture, Link, Request, RequestInfo, Response};

use crate::aggregator::Aggregator;
use crate::remote::Remote;

/// The kind of a path.
enum PathSubject<'a> {
    /// `/apis`, with or without a trailing slash.
    Groups,
    /// `/apis/GROUP`, with or without a trailing slash.
    Group(&'a str),
    /// Anything else.
    Other,
}

impl<'a> PathSubject<'a> {
    fn of(path: &'a str) -> Self {
        let Some(rest) = path.strip_prefix("/apis") else { return Self::Other };
        let Some(rest) = rest.strip_prefix('/') else {
            return if rest.is_empty() { Self::Groups } else { Self::Other };
        };
        match rest.split_once('/') {
            None if rest.is_empty() => Self::Groups,
            None | Some((_, "")) => Self::Group(rest.trim_end_matches('/')),
            Some(_) => Self::Other,
        }
    }
}

impl Aggregator {
    /// Returns the server of an OpenAPI document.
    fn openapi_server(&self, path: &str) -> Option<Arc<Remote>> {
        let name = self.0.specs.owner(path)?;
        self.0.registry.load().by_name.get(&name)?.remote.clone()
    }

    async fn serve(&self, request: Request) -> Response {
        let remote = self.0.registry.load().remote_of(&request.info.path).cloned();
        if let Some(remote) = remote.or_else(|| self.openapi_server(&request.info.path)) {
            return self.0.proxy(request, &remote).await;
        }
        let discovery = match self.0.cached_discovery() {
            Some(cached) => cached,
            // The documents of remote servers may be large.
            None => {
                let aggregator = self.clone();
                match tokio::task::spawn_blocking(move || aggregator.0.discovery()).await {
                    Ok(discovery) => discovery,
                    Err(_) => self.0.discovery(),
                }
            }
        };
        discovery_response(&request, &discovery).unwrap_or_else(not_found)
    }
}

impl Link for Aggregator {
    /// Returns true for group versions and OpenAPI documents of remote servers, and for the discovery documents of
    /// groups.
    fn claims(&self, info: &RequestInfo) -> bool {
        match PathSubject::of(&info.path) {
            PathSubject::Groups => true,
            PathSubject::Group(group) => self.0.registry.load().has_group(group),
            PathSubject::Other => {
                self.0.registry.load().remote_of(&info.path).is_some() || self.openapi_server(&info.path).is_some()
            }
        }
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.serve(request))
    }

    /// Returns the path of each APIService and of each group.
    fn paths(&self) -> Vec<String> {
        let registry = self.0.registry.load();
        let with_group = registry.by_name.values().filter(|entry| !entry.group.is_empty());
        let paths = with_group.flat_map(|entry| {
            let group = format!("/apis/{}", entry.group);
            [format!("{group}/{}", entry.version), group]
        });
        paths.collect()
    }
}

/// Returns the response for an APIService that was deleted after its path was matched.
fn not_found() -> Response {
    let mut response = Response::new("404 page not found\n".to_owned().into());
    *response.status_mut() = http::StatusCode::NOT_FOUND;
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn classifies_paths() {
        for (path, want) in [
            ("/apis", "groups"),
            ("/apis/", "groups"),
            ("/apis/a", "a"),
            ("/apis/a/", "a"),
            ("/apis/a/v1", ""),
            ("/apis/a/v1/", ""),
            ("/apis//", ""),
            ("/apis//v1", ""),
            ("/apisx", ""),
            ("/api/v1", ""),
            ("//apis", ""),
        ] {
            let found = match PathSubject::of(path) {
                PathSubject::Groups => "groups",
                PathSubject::Group(group) => group,
                PathSubject::Other => "",
            };
            assert_eq!(found, want, "{path}");
        }
    }
}
