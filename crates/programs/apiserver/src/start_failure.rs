//! Errors of a start.

use binnacle_admission::AdmissionConfigError;
use binnacle_authn::AuthoritiesError;
use binnacle_egress::EgressError;
use binnacle_encryption::ConfigError;
use binnacle_pki::PkiError;
use binnacle_store::StoreError;
use binnacle_store_embedded::OpenError;
use binnacle_store_etcd::ConnectError;
use binnacle_transport::{ListenError, TlsError};

use crate::authentication::AuthenticationError;
use crate::authorization::AuthorizationError;
use crate::data_dir::DataDirError;
use crate::issuers::IssuersError;
use crate::settings::SettingsError;
use crate::signing::SigningError;
use crate::stand_in::StandInError;

/// An error that keeps the server from starting.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartFailure {
    #[error("cryptography: {0}")]
    Crypto(String),
    #[error(transparent)]
    Authentication(#[from] AuthenticationError),
    #[error(transparent)]
    Issuers(#[from] IssuersError),
    #[error("cannot use the server's own authority: {0}")]
    OwnAuthority(#[from] AuthoritiesError),
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Audit(#[from] binnacle_audit::OptionsError),
    #[error("{}{}", .0, if .0.is_in_use() { PORT_IN_USE } else { "" })]
    Listen(#[from] ListenError),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error("{}{}", .0, if matches!(.0, OpenError::Locked { .. }) { STORE_IN_USE } else { "" })]
    Store(#[from] OpenError),
    #[error("cannot read the store: {0}")]
    StoreRead(StoreError),
    #[error("the store has an unfinished migration: run the same 'binnacle migrate' command again to complete it")]
    UnfinishedMigration,
    #[error(transparent)]
    Etcd(#[from] ConnectError),
    #[error(transparent)]
    StandIn(#[from] StandInError),
    #[error(transparent)]
    Encryption(#[from] ConfigError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("no data directory: neither HOME nor XDG_DATA_HOME is set; use --data-dir or --ephemeral")]
    NoPlace,
    #[error(transparent)]
    Authorization(#[from] AuthorizationError),
    #[error("unable to reach kubelets: {0}")]
    Kubelets(#[from] binnacle_kubelet::ConfigError),
    #[error("unable to use the proxy client certificate: {0}")]
    ProxyClient(binnacle_client::IdentityError),
    #[error("error building peer proxy handler, {0}")]
    Peers(String),
    #[error("cannot forward writes (--forward-writes-to): {0}")]
    Writer(String),
    #[error(transparent)]
    TracingConfig(#[from] binnacle_telemetry::traces::ConfigError),
    #[error(transparent)]
    Tracing(#[from] binnacle_telemetry::traces::ExporterError),
    #[error(transparent)]
    Egress(#[from] EgressError),
    #[error("--compare-with: {0}")]
    Shadow(String),
    #[error("API group/version apiregistration.k8s.io/v1 must be enabled")]
    NoRegistration,
    #[error("failed to apply admission: {0}")]
    Admission(#[from] AdmissionConfigError),
    #[error("failed to apply admission: {0}")]
    Manifests(#[from] binnacle_admission_manifests::LoadError),
    #[error("cannot register metrics: {0}")]
    Metrics(String),
    #[error("cannot start the runtime of the listener: {0}")]
    Runtime(std::io::Error),
    #[error(transparent)]
    Signing(#[from] SigningError),
    #[error(transparent)]
    Settings(#[from] SettingsError),
}

const PORT_IN_USE: &str = "; use --secure-port=0 for a free port, or stop the process that uses this one";
const STORE_IN_USE: &str = "; stop that process, or use another --data-dir";

pub(crate) fn not_registered(error: impl std::fmt::Display) -> StartFailure {
    StartFailure::Metrics(error.to_string())
}
