//! The aggregator as a link of the server, before its own resources.

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
    Below,
}

impl<'a> PathSubject<'a> {
    fn of(path: &'a str) -> Self {
        let Some(rest) = path.strip_prefix("/apis") else { return Self::Below };
        let Some(rest) = rest.strip_prefix('/') else {
            return if rest.is_empty() { Self::Groups } else { Self::Below };
        };
        match rest.split_once('/') {
            None if rest.is_empty() => Self::Groups,
            None | Some((_, "")) => Self::Group(rest.trim_end_matches('/')),
            Some(_) => Self::Below,
        }
    }
}

impl Aggregator {
    /// Returns the server of an OpenAPI document.
    fn documented_by(&self, path: &str) -> Option<Arc<Remote>> {
        let name = self.0.specs.owner(path)?;
        self.0.registry.load().by_name.get(&name)?.remote.clone()
    }

    async fn answer(&self, request: Request) -> Response {
        let remote = self.0.registry.load().remote_of(&request.info.path).cloned();
        if let Some(remote) = remote.or_else(|| self.documented_by(&request.info.path)) {
            return self.0.proxy(request, &remote).await;
        }
        let discovery = match self.0.known_discovery() {
            Some(known) => known,
            // The documents of other servers may be large.
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
    /// Returns true for group versions and OpenAPI documents of other servers, and for the discovery documents of
    /// groups.
    fn claims(&self, info: &RequestInfo) -> bool {
        match PathSubject::of(&info.path) {
            PathSubject::Groups => true,
            PathSubject::Group(group) => self.0.registry.load().has_group(group),
            PathSubject::Below => {
                self.0.registry.load().remote_of(&info.path).is_some() || self.documented_by(&info.path).is_some()
            }
        }
    }

    fn handle(&self, request: Request) -> BoxFuture<'_, Response> {
        Box::pin(self.answer(request))
    }

    /// Returns the path of each APIService and of each group.
    fn paths(&self) -> Vec<String> {
        let registry = self.0.registry.load();
        let named = registry.by_name.values().filter(|registered| !registered.group.is_empty());
        let paths = named.flat_map(|registered| {
            let group = format!("/apis/{}", registered.group);
            [format!("{group}/{}", registered.version), group]
        });
        paths.collect()
    }
}

/// Returns the response if the APIService was deleted after its path was claimed.
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
                PathSubject::Below => "",
            };
            assert_eq!(found, want, "{path}");
        }
    }
}
