//! The authorities by which this server authenticates clients and front proxies.

use std::sync::Arc;

use tokio::sync::watch;

/// The authorities that this server currently trusts, which it publishes for extension API servers.
#[derive(Clone, Debug, Default)]
pub struct Trust(Arc<watch::Sender<TrustedAuthorities>>);

#[derive(Clone, Debug, Default)]
pub(crate) struct TrustedAuthorities {
    /// `--client-ca-file`: the PEM text of the authorities whose client certificates are accepted.
    pub(crate) clients: Option<String>,
    /// The settings of the `--requestheader-...` flags, if their authority is set.
    pub(crate) proxies: Option<RequestHeader>,
}

impl Trust {
    /// Creates the trust in the authorities of clients and of front proxies.
    pub fn new(clients: Option<String>, proxies: Option<RequestHeader>) -> Self {
        Self(Arc::new(watch::Sender::new(TrustedAuthorities { clients, proxies })))
    }

    /// Replaces the authorities of clients.
    pub fn set_clients(&self, pem: String) {
        self.0.send_modify(|trusted| trusted.clients = Some(pem));
    }

    /// Replaces the authorities of front proxies, if there are any.
    pub fn set_proxies(&self, pem: String) {
        self.0.send_modify(|trusted| {
            if let Some(header) = &mut trusted.proxies {
                header.client_ca = pem;
            }
        });
    }

    pub(crate) fn subscribe(&self) -> watch::Receiver<TrustedAuthorities> {
        self.0.subscribe()
    }
}

/// The headers in which front proxies send the user.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RequestHeader {
    /// The PEM text of `--requestheader-client-ca-file`.
    pub client_ca: String,
    pub allowed_names: Vec<String>,
    pub username_headers: Vec<String>,
    pub uid_headers: Vec<String>,
    pub group_headers: Vec<String>,
    pub extra_header_prefixes: Vec<String>,
}
