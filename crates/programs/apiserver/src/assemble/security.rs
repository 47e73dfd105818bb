//! The second phase: certificates and keys, authentication and authorization.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_admission::PluginOptions;
use binnacle_egress::Network;
use binnacle_pki::{Clock, Renewer, system_clock};
use binnacle_registry::Catalog;
use binnacle_server::Authentication;
use binnacle_subresources::OutboundClients;
use binnacle_telemetry::traces::TracingConfig;
use binnacle_transport::Tls;
use binnacle_webhook::Loopback;
use rustls::client::ResolvesClientCert;

use super::client_access::ClientAccess;
use super::config_files::ConfigFiles;
use super::inputs::{Base, Holdings, Inputs};
use super::{StartFailure, not_registered, webhooks};
use crate::authentication::{self, AuthenticationError, Bundle};
use crate::authorization::Authorizers;
use crate::data_dir::DataDir;
use crate::issuers::AcceptedIssuers;
use crate::signing::{ExternalKeys, Signing};

pub(super) struct Security {
    pub(super) base: Base,
    pub(super) holdings: Holdings,
    pub(super) plugins: PluginOptions,
    pub(super) external: Option<ExternalKeys>,
    /// The clients for kubelets and servers in the cluster.
    pub(super) outbound_clients: OutboundClients,
    pub(super) proxy_client: Option<Arc<dyn ResolvesClientCert>>,
    pub(super) tracing: Option<TracingConfig>,
    pub(super) catalog: Catalog,
    pub(super) tls: Tls,
    /// Renews the server's own certificates and files while it runs.
    pub(super) renewer: Renewer,
    pub(super) clock: Clock,
    /// The authorities of clients, and of front proxies.
    pub(super) clients: Bundle,
    pub(super) proxies: Option<Bundle>,
    pub(super) signing: Signing,
    pub(super) issuers: AcceptedIssuers,
    pub(super) authentication: Authentication,
    pub(super) authorization: Authorizers,
    /// The client for the server's requests to itself.
    pub(super) itself: Loopback,
    pub(super) commands: ClientCommands,
}

/// The files and commands for an administrator.
pub(super) struct ClientCommands {
    /// The administrator's kubeconfig, if client certificates are of the server's own authority.
    pub(super) kubeconfig: Option<PathBuf>,
    pub(super) kubectl: String,
    /// The command that starts controllers.
    pub(super) controllers: String,
    /// The temporary directory of the files, if there is no data directory.
    pub(super) directory: Option<DataDir>,
}

impl Security {
    pub(super) fn prepare(inputs: Inputs) -> Result<Self, StartFailure> {
        let Inputs { base, holdings, files, external, plugins } = inputs;
        let ConfigFiles { mut authentication, issuers, tls, authorization, kubelets, proxy_client, tracing } = files;
        let named_clients = authentication.clients.take();
        let clock = system_clock();
        let access =
            ClientAccess::prepare(tls, named_clients, &base.config, holdings.data.as_ref(), &base.url, &clock)?;
        let ClientAccess { tls, clients, kubeconfig, kubectl, controllers, place, service_account, renewer } = access;
        let proxies = authentication.proxies.clone();
        let flags = &base.config.authentication;
        if let Some(proxies) = &proxies {
            authentication::check_shared_authority(flags, &clients, proxies).map_err(AuthenticationError::from)?;
        }
        let requested = std::iter::once(&clients).chain(&proxies).map(Bundle::names).collect();
        let serving = &base.config.serving;
        let tls = Tls::new(&serving.tls, tls, serving.named.clone(), requested)?;
        let catalog = Catalog::new(binnacle_builtin::kinds(), base.features.clone());
        let signing = match &external {
            Some(external) => Signing::from(external.clone()),
            None => authentication.signing(&service_account)?,
        };
        let selected = base.config.debugging.egress_config.is_some().then(|| base.egress.clone());
        let records_fetches = base.features.enabled("StructuredAuthenticationConfigurationJWKSMetrics");
        let issuers = issuers.build(flags, &base.server_name, base.registry(), selected, records_fetches)?;
        let itself = webhooks::itself(&authentication.own_token, tls.certificates());
        let keys = signing.keys.clone();
        let authentication =
            authentication::build(flags, authentication, &issuers, &clients, keys, &catalog, &base.metrics)?;
        let dialer = base.egress.dialer(Network::ControlPlane);
        let authorization = authorization.build(&catalog, dialer, &base.server_name, base.registry())?;
        let outbound_clients = OutboundClients::new(kubelets, base.registry()).map_err(not_registered)?;
        let commands = ClientCommands { kubeconfig, kubectl, controllers, directory: place };
        Ok(Self {
            base,
            holdings,
            plugins,
            external,
            outbound_clients,
            proxy_client,
            tracing,
            catalog,
            tls,
            renewer,
            clock,
            clients,
            proxies,
            signing,
            issuers,
            authentication,
            authorization,
            itself,
            commands,
        })
    }
}
