//! How callers are found out: the authenticators that the flags ask for, in the reference's order.

use std::sync::Arc;

use binnacle_authn::{
    Anonymous, Authenticator, Bearer, FailFast, ServiceAccountMetrics, ServiceAccountOptions, ServiceAccountTokens,
    TokenAuthenticator, TokenFile, TokenFileError, Union, X509, X509Error,
};
use binnacle_jwt::{KeyError, KeyFileError, PrivateKey, PublicKey, load_private, load_public, private_from_pem};
use binnacle_meta::Text;
use binnacle_registry::ResourceSet;
use binnacle_server::{Authentication, Metrics};
use binnacle_specials::TokenIssuer;

use crate::bound_objects::CachedObjects;
use crate::flags;

/// Why callers cannot be found out as the flags want.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AuthenticationError {
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    #[error("unable to load client CA file: {0}")]
    ClientCa(#[from] X509Error),
    #[error("failed to build token generator: {0}")]
    Keys(#[from] KeyFileError),
    #[error("cannot use the server's own key for service account tokens: {0}")]
    OwnKey(#[from] KeyError),
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// What was read from the files that flags name.
pub(crate) struct Named {
    tokens: Option<TokenFile>,
    pub(crate) clients: Option<X509>,
    signing: Option<PrivateKey>,
    keys: Vec<PublicKey>,
}

impl Named {
    pub(crate) fn load(flags: &flags::Authentication) -> Result<Self, AuthenticationError> {
        let mut keys = Vec::new();
        for path in &flags.service_accounts.key_files {
            keys.extend(load_public(path)?);
        }
        Ok(Self {
            tokens: flags.token_auth_file.as_deref().map(TokenFile::load).transpose()?,
            clients: flags.client_ca_file.as_deref().map(X509::load).transpose()?,
            signing: flags.service_accounts.signing_key_file.as_deref().map(load_private).transpose()?,
            keys,
        })
    }

    /// The keys of service account tokens: those that were named, or else the server's own.
    pub(crate) fn service_account_keys(&mut self, own: &str) -> Result<ServiceAccountKeys, AuthenticationError> {
        let signing = match self.signing.take() {
            Some(key) => key,
            None => private_from_pem(own.as_bytes())?,
        };
        let mut verifying = std::mem::take(&mut self.keys);
        // Without a named key to sign with, our own does, and must then be among those that count.
        if verifying.is_empty() || !verifying.iter().any(|key| key.id() == signing.public().id()) {
            verifying.push(signing.public().clone());
        }
        Ok(ServiceAccountKeys { signing: Arc::new(signing), verifying })
    }
}

/// What signs and verifies service account tokens.
pub(crate) struct ServiceAccountKeys {
    signing: Arc<PrivateKey>,
    pub(crate) verifying: Vec<PublicKey>,
}

impl ServiceAccountKeys {
    /// How tokens are made, as the flags want.
    pub(crate) fn issuer(&self, flags: &flags::Authentication) -> TokenIssuer {
        let of = &flags.service_accounts;
        TokenIssuer {
            key: self.signing.clone(),
            issuer: of.issuers.first().map(Text::from).unwrap_or_default(),
            audiences: audiences(flags),
            max_seconds: i64::try_from(of.max_expiration.as_secs()).unwrap_or(i64::MAX),
            extends: of.extends,
        }
    }
}

/// The names by which the API knows itself.
pub(crate) fn audiences(flags: &flags::Authentication) -> Vec<Text> {
    flags.api_audiences.iter().map(Text::from).collect()
}

/// Certificates, then tokens; who brings neither is anonymous, who brings a bad one is refused.
pub(crate) fn build(
    flags: &flags::Authentication,
    named: Named,
    clients: X509,
    keys: &ServiceAccountKeys,
    resources: &ResourceSet,
    metrics: &Metrics,
) -> Result<Authentication, AuthenticationError> {
    let audiences = audiences(flags);
    let mut tokens: Vec<Box<dyn TokenAuthenticator>> = Vec::new();
    if let Some(file) = named.tokens {
        tokens.push(Box::new(file.for_audiences(audiences.clone())));
    }
    let options = ServiceAccountOptions {
        issuers: flags.service_accounts.issuers.iter().map(Text::from).collect(),
        keys: keys.verifying.clone(),
        audiences: audiences.clone(),
        lookup: flags.service_accounts.lookup,
    };
    let objects = Arc::new(CachedObjects::new(resources.clone()));
    let counters = ServiceAccountMetrics::new(metrics.registry())?;
    tokens.push(Box::new(ServiceAccountTokens::new(options, objects, counters)));

    let known = Union::new(vec![Box::new(clients), Box::new(Bearer::new(tokens))]);
    let authenticator: Arc<dyn Authenticator> = match flags.anonymous {
        true => Arc::new(FailFast(known, Anonymous::new())),
        false => Arc::new(known),
    };
    Ok(Authentication { audiences, ..Authentication::by(authenticator) })
}
