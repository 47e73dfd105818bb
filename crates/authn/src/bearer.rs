//! `Authorization: Bearer`, for everything that understands tokens.

use std::sync::Arc;

use binnacle_request::{BoxFuture, User};
use http::header::AUTHORIZATION;

use crate::{Authenticator, AuthnError, Credentials, TokenFile};

/// Takes the token out of the header and asks who holds it.
pub struct Bearer {
    tokens: TokenFile,
}

impl Bearer {
    pub fn new(tokens: TokenFile) -> Self {
        Self { tokens }
    }
}

impl Authenticator for Bearer {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<Arc<User>>, AuthnError>> {
        Box::pin(async move {
            let Some(token) = token(credentials) else { return Ok(None) };
            match self.tokens.holder(token) {
                Some(user) => Ok(Some(user)),
                None => Err(AuthnError("invalid bearer token".to_owned())),
            }
        })
    }
}

/// The token of the first `Authorization` header, as bytes: a token need not be text.
fn token<'a>(credentials: Credentials<'a>) -> Option<&'a [u8]> {
    let header = credentials.headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = header.splitn(3, |byte| *byte == b' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

#[cfg(test)]
mod tests {
    use binnacle_request::ConnectionInfo;
    use http::HeaderMap;

    use super::*;

    #[tokio::test]
    async fn headers() {
        let bearer = Bearer::new(TokenFile::parse("tokens", b"secret,me,1\n").unwrap());
        let connection = ConnectionInfo::default();
        for (header, want) in [
            (None, Ok(None)),
            (Some(""), Ok(None)),
            (Some("Basic secret"), Ok(None)),
            (Some("Bearer"), Ok(None)),
            (Some("Bearer  secret"), Ok(None)),
            (Some("Bearer secret"), Ok(Some("me"))),
            (Some(" bEARER secret trailing"), Ok(Some("me"))),
            (Some("Bearer Secret"), Err(AuthnError("invalid bearer token".to_owned()))),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = header {
                headers.insert(AUTHORIZATION, value.parse().unwrap());
            }
            let result = bearer.authenticate(Credentials { headers: &headers, connection: &connection }).await;
            let name = result.map(|user| user.map(|user| user.name.clone()));
            assert_eq!(name, want.map(|name| name.map(Into::into)), "{header:?}");
        }
    }
}
