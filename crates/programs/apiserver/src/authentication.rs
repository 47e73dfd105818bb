//! Authentication of requests: the authenticators in the flags, in kube-apiserver's order.

use std::sync::Arc;
use std::time::Duration;

use binnacle_authn::config::AnonymousConfig;
use binnacle_authn::service_account::TokenKeys;
use binnacle_authn::{
    Anonymous, Authenticator, AuthnError, AuthoritiesError, Bearer, BootstrapTokens, CacheTtls, FailFast, FrontProxy,
    FrontProxyOptions, ServiceAccountMetrics, ServiceAccountOptions, ServiceAccountTokens, TokenAuthenticator,
    TokenCache, TokenCacheMetrics, TokenFile, TokenFileError, TokenUnion, Union, WebhookOptions, WebhookTokens,
    WebhookVersion, X509,
};
use binnacle_controlplane::{CachedObjects, RequestHeader};
use binnacle_egress::{Dialer, Egress, Network};
use binnacle_jwt::{KeyError, KeyFileError, PrivateKey, PublicKey, load_private, load_public, private_from_pem};
use binnacle_meta::Text;
use binnacle_registry::Catalog;
use binnacle_request::User;
use binnacle_server::{Authentication, Metrics};
use binnacle_webhook::{Client, KubeconfigError, TargetError, load};
use uuid::Uuid;

use crate::authorities::SharedAuthority;
use crate::authority_bundle::Bundle;
use crate::issuers::AcceptedIssuers;
use crate::settings;
use crate::signing::Signing;

