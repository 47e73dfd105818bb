//! Reloads the authorizers when the configuration file changes. An invalid file has no effect.

use std::sync::Arc;

use arc_swap::ArcSwap;
use binnacle_config::{ReloadMetrics, WatchedFile};
use binnacle_request::{BoxFuture, Decision, Shutdown, User};

use crate::{Attributes, AuthorizationConfig, Authorizer, AuthorizerDependencies, AuthzError, Rules, Union};

/// The current authorizers, which a reload replaces.
pub struct ReloadableAuthorizer {
    current: ArcSwap<Union>,
}

impl ReloadableAuthorizer {
    pub fn new(first: Union) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(first) })
    }
}

impl Authorizer for ReloadableAuthorizer {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move { self.current.load_full().authorize(attributes).await })
    }

    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async move { self.current.load_full().rules_for(user, namespace).await })
    }
}

/// The configuration file of a running server.
pub struct ConfigFile {
    pub file: WatchedFile,
    pub parts: AuthorizerDependencies,
    /// The configuration in use.
    pub config: AuthorizationConfig,
    pub metrics: ReloadMetrics,
}

impl ConfigFile {
    /// Reloads the file when it changes, until shutdown.
    pub async fn reload_on_change(&mut self, authorizers: Arc<ReloadableAuthorizer>, shutdown: Shutdown) {
        // Only webhooks can be added or removed, since the data of other modes is read from startup on or not at all.
        let required = self.config.fixed_modes();
        self.metrics.configured(self.file.contents());
        let fired = shutdown.fired();
        tokio::pin!(fired);
        loop {
            let changed = tokio::select! {
                changed = self.file.changed() => changed,
                () = &mut fired => return,
            };
            match changed {
                Ok(data) => {
                    // A file of several megabytes takes a while to parse and compile.
                    let (text, required) = (data.clone(), required.clone());
                    let read = binnacle_config::load(move || {
                        AuthorizationConfig::parse(&text, &required).map_err(|error| error.to_string())
                    });
                    let read = read.await.unwrap_or_else(|error| Err(error.to_string()));
                    if let Err(why) = read.and_then(|config| self.replace(config, &data, &authorizers)) {
                        self.failed(&why);
                    }
                    // An invalid file is only reported once.
                    self.file.accept(data);
                }
                Err(error) => self.failed(&error),
            }
        }
    }

    fn failed(&self, why: &dyn std::fmt::Display) {
        tracing::error!(error = %why, "reloading authorization config");
        self.metrics.failed();
    }

    fn replace(
        &mut self,
        config: AuthorizationConfig,
        data: &[u8],
        authorizers: &ReloadableAuthorizer,
    ) -> Result<(), String> {
        // An equivalent file has no effect.
        if config != self.config {
            authorizers.current.store(Arc::new(self.parts.assemble(&config)?));
            tracing::info!("reloaded authz config");
            self.metrics.reloaded(data);
            self.config = config;
        }
        Ok(())
    }
}
