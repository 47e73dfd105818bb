//! Authentication of requests without credentials.

use std::sync::Arc;

use binnacle_request::{BoxFuture, User};

use crate::{AuthenticationResponse, Authenticator, AuthnError, Credentials};

/// Authenticates requests as `system:anonymous`, on all paths or only some. Must be the last authenticator.
pub struct Anonymous {
    user: Arc<User>,
    /// Exact paths; all paths if empty.
    paths: Vec<String>,
}

impl Anonymous {
    /// Accepts requests on every path.
    pub fn new() -> Self {
        Self::for_paths(Vec::new())
    }

    /// Accepts requests only on these paths, or on all if there are none (KEP-4633).
    pub fn for_paths(paths: Vec<String>) -> Self {
        Self { user: Arc::new(User::new(User::ANONYMOUS, &[User::UNAUTHENTICATED])), paths }
    }
}

impl Default for Anonymous {
    fn default() -> Self {
        Self::new()
    }
}

impl Authenticator for Anonymous {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        let is_allowed = self.paths.is_empty() || self.paths.iter().any(|path| path == credentials.path);
        Box::pin(async move {
            Ok(is_allowed.then(|| AuthenticationResponse {
                audiences: credentials.audiences.to_vec(),
                ..AuthenticationResponse::new(self.user.clone())
            }))
        })
    }
}

#[cfg(test)]
mod tests {
    use binnacle_request::ConnectionInfo;
    use http::HeaderMap;

    use super::*;

    #[tokio::test]
    async fn accepts_only_configured_paths() {
        let some = || Anonymous::for_paths(vec!["/livez".to_owned(), "/readyz".to_owned()]);
        for (anonymous, path, want) in [
            (Anonymous::new(), "/api", true),
            (some(), "/livez", true),
            (some(), "/livez/", false),
            (some(), "/livez/ping", false),
            (some(), "/LIVEZ", false),
            (some(), "", false),
        ] {
            let (headers, connection) = (HeaderMap::new(), ConnectionInfo::default());
            let credentials = Credentials { headers: &headers, connection: &connection, path, audiences: &[] };
            assert_eq!(anonymous.authenticate(credentials).await.unwrap().is_some(), want, "{path}");
        }
    }
}
