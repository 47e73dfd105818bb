//! Authentication of requests: one module per authenticator, and their union.
//!
//! Each authenticator checks one kind of credential. It has no opinion on requests without that credential, and fails
//! for invalid ones. A request is anonymous or unauthorized only after all authenticators have had no opinion or
//! failed.

mod anonymous;
mod authenticator;
mod bearer;
mod bootstrap_token;
mod certificates;
mod claim_rules;
mod claims;
pub mod config;
mod csv;
mod front_proxy;
mod issuers;
mod oidc;
mod recent;
pub mod service_account;
mod token_cache;
mod token_file;
mod union;
mod webhook;
mod x509;

pub use anonymous::Anonymous;
pub use authenticator::{AuthenticationResponse, Authenticator, AuthnError, Credentials, Notes, TokenAuthenticator};
pub use bearer::{Bearer, TOKEN_PROTOCOL, TokenUnion, ignored_token};
pub use bootstrap_token::{BootstrapSecret, BootstrapSecrets, BootstrapTokens};
pub use certificates::{Authorities, AuthoritiesError};
pub use front_proxy::{FrontProxy, FrontProxyOptions};
pub use issuers::{IssuerOptions, Issuers, IssuersFile};
pub use oidc::JwtMetrics;
pub use recent::RecentCache;
pub use service_account::{ServiceAccountMetrics, ServiceAccountOptions, ServiceAccountTokens};
pub use token_cache::{CacheTtls, TokenCache, TokenCacheMetrics};
pub use token_file::{TokenFile, TokenFileError};
pub use union::{FailFast, Union};
pub use webhook::{WebhookOptions, WebhookTokens, WebhookVersion};
pub use x509::X509;
