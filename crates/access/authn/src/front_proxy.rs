//! Users that a front proxy has authenticated and passes in headers. The headers are only trusted if the proxy's own
//! client certificate is signed by an authority for front proxies.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_meta::Text;
use binnacle_request::{BoxFuture, User, decode_path};
use binnacle_work::pace;
use http::{HeaderMap, HeaderName, HeaderValue};

use crate::authenticator::with_authenticated_group;
use crate::{AuthenticationResponse, Authenticator, AuthnError, Authorities, Credentials};

/// The work for each header that may be a group or extra.
const STEPS_PER_HEADER: u64 = 10;

/// The values of the `--requestheader-*` flags. Header names are in lower case.
#[derive(Clone, Debug, Default)]
pub struct FrontProxyOptions {
    /// The common names of trusted proxies; any if empty.
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

/// Authenticates users by the headers of trusted proxies.
pub struct FrontProxy {
    authorities: Arc<Authorities>,
    options: FrontProxyOptions,
    /// The audiences of the API; users are authenticated for all of them.
    audiences: Vec<Text>,
}

impl FrontProxy {
    pub fn new(authorities: Arc<Authorities>, options: FrontProxyOptions, audiences: Vec<Text>) -> Self {
        Self { authorities, options, audiences }
    }

    fn authenticate_headers(&self, credentials: Credentials<'_>) -> Result<Option<AuthenticationResponse>, AuthnError> {
        let Some(leaf) = self.authorities.verify(credentials.connection)? else { return Ok(None) };
        let allowed = &self.options.allowed_names;
        if !allowed.is_empty() && !allowed.iter().any(|name| *name == leaf.common_name) {
            return Err(AuthnError(format!("x509: subject with cn={} is not in the allowed list", leaf.common_name)));
        }
        let headers = credentials.headers;
        let name = first(headers, &self.options.username_headers);
        if name.is_empty() {
            return Ok(None);
        }
        pace((headers.len() * (1 + self.options.extra_prefixes.len())) as u64 * STEPS_PER_HEADER);
        let uid = first(headers, &self.options.uid_headers);
        let groups = self.options.group_headers.iter().flat_map(|name| headers.get_all(name.as_str()));
        let groups = groups.map(text).filter(|group| !group.is_empty()).collect();
        let mut extra: BTreeMap<Text, Vec<Text>> = BTreeMap::new();
        for prefix in &self.options.extra_prefixes {
            for (name, value) in headers {
                if let Some(key) = extra_key(name, prefix) {
                    extra.entry(key).or_default().push(text(value));
                }
            }
        }
        let user = with_authenticated_group(User { name, uid, groups, extra });
        Ok(AuthenticationResponse::for_any_audience(user, &self.audiences, credentials.audiences))
    }
}

impl Authenticator for FrontProxy {
    fn authenticate<'a>(
        &'a self,
        credentials: Credentials<'a>,
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(async move { self.authenticate_headers(credentials) })
    }
}

/// Returns the first value of the first header that is present.
fn first(headers: &HeaderMap, names: &[String]) -> Text {
    let values = names.iter().filter_map(|name| headers.get(name.as_str())).map(text);
    values.into_iter().find(|value| !value.is_empty()).unwrap_or_default()
}

/// Returns the decoded key after the prefix. A key with invalid escapes is used as is.
fn extra_key(name: &HeaderName, prefix: &str) -> Option<Text> {
    let key = name.as_str().strip_prefix(prefix)?;
    Some(decode_path(key).unwrap_or_else(|| key.into()))
}

fn text(value: &HeaderValue) -> Text {
    String::from_utf8_lossy(value.as_bytes()).as_ref().into()
}
