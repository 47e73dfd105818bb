//! The files with the authorities of clients and proxies: a change takes effect at once, and is published for extension
//! API servers, which trust the same authorities.

use std::sync::Arc;

use binnacle_authn::{Authorities, AuthoritiesError};
use binnacle_controlplane::Trust;
use binnacle_request::Shutdown;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::authority_bundle::Bundle;
use crate::{reload, settings};

/// Clients have certificates of an authority for proxies, so that each of them could name any user in headers.
#[derive(Debug, thiserror::Error)]
#[error(
    "--requestheader-client-ca-file and --client-ca-file contain overlapping certificates; --requestheader-allowed-names \
     must be specified to ensure regular client certificates cannot set authenticating proxy headers for arbitrary users"
)]
pub(crate) struct SharedAuthority;

impl SharedAuthority {
    /// Fails if clients and proxies share an authority, unless only proxies with certain names are accepted.
    pub(crate) fn check(restricts_proxies: bool, clients: &Authorities, proxies: &Authorities) -> Result<(), Self> {
        if restricts_proxies || !clients.shares_key_with(proxies) { Ok(()) } else { Err(Self) }
    }
}

/// The error of a changed file that is not used.
#[derive(Debug, thiserror::Error)]
enum RejectedChange {
    #[error(transparent)]
    Authorities(#[from] AuthoritiesError),
    #[error(transparent)]
    Shared(#[from] SharedAuthority),
}

/// The files with the authorities of clients and of proxies. Neither takes effect while both have the same key, unless
/// the names of proxies are given: extension API servers read from the published authorities whom to trust, too.
struct Files {
    bundles: Mutex<Bundles>,
    /// True if only proxies with certain names are accepted.
    restricts_proxies: bool,
}

struct Bundles {
    clients: AuthorityBundle,
    proxies: Option<AuthorityBundle>,
}

/// The authorities of clients or of proxies.
struct AuthorityBundle {
    active: Arc<Authorities>,
    /// The contents of the file that are not active yet, because they share an authority with the other file.
    pending: Option<(Authorities, Vec<u8>)>,
    /// Publishes the active authorities after a change.
    publish: Box<dyn Fn(String) + Send>,
}

/// The purpose of the authorities in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Purpose {
    Clients,
    Proxies,
}

// === impl Files ===

impl Files {
    fn new(clients: AuthorityBundle, proxies: Option<AuthorityBundle>, restricts_proxies: bool) -> Self {
        Self { bundles: Mutex::new(Bundles { clients, proxies }), restricts_proxies }
    }

    /// Applies the new contents of a file, and those of the other file that were waiting for them.
    fn change(&self, purpose: Purpose, pem: &[u8]) -> Result<(), RejectedChange> {
        let mut bundles = self.bundles.lock();
        let Bundles { clients, proxies } = &mut *bundles;
        match (purpose, &mut *proxies) {
            (Purpose::Proxies, Some(proxies)) => proxies.read(pem)?,
            (Purpose::Proxies, None) => {}
            (Purpose::Clients, _) => clients.read(pem)?,
        }
        if let Some(proxies) = proxies {
            SharedAuthority::check(self.restricts_proxies, clients.latest(), proxies.latest())?;
        }
        clients.apply()?;
        if let Some(proxies) = proxies {
            proxies.apply()?;
        }
        Ok(())
    }
}

// === impl AuthorityBundle ===

impl AuthorityBundle {
    fn new(active: &Arc<Authorities>, publish: impl Fn(String) + Send + 'static) -> Self {
        Self { active: active.clone(), pending: None, publish: Box::new(publish) }
    }

    fn read(&mut self, pem: &[u8]) -> Result<(), AuthoritiesError> {
        // The pending contents are no longer in the file.
        self.pending = None;
        self.pending = Some((Authorities::from_pem(self.active.path(), pem)?, pem.to_vec()));
        Ok(())
    }

    fn latest(&self) -> &Authorities {
        self.pending.as_ref().map_or(&*self.active, |(pending, _)| pending)
    }

    fn apply(&mut self) -> Result<(), AuthoritiesError> {
        let Some((_, pem)) = self.pending.take() else { return Ok(()) };
        self.active.replace(&pem)?;
        (self.publish)(String::from_utf8_lossy(&pem).into_owned());
        Ok(())
    }
}

/// Watches the files of authorities in flags until the server ends. `trust` receives the active authorities.
pub(crate) fn watch(
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
    flags: &settings::Authentication,
    (clients, proxies): (&Bundle, Option<&Bundle>),
    trust: &Trust,
) {
    let (of_clients, of_proxies) = (trust.clone(), trust.clone());
    let clients = AuthorityBundle::new(&clients.authorities, move |pem| of_clients.set_clients(pem));
    let proxies =
        proxies.map(|bundle| AuthorityBundle::new(&bundle.authorities, move |pem| of_proxies.set_proxies(pem)));
    let files = Arc::new(Files::new(clients, proxies, flags.restricts_proxies()));
    let of_proxies = flags.request_header.as_ref().map(|header| (Purpose::Proxies, header.client_ca_file.clone()));
    let of_clients = flags.client_ca_file.clone().map(|path| (Purpose::Clients, path));
    for (purpose, path) in of_clients.into_iter().chain(of_proxies) {
        let files = files.clone();
        reload::watch(tasks, path, shutdown, move |pem| files.change(purpose, pem));
    }
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

    fn files(clients: &str, proxies: &str, restricts_proxies: bool) -> (Files, Arc<Authorities>, Arc<Authorities>) {
        let (clients, proxies) = (authorities(clients), authorities(proxies));
        let files = Files::new(
            AuthorityBundle::new(&clients, drop),
            Some(AuthorityBundle::new(&proxies, drop)),
            restricts_proxies,
        );
        (files, clients, proxies)
    }

    #[test]
    fn authorities_with_same_key_are_shared() {
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
    fn change_that_shares_authority_waits() {
        let [a, b, c] = [(); 3].map(|()| authority(&KeyPair::generate().unwrap()));
        let (files, clients, proxies) = files(&a, &b, false);
        let is = |authorities: &Authorities, pem: &str| {
            let other = self::authorities(pem);
            authorities.shares_key_with(&other)
        };
        let error = files.change(Purpose::Proxies, a.as_bytes()).unwrap_err().to_string();
        assert!(error.contains("--requestheader-allowed-names must be specified"), "{error}");
        assert!(is(&clients, &a) && is(&proxies, &b));
        // Once the other file has changed as well, both take effect.
        files.change(Purpose::Clients, b.as_bytes()).unwrap();
        assert!(is(&clients, &b) && is(&proxies, &a));
        // Contents that did not take effect are dropped when the file is corrected.
        assert!(files.change(Purpose::Clients, format!("{b}{a}").as_bytes()).is_err());
        assert!(files.change(Purpose::Clients, b"nothing").is_err());
        files.change(Purpose::Clients, c.as_bytes()).unwrap();
        assert!(is(&clients, &c) && !is(&clients, &a));
    }

    #[test]
    fn named_proxies_may_share_authority_with_clients() {
        let [a, b] = [(); 2].map(|()| authority(&KeyPair::generate().unwrap()));
        let (files, clients, proxies) = files(&a, &b, true);
        files.change(Purpose::Clients, b.as_bytes()).unwrap();
        assert!(clients.shares_key_with(&proxies));
    }
}
