//! The whole server, put together from top to bottom.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use binnacle_authn::{
    Anonymous, Authenticator, Bearer, FailFast, TokenFile, TokenFileError, Union as Authenticators, X509, X509Error,
};
use binnacle_authz::{AlwaysAllow, AlwaysDeny, Authorizer, BootstrapRoles, PrivilegedGroups, Union as Authorizers};
use binnacle_request::{Link, ShutdownTrigger};
use binnacle_server::{
    BoundPort, Chain, ChainConfig, Health, KUBERNETES_VERSION, Links, ListenError, LogCheck, Metrics, MetricsLink,
    PingCheck, Server, ShutdownCheck, TlsError, TlsFiles, VersionLink, json_failure, tls_config,
};
use binnacle_store::Store;
use binnacle_store_embedded::{EmbeddedStore, OpenError, Options};

use crate::data_dir::{DataDir, DataDirError, default_path, write_private};
use crate::flags::{Config, Mode};
use crate::health::StoreCheck;
use crate::kubeconfig::kubeconfig;
use crate::pki::{Names, Pki, PkiError};

/// The reference's `--request-timeout`.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(60);

/// A server that is ready to run.
pub(crate) struct Assembled {
    server: Server,
    store: Arc<EmbeddedStore>,
    data: Option<DataDir>,
    ephemeral: bool,
    url: String,
    /// What of the kubectl command depends on how it was started.
    kubectl: String,
}

