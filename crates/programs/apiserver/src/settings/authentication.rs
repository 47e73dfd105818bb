//! Settings of authentication.

use std::path::PathBuf;
use std::time::Duration;

use binnacle_authn::config::JwtAuthenticator;
use binnacle_jwt::Algorithm;
use binnacle_meta::Text;

#[derive(Clone, Debug)]
pub struct Authentication {
    pub anonymous: bool,
    /// True when the command line sets `anonymous`; then the configuration file must not set it.
    pub anonymous_given: bool,
    pub api_audiences: Vec<String>,
    pub client_ca_file: Option<PathBuf>,
    pub token_auth_file: Option<PathBuf>,
    pub bootstrap_tokens: bool,
    pub webhook: Option<Webhook>,
    pub issuers: Issuers,
    /// `Some` if there are authorities for proxies.
    pub request_header: Option<RequestHeader>,
    pub service_accounts: ServiceAccounts,
}

impl Authentication {
    /// Returns true if only proxies with certain names are accepted.
    pub(crate) fn restricts_proxies(&self) -> bool {
        self.request_header.as_ref().is_some_and(|header| !header.allowed_names.is_empty())
    }

    /// Returns the audiences of this API server.
    pub(crate) fn audiences(&self) -> Vec<Text> {
        self.api_audiences.iter().map(Text::from).collect()
    }
}

/// The settings of service account tokens.
#[derive(Clone, Debug)]
pub struct ServiceAccounts {
    /// The issuers, at least one.
    pub issuers: Vec<String>,
    pub key_files: Vec<PathBuf>,
    pub signing_key_file: Option<PathBuf>,
    /// The socket of an external signer, which then has the keys.
    pub signing_endpoint: Option<String>,
    pub jwks_uri: Option<String>,
    pub lookup: bool,
    pub extends: bool,
    /// Zero means no limit.
    pub max_expiration: Duration,
}

/// The settings of the token webhook.
#[derive(Clone, Debug)]
pub struct Webhook {
    pub config_file: PathBuf,
    /// `v1` or `v1beta1`.
    pub version: String,
    pub cache_ttl: Duration,
}

/// The source of the issuers whose ID tokens are accepted.
#[derive(Clone, Debug)]
pub enum Issuers {
    None,
    /// By the `--oidc-...` flags.
    Flags(Box<Oidc>),
    /// By the configuration file.
    File(PathBuf),
}

/// The settings of one OpenID provider.
#[derive(Clone, Debug)]
pub struct Oidc {
    /// The authenticator without its authorities.
    pub jwt: JwtAuthenticator,
    pub ca_file: Option<PathBuf>,
    pub algorithms: Vec<Algorithm>,
}

/// The settings of front proxies; header names are unchanged.
#[derive(Clone, Debug)]
pub struct RequestHeader {
    pub client_ca_file: PathBuf,
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_prefixes: Vec<String>,
}

impl Default for Authentication {
    /// Accepts certificates of the server's own authority and tokens of service accounts.
    fn default() -> Self {
        let service_accounts = ServiceAccounts::default();
        Self {
            anonymous: true,
            anonymous_given: false,
            api_audiences: service_accounts.issuers.clone(),
            client_ca_file: None,
            token_auth_file: None,
            bootstrap_tokens: false,
            webhook: None,
            issuers: Issuers::None,
            request_header: None,
            service_accounts,
        }
    }
}

impl Default for ServiceAccounts {
    fn default() -> Self {
        Self {
            issuers: vec!["https://kubernetes.default.svc".to_owned()],
            key_files: Vec::new(),
            signing_key_file: None,
            signing_endpoint: None,
            jwks_uri: None,
            lookup: true,
            extends: true,
            max_expiration: Duration::ZERO,
        }
    }
}
