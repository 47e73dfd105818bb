//! The files with the authorities of clients and proxies: a change takes effect at once, and is published for extension
//! API servers, which trust the same authorities.

use std::sync::Arc;

use binnacle_authn::{Authorities, AuthoritiesError};
use binnacle_controlplane::{Config, RequestHeader, publish_authentication};
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::authentication::Bundle;
use crate::{reload, settings};

/// Clients have certificates of an authority for proxies, so that each of them could name any user in headers.
#[derive(Debug, thiserror::Error)]
#[error(
    "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names \
     must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
)]
pub(crate) struct SharedAuthority;

/// Why a changed file is not used.
#[derive(Debug, thiserror::Error)]
enum Refused {
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    #[error(transparent)]
    Shared(#[from] SharedAuthority),
}

/// The authorities of clients and of proxies. Neither file takes effect while both have the same key, unless the names of
/// proxies are given: extension API servers read from the published authorities whom to trust, too.
struct Trust {
    sides: Mutex<Sides>,
    /// True if proxies are known by their names.
    names_proxies: bool,
}

struct Sides {
    clients: Side,
    proxies: Option<Side>,
}

/// The authorities of clients or of proxies.
struct Side {
    in_force: Arc<Authorities>,
    /// The contents of the file that are not in force yet, since they have a key of the other side.
    waiting: Option<(Authorities, Vec<u8>)>,
    /// Returns the settings to publish after a change.
    published: Box<dyn Fn(String) -> Config + Send>,
}

/// The purpose of the authorities in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Clients,
    Proxies,
}

// === impl Trust ===

impl Trust {
    fn new(clients: Arc<Authorities>, proxies: Option<(Arc<Authorities>, RequestHeader)>) -> Self {
        let names_proxies = proxies.as_ref().is_some_and(|(_, header)| !header.allowed_names.is_empty());
        let proxies = proxies.map(|(authorities, header)| {
            Side::new(authorities, move |pem| {
                let header = RequestHeader { client_ca: pem, ..header.clone() };
                Config { request_header: Some(header), ..Config::default() }
            })
        });
        Self { sides: Mutex::new(Sides { clients: Side::new(clients, of_clients), proxies }), names_proxies }
    }

    /// Takes the new contents of a file, and returns the settings to publish. Contents of the other file that waited for
    /// these take effect with them.
    fn change(&self, purpose: Purpose, pem: &[u8]) -> Result<Vec<Config>, Refused> {
        let mut sides = self.sides.lock();
        let Sides { clients, proxies } = &mut *sides;
        match (purpose, &mut *proxies) {
            (Purpose::Proxies, Some(proxies)) => proxies.read(pem)?,
            (Purpose::Proxies, None) => {}
            (Purpose::Clients, _) => clients.read(pem)?,
        }
        let shared = proxies.as_ref().is_some_and(|proxies| clients.latest().shares_key_with(proxies.latest()));
        if shared && !self.names_proxies {
            return Err(SharedAuthority.into());
        }
        let mut published: Vec<Config> = clients.apply()?.into_iter().collect();
        if let Some(proxies) = proxies {
            published.extend(proxies.apply()?);
        }
        Ok(published)
    }
}

// === impl Side ===

impl Side {
    fn new(in_force: Arc<Authorities>, published: impl Fn(String) -> Config + Send + 'static) -> Self {
        Self { in_force, waiting: None, published: Box::new(published) }
    }

    fn read(&mut self, pem: &[u8]) -> Result<(), AuthoritiesError> {
        // What waited is not in the file any more, whatever is there now.
        self.waiting = None;
        self.waiting = Some((Authorities::from_pem(self.in_force.path(), pem)?, pem.to_vec()));
        Ok(())
    }

    fn latest(&self) -> &Authorities {
        self.waiting.as_ref().map_or(&*self.in_force, |(waiting, _)| waiting)
    }

    fn apply(&mut self) -> Result<Option<Config>, AuthoritiesError> {
        let Some((_, pem)) = self.waiting.take() else { return Ok(None) };
        self.in_force.replace(&pem)?;
        Ok(Some((self.published)(String::from_utf8_lossy(&pem).into_owned())))
    }
}

