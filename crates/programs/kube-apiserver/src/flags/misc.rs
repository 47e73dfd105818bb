//! Flags for single resources and for the other servers of the cluster.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use binnacle_api_controllers::Selection;
use binnacle_apiserver::settings::{Cidr, Misc, PortRange};
use binnacle_controllers::Leadership;
use binnacle_controlplane::{Bootstrap, EndpointReconciler};
use binnacle_meta::go_quote;
use binnacle_services::ServiceRouting;

use super::parse::FlagSet;
use super::table::{Flag, FlagError, Group, ValueKind};
use super::{FromFlags, generic, kubelet};

pub(super) const GROUP: Group = Group {
    title: "Misc",
    flags: &[
        Flag::new(
            "aggregator-reject-forwarding-redirect",
            ValueKind::Bool,
            "true",
            "Reject redirect responses of aggregated API servers instead of forwarding them to the client.",
        ),
        Flag::new("allow-privileged", ValueKind::Bool, "true", "Allow privileged containers."),
        Flag::new(
            "apiserver-count",
            ValueKind::Value("int"),
            "1",
            "DEPRECATED: number of API servers in the cluster, at least 1, for \
             --endpoint-reconciler-type=master-count.",
        ),
        Flag::new(
            "coordinated-leadership-lease-duration",
            ValueKind::Value("duration"),
            "15s",
            "Duration of the lease for coordinated leader election, after which another server replaces a leader that \
             does not renew it. Must exceed the renew deadline. Needs the feature gate CoordinatedLeaderElection.",
        ),
        Flag::new(
            "coordinated-leadership-renew-deadline",
            ValueKind::Value("duration"),
            "10s",
            "Time for which the leader tries to renew its lease before it gives up leadership. Must exceed the retry \
             period.",
        ),
        Flag::new(
            "coordinated-leadership-retry-period",
            ValueKind::Value("duration"),
            "2s",
            "Interval between attempts to acquire or renew the lease for coordinated leader election.",
        ),
        Flag::new(
            "enable-aggregator-routing",
            ValueKind::Bool,
            "",
            "Send requests for aggregated APIs and webhooks to endpoint IPs of their services instead of the cluster \
             IP.",
        ),
        Flag::new("enable-logs-handler", ValueKind::Bool, "", "DEPRECATED: serve the log files of /var/log at /logs."),
        Flag::new(
            "endpoint-reconciler-type",
            ValueKind::Value("string"),
            "lease",
            "Endpoint reconciler of the service 'kubernetes': lease (each server renews a lease for its address), \
             master-count (deprecated: as many addresses as --apiserver-count), or none (another component maintains \
             the endpoints).",
        ),
        Flag::new(
            "hostname-override",
            ValueKind::Value("string"),
            "",
            "Host name for the identity of this server among the API servers of a cluster, instead of that of the \
             host. Needed for several servers on one host.",
        ),
        kubelet::AUTHORITY,
        kubelet::CERTIFICATE,
        kubelet::KEY,
        kubelet::PORT,
        kubelet::ADDRESS_TYPES,
        kubelet::READ_ONLY_PORT,
        kubelet::TIMEOUT,
        Flag::new(
            "kubernetes-service-node-port",
            ValueKind::Value("int"),
            "0",
            "Node port of the service 'kubernetes', within --service-node-port-range; the service is then of type \
             NodePort. 0 means type ClusterIP.",
        ),
        Flag::new(
            "logical-cluster-domain",
            ValueKind::Value("string"),
            "",
            "Domain of logical clusters: each is served at https://NAME.DOMAIN as well, by the host name that the client \
             sends in the TLS handshake (SNI) or in the Host header. The name *.DOMAIN must lead to this server. A serving \
             certificate that the server creates has this name.",
        ),
        Flag::new(
            "logical-clusters",
            ValueKind::Bool,
            "",
            "Host logical clusters: each object of the resource logicalclusters is a Kubernetes API of its own, served \
             below /clusters/NAME.",
        ),
        Flag::new(
            "max-awake-logical-clusters",
            ValueKind::Value("int"),
            "500",
            "Maximum number of logical clusters that are awake without requests. Beyond it, those unused for the longest \
             time are stopped until their next request.",
        ),
        Flag::new(
            "max-connection-bytes-per-sec",
            ValueKind::Value("int"),
            "0",
            "Maximum bytes per second, in each direction, of an upgraded connection to a kubelet, pod or service \
             (exec, attach, port-forward, proxy). 0 means no limit.",
        ),
        Flag::new(
            "peer-advertise-ip",
            ValueKind::Value("string"),
            "",
            "IP address at which other API servers of the cluster proxy requests to this one, together with \
             --peer-advertise-port. If not set, --advertise-address. Needs the feature gate \
             UnknownVersionInteroperabilityProxy.",
        ),
        Flag::new(
            "peer-advertise-port",
            ValueKind::Value("string"),
            "",
            "Port for --peer-advertise-ip, from 1 to 65535.",
        ),
        Flag::new(
            "peer-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the certificate authorities for the serving certificates of other API servers. If set, \
             requests for resources that this server does not serve are proxied to one that does. Needs the feature \
             gate UnknownVersionInteroperabilityProxy.",
        ),
        Flag::new(
            "proxy-client-cert-file",
            ValueKind::Value("string"),
            "",
            "File with the client certificate with which the aggregator authenticates to aggregated (extension) API \
             servers. Requires --proxy-client-key-file. It is reloaded when it changes.",
        ),
        Flag::new(
            "proxy-client-key-file",
            ValueKind::Value("string"),
            "",
            "File with the private key of --proxy-client-cert-file.",
        ),
        Flag::new(
            "run-controllers",
            ValueKind::Value("strings"),
            "",
            "Controllers of kube-controller-manager to run inside this server: 'foo' runs the controller 'foo', '*' runs \
             all that the server has, '-foo' excludes one of them. They act while no other process holds the lease \
             kube-system/kube-controller-manager. Empty for none.",
        ),
        Flag::new(
            "service-cluster-ip-range",
            ValueKind::Value("string"),
            "10.0.0.0/24",
            "CIDR range of the cluster IPs of services, of at least 8 addresses. For dual-stack, two ranges of \
             different IP families, comma-separated.",
        ),
        Flag::new(
            "service-node-port-range",
            ValueKind::Value("portRange"),
            "30000-32767",
            "Port range of services of type NodePort, including both ends: low-high or low+count.",
        ),
        Flag::new(
            "stop-with-stdin",
            ValueKind::Bool,
            "",
            "Stop when standard input ends, as after SIGTERM. A parent process that keeps the other end of a pipe \
             open then stops the server with itself.",
        ),
    ],
};

