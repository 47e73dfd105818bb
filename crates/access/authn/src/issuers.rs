//! All ID token issuers of the flags or the configuration file. Changes to the file apply without a restart.

use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use binnacle_config::{ReloadMetrics, WatchedFile};
use binnacle_egress::Egress;
use binnacle_jwt::Algorithm;
use binnacle_meta::Text;
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_webhook::TargetError;
use tokio::task::JoinSet;

use crate::authenticator::{allocate_parsed, intersection, parse};
use crate::config::{AnonymousConfig, AuthenticationConfig, ValidatedConfig};
use crate::oidc::{JwtMetrics, Oidc, untrusted_issuer};
use crate::{AuthenticationResponse, AuthnError, TokenAuthenticator};

/// The timeout for discovering all providers of a new configuration.
const DISCOVERY_TIMEOUT: Duration = Duration::from_secs(60);

/// The options common to all issuers.
pub struct IssuerOptions {
    /// The signature algorithms that tokens may use (`--oidc-signing-algs`).
    pub algorithms: Vec<Algorithm>,
    /// `--api-audiences`: every ID token is valid for these, regardless of its own audiences.
    pub audiences: Vec<Text>,
    /// The issuers of service account tokens, which must not be configured here.
    pub disallowed: Vec<String>,
    pub metrics: Option<JwtMetrics>,
    /// The egress selectors for `egressSelectorType`; `None` without an egress configuration.
    pub egress: Option<Egress>,
}

/// Authenticates the tokens of all issuers.
pub struct Issuers {
    options: IssuerOptions,
    current: ArcSwap<Vec<Arc<Oidc>>>,
}

/// The configuration file of the issuers.
pub struct IssuersFile {
    pub file: WatchedFile,
    pub metrics: ReloadMetrics,
    /// The file's anonymous access at startup, which must not change.
    pub anonymous: Option<AnonymousConfig>,
}

impl Issuers {
    /// Creates the issuers of a configuration. They accept no tokens before [`Issuers::run`] has discovered their
    /// providers.
    pub fn new(config: ValidatedConfig, options: IssuerOptions) -> Result<Self, TargetError> {
        let current = ArcSwap::from_pointee(build(config, &options)?);
        Ok(Self { options, current })
    }

    /// Discovers the providers, and reloads the file, if there is one, when it changes, until shutdown.
    pub async fn run(self: Arc<Self>, file: &mut Option<IssuersFile>, shutdown: Shutdown) {
        let fired = shutdown.fired();
        let reloading = async {
            let mut discovery = spawn_discovery(&self.current.load());
            let Some(file) = file else { return std::future::pending::<()>().await };
            file.metrics.configured(file.file.contents());
            loop {
                if self.reload(file).await {
                    discovery.abort_all();
                }
            }
        };
        tokio::select! {
            () = reloading => {}
            () = fired => {}
        }
    }

    /// Waits for a change of the file and applies it. Returns true if the issuers were replaced.
    async fn reload(&self, file: &mut IssuersFile) -> bool {
        let failed = |what: &str, why: &dyn std::fmt::Display| {
            tracing::error!(error = %why, "failed to {what} authentication config");
            file.metrics.failed();
        };
        let data = match file.file.changed().await {
            Ok(data) => data,
            Err(error) => {
                failed("read", &error);
                return false;
            }
        };
        // A file of several megabytes takes a while to parse and compile.
        let (text, disallowed, anonymous) = (data.clone(), self.options.disallowed.clone(), file.anonymous.clone());
        let read = binnacle_config::load(move || {
            let config = AuthenticationConfig::parse(&text).map_err(|error| error.to_string())?;
            config.check_reload(&disallowed, anonymous.as_ref()).map_err(|error| error.to_string())
        });
        let config = match read.await.unwrap_or_else(|error| Err(error.to_string())) {
            Ok(config) => config,
            Err(error) => {
                failed("load", &error);
                // An invalid configuration does not become valid: wait for the next change.
                file.file.accept(data);
                return false;
            }
        };
        // A provider may become reachable later, so the same file is tried again.
        let new = match self.build_discovered(config).await {
            Ok(new) => Arc::new(new),
            Err(why) => {
                failed("update", &why);
                return false;
            }
        };
        let old = self.current.swap(new.clone());
        if let Some(metrics) = &self.options.metrics {
            let removed = old.iter().filter(|old| !new.iter().any(|new| new.issuer() == old.issuer()));
            removed.for_each(|removed| metrics.forget(removed.issuer()));
        }
        tracing::info!("reloaded authentication config");
        file.metrics.reloaded(&data);
        file.file.accept(data);
        true
    }

    /// Returns the issuers of a new configuration once the providers of all of them are discovered.
    async fn build_discovered(&self, config: ValidatedConfig) -> Result<Vec<Arc<Oidc>>, String> {
        let new = build(config, &self.options).map_err(|error| error.to_string())?;
        let found = tokio::time::timeout(DISCOVERY_TIMEOUT, spawn_discovery(&new).join_all()).await;
        found.map_err(|_| "oidc: not all providers could be found in time".to_owned())?;
        Ok(new)
    }

    async fn authenticate(
        &self,
        token: &str,
        requested: &[Text],
    ) -> Result<Option<AuthenticationResponse>, AuthnError> {
        let audiences = intersection(&self.options.audiences, requested);
        if audiences.is_empty() && !requested.is_empty() {
            return Ok(None);
        }
        // Parse once for all issuers, since there may be dozens.
        let Some(parsed) = parse(token) else { return Ok(None) };
        let issuers = self.current.load_full();
        let Some(issuer) = issuers.iter().find(|issuer| issuer.issuer() == untrusted_issuer(&parsed)) else {
            return Ok(None);
        };
        allocate_parsed(token)?;
        let response = issuer.authenticate(&parsed).await?;
        Ok(Some(AuthenticationResponse { audiences, ..response }))
    }
}

fn build(config: ValidatedConfig, options: &IssuerOptions) -> Result<Vec<Arc<Oidc>>, TargetError> {
    let ValidatedConfig { config, rules } = config;
    let issuers = config.jwt.into_iter().zip(rules);
    let build = |(config, rules)| {
        let (algorithms, metrics) = (options.algorithms.clone(), options.metrics.as_ref());
        Oidc::new(config, rules, algorithms, metrics, options.egress.as_ref()).map(Arc::new)
    };
    issuers.map(build).collect()
}

/// Spawns the discovery of the issuers' providers, which runs until the result is dropped.
fn spawn_discovery(issuers: &[Arc<Oidc>]) -> JoinSet<()> {
    let mut discovery = JoinSet::new();
    for issuer in issuers {
        let issuer = issuer.clone();
        discovery.spawn(async move { issuer.discover().await });
    }
    discovery
}

impl TokenAuthenticator for Issuers {
    fn authenticate_token<'a>(
        &'a self,
        token: &'a str,
        audiences: &'a [Text],
    ) -> BoxFuture<'a, Result<Option<AuthenticationResponse>, AuthnError>> {
        Box::pin(self.authenticate(token, audiences))
    }
}