/// Follows the files of authorities in flags until the server ends. `proxies` have the settings that are published.
pub(crate) fn follow(
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
    flags: &settings::Authentication,
    clients: &Bundle,
    proxies: Option<(&Bundle, &RequestHeader)>,
    resources: &Catalog,
) {
    let proxies = proxies.map(|(bundle, header)| (bundle.authorities.clone(), header.clone()));
    let trust = Arc::new(Trust::new(clients.authorities.clone(), proxies));
    let of_proxies = flags.request_header.as_ref().map(|header| (Purpose::Proxies, header.client_ca_file.clone()));
    let of_clients = flags.client_ca_file.clone().map(|path| (Purpose::Clients, path));
    for (purpose, path) in of_clients.into_iter().chain(of_proxies) {
        let (trust, resources) = (trust.clone(), resources.clone());
        reload::follow(tasks, path, shutdown, move |pem| {
            for config in trust.change(purpose, pem)? {
                let resources = resources.clone();
                tokio::spawn(async move {
                    if let Err(status) = publish_authentication(&resources, &config).await {
                        tracing::error!("cannot publish changed authorities: {}", status.message());
                    }
                });
            }
            Ok::<_, Refused>(())
        });
    }
}

/// Returns the settings to publish for the authorities of clients.
pub(crate) fn of_clients(pem: String) -> Config {
    Config { client_ca: Some(pem), ..Config::default() }
}

#[cfg(test)]
mod tests {
    use rcgen::{BasicConstraints, CertificateParams, IsCa, KeyPair};

    use super::*;

    /// Returns an authority of this key.
    fn authority(key: &KeyPair) -> String {
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.self_signed(key).unwrap().pem()
    }

    fn authorities(pem: &str) -> Arc<Authorities> {
        Arc::new(Authorities::from_pem("bundle", pem.as_bytes()).unwrap())
    }

    fn trust(clients: &str, proxies: &str, names: &[&str]) -> (Trust, Arc<Authorities>, Arc<Authorities>) {
        let (clients, proxies) = (authorities(clients), authorities(proxies));
        let allowed_names = names.iter().map(ToString::to_string).collect();
        let header = RequestHeader { allowed_names, ..RequestHeader::default() };
        (Trust::new(clients.clone(), Some((proxies.clone(), header))), clients, proxies)
    }

    #[test]
    fn the_key_decides() {
        let keys = [(); 2].map(|()| KeyPair::generate().unwrap());
        let [a, b] = keys.each_ref().map(authority);
        // Another certificate of the same authority.
        let renewed = authority(&keys[0]);
        assert_ne!(a, renewed);
        let both = format!("{b}{renewed}");
        for (one, other, want) in [(&a, &a, true), (&a, &renewed, true), (&a, &b, false), (&a, &both, true)] {
            assert_eq!(authorities(one).shares_key_with(&authorities(other)), want);
            assert_eq!(authorities(other).shares_key_with(&authorities(one)), want);
        }
    }

    #[test]
    fn a_change_that_makes_clients_proxies_waits() {
        let [a, b, c] = [(); 3].map(|()| authority(&KeyPair::generate().unwrap()));
        let (trust, clients, proxies) = trust(&a, &b, &[]);
        let is = |authorities: &Authorities, pem: &str| {
            let other = self::authorities(pem);
            authorities.shares_key_with(&other)
        };
        let error = trust.change(Purpose::Proxies, a.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("--requestheader-allowed-names must be specified"), "{error}");
        assert!(is(&clients, &a) && is(&proxies, &b));
        // Once the other file has changed as well, both take effect.
        let published = trust.change(Purpose::Clients, b.as_bytes()).unwrap();
        assert_eq!(published.len(), 2);
        assert!(is(&clients, &b) && is(&proxies, &a));
        // What does not take effect is not kept when the file is corrected.
        assert!(trust.change(Purpose::Clients, format!("{b}{a}").as_bytes()).is_err());
        assert!(trust.change(Purpose::Clients, b"nothing").is_err());
        assert_eq!(trust.change(Purpose::Clients, c.as_bytes()).unwrap().len(), 1);
        assert!(is(&clients, &c) && !is(&clients, &a));
    }

    #[test]
    fn proxies_with_names_may_have_the_authority_of_clients() {
        let [a, b] = [(); 2].map(|()| authority(&KeyPair::generate().unwrap()));
        let (trust, clients, proxies) = trust(&a, &b, &["front"]);
        assert_eq!(trust.change(Purpose::Clients, b.as_bytes()).unwrap().len(), 1);
        assert!(clients.shares_key_with(&proxies));
    }
}