/// Why the server cannot start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum StartError {
    #[error(transparent)]
    Tokens(#[from] TokenFileError),
    #[error("unable to load client CA file: {0}")]
    ClientCa(#[from] X509Error),
    #[error("unable to load server certificate: {0}")]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Listen(#[from] ListenError),
    #[error(transparent)]
    DataDir(#[from] DataDirError),
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error(transparent)]
    Pki(#[from] PkiError),
    #[error("cannot write {path}: {error}")]
    Write { path: String, error: std::io::Error },
    #[error("no place for the data: neither HOME nor XDG_DATA_HOME is set, use --data-dir or --ephemeral")]
    NoPlace,
    #[error("cannot register metrics: {0}")]
    Metrics(String),
}

/// Puts the server together. What can fail without a trace comes first: files that were named, then the port, then the
/// data directory, which is removed again if it was not there before and a later step fails.
pub(crate) async fn assemble(config: Config) -> Result<Assembled, StartError> {
    // Files that were named.
    let tokens = config.authentication.token_auth_file.as_deref().map(TokenFile::load).transpose()?;
    let client_ca = config.authentication.client_ca_file.as_deref().map(X509::load).transpose()?;
    let own_clients = client_ca.is_none();
    let named_tls = match &config.serving.tls_files {
        Some((certificate, key)) => Some((TlsFiles::load(certificate, key)?, certificate.clone())),
        None => None,
    };
    if let Some((certificate, key)) = &config.serving.tls_files {
        // Whether they belong together must be known before anything is written.
        tls_config(TlsFiles::load(certificate, key)?, Vec::new())?;
    }

    // The port.
    let port = BoundPort::bind(config.serving.address()).await?;
    let url = format!("https://{}", reachable(port.address()));

    // The data directory and the store, whose lock keeps a second server out.
    let mut data = open_data(&config)?;
    let store = Arc::new(match &data {
        Some(data) if !config.storage.ephemeral => EmbeddedStore::open(Options::new(data.private("store")?))?,
        _ => EmbeddedStore::ephemeral(),
    });

    // The server's own certificates.
    let names = Names::new(config.serving.bind_address, config.misc.service_cluster_ip_ranges[0].nth(1));
    let pki = match &data {
        Some(data) => Pki::open(&data.private("pki")?, &names)?,
        None => Pki::generate(&names)?,
    };
    // Without a data directory there is still a file for kubectl, which goes away with the server.
    let place = match &data {
        Some(_) => None,
        None => Some(DataDir::temporary()?),
    };
    let (tls_files, trusted) = match named_tls {
        Some((files, path)) => (files, read_text(path)?),
        None => (pki.serving_files()?, pki.authority.clone()),
    };
    let home = data.as_ref().or(place.as_ref()).map(|dir| dir.path().to_owned()).ok_or(StartError::NoPlace)?;
    let kubectl = if own_clients {
        let path = home.join("admin.kubeconfig");
        write(&path, &kubeconfig(&url, &trusted, &pki.admin.certificate, &pki.admin.key))?;
        format!("kubectl --kubeconfig {}", path.display())
    } else {
        // The named authority's administrators bring their own certificates.
        let path = home.join("server-ca.crt");
        write(&path, &trusted)?;
        format!("kubectl --server {url} --certificate-authority {}", path.display())
    };

    // Who is calling, and may they.
    let clients = match client_ca {
        Some(clients) => clients,
        None => X509::from_pem("the server's own authority", pki.authority.as_bytes())?,
    };
    let authorities = clients.authority_names();
    let authenticator = authenticator(clients, tokens);
    let authorizer = authorizer(&config.authorization.modes);

    // What is served.
    let (trigger, shutdown) = ShutdownTrigger::new();
    let metrics = Metrics::new().map_err(|error| StartError::Metrics(error.to_string()))?;
    let health = Health::new()
        .everywhere(Arc::new(PingCheck))
        .everywhere(Arc::new(LogCheck::default()))
        .alive(Arc::new(StoreCheck { name: "etcd", store: store.clone() as Arc<dyn Store> }))
        .ready(Arc::new(StoreCheck { name: "etcd-readiness", store: store.clone() as Arc<dyn Store> }))
        .ready(Arc::new(ShutdownCheck(shutdown.clone())));
    let links: Vec<Arc<dyn Link>> =
        vec![Arc::new(health), Arc::new(VersionLink::new(json_failure)), Arc::new(MetricsLink(metrics.clone()))];
    let chain = Chain::new(ChainConfig {
        authenticator,
        authorizer,
        links: Links::new(links),
        failure: json_failure,
        metrics,
        shutdown,
        request_timeout: REQUEST_TIMEOUT,
    });

    let listener = port.with_tls(tls_config(tls_files, authorities)?);
    let server = Server::new(listener, Arc::new(chain), trigger);
    if let Some(data) = &mut data {
        data.keep();
    }
    Ok(Assembled { server, store, data: data.or(place), ephemeral: config.storage.ephemeral, url, kubectl })
}

impl Assembled {
    /// The three lines that a start prints.
    pub(crate) fn greeting(&self) -> String {
        let place = match &self.data {
            Some(data) if !self.ephemeral => data.path().display().to_string(),
            _ => "memory only, gone at the end".to_owned(),
        };
        format!(
            "Kubernetes {KUBERNETES_VERSION} API at {}\nData: {place}\nTry: {} get namespaces\n",
            self.url, self.kubectl
        )
    }

    /// Serves until told to stop.
    pub(crate) async fn run(self, stop: impl Future<Output = ()>) {
        self.server.run(stop).await;
        self.store.close().await;
    }
}

/// The directory for everything that stays, if anything does.
fn open_data(config: &Config) -> Result<Option<DataDir>, StartError> {
    let path = match &config.storage.data_dir {
        Some(path) => path.clone(),
        None if config.storage.ephemeral => return Ok(None),
        None => default_path().ok_or(StartError::NoPlace)?,
    };
    Ok(Some(DataDir::open(&path)?))
}

/// The address under which clients on this machine reach the server.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// Certificates, then tokens; who brings neither is anonymous, who brings a bad one is refused.
fn authenticator(clients: X509, tokens: Option<TokenFile>) -> Arc<dyn Authenticator> {
    let mut known: Vec<Box<dyn Authenticator>> = vec![Box::new(clients)];
    if let Some(tokens) = tokens {
        known.push(Box::new(Bearer::new(tokens)));
    }
    Arc::new(FailFast(Authenticators::new(known), Anonymous::new()))
}

/// The group of administrators first, then the modes in their order.
fn authorizer(modes: &[Mode]) -> Arc<dyn Authorizer> {
    let mut all: Vec<Box<dyn Authorizer>> = vec![Box::new(PrivilegedGroups::masters())];
    for mode in modes {
        match mode {
            Mode::AlwaysAllow => all.push(Box::new(AlwaysAllow)),
            Mode::AlwaysDeny => all.push(Box::new(AlwaysDeny)),
            Mode::Rbac => all.push(Box::new(BootstrapRoles)),
            // The flags let these pass only where they add nothing yet: Node together with RBAC.
            Mode::Node | Mode::Abac | Mode::Webhook => {}
        }
    }
    Arc::new(Authorizers::new(all))
}

fn read_text(path: PathBuf) -> Result<String, StartError> {
    std::fs::read_to_string(&path)
        .map_err(|error| TlsError::Unreadable { path: path.display().to_string(), error }.into())
}

fn write(path: &std::path::Path, text: &str) -> Result<(), StartError> {
    write_private(path, text.as_bytes()).map_err(|error| StartError::Write { path: path.display().to_string(), error })
}