/// The minimum: the kubernetes service needs an address, and the first and the last one are reserved.
const MIN_SERVICE_BITS: u8 = 3;
const MAX_BITMAP_BITS: u8 = 20;

impl FromFlags for Misc {
    fn read(flags: &FlagSet) -> Result<Self, FlagError> {
        let ports: PortRange = flags.parsed("service-node-port-range")?;
        Ok(Self {
            kubernetes_service_node_port: kubernetes_node_port(flags, ports)?,
            logical_clusters: logical_clusters(flags)?,
            bootstrap: Bootstrap::Unknown,
            cluster_domain: cluster_domain(flags)?,
            max_awake_clusters: max_awake_clusters(flags)?,
            controllers: controllers(flags)?,
            allow_privileged: flags.flag("allow-privileged")?,
            service_cluster_ip_ranges: service_ranges(flags)?,
            service_node_port_range: ports,
            leadership: leadership(flags)?,
            serves_logs: flags.flag("enable-logs-handler")?,
            // A negative value means no limit, as in Go.
            connection_bytes_per_second: u64::try_from(flags.integer("max-connection-bytes-per-sec")?)
                .ok()
                .and_then(NonZeroU64::new),
            kubelet: kubelet::read(flags)?,
            endpoint_reconciler: endpoint_reconciler(flags)?,
            service_routing: match flags.flag("enable-aggregator-routing")? {
                true => ServiceRouting::Endpoints,
                false => ServiceRouting::ClusterIp,
            },
            // One of the two flags alone has no effect, as in Go.
            proxy_client: flags
                .text("proxy-client-cert-file")
                .zip(flags.text("proxy-client-key-file"))
                .map(|(certificate, key)| (certificate.into(), key.into())),
            peer_advertised: peer_advertised(flags)?,
            has_peers: true,
            peer_ca: flags.text("peer-ca-file").map(PathBuf::from),
            hostname: flags.text("hostname-override").map(str::to_owned),
            rejects_redirects: flags.flag("aggregator-reject-forwarding-redirect")?,
        })
    }
}

