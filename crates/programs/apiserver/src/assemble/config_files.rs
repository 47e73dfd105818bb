//! The files that settings name, read before anything is written.

use std::sync::Arc;

use binnacle_client::{ClientIdentity, ConnectionOptions};
use binnacle_egress::{Egress, Network};
use binnacle_kubelet::Kubelets;
use binnacle_telemetry::traces::TracingConfig;
use binnacle_transport::{DefaultCertificate, Tls};
use rustls::client::ResolvesClientCert;

use super::StartFailure;
use super::client_access::{read_text, serving_pair};
use crate::authentication::AuthenticationFiles;
use crate::authorization::AuthorizationFiles;
use crate::issuers::IssuersConfig;
use crate::settings::Settings;

/// Data read from the files in flags, before anything is changed that could be left behind.
pub(super) struct ConfigFiles {
    pub(super) authentication: AuthenticationFiles,
    pub(super) issuers: IssuersConfig,
    /// The certificate and key, with the text of the certificate file.
    pub(super) tls: Option<(DefaultCertificate, String)>,
    pub(super) authorization: AuthorizationFiles,
    pub(super) kubelets: Kubelets,
    /// The client certificate for servers of aggregated APIs.
    pub(super) proxy_client: Option<Arc<dyn ResolvesClientCert>>,
    pub(super) tracing: Option<TracingConfig>,
}

impl ConfigFiles {
    pub(super) fn load(config: &Settings, egress: &Egress) -> Result<Self, StartFailure> {
        let authentication = AuthenticationFiles::load(&config.authentication, egress)?;
        let issuers = IssuersConfig::load(&config.authentication)?;
        let persisted = config.serving.cert_dir.as_deref().map(serving_pair);
        let persisted = persisted.filter(|files| files.certificate.exists() && files.key.exists());
        let tls = match config.serving.tls_files.clone().or(persisted) {
            None => None,
            Some(files) => {
                // A certificate and a key that do not match must be refused before anything is written.
                let named = config.serving.named.clone();
                Tls::new(&config.serving.tls, DefaultCertificate::Files(files.clone()), named, Vec::new())?;
                let text = read_text(&files.certificate)?;
                Some((DefaultCertificate::Files(files), text))
            }
        };
        let authorization = AuthorizationFiles::load(&config.authorization)?;
        let connection = ConnectionOptions {
            bytes_per_second: config.misc.connection_bytes_per_second,
            dialer: egress.dialer(Network::Cluster),
        };
        let kubelets = Kubelets::new(&config.misc.kubelet)?.by(connection);
        let proxy_client = match &config.misc.proxy_client {
            Some((certificate, key)) => {
                Some(ClientIdentity::load(certificate, key).map_err(StartFailure::ProxyClient)?)
            }
            None => None,
        };
        let proxy_client = proxy_client.map(|identity| Arc::new(identity) as Arc<dyn ResolvesClientCert>);
        let tracing = config.debugging.tracing_config.as_deref().map(TracingConfig::load).transpose()?;
        Ok(Self { authentication, issuers, tls, authorization, kubelets, proxy_client, tracing })
    }
}