/// An error of the authentication flags or their files.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthenticationError {
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    #[error(transparent)]
    Keys(#[from] KeyFileError),
    #[error(transparent)]
    SharedAuthority(#[from] SharedAuthority),
    #[error("failed to parse service-account-issuer-key-file: {0}")]
    SigningKey(#[source] KeyFileError),
    #[error("cannot use the server's own key for service account tokens: {0}")]
    OwnKey(#[from] KeyError),
    #[error(transparent)]
    Webhook(#[from] KubeconfigError),
    #[error("cannot call the token webhook: {0}")]
    WebhookTarget(#[source] TargetError),
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error(transparent)]
    Memory(#[from] AuthnError),
}

/// Data read from the files in flags.
pub(crate) struct AuthenticationFiles {
    /// The bearer token of the server's requests to itself.
    own: TokenFile,
    pub(crate) own_token: String,
    tokens: Option<TokenFile>,
    pub(crate) clients: Option<Bundle>,
    pub(crate) proxies: Option<Bundle>,
    signing: Option<PrivateKey>,
    keys: Vec<PublicKey>,
    webhook: Option<WebhookTokens>,
}

impl AuthenticationFiles {
    pub(crate) fn load(flags: &settings::Authentication, egress: &Egress) -> Result<Self, AuthenticationError> {
        let mut keys = Vec::new();
        for path in &flags.service_accounts.key_files {
            keys.extend(load_public(path)?);
        }
        let tokens = |webhook| webhook_tokens(webhook, egress.dialer(Network::ControlPlane), flags.audiences());
        let clients = flags.client_ca_file.as_deref().map(|path| Bundle::load("client-ca-bundle", path)).transpose()?;
        let proxies = flags
            .request_header
            .as_ref()
            .map(|header| Bundle::load("request-header", &header.client_ca_file))
            .transpose()?;
        if let (Some(clients), Some(proxies)) = (&clients, &proxies) {
            check_shared_authority(flags, clients, proxies)?;
        }
        let own_token = format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple());
        let uid = Uuid::new_v4().to_string().into();
        let own = User { uid, ..User::new(User::APISERVER, &[User::AUTHENTICATED, User::MASTERS]) };
        Ok(Self {
            own: TokenFile::of_one(&own_token, own),
            own_token,
            tokens: flags.token_auth_file.as_deref().map(TokenFile::load).transpose()?,
            clients,
            proxies,
            signing: flags
                .service_accounts
                .signing_key_file
                .as_deref()
                .map(load_private)
                .transpose()
                .map_err(AuthenticationError::SigningKey)?,
            keys,
            webhook: flags.webhook.as_ref().map(tokens).transpose()?,
        })
    }

    /// Returns the keys that sign and verify service account tokens: the given ones, or else the server's own.
    pub(crate) fn signing(&mut self, own: &str) -> Result<Signing, AuthenticationError> {
        let signing = match self.signing.take() {
            Some(key) => key,
            None => private_from_pem(own.as_bytes())?,
        };
        let mut verifying = std::mem::take(&mut self.keys);
        // Without a given signing key the server's own key signs, and then must be among the verifying ones.
        if verifying.is_empty() || !verifying.iter().any(|key| key.id() == signing.public().id()) {
            verifying.push(signing.public().clone());
        }
        Ok(Signing::by_key(signing, verifying))
    }
}

/// Checks that client certificates are not accepted as those of front proxies, unless the names of proxies are
/// restricted.
pub(crate) fn check_shared_authority(
    flags: &settings::Authentication,
    clients: &Bundle,
    proxies: &Bundle,
) -> Result<(), SharedAuthority> {
    SharedAuthority::check(flags.restricts_proxies(), &clients.authorities, &proxies.authorities)
}

/// The time for which an authenticated token is cached.
const TOKEN_TIMES: CacheTtls = CacheTtls { success: Duration::from_secs(10), failure: Duration::ZERO };
/// The timeout of one call of the token webhook.
const WEBHOOK_TIMEOUT: Duration = Duration::from_secs(30);

fn webhook_tokens(
    flags: &settings::Webhook,
    dialer: Option<Arc<Dialer>>,
    audiences: Vec<Text>,
) -> Result<WebhookTokens, AuthenticationError> {
    let target = binnacle_webhook::Target { dialer, ..load(&flags.config_file)? };
    let client = Client::new(target, WEBHOOK_TIMEOUT).map_err(AuthenticationError::WebhookTarget)?;
    let version = if flags.version == "v1" { WebhookVersion::V1 } else { WebhookVersion::V1beta1 };
    Ok(WebhookTokens::new(client, WebhookOptions { version, audiences }))
}

/// Returns the published settings of front proxies.
pub(crate) fn request_header(flags: &settings::Authentication, proxies: Option<&Bundle>) -> Option<RequestHeader> {
    let header = flags.request_header.as_ref()?;
    Some(RequestHeader {
        client_ca: proxies?.pem.clone(),
        allowed_names: header.allowed_names.clone(),
        username_headers: header.username_headers.clone(),
        uid_headers: header.uid_headers.clone(),
        group_headers: header.group_headers.clone(),
        extra_header_prefixes: header.extra_prefixes.clone(),
    })
}

/// Tries front proxies, certificates, then tokens. Requests without credentials are anonymous, invalid ones fail.
pub(crate) fn build(
    flags: &settings::Authentication,
    files: AuthenticationFiles,
    issuers: &AcceptedIssuers,
    clients: &Bundle,
    keys: Arc<dyn TokenKeys>,
    resources: &Catalog,
    metrics: &Metrics,
) -> Result<Authentication, AuthenticationError> {
    let audiences = flags.audiences();
    let mut tokens: Vec<Box<dyn TokenAuthenticator>> = Vec::new();
    tokens.push(Box::new(files.own.for_audiences(audiences.clone())));
    if let Some(file) = files.tokens {
        tokens.push(Box::new(file.for_audiences(audiences.clone())));
    }
    let options = ServiceAccountOptions {
        issuers: flags.service_accounts.issuers.iter().map(Text::from).collect(),
        keys,
        audiences: audiences.clone(),
        lookup: flags.service_accounts.lookup,
    };
    let objects = Arc::new(CachedObjects::new(resources.clone()));
    let counters = ServiceAccountMetrics::register(metrics.registry())?;
    tokens.push(Box::new(ServiceAccountTokens::new(options, objects.clone(), counters)));
    if flags.bootstrap_tokens {
        tokens.push(Box::new(BootstrapTokens::new(objects, audiences.clone())));
    }
    tokens.push(Box::new(issuers.issuers.clone()));
    let cache = TokenCacheMetrics::register(metrics.registry())?;
    if let (Some(webhook), Some(flags)) = (files.webhook, &flags.webhook) {
        let times = CacheTtls { success: flags.cache_ttl, failure: flags.cache_ttl };
        tokens.push(Box::new(TokenCache::new(webhook, times, cache.clone())?));
    }
    let tokens = TokenCache::new(TokenUnion::new(tokens), TOKEN_TIMES, cache)?;

    let lower = |names: &[String]| names.iter().map(|name| name.to_ascii_lowercase()).collect::<Vec<_>>();
    let mut authenticators: Vec<Box<dyn Authenticator>> = Vec::new();
    let (mut proxy_headers, mut proxy_prefixes) = (Vec::new(), Vec::new());
    if let (Some(header), Some(proxies)) = (&flags.request_header, files.proxies) {
        let options = FrontProxyOptions {
            allowed_names: header.allowed_names.clone(),
            username_headers: lower(&header.username_headers),
            uid_headers: lower(&header.uid_headers),
            group_headers: lower(&header.group_headers),
            extra_prefixes: lower(&header.extra_prefixes),
        };
        proxy_headers = [&options.username_headers[..], &options.uid_headers, &options.group_headers].concat();
        proxy_prefixes.clone_from(&options.extra_prefixes);
        authenticators.push(Box::new(FrontProxy::new(proxies.authorities, options, audiences.clone())));
    }
    let x509 = X509::new(clients.authorities.clone()).with_metrics(metrics.registry())?;
    authenticators.push(Box::new(x509.reading_uids(resources.features().enabled("AllowParsingUserUIDFromCertAuth"))));
    authenticators.push(Box::new(Bearer::new(tokens)));
    let authenticators = Union::new(authenticators);
    let authenticator: Arc<dyn Authenticator> = match &issuers.anonymous {
        AnonymousConfig { enabled: true, paths } => {
            Arc::new(FailFast(authenticators, Anonymous::for_paths(paths.clone())))
        }
        AnonymousConfig { enabled: false, .. } => Arc::new(authenticators),
    };
    Ok(Authentication { authenticator, audiences, proxy_headers, proxy_prefixes })
}