/// A server that only reads its store cannot write the objects of logical clusters.
fn logical_clusters(flags: &FlagSet) -> Result<bool, FlagError> {
    let enabled = flags.flag("logical-clusters")?;
    if enabled && flags.flag("read-only")? {
        return Err(FlagError::new("--logical-clusters cannot be used with --read-only"));
    }
    Ok(enabled)
}

/// Reads the domain of logical clusters. The name of a cluster is one more label of it.
fn cluster_domain(flags: &FlagSet) -> Result<Option<String>, FlagError> {
    let Some(domain) = flags.text("logical-cluster-domain") else { return Ok(None) };
    if !flags.flag("logical-clusters")? {
        return Err(FlagError::new("--logical-cluster-domain needs --logical-clusters"));
    }
    let domain = domain.to_ascii_lowercase();
    let errors = binnacle_validation::names::dns1123_subdomain(&domain);
    match errors.first() {
        None => Ok(Some(domain)),
        Some(error) => Err(FlagError::new(format!("--logical-cluster-domain: {error}"))),
    }
}

/// A server that only reads its store cannot run controllers.
fn controllers(flags: &FlagSet) -> Result<Selection, FlagError> {
    let items = flags.list("run-controllers");
    if !items.is_empty() && flags.flag("read-only")? {
        return Err(FlagError::new("--run-controllers cannot be used with --read-only"));
    }
    let selection = Selection::parse(items.iter().map(String::as_str));
    selection.map_err(|error| FlagError::new(format!("--run-controllers: {error}")))
}

fn max_awake_clusters(flags: &FlagSet) -> Result<usize, FlagError> {
    let count = flags.integer("max-awake-logical-clusters")?;
    usize::try_from(count).map_err(|_| FlagError::new("--max-awake-logical-clusters must not be negative"))
}

/// Reads the advertised address of peers, which needs both flags.
fn peer_advertised(flags: &FlagSet) -> Result<Option<SocketAddr>, FlagError> {
    let (ip, Some(port)) = (flags.ip("peer-advertise-ip")?, flags.text("peer-advertise-port")) else { return Ok(None) };
    let number = port.parse().ok().filter(|port| *port != 0);
    let number =
        number.ok_or_else(|| FlagError::new(format!("--peer-advertise-port {} is not a port", go_quote(port))))?;
    Ok(ip.map(|ip| SocketAddr::new(ip, number)))
}

fn leadership(flags: &FlagSet) -> Result<Leadership, FlagError> {
    let leadership = Leadership {
        lease_duration: flags.duration("coordinated-leadership-lease-duration")?,
        renew_deadline: flags.duration("coordinated-leadership-renew-deadline")?,
        retry_period: flags.duration("coordinated-leadership-retry-period")?,
    };
    let order = |longer: (&str, Duration), shorter: (&str, Duration)| {
        (longer.1 <= shorter.1).then(|| {
            format!("--coordinated-leadership-{} must be greater than --coordinated-leadership-{}", longer.0, shorter.0)
        })
    };
    let renew = ("renew-deadline", leadership.renew_deadline);
    let wrong = [
        order(("lease-duration", leadership.lease_duration), renew),
        order(renew, ("retry-period", leadership.retry_period)),
    ];
    match wrong {
        [None, None] => Ok(leadership),
        [Some(one), None] | [None, Some(one)] => Err(FlagError::new(one)),
        [Some(one), Some(other)] => Err(FlagError::new(format!("[{one}, {other}]"))),
    }
}

