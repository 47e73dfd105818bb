//! The control plane's settings, from flags.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::time::Duration;

use binnacle_controllers::{Leadership, Queues};
use binnacle_features::Features;
use binnacle_services::ServiceConfig;

use crate::trust::Trust;

/// The settings of the control plane, with the defaults of kube-apiserver's flags.
#[derive(Clone, Debug)]
pub struct Config {
    /// The addresses and ports of services.
    pub services: ServiceConfig,
    /// `--kubernetes-service-node-port`: the node port of the service `kubernetes`; 0 for none.
    pub kubernetes_node_port: u16,
    /// `--endpoint-reconciler-type`.
    pub endpoint_reconciler: EndpointReconciler,
    /// What is known of the objects that every cluster has.
    pub bootstrap: Bootstrap,
    /// `--advertise-address` and `--secure-port`: this server's address for the cluster. Without it the service
    /// `kubernetes` has no endpoint for this server.
    pub advertised: Option<SocketAddr>,
    /// `--peer-advertise-ip` and `--peer-advertise-port`: this server's address for other servers, if it differs.
    pub peer_advertised: Option<SocketAddr>,
    /// False for a logical cluster: its requests are not forwarded to other servers.
    pub has_peers: bool,
    /// `--hostname-override`: the name to use instead of this machine's.
    pub hostname: Option<String>,
    /// The authorities by which clients are authenticated; they are published for extension API servers.
    pub trust: Trust,
    /// `--storage-initialization-timeout`: the maximum time that the start waits for the watch caches.
    pub storage_initialization: Duration,
    /// Metrics of the items that controllers process.
    pub queues: Queues,
    /// Timing of the lease whose holder elects leaders (`--coordinated-leadership-...`).
    pub leadership: Leadership,
}

/// The way in which the endpoints of the service `kubernetes` are written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum EndpointReconciler {
    /// Each server writes them, with a lease on its own entry.
    #[default]
    Lease,
    /// Each server writes them, up to `--apiserver-count` addresses.
    Count(usize),
    /// This server does not write them; another program does.
    None,
}

/// What is known at the start of the objects that every cluster has.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Bootstrap {
    /// Nothing: controllers check all of them first.
    #[default]
    Unknown,
    /// The namespaces, roles, bindings, priority classes and fairness objects were just written.
    Written,
    /// All exist: the cluster continues after sleep.
    Complete,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            services: ServiceConfig::default(),
            kubernetes_node_port: 0,
            endpoint_reconciler: EndpointReconciler::Lease,
            bootstrap: Bootstrap::Unknown,
            advertised: None,
            peer_advertised: None,
            has_peers: true,
            hostname: None,
            trust: Trust::default(),
            storage_initialization: Duration::from_secs(60),
            queues: Queues::default(),
            leadership: Leadership::default(),
        }
    }
}

impl Config {
    /// Returns the address for other servers of the cluster, if the feature gate for forwarding requests to peers is
    /// enabled.
    pub fn peer_address(&self, features: &Features) -> Option<SocketAddr> {
        let is_on = features.enabled("UnknownVersionInteroperabilityProxy");
        self.peer_advertised.or(self.advertised).filter(|_| is_on && self.has_peers)
    }
}

/// Returns the address of the default route's interface, chosen like in kube-apiserver: an address of the preferred
/// family if there is such a route, otherwise of the other family. `None` if there is no route.
pub fn default_advertise_address(prefers_ipv6: bool) -> Option<IpAddr> {
    // Connecting a datagram socket only looks up the route, and sends nothing. The destinations are documentation
    // addresses.
    let own = |any: IpAddr, beyond: IpAddr| {
        let socket = UdpSocket::bind((any, 0)).ok()?;
        socket.connect((beyond, 9)).ok()?;
        let own = socket.local_addr().ok()?.ip();
        (!own.is_unspecified() && !own.is_loopback()).then_some(own)
    };
    let ipv4 = || own(Ipv4Addr::UNSPECIFIED.into(), Ipv4Addr::new(192, 0, 2, 1).into());
    let ipv6 = || own(Ipv6Addr::UNSPECIFIED.into(), Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into());
    if prefers_ipv6 { ipv6().or_else(ipv4) } else { ipv4().or_else(ipv6) }
}
