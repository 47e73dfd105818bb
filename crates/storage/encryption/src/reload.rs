//! The configuration file, which is read at startup and whenever it changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use binnacle_meta::read_error;
use sha2::{Digest, Sha256};
use tokio::time::{Instant, MissedTickBehavior, sleep};

use crate::config::Configuration;
use crate::config_error::ConfigError;
use crate::metrics::Metrics;
use crate::resources::Transformers;
use crate::store::Encryption;

/// The interval at which the file is read.
const POLL_INTERVAL: Duration = Duration::from_secs(60);
/// The first delay after a failure, which doubles with each further failure.
const FIRST_RETRY: Duration = Duration::from_millis(5);
/// The time within which the plugins of a new file must become healthy.
const HEALTH_TIMEOUT: Duration = Duration::from_secs(10);
const HEALTH_CHECK_INTERVAL: Duration = Duration::from_millis(100);

/// The transformers of a configuration file, and its hash.
pub struct LoadedTransformers {
    pub transformers: Transformers,
    /// The hash of the file's text, which detects changes without keeping the keys in memory.
    pub hash: [u8; 32],
}

/// Reads the file and creates the ciphers. With `reload`, the file is going to be read again.
pub async fn load(path: &Path, reload: bool, metrics: &Metrics) -> Result<LoadedTransformers, ConfigError> {
    let text = read(path)?;
    let configuration = parse(path, &text, reload)?;
    build(&configuration, Sha256::digest(&text).into(), metrics).await
}

async fn build(
    configuration: &Configuration,
    hash: [u8; 32],
    metrics: &Metrics,
) -> Result<LoadedTransformers, ConfigError> {
    let transformers = Transformers::new(configuration, metrics)
        .await
        .map_err(|error| ConfigError(format!("error while building transformers: {error}")))?;
    Ok(LoadedTransformers { transformers, hash })
}

/// Reads and validates the file without creating any transformers.
pub fn check(path: &Path, reload: bool) -> Result<(), ConfigError> {
    parse(path, &read(path)?, reload).map(drop)
}

fn parse(path: &Path, text: &[u8], reload: bool) -> Result<Configuration, ConfigError> {
    Configuration::parse(&path.display().to_string(), text, reload)
        .map_err(|error| ConfigError(format!("error while parsing file: {error}")))
}

fn read(path: &Path) -> Result<Vec<u8>, ConfigError> {
    binnacle_config::read(path).map_err(|error| {
        let display_path = path.display();
        ConfigError(format!(
            "error while parsing file: error while loading file: error reading encryption provider configuration file \
             \"{display_path}\": {}",
            read_error(&display_path.to_string(), &error)
        ))
    })
}

/// Watches the file and replaces the transformers when it changes, until the future is dropped
/// (`--encryption-provider-config-automatic-reload`). An invalid file, or one whose plugins are not healthy, has no
/// effect and is retried.
///
/// `first` is the [`LoadedTransformers::hash`] of the file in use.
pub async fn reload_on_change(path: &Path, first: [u8; 32], encryption: Arc<Encryption>) {
    let metrics = encryption.metrics();
    let mut current_hash = first;
    let mut tick = tokio::time::interval_at(Instant::now() + POLL_INTERVAL, POLL_INTERVAL);
    tick.set_missed_tick_behavior(MissedTickBehavior::Skip);
    let mut failures = 0;
    loop {
        // After a failure, earlier than the next tick.
        let retry = async {
            match failures {
                0 => std::future::pending().await,
                count => sleep(FIRST_RETRY * 2_u32.saturating_pow(count - 1)).await,
            }
        };
        tokio::select! {
            _ = tick.tick() => {}
            () = retry => {}
        }
        match load_if_changed(path, current_hash, metrics).await {
            Ok(None) => failures = 0,
            Ok(Some(new)) => {
                failures = 0;
                current_hash = new.hash;
                encryption.replace(new.transformers);
                metrics.record_reload(true);
                metrics.in_use(&current_hash);
                tracing::info!(path = %path.display(), "encryption configuration reloaded");
            }
            Err(error) => {
                failures += 1;
                metrics.record_reload(false);
                tracing::error!(path = %path.display(), %error, "error processing encryption config file");
            }
        }
    }
}

async fn load_if_changed(
    path: &Path,
    current_hash: [u8; 32],
    metrics: &Metrics,
) -> Result<Option<LoadedTransformers>, ConfigError> {
    let file = path.to_owned();
    let parsed = binnacle_config::load(move || {
        let text = read(&file)?;
        let hash: [u8; 32] = Sha256::digest(&text).into();
        if hash == current_hash {
            return Ok(None);
        }
        parse(&file, &text, true).map(|configuration| Some((configuration, hash)))
    });
    let Some((configuration, hash)) = parsed.await.unwrap_or_else(|error| Err(ConfigError(error.to_string())))? else {
        return Ok(None);
    };
    let new = build(&configuration, hash, metrics).await?;
    let check = new.transformers.check();
    let healthy = async {
        loop {
            match check.check().await {
                Ok(()) => return,
                Err(_) => tokio::time::sleep(HEALTH_CHECK_INTERVAL).await,
            }
        }
    };
    match tokio::time::timeout(HEALTH_TIMEOUT, healthy).await {
        Ok(()) => Ok(Some(new)),
        Err(_) => {
            let error = check.check().await.err().unwrap_or_default();
            Err(ConfigError(format!("health check for new transformers failed: {error}")))
        }
    }
}
