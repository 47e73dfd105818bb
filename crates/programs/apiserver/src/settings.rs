//! The settings of a server: plain values, with a file for each group. The program reads them from its flags, an
//! embedding process sets the ones it needs; the defaults are those of the flags.

mod admission;
mod api_enablement;
mod authentication;
mod authorization;
mod debugging;
mod generic;
mod host;
mod misc;
mod serving;
mod storage;
mod values;

use std::net::IpAddr;
use std::path::PathBuf;

pub use binnacle_comparison::ShadowOptions;
use binnacle_controlplane::{EndpointReconciler, default_advertise_address};
use binnacle_features::{Features, Gates};
use binnacle_meta::go_quote;
use binnacle_metrics::ExposedOptions;
use binnacle_resources::{Emulation, EmulationError, ServedResources};
use binnacle_scheme::Release;

pub use admission::Admission;
pub use api_enablement::ApiEnablement;
pub use authentication::{Authentication, Issuers, Oidc, RequestHeader, ServiceAccounts, Webhook};
pub use authorization::{Authorization, Source};
pub use debugging::Debugging;
pub use generic::Generic;
pub use host::{DiskFailure, Host, OnReading};
pub use misc::Misc;
pub use serving::Serving;
pub use storage::{Etcd, Storage, WriterAddress};
pub use values::{Cidr, PortRange};

/// The settings of a server. [`Settings::default`] equals the program without any flag: port 6443 of this machine,
/// objects in the default data directory.
#[derive(Clone, Debug, Default)]
pub struct Settings {
    pub generic: Generic,
    pub debugging: Debugging,
    pub storage: Storage,
    pub serving: Serving,
    pub auditing: binnacle_audit::AuditOptions,
    pub authentication: Authentication,
    pub authorization: Authorization,
    pub api_enablement: ApiEnablement,
    pub admission: Admission,
    /// The metrics that are shown, and their allowed label values.
    pub exposed_metrics: ExposedOptions,
    pub misc: Misc,
    pub host: Host,
}

/// An error of settings that are invalid together.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SettingsError {
    #[error("service IP family {} must match public address family {}", go_quote(.range), go_quote(.advertised))]
    Families { range: String, advertised: String },
    /// An enabled API does not exist in the emulated version.
    #[error(transparent)]
    Emulation(#[from] EmulationError),
}

// === impl Settings: constructors ===

impl Settings {
    /// Returns the settings of a server on a free port of this machine that keeps all objects in memory.
    pub fn ephemeral() -> Self {
        let storage = Storage { ephemeral: true, ..Storage::default() };
        Self { storage, ..Self::default() }.port(0)
    }

    /// Returns the settings of a server on a free port of this machine with its data and kubeconfig in a directory.
    pub fn in_directory(directory: impl Into<PathBuf>) -> Self {
        let storage = Storage { data_dir: Some(directory.into()), ..Storage::default() };
        Self { storage, ..Self::default() }.port(0)
    }

    /// Sets the port for HTTPS; 0 chooses a free one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.serving.secure_port = port;
        self
    }

    /// Sets the feature gates, and the version of Kubernetes to emulate.
    #[must_use]
    pub fn gates(mut self, gates: Gates) -> Self {
        self.generic.gates = gates;
        self
    }

    /// Sets whether containers may be privileged.
    #[must_use]
    pub fn allow_privileged(mut self, allow: bool) -> Self {
        self.misc.allow_privileged = allow;
        self
    }

    /// Sets whether the server hosts logical clusters.
    #[must_use]
    pub fn logical_clusters(mut self, host: bool) -> Self {
        self.misc.logical_clusters = host;
        self
    }
}

// === impl Settings: questions ===

impl Settings {
    /// Returns validated settings, ready for a start.
    pub fn checked(mut self) -> Result<Self, SettingsError> {
        self.check_families(default_advertise_address)?;
        self.served()?;
        // Anonymous requests are refused if every user may do everything.
        self.authentication.anonymous &= !self.authorization.allows_everything();
        Ok(self)
    }

