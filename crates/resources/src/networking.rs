//! `networking.k8s.io`: ingress, network policies, and the addresses services draw from.

use crate::description::{
    GroupDescription, ResourceDescription, SubresourceDescription, VersionDescription, cluster, namespaced,
};

pub(crate) static GROUP: GroupDescription = GroupDescription {
    name: NAME,
    priority: 17200,
    versions: &[
        VersionDescription {
            version: "v1",
            priority: 15,
            served_by_default: true,
            resources: &[
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
            resources: &[
                ip_addresses("v1beta1").since(31).deprecated(34).removed(37),
                service_cidrs("v1beta1").since(31).deprecated(34).removed(37),
            ],
        },
    ],
};

const NAME: &str = "networking.k8s.io";

const fn ip_addresses(version: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "ipaddresses", "ipaddress", "IPAddress").short(&["ip"]).stored_in("v1")
}

const fn service_cidrs(version: &'static str) -> ResourceDescription {
    cluster!(NAME, version, "servicecidrs", "servicecidr", "ServiceCIDR")
        .stored_in("v1")
        .resets(&["status"])
        .subresources(SERVICE_CIDR_STATUS)
}

const SERVICE_CIDR_STATUS: &[SubresourceDescription] = &[SubresourceDescription::status(&["metadata", "spec"])];
