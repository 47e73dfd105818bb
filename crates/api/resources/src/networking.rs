//! `networking.k8s.io`: ingresses, network policies, and the ranges of services' IP addresses.

use binnacle_scheme::{
    GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, cluster, namespaced, shared,
};

pub(crate) fn group() -> GroupDescription {
    GroupDescription {
        name: NAME,
        priority: 17200,
        versions: vec![
            VersionDescription {
                version: "v1",
                priority: 15,
                served_by_default: true,
                resources: shared![
                    cluster!(NAME, "v1", "ingressclasses", "ingressclass", "IngressClass").since(19),
                    namespaced!(NAME, "v1", "ingresses", "ingress", "Ingress")
                        .short(&["ing"])
                        .key_prefix("ingress")
                        .resets(&["status"])
                        .subresources(&[SubresourceDescription::status(&["spec"])])
                        .since(19),
                    ip_addresses("v1").since(33),
                    namespaced!(NAME, "v1", "networkpolicies", "networkpolicy", "NetworkPolicy")
                        .short(&["netpol"])
                        .since(7),
                    service_cidrs("v1").since(33),
                ],
            },
            VersionDescription {
                version: "v1beta1",
                priority: 9,
                served_by_default: false,
                resources: shared![
                    ip_addresses("v1beta1").since(31).deprecated(34).removed(37),
                    service_cidrs("v1beta1").since(31).deprecated(34).removed(37),
                ],
            },
        ],
    }
}

const NAME: &str = "networking.k8s.io";

fn ip_addresses(version: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "ipaddresses", "ipaddress", "IPAddress").short(&["ip"]).stored_in("v1")
}

fn service_cidrs(version: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "servicecidrs", "servicecidr", "ServiceCIDR")
        .stored_in("v1")
        .resets(&["status"])
        .subresources(service_cidr_status())
}

fn service_cidr_status() -> Vec<SubresourceDescription> {
    vec![SubresourceDescription::status(&["metadata", "spec"])]
}
