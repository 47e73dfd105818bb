//! `networking.k8s.io`: ingress, network policies, and the address ranges of services.

mod ingress;
mod ingress_class;
mod ip_address;
mod network_policy;
mod service_cidr;

use crate::Entry;

pub(crate) const STRATEGIES: &[Entry] = &[
    ("Ingress", &ingress::Ingress),
    ("IngressClass", &ingress_class::IngressClass),
    ("IPAddress", &ip_address::IpAddress),
    ("NetworkPolicy", &network_policy::NetworkPolicy),
    ("ServiceCIDR", &service_cidr::ServiceCidr),
];