    /// Returns the gates of the server and its permissions.
    pub fn features(&self) -> Features {
        Features {
            gates: self.generic.gates.clone(),
            allow_privileged: self.misc.allow_privileged,
            read_only: self.storage.read_only,
        }
    }

    /// Returns the served built-in resources.
    pub(crate) fn served(&self) -> Result<ServedResources, SettingsError> {
        let (generic, emulated) = (&self.generic, self.generic.emulated());
        let emulation = Emulation {
            release: Release { major: emulated.major, minor: emulated.minor },
            forward: generic.forward_compatible,
            named_forward: generic.named_forward_compatible,
        };
        Ok(ServedResources::new(&self.api_enablement.enabled, emulation, |gate| generic.gates.enabled(gate))?)
    }

    /// Returns the address at which others reach the server; `None` if it has none. `of_host` returns the host's, by
    /// the preferred family (true for IPv6).
    pub(crate) fn public_address(&self, of_host: impl FnOnce(bool) -> Option<IpAddr>) -> Option<IpAddr> {
        let bound = self.serving.bind_address;
        // Endpoints cannot be loopback addresses: a server that listens only there advertises the host's address.
        let listening = Some(bound).filter(|ip| !ip.is_unspecified() && !ip.is_loopback());
        self.generic.advertise_address.or(listening).or_else(|| of_host(bound.is_ipv6()))
    }

    /// Checks that the endpoints of the service `kubernetes` are of its family, as it has only one address.
    fn check_families(&self, of_host: impl FnOnce(bool) -> Option<IpAddr>) -> Result<(), SettingsError> {
        if self.misc.endpoint_reconciler == EndpointReconciler::None {
            return Ok(());
        }
        let (Some(public), Some(range)) = (self.public_address(of_host), self.misc.service_cluster_ip_ranges.first())
        else {
            return Ok(());
        };
        if range.address.is_ipv4() == public.is_ipv4() {
            return Ok(());
        }
        Err(SettingsError::Families { range: range.to_string(), advertised: public.to_string() })
    }
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn rejects_contradicting_settings() {
        let mut settings = Settings::ephemeral();
        assert!(settings.clone().checked().is_ok_and(|checked| checked.authentication.anonymous));
        settings.generic.advertise_address = Some(std::net::Ipv6Addr::LOCALHOST.into());
        let error = settings.clone().checked().map(|_| ()).map_err(|error| error.to_string());
        let want = "service IP family \"10.0.0.0/24\" must match public address family \"::1\"";
        assert_eq!(error, Err(want.to_owned()));
        settings.misc.endpoint_reconciler = EndpointReconciler::None;
        assert!(settings.checked().is_ok());
    }

    #[test]
    fn public_address_matches_family_of_services() {
        // The host has both families.
        let host = |prefers_ipv6: bool| {
            let own: IpAddr = if prefers_ipv6 {
                Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1).into()
            } else {
                Ipv4Addr::new(192, 0, 2, 1).into()
            };
            Some(own)
        };
        for (bound, range, public) in [
            ("127.0.0.1", "10.0.0.0/24", None),
            ("127.0.0.1", "fd00::/112", Some("192.0.2.1")),
            ("0.0.0.0", "fd00::/112", Some("192.0.2.1")),
            ("::", "fd00::/112", None),
            ("::1", "10.0.0.0/24", Some("fd00::1")),
            ("192.0.2.7", "fd00::/112", Some("192.0.2.7")),
            ("fd00::7", "fd00::/112", None),
        ] {
            let mut settings = Settings::ephemeral();
            settings.serving.bind_address = bound.parse().unwrap();
            settings.misc.service_cluster_ip_ranges = vec![range.parse().unwrap()];
            let got = settings.check_families(host).map_err(|error| error.to_string());
            let want = public.map_or(Ok(()), |public| {
                Err(format!("service IP family {range:?} must match public address family {public:?}"))
            });
            assert_eq!(got, want, "{bound} {range}");
        }
        // A host without a network has no address to advertise.
        let mut settings = Settings::ephemeral();
        settings.misc.service_cluster_ip_ranges = vec!["fd00::/112".parse().unwrap()];
        assert!(settings.check_families(|_| None).is_ok());
    }
}
