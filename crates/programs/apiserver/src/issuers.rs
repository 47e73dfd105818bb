//! Issuers of accepted ID tokens, and anonymous requests: from flags, or from the file of `--authentication-config`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use binnacle_authn::config::{AnonymousConfig, AuthenticationConfig, ConfigError, ValidatedConfig};
use binnacle_authn::{IssuerOptions, Issuers, IssuersFile, JwtMetrics};
use binnacle_config::{ReloadMetrics, WatchedFile};
use binnacle_egress::Egress;
use binnacle_jwt::Algorithm;
use binnacle_meta::{go_quote, read_error};
use binnacle_webhook::TargetError;

use crate::settings;

/// An error of the issuers' configuration.
#[derive(Debug, thiserror::Error)]
pub(crate) enum IssuersError {
    #[error("failed to load authentication configuration from file {}: {why}", go_quote(path))]
    File { path: String, why: String },
    #[error("{}", read_error(path, error))]
    Authorities { path: String, error: std::io::Error },
    #[error(
        "anonymous: Forbidden: --anonymous-auth flag cannot be set when anonymous field is configured in authentication \
         configuration file"
    )]
    AnonymousTwice,
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error("cannot register metrics: {0}")]
    Metrics(#[from] prometheus::Error),
}

/// The issuers in the flags or the file, validated but not in use.
pub(crate) struct IssuersConfig {
    config: ValidatedConfig,
    algorithms: Vec<Algorithm>,
    /// The path and contents of the file.
    file: Option<(PathBuf, Vec<u8>)>,
}

/// The accepted issuers, and the settings of anonymous requests.
pub(crate) struct AcceptedIssuers {
    /// They have no keys before they are watched.
    pub(crate) issuers: Arc<Issuers>,
    pub(crate) file: Option<IssuersFile>,
    pub(crate) anonymous: AnonymousConfig,
}

impl IssuersConfig {
    pub(crate) fn load(flags: &settings::Authentication) -> Result<Self, IssuersError> {
        let (mut algorithms, mut file) = (Algorithm::ALL.to_vec(), None);
        let config = match &flags.issuers {
            settings::Issuers::None => AuthenticationConfig::default(),
            settings::Issuers::Flags(oidc) => {
                algorithms.clone_from(&oidc.algorithms);
                let mut jwt = oidc.jwt.clone();
                if let Some(path) = &oidc.ca_file {
                    jwt.issuer.certificate_authority = authorities(path)?;
                }
                AuthenticationConfig { jwt: vec![jwt], anonymous: None }
            }
            settings::Issuers::File(path) => {
                let shown = path.display().to_string();
                let failed = |why: String| IssuersError::File { path: shown.clone(), why };
                let data = std::fs::read(path).map_err(|error| failed(read_error(&shown, &error)))?;
                let config = AuthenticationConfig::parse(&data).map_err(|error| failed(error.to_string()))?;
                file = Some((path.clone(), data));
                config
            }
        };
        if config.anonymous.is_some() && flags.anonymous_given {
            return Err(IssuersError::AnonymousTwice);
        }
        let config = config.check(&flags.service_accounts.issuers)?;
        Ok(Self { config, algorithms, file })
    }

    pub(crate) fn build(
        self,
        flags: &settings::Authentication,
        server: &str,
        registry: &binnacle_metrics::Registry,
        egress: Option<Egress>,
        records_fetches: bool,
    ) -> Result<AcceptedIssuers, IssuersError> {
        let in_file = self.config.anonymous().cloned();
        let file = match self.file {
            None => None,
            Some((path, data)) => Some(IssuersFile {
                file: WatchedFile::new(path, data),
                metrics: ReloadMetrics::of_authentication(registry, server)?,
                anonymous: in_file.clone(),
            }),
        };
        let options = IssuerOptions {
            algorithms: self.algorithms,
            audiences: flags.audiences(),
            disallowed: flags.service_accounts.issuers.clone(),
            metrics: Some(JwtMetrics::register(registry, server)?.recording_fetches(records_fetches)),
            egress,
        };
        let by_flag = || AnonymousConfig { enabled: flags.anonymous, paths: Vec::new() };
        let anonymous = in_file.unwrap_or_else(by_flag);
        Ok(AcceptedIssuers { issuers: Arc::new(Issuers::new(self.config, options)?), file, anonymous })
    }
}

fn authorities(path: &Path) -> Result<String, IssuersError> {
    let text =
        std::fs::read(path).map_err(|error| IssuersError::Authorities { path: path.display().to_string(), error })?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
