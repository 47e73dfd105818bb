//! Flags of the cluster that single resources use.

use std::net::SocketAddr;
use std::num::NonZeroU64;
use std::path::PathBuf;
use std::time::Duration;

use binnacle_apiserver::settings::{Cidr, Misc, PortRange};
use binnacle_controlplane::{EndpointReconciler, Leadership};
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
            "Whether redirects of servers of aggregated APIs are refused rather than passed on to clients.",
        ),
        Flag::new("allow-privileged", ValueKind::Bool, "true", "Whether containers may be privileged."),
        Flag::new(
            "apiserver-count",
            ValueKind::Value("int"),
            "1",
            "DEPRECATED: Number of servers in the cluster, for --endpoint-reconciler-type=master-count.",
        ),
        Flag::new(
            "coordinated-leadership-lease-duration",
            ValueKind::Value("duration"),
            "15s",
            "How long the server that elects leaders keeps that part without renewing its lease. Needs the feature gate \
             CoordinatedLeaderElection.",
        ),
        Flag::new(
            "coordinated-leadership-renew-deadline",
            ValueKind::Value("duration"),
            "10s",
            "How long it tries to renew its lease before it gives up.",
        ),
        Flag::new(
            "coordinated-leadership-retry-period",
            ValueKind::Value("duration"),
            "2s",
            "How often it renews its lease, and others try to get it.",
        ),
        Flag::new(
            "enable-aggregator-routing",
            ValueKind::Bool,
            "",
            "Whether services of aggregated APIs and of webhooks are reached at one of their endpoints rather than at their \
             cluster IP.",
        ),
        Flag::new("enable-logs-handler", ValueKind::Bool, "", "DEPRECATED: Serve the files of /var/log at /logs."),
        Flag::new(
            "endpoint-reconciler-type",
            ValueKind::Value("string"),
            "lease",
            "Who keeps the endpoints of the service kubernetes: each server with a lease on its own entry (lease), each as long \
             as there are no more than --apiserver-count (master-count, deprecated), or somebody else (none).",
        ),
        Flag::new(
            "hostname-override",
            ValueKind::Value("string"),
            "",
            "Name that is used instead of that of this machine for the server's identity among the servers of a cluster: for \
             several of them on one machine.",
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
            "Port of nodes at which the service kubernetes is reached; 0 for none.",
        ),
        Flag::new(
            "max-connection-bytes-per-sec",
            ValueKind::Value("int"),
            "0",
            "The most bytes a second, each way, of a connection to a kubelet, pod or service that was upgraded; 0 for no limit.",
        ),
        Flag::new(
            "peer-advertise-ip",
            ValueKind::Value("string"),
            "",
            "Address at which other servers of the cluster reach this one, together with --peer-advertise-port, to hand on \
             requests for what they lack. --advertise-address by default.",
        ),
        Flag::new("peer-advertise-port", ValueKind::Value("string"), "", "Port that belongs to --peer-advertise-ip."),
        Flag::new(
            "peer-ca-file",
            ValueKind::Value("string"),
            "",
            "File with the authorities that sign the certificates of all servers of the cluster. With it, requests for what this \
             server lacks are handed on to one that has it.",
        ),
        Flag::new(
            "proxy-client-cert-file",
            ValueKind::Value("string"),
            "",
            "File with the certificate that is shown to servers of aggregated APIs, by which they know this server. It is read \
             again when it changes.",
        ),
        Flag::new(
            "proxy-client-key-file",
            ValueKind::Value("string"),
            "",
            "File with the private key that belongs to --proxy-client-cert-file.",
        ),
        Flag::new(
            "service-cluster-ip-range",
            ValueKind::Value("string"),
            "10.0.0.0/24",
            "Range from which services get their addresses; two of different families, separated by a comma, for dual-stack.",
        ),
        Flag::new(
            "service-node-port-range",
            ValueKind::Value("portRange"),
            "30000-32767",
            "Ports for services of type NodePort, both ends included.",
        ),
        Flag::new(
            "stop-with-stdin",
            ValueKind::Bool,
            "",
            "Stop when standard input ends, as after SIGTERM. A program that starts the server and keeps the other end of a pipe \
             takes the server along when it dies.",
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
            peer_ca: flags.text("peer-ca-file").map(PathBuf::from),
            hostname: flags.text("hostname-override").map(str::to_owned),
            rejects_redirects: flags.flag("aggregator-reject-forwarding-redirect")?,
        })
    }
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