fn kubernetes_node_port(flags: &FlagSet, ports: PortRange) -> Result<u16, FlagError> {
    let number = flags.integer("kubernetes-service-node-port")?;
    let port = u16::try_from(number).map_err(|_| {
        FlagError::new(format!(
            "--kubernetes-service-node-port {number} must be between 0 and 65535, inclusive. If 0, the Kubernetes master service \
             will be of type ClusterIP"
        ))
    })?;
    if port != 0 && !(ports.first..=ports.last).contains(&port) {
        return Err(FlagError::new(format!("kubernetes service node port range {ports} doesn't contain {port}")));
    }
    Ok(port)
}

fn endpoint_reconciler(flags: &FlagSet) -> Result<EndpointReconciler, FlagError> {
    let count = flags.integer("apiserver-count")?;
    let positive = usize::try_from(count).ok().filter(|count| *count > 0).ok_or_else(|| {
        FlagError::new(format!("--apiserver-count should be a positive number, but value '{count}' provided"))
    })?;
    match flags.text("endpoint-reconciler-type").unwrap_or("lease") {
        "lease" => Ok(EndpointReconciler::Lease),
        "master-count" => Ok(EndpointReconciler::Count(positive)),
        "none" => Ok(EndpointReconciler::None),
        other => Err(FlagError::new(format!("Reconciler not implemented: {other}"))),
    }
}

fn service_ranges(flags: &FlagSet) -> Result<Vec<Cidr>, FlagError> {
    let parts: Vec<&str> = flags.text("service-cluster-ip-range").unwrap_or_default().split(',').collect();
    if parts.len() > 2 {
        return Err(FlagError::new("--service-cluster-ip-range must not contain more than two entries"));
    }
    let mut ranges: Vec<Cidr> = Vec::new();
    for part in parts {
        let range: Cidr = part.trim().parse().map_err(|_| {
            let what = if ranges.is_empty() { "[0] is not a valid cidr" } else { "[1] is not an ip net" };
            FlagError::new(format!("service-cluster-ip-range{what}"))
        })?;
        ranges.push(range);
    }
    for (range, place) in ranges.iter().zip(["primary", "secondary"]) {
        let bits = range.bits();
        if bits - range.prefix < MIN_SERVICE_BITS {
            return Err(FlagError::new(format!(
                "error determining service IP ranges for {place} service cidr: the service cluster IP range must be at least 8 \
                 IP addresses"
            )));
        }
    }
    if let [first, second] = ranges.as_slice()
        && first.bits() == second.bits()
    {
        return Err(FlagError::new(
            "--service-cluster-ip-range[0] and --service-cluster-ip-range[1] must be of different IP family",
        ));
    }
    // Allocators that keep a bitmap in the store bound its size.
    let gates = generic::gates(flags)?;
    let bitmaps = !gates.enabled("MultiCIDRServiceAllocator") || !gates.enabled("DisableAllocatorDualWrite");
    for (range, place) in ranges.iter().zip(["", "[1]"]).filter(|_| bitmaps) {
        let bits = range.bits();
        if bits - range.prefix > MAX_BITMAP_BITS {
            return Err(FlagError::new(format!(
                "specified --service-cluster-ip-range{place} is too large; for {bits}-bit addresses, the mask must be >= {}",
                bits - MAX_BITMAP_BITS
            )));
        }
    }
    Ok(ranges)
}
