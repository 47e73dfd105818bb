//! The endpoint of the host: its TLS configuration with the serving certificate, and the files for clients.

use std::path::PathBuf;

use binnacle_controlplane::Trust;
use binnacle_pki::{Clock, Expiry, Renewer, system_clock};
use binnacle_request::Shutdown;
use binnacle_transport::Tls;
use tokio::task::JoinSet;

use super::StartFailure;
use super::client_access::ClientAccess;
use super::inputs::{Holdings, Inputs};
use super::own_certificates::OwnCertificateUsers;
use super::security::ClusterIdentity;
use crate::authentication::{self, AuthenticationError};
use crate::authority_bundle::Bundle;
use crate::data_dir::DataDir;

/// The listener's TLS configuration, and what clients need to reach it.
pub(super) struct Endpoint {
    pub(super) tls: Tls,
    pub(super) commands: ClientCommands,
    /// The file with the authorities of the server's certificate, for clients to trust.
    pub(super) authorities: PathBuf,
    /// Renews the server's own certificates and files while it runs.
    renewer: Renewer,
    clock: Clock,
    clients: Bundle,
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

impl Endpoint {
    /// Reads or creates the certificates and keys of the host, and writes the files for clients. Also returns what the
    /// host's own cluster uses of them.
    pub(super) fn prepare(inputs: &mut Inputs, holdings: &Holdings) -> Result<(Self, ClusterIdentity), StartFailure> {
        let Inputs { base, files, .. } = inputs;
        let (named_clients, clock) = (files.authentication.clients.take(), system_clock());
        let data = holdings.data.as_ref();
        let access = ClientAccess::prepare(files.tls.take(), named_clients, &base.config, data, &base.url, &clock)?;
        let ClientAccess { tls, clients, kubeconfig, kubectl, controllers, authorities, .. } = access;
        let (place, service_account, renewer) = (access.place, access.service_account, access.renewer);
        let (proxies, flags) = (&files.authentication.proxies, &base.config.authentication);
        if let Some(proxies) = proxies {
            authentication::check_shared_authority(flags, &clients, proxies).map_err(AuthenticationError::from)?;
        }
        // Clients choose a certificate by the names of the authorities, which differ between clusters.
        let requested = match base.config.misc.logical_clusters {
            true => Vec::new(),
            false => std::iter::once(&clients).chain(proxies).map(Bundle::names).collect(),
        };
        let serving = &base.config.serving;
        let tls = Tls::new(&serving.tls, tls, serving.named.clone(), requested)?;
        let serving = tls.certificates().clone();
        let identity = ClusterIdentity {
            clients: clients.clone(),
            service_account,
            serving,
            path: String::new(),
            authorities: authorities.clone(),
        };
        let commands = ClientCommands { kubeconfig, kubectl, controllers, directory: place };
        Ok((Self { tls, commands, authorities, renewer, clock, clients }, identity))
    }

    /// Returns the expiry of the serving certificate.
    pub(super) fn expiry(&self) -> Expiry {
        self.renewer.expiry()
    }

    /// Starts to renew certificates. `trust` receives the authorities of clients.
    pub(super) fn start_renewal(
        self,
        trust: &Trust,
        tasks: &mut JoinSet<()>,
        shutdown: &Shutdown,
    ) -> (Tls, ClientCommands) {
        let users = OwnCertificateUsers {
            serving: self.tls.certificates().clone(),
            clients: self.clients.authorities.clone(),
            trust: trust.clone(),
        };
        self.renewer.start(users, self.clock, tasks, shutdown);
        (self.tls, self.commands)
    }
}
