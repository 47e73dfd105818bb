//! Settings of the cluster for single resources.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::num::NonZeroU64;
use std::path::PathBuf;

use binnacle_api_controllers::Selection;
use binnacle_controllers::Leadership;
use binnacle_controlplane::{Bootstrap, EndpointReconciler};
use binnacle_services::ServiceRouting;

use super::values::{Cidr, PortRange};

#[derive(Clone, Debug)]
pub struct Misc {
    pub allow_privileged: bool,
    /// One or two.
    pub service_cluster_ip_ranges: Vec<Cidr>,
    pub service_node_port_range: PortRange,
    pub leadership: Leadership,
    /// True when the files of `/var/log` are served.
    pub serves_logs: bool,
    /// The maximum rate of an upgraded connection, in each direction.
    pub connection_bytes_per_second: Option<NonZeroU64>,
    pub kubelet: binnacle_kubelet::Config,
    pub endpoint_reconciler: EndpointReconciler,
    pub service_routing: ServiceRouting,
    /// The client certificate and key for servers of aggregated APIs.
    pub proxy_client: Option<(PathBuf, PathBuf)>,
    /// The address of this server for other servers of the cluster, if it differs from the one for clients.
    pub peer_advertised: Option<SocketAddr>,
    /// False for a logical cluster: its requests are not forwarded to other servers.
    pub has_peers: bool,
    /// The file with the authority of the other servers of the cluster.
    pub peer_ca: Option<PathBuf>,
    /// The name to use instead of this machine's.
    pub hostname: Option<String>,
    /// True when redirects of servers of aggregated APIs are refused.
    pub rejects_redirects: bool,
    /// 0 for none.
    pub kubernetes_service_node_port: u16,
    /// True when the server hosts logical clusters.
    pub logical_clusters: bool,
    /// What is known of the objects that every cluster has; only of logical clusters.
    pub bootstrap: Bootstrap,
    /// `--logical-cluster-domain`: each cluster has the host name `NAME.DOMAIN`.
    pub cluster_domain: Option<String>,
    /// The number of logical clusters that may be awake without requests.
    pub max_awake_clusters: usize,
    /// The controllers of kube-controller-manager that run in the server.
    pub controllers: Selection,
}

impl Default for Misc {
    fn default() -> Self {
        let services = Cidr { address: IpAddr::V4(Ipv4Addr::new(10, 0, 0, 0)), prefix: 24 };
        Self {
            allow_privileged: true,
            service_cluster_ip_ranges: vec![services],
            service_node_port_range: PortRange { first: 30000, last: 32767 },
            leadership: Leadership::default(),
            serves_logs: false,
            connection_bytes_per_second: None,
            kubelet: binnacle_kubelet::Config::default(),
            endpoint_reconciler: EndpointReconciler::Lease,
            service_routing: ServiceRouting::ClusterIp,
            proxy_client: None,
            peer_advertised: None,
            has_peers: true,
            peer_ca: None,
            hostname: None,
            rejects_redirects: true,
            kubernetes_service_node_port: 0,
            logical_clusters: false,
            bootstrap: Bootstrap::Unknown,
            cluster_domain: None,
            max_awake_clusters: 500,
            controllers: Selection::default(),
        }
    }
}
