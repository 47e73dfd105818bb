//! Paths that all clients may access (`--authorization-always-allow-paths`).

use std::collections::HashSet;

use binnacle_meta::{Text, go_quote};
use binnacle_request::{BoxFuture, Decision, User};

use crate::{Attributes, Authorizer, AuthzError, Rules};

/// Allows non-resource requests for some paths.
#[derive(Debug)]
pub struct AlwaysAllowPaths {
    exact: HashSet<String>,
    prefixes: Vec<String>,
}

impl AlwaysAllowPaths {
    /// Parses paths. A trailing `*` is a wildcard, and the leading `/` is optional. Any other `*` is an error.
    pub fn new<S: AsRef<str>>(paths: &[S]) -> Result<Self, String> {
        let (mut exact, mut prefixes) = (HashSet::new(), Vec::new());
        for path in paths {
            let path = path.as_ref();
            let path = path.strip_prefix('/').unwrap_or(path);
            let (prefix, is_prefix) = path.strip_suffix('*').map_or((path, false), |prefix| (prefix, true));
            if prefix.contains('*') {
                return Err(format!("only trailing * allowed in {}", go_quote(path)));
            }
            if is_prefix {
                prefixes.push(prefix.to_owned());
            } else {
                exact.insert(prefix.to_owned());
            }
        }
        Ok(Self { exact, prefixes })
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let path = attributes.path.strip_prefix('/').unwrap_or(attributes.path);
        !attributes.is_resource_request
            && (self.exact.contains(path) || self.prefixes.iter().any(|prefix| path.starts_with(prefix.as_str())))
    }
}

impl Authorizer for AlwaysAllowPaths {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move {
            let reason = Text::default();
            Ok(if self.allows(attributes) { Decision::Allow(reason) } else { Decision::NoOpinion(reason) })
        })
    }

    fn rules_for<'a>(&'a self, _: &'a User, _: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async { Rules::default() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn matches_exact_paths_and_prefixes() {
        let user = User::default();
        let paths = AlwaysAllowPaths::new(&["/healthz", "livez/*", "/"]).unwrap();
        for (path, want) in [
            ("/healthz", true),
            ("/healthz/", false),
            ("/healthz/ping", false),
            ("/livez/ping", true),
            ("/livez", false),
            ("/", true),
            ("/x", false),
            ("//healthz", false),
        ] {
            let get = Attributes { verb: "get", path, ..Attributes::nothing(&user) };
            assert_eq!(paths.allows(&get), want, "{path}");
            assert!(!paths.allows(&Attributes { is_resource_request: true, ..get }));
        }
        let error = AlwaysAllowPaths::new(&["/a*b"]).unwrap_err();
        assert_eq!(error, "only trailing * allowed in \"a*b\"");
    }
}
