//! Authorizers that change while the server runs: those of a configuration file, read again when it changes. A file that
//! is wrong leaves in force what there was.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use binnacle_request::{BoxFuture, Decision, Shutdown, User};

use crate::{Attributes, AuthorizationConfig, Authorizer, AuthzError, Parts, Rules, Union};

/// How often it is asked whether the file is another.
const LOOK: Duration = Duration::from_secs(1);
/// After so many times the file is read even if it looks the same.
const READ_ANYWAY: u32 = 60;

/// The authorizers in force.
pub struct Reloading {
    current: ArcSwap<Union>,
}

impl Reloading {
    pub fn new(first: Union) -> Arc<Self> {
        Arc::new(Self { current: ArcSwap::from_pointee(first) })
    }
}

impl Authorizer for Reloading {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move { self.current.load_full().authorize(attributes).await })
    }

    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async move { self.current.load_full().rules_for(user, namespace).await })
    }
}

/// The file of a server that runs.
pub struct ConfigFile {
    pub path: PathBuf,
    pub parts: Parts,
    /// What is in force, and the bytes that said so.
    pub config: AuthorizationConfig,
    pub data: Vec<u8>,
    /// Names this server in metrics.
    pub server: String,
}

impl ConfigFile {
    /// Follows the file until shutdown.
    pub async fn follow(mut self, authorizers: Arc<Reloading>, shutdown: Shutdown) {
        // Modes beside webhooks cannot come or go: what they look at is read from the start or not at all.
        let required = self.config.fixed_modes();
        self.parts.metrics.configured(&self.server, &self.data);
        let (mut seen, mut looks) = (None, 0);
        let fired = shutdown.fired();
        tokio::pin!(fired);
        loop {
            tokio::select! {
                () = tokio::time::sleep(LOOK) => {}
                () = &mut fired => return,
            }
            looks += 1;
            let looks_like = self.look().await;
            if looks_like == seen && looks < READ_ANYWAY {
                continue;
            }
            (seen, looks) = (looks_like, 0);
            self.read_again(&required, &authorizers).await;
        }
    }

    /// What tells another file without reading it; `None` for one that is not there.
    async fn look(&self) -> Option<(SystemTime, u64)> {
        let found = tokio::fs::metadata(&self.path).await.ok()?;
        Some((found.modified().ok()?, found.len()))
    }

    async fn read_again(&mut self, required: &[&'static str], authorizers: &Reloading) {
        let failed = |why: &dyn std::fmt::Display| {
            tracing::error!(error = %why, "reloading authorization config");
            self.parts.metrics.reloaded(&self.server, None);
        };
        let data = match tokio::fs::read(&self.path).await {
            Ok(data) => data,
            Err(error) => return failed(&error),
        };
        if data == self.data {
            return;
        }
        let config = AuthorizationConfig::parse(&data, required);
        let made = config.map_err(|error| error.to_string()).and_then(|config| {
            let same = config == self.config;
            let union = if same { None } else { Some(self.parts.assemble(&config)?) };
            Ok((config, union))
        });
        match made {
            Err(why) => failed(&why),
            // Other words for the same.
            Ok((_, None)) => {}
            Ok((config, Some(union))) => {
                authorizers.current.store(Arc::new(union));
                tracing::info!("reloaded authz config");
                self.parts.metrics.reloaded(&self.server, Some(&data));
                self.config = config;
            }
        }
        // A file that is wrong is complained about once.
        self.data = data;
    }
}
