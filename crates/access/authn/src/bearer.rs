//! Bearer tokens of requests, from the `Authorization` header or a WebSocket subprotocol, which browsers use since they
//! cannot set headers. All token authenticators are tried in order.

use base64::Engine;
use base64::prelude::BASE64_URL_SAFE_NO_PAD;
use binnacle_meta::Text;
use binnacle_request::BoxFuture;
use http::HeaderMap;
use http::header::{AUTHORIZATION, CONNECTION, SEC_WEBSOCKET_PROTOCOL, UPGRADE};

use crate::{AuthenticationResponse, Authenticator, AuthnError, Credentials, TokenAuthenticator};

/// The prefix of the WebSocket subprotocol that carries a token.
pub const TOKEN_PROTOCOL: &str = "base64url.bearer.authorization.k8s.io.";
const INVALID: &str = "invalid bearer token";

/// Authenticates requests by their bearer tokens.
pub struct Bearer<T> {
    tokens: T,
}

/// A list of token authenticators, tried in order.
pub struct TokenUnion {
    members: Vec<Box<dyn TokenAuthenticator>>,
}

impl<T: TokenAuthenticator> Bearer<T> {
    pub fn new(tokens: T) -> Self {
        Self { tokens }
    }

    /// Authenticates a token. Unlike a missing token, an unknown one is an error.
    async fn authenticate_bearer(&self, token: &str, audiences: &[Text]) -> Result<AuthenticationResponse, AuthnError> {
        let response = self.tokens.authenticate_token(token, audiences).await?;
        response.ok_or_else(|| AuthnError::new(INVALID))
    }
}

impl TokenUnion {
    pub fn new(members: Vec<Box<dyn TokenAuthenticator>>) -> Self {
        Self { members }
    }
}

impl TokenAuthenticator for TokenUnion {
    /// On failure, the error for an unknown token precedes those of the authenticators.
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(async move {
            let mut errors = vec![INVALID.to_owned()];
            for member in &self.members {
                match member.authenticate_token(token, audiences).await {
                    Ok(Some(response)) => return Ok(Some(response)),
                    Ok(None) => {}
                    Err(error) => errors.push(error.0),
                }
            }
            if errors.len() == 1 {
                // No authenticator recognizes the token, which is not an error.
                return Ok(None);
            }
            AuthnError::all(&errors).map_or(Ok(None), Err)
        })
    }
}

impl<T: TokenAuthenticator> Authenticator for Bearer<T> {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(async move {
            let mut errors = Vec::new();
            if let Some(token) = header_token(credentials.headers) {
                // No authenticator recognizes a token that is not UTF-8.
                let outcome = match std::str::from_utf8(token) {
                    Ok(token) => self.authenticate_bearer(token, credentials.audiences).await,
                    Err(_) => Err(AuthnError::new(INVALID)),
                };
                match outcome {
                    Ok(response) => return Ok(Some(response)),
                    Err(error) => errors.push(error.0),
                }
            }
            match protocol_token(credentials.headers) {
                Ok(None) => {}
                Ok(Some(token)) => match self.authenticate_bearer(&token, credentials.audiences).await {
                    Ok(response) => return Ok(Some(response)),
                    Err(error) => errors.push(error.0),
                },
                Err(error) => errors.push(error.0),
            }
            AuthnError::all(&errors).map_or(Ok(None), Err)
        })
    }
}

/// Returns the warning for an `Authorization` header that is ignored because of an extra space before the token.
pub fn ignored_token(headers: &HeaderMap) -> Option<&'static str> {
    let header = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = header.splitn(3, |byte| *byte == b' ');
    let (scheme, token, more) = (parts.next()?, parts.next()?, parts.next());
    (scheme.eq_ignore_ascii_case(b"bearer") && token.is_empty() && more.is_some())
        .then_some("the provided Authorization header contains extra space before the bearer token, and is ignored")
}

/// Returns the token of the first `Authorization` header, as bytes since it need not be UTF-8.
fn header_token(headers: &HeaderMap) -> Option<&[u8]> {
    let header = headers.get(AUTHORIZATION)?.as_bytes().trim_ascii();
    let mut parts = header.splitn(3, |byte| *byte == b' ');
    let scheme = parts.next()?;
    let token = parts.next()?;
    (scheme.eq_ignore_ascii_case(b"bearer") && !token.is_empty()).then_some(token)
}

/// Returns the token among the subprotocols of a WebSocket request. The client must also offer another subprotocol,
/// which can be selected.
fn protocol_token(headers: &HeaderMap) -> Result<Option<String>, AuthnError> {
    if !is_websocket(headers) {
        return Ok(None);
    }
    let failed = |why: &str| Err(AuthnError::new(why));
    let (mut token, mut others) = (None, false);
    for protocol in protocols(headers) {
        let Some(encoded) = protocol.strip_prefix(TOKEN_PROTOCOL) else {
            others = true;
            continue;
        };
        if token.is_some() {
            return failed("multiple base64.bearer.authorization tokens specified");
        }
        let Ok(decoded) = BASE64_URL_SAFE_NO_PAD.decode(encoded) else {
            return failed("invalid base64.bearer.authorization token encoding");
        };
        match String::from_utf8(decoded) {
            Ok(decoded) => token = Some(decoded),
            Err(_) => return failed("invalid base64.bearer.authorization token"),
        }
    }
    match token.filter(|token| !token.is_empty()) {
        Some(_) if !others => failed("missing additional subprotocol"),
        token => Ok(token),
    }
}

