//! The second phase: keys, authentication and authorization.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_admission::PluginOptions;
use binnacle_egress::Network;
use binnacle_registry::Catalog;
use binnacle_server::{Authentication, Canary};
use binnacle_subresources::OutboundClients;
use binnacle_telemetry::traces::TracingConfig;
use binnacle_transport::Certificates;
use binnacle_webhook::Loopback;
use rustls::client::ResolvesClientCert;

use super::config_files::ConfigFiles;
use super::inputs::{Base, Inputs};
use super::{StartFailure, not_registered, webhooks};
use crate::authentication;
use crate::authority_bundle::Bundle;
use crate::authorization::Authorizers;
use crate::cluster_storage::ClusterStorage;
use crate::issuers::AcceptedIssuers;
use crate::signing::{ExternalKeys, Signing};

pub(super) struct Security {
    pub(super) base: Base,
    pub(super) canary: Arc<Canary>,
    pub(super) storage: ClusterStorage,
    pub(super) plugins: PluginOptions,
    pub(super) external: Option<ExternalKeys>,
    /// The clients for kubelets and servers in the cluster.
    pub(super) outbound_clients: OutboundClients,
    pub(super) proxy_client: Option<Arc<dyn ResolvesClientCert>>,
    pub(super) tracing: Option<TracingConfig>,
    pub(super) catalog: Catalog,
    /// The authorities of clients, and of front proxies.
    pub(super) clients: Bundle,
    pub(super) proxies: Option<Bundle>,
    pub(super) signing: Signing,
    pub(super) issuers: AcceptedIssuers,
    pub(super) authentication: Authentication,
    pub(super) authorization: Authorizers,
    /// The client for the server's requests to itself.
    pub(super) itself: Loopback,
    /// The file with the authorities of the server's certificate, for clients to trust.
    pub(super) authorities: PathBuf,
}

/// The certificates and keys of a cluster.
pub(super) struct ClusterIdentity {
    /// The authorities whose client certificates are accepted.
    pub(super) clients: Bundle,
    /// The cluster's own key for service account tokens, as PEM.
    pub(super) service_account: String,
    /// The certificates of the listener.
    pub(super) serving: Arc<Certificates>,
    /// The prefix of the paths at which the listener serves the cluster; empty for that of the host.
    pub(super) path: String,
    /// The file with the authorities of these certificates, for clients to trust.
    pub(super) authorities: PathBuf,
}

impl Security {
    pub(super) fn prepare(inputs: Inputs, identity: ClusterIdentity) -> Result<Self, StartFailure> {
        let Inputs { base, canary, storage, files, external, plugins } = inputs;
        let ConfigFiles { mut authentication, issuers, authorization, kubelets, proxy_client, tracing, .. } = files;
        let ClusterIdentity { clients, service_account, serving, path, authorities } = identity;
        let proxies = authentication.proxies.clone();
        let flags = &base.config.authentication;
        let catalog = Catalog::new(binnacle_builtin::kinds(), base.features.clone());
        let signing = match &external {
            Some(external) => Signing::from(external.clone()),
            None => authentication.signing(&service_account)?,
        };
        let selected = base.config.debugging.egress_config.is_some().then(|| base.egress.clone());
        let records_fetches = base.features.enabled("StructuredAuthenticationConfigurationJWKSMetrics");
        let issuers = issuers.build(flags, &base.server_name, base.registry(), selected, records_fetches)?;
        let itself = webhooks::itself(&authentication.own_token, &serving).below(path);
        let keys = signing.keys.clone();
        let authentication =
            authentication::build(flags, authentication, &issuers, &clients, keys, &catalog, &base.metrics)?;
        let dialer = base.egress.dialer(Network::ControlPlane);
        let authorization = authorization.build(&catalog, dialer, &base.server_name, base.registry())?;
        let outbound_clients = OutboundClients::new(kubelets, base.registry()).map_err(not_registered)?;
        Ok(Self {
            base,
            canary,
            storage,
            plugins,
            external,
            outbound_clients,
            proxy_client,
            tracing,
            catalog,
            clients,
            proxies,
            signing,
            issuers,
            authentication,
            authorization,
            itself,
            authorities,
        })
    }
}