/// Returns the subprotocols that a client offers.
fn protocols(headers: &HeaderMap) -> impl Iterator<Item = &str> {
    let lines = headers.get_all(SEC_WEBSOCKET_PROTOCOL).into_iter().filter_map(|value| value.to_str().ok());
    lines.flat_map(|line| line.split(',')).map(str::trim)
}

fn is_websocket(headers: &HeaderMap) -> bool {
    let has = |name: http::HeaderName, word: &str| {
        let lines = headers.get_all(name).into_iter().filter_map(|value| value.to_str().ok());
        lines.flat_map(|line| line.split(',')).any(|part| part.trim().eq_ignore_ascii_case(word))
    };
    has(CONNECTION, "upgrade") && has(UPGRADE, "websocket")
}

#[cfg(test)]
mod tests {
    use binnacle_request::ConnectionInfo;

    use super::*;
    use crate::TokenFile;

    async fn authenticate(headers: &HeaderMap) -> Result<Option<String>, String> {
        let tokens = TokenFile::parse("tokens", b"secret,me,1\n").unwrap();
        let bearer = Bearer::new(TokenUnion::new(vec![Box::new(tokens)]));
        let connection = ConnectionInfo::default();
        let credentials = Credentials { headers, connection: &connection, path: "/", audiences: &[] };
        let result = bearer.authenticate(credentials).await;
        result.map(|response| response.map(|response| response.user.name.to_string())).map_err(|error| error.0)
    }

    #[tokio::test]
    async fn reads_token_of_the_first_authorization_header() {
        for (header, want) in [
            (None, Ok(None)),
            (Some(&b""[..]), Ok(None)),
            (Some(b"Basic secret"), Ok(None)),
            (Some(b"Bearer"), Ok(None)),
            (Some(b"Bearer  secret"), Ok(None)),
            (Some(b"Bearer secret"), Ok(Some("me"))),
            (Some(b" bEARER secret trailing"), Ok(Some("me"))),
            (Some(b"Bearer Secret"), Err(INVALID)),
            (Some(b"Bearer \xff\xfe"), Err(INVALID)),
        ] {
            let mut headers = HeaderMap::new();
            if let Some(value) = header {
                headers.insert(AUTHORIZATION, value.try_into().unwrap());
            }
            assert_eq!(
                authenticate(&headers).await,
                want.map(|n| n.map(str::to_owned)).map_err(str::to_owned),
                "{header:?}"
            );
            assert_eq!(ignored_token(&headers).is_some(), header == Some(b"Bearer  secret"), "{header:?}");
        }
        // Only the first header is used, since that is the one a front proxy may have checked.
        let mut headers = HeaderMap::new();
        headers.append(AUTHORIZATION, "Bearer wrong".parse().unwrap());
        headers.append(AUTHORIZATION, "Bearer secret".parse().unwrap());
        assert_eq!(authenticate(&headers).await, Err(INVALID.to_owned()));
    }

    #[tokio::test]
    async fn reads_token_of_websocket_subprotocols() {
        let token = |token: &[u8]| format!("{TOKEN_PROTOCOL}{}", BASE64_URL_SAFE_NO_PAD.encode(token));
        let good = token(b"secret");
        for (protocols, want) in [
            (vec![], Ok(None)),
            (vec!["v4.channel.k8s.io".to_owned()], Ok(None)),
            (vec![good.clone()], Err("missing additional subprotocol")),
            (vec![format!("{good}, v4.channel.k8s.io")], Ok(Some("me"))),
            (vec![good.clone(), "v4.channel.k8s.io".to_owned()], Ok(Some("me"))),
            (
                vec![good.clone(), good.clone(), "x".to_owned()],
                Err("multiple base64.bearer.authorization tokens specified"),
            ),
            (vec![format!("{good}!, x")], Err("invalid base64.bearer.authorization token encoding")),
            (vec![token(b"\xff"), "x".to_owned()], Err("invalid base64.bearer.authorization token")),
            (vec![token(b"other"), "x".to_owned()], Err(INVALID)),
            (vec![token(b""), "x".to_owned()], Ok(None)),
        ] {
            for upgrades in [true, false] {
                let mut headers = HeaderMap::new();
                if upgrades {
                    headers.insert(CONNECTION, "keep-alive, Upgrade".parse().unwrap());
                    headers.insert(UPGRADE, "WebSocket".parse().unwrap());
                }
                for protocol in &protocols {
                    headers.append(SEC_WEBSOCKET_PROTOCOL, protocol.parse().unwrap());
                }
                let want = if upgrades { want } else { Ok(None) };
                let want = want.map(|name| name.map(str::to_owned)).map_err(str::to_owned);
                assert_eq!(authenticate(&headers).await, want, "{protocols:?}");
            }
        }
    }
}
