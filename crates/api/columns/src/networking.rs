//! The networking group.

use binnacle_fields::FieldRef;
use binnacle_fields::networking::v1::{
    IPAddress, IPAddressSpec, Ingress, IngressClass, IngressClassParametersReference as Parameters, IngressClassSpec,
    IngressLoadBalancerStatus, IngressRule, IngressSpec, IngressStatus, NetworkPolicy, NetworkPolicySpec,
    ParentReference, ServiceCIDR, ServiceCIDRSpec,
};
use binnacle_fields::types::List;

use crate::Now;
use crate::columns::{Cells, Columns, Kind, cells, doc, string, text};
use crate::format::{NONE, join, load_balancer, strings};
use crate::metadata::{AGE, NAME, annotation, created, name};
use crate::selector::label_selector;

pub(crate) const KINDS: &[Kind] = &[
    ("IPAddress", &IP_ADDRESS),
    ("Ingress", &INGRESS),
    ("IngressClass", &INGRESS_CLASS),
    ("NetworkPolicy", &NETWORK_POLICY),
    ("ServiceCIDR", &SERVICE_CIDR),
];

/// Its rows have one cell more than there are columns: the age, which has no column definition.
const IP_ADDRESS: Columns =
    Columns::new(&[NAME, string("ParentRef", doc(IPAddressSpec::PARENT_REF))], |object, now| {
        let address = FieldRef::<IPAddress>::root(object);
        let parent = parent(address.at(IPAddress::SPEC).at(IPAddressSpec::PARENT_REF));
        cells![name(address), parent, created(address, now)]
    });

const INGRESS: Columns = Columns::new(
    &[
        NAME,
        string("Class", text("The name of the IngressClass resource that should be used for additional configuration")),
        string("Hosts", text("Hosts that incoming requests are matched against before the ingress rule")),
        string("Address", text("Address is a list containing ingress points for the load-balancer")),
        string("Ports", text("Ports of TLS configurations that open")),
        AGE,
    ],
    |object, now| ingress(FieldRef::root(object), now),
);

const INGRESS_CLASS: Columns = Columns::new(
    &[
        NAME,
        string("Controller", text("Controller that is responsible for handling this class")),
        string("Parameters", text("A reference to a resource with additional parameters")),
        AGE,
    ],
    |object, now| ingress_class(FieldRef::root(object), now),
);

const NETWORK_POLICY: Columns =
    Columns::new(&[NAME, string("Pod-Selector", doc(NetworkPolicySpec::POD_SELECTOR)), AGE], |object, now| {
        let policy = FieldRef::<NetworkPolicy>::root(object);
        let selector = label_selector(policy.at(NetworkPolicy::SPEC).at(NetworkPolicySpec::POD_SELECTOR));
        cells![name(policy), selector, created(policy, now)]
    });

const SERVICE_CIDR: Columns =
    Columns::new(&[NAME, string("CIDRs", doc(ServiceCIDRSpec::CIDRS)), AGE], |object, now| {
        let cidr = FieldRef::<ServiceCIDR>::root(object);
        let cidrs = strings(cidr.at(ServiceCIDR::SPEC).at(ServiceCIDRSpec::CIDRS));
        cells![name(cidr), join(cidrs, ","), created(cidr, now)]
    });

/// Formats the object that an address is assigned to: `services/ns/web`.
fn parent(parent: FieldRef<ParentReference>) -> String {
    if !parent.is_set() {
        return NONE.into();
    }
    let resource = parent.at(ParentReference::RESOURCE).str();
    let resource = match parent.at(ParentReference::GROUP).str() {
        "" => resource.to_lowercase(),
        group => format!("{resource}.{group}").to_lowercase(),
    };
    match (parent.at(ParentReference::NAMESPACE).str(), parent.at(ParentReference::NAME).str()) {
        ("", name) => format!("{resource}/{name}"),
        (namespace, name) => format!("{resource}/{namespace}/{name}"),
    }
}

fn ingress(ingress: FieldRef<Ingress>, now: Now) -> Cells {
    let (spec, status) = (ingress.at(Ingress::SPEC), ingress.at(Ingress::STATUS));
    let balancer = status.at(IngressStatus::LOAD_BALANCER);
    cells![
        name(ingress),
        spec.at(IngressSpec::INGRESS_CLASS_NAME).get_str().unwrap_or(NONE),
        hosts(spec.at(IngressSpec::RULES)),
        // Addresses have the same fields as those of a service.
        load_balancer(balancer.at(IngressLoadBalancerStatus::INGRESS).cast()),
        if spec.at(IngressSpec::TLS).is_empty() { "80" } else { "80, 443" },
        created(ingress, now),
    ]
}

/// Formats the first three hosts of the rules. The number of further ones counts all rules, with or without a host.
fn hosts(rules: FieldRef<List<IngressRule>>) -> String {
    const SHOWN: usize = 3;
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules.items() {
        more |= hosts.len() == SHOWN;
        let host = rule.at(IngressRule::HOST).str();
        if !more && !host.is_empty() {
            hosts.push(host);
        }
    }
    match hosts.join(",") {
        _ if hosts.is_empty() => "*".into(),
        text if more => format!("{text} + {} more...", rules.len() - SHOWN),
        text => text,
    }
}

fn ingress_class(class: FieldRef<IngressClass>, now: Now) -> Cells {
    let spec = class.at(IngressClass::SPEC);
    let default = annotation(class, "ingressclass.kubernetes.io/is-default-class") == Some("true");
    let mark = if default { " (default)" } else { "" };
    cells![
        format!("{}{mark}", name(class)),
        spec.at(IngressClassSpec::CONTROLLER).str(),
        parameters(spec.at(IngressClassSpec::PARAMETERS)),
        created(class, now),
    ]
}

/// Formats the object that configures the controller of a class: `Config.example.com/fast`.
fn parameters(parameters: FieldRef<Parameters>) -> String {
    if !parameters.is_set() {
        return NONE.into();
    }
    let (kind, name) = (parameters.at(Parameters::KIND).str(), parameters.at(Parameters::NAME).str());
    match parameters.at(Parameters::API_GROUP).get_str() {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::{Value, value};

    use super::*;
    use crate::testing::check_cells;

    #[test]
    fn prints_ip_addresses() {
        let cases = [
            (value!({}), value!(["", "<none>", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "192.0.2.1", "creationTimestamp": "2024-03-10T11:59:00Z"},
                    "spec": {"parentRef": {"resource": "services", "namespace": "ns", "name": "web"}},
                }),
                value!(["192.0.2.1", "services/ns/web", "60s"]),
            ),
            (
                value!({"spec": {"parentRef": {"group": "Gateway.test", "resource": "Gateways", "name": "G"}}}),
                value!(["", "gateways.gateway.test/G", "<unknown>"]),
            ),
        ];
        check_cells("networking.k8s.io", "IPAddress", cases);
    }

    #[test]
    fn prints_ingresses() {
        let cases = [
            (value!({}), value!(["", "<none>", "*", "", "80", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a"},
                    "spec": {"ingressClassName": "nginx", "tls": [{}], "rules": [{"host": "a.test"}, {}, {"host": "b.test"}]},
                    "status": {"loadBalancer": {"ingress": [{"hostname": "balancer.with.a.long.name.test"}, {"ip": "1.1.1.1"}]}},
                }),
                value!([
                    "a",
                    "nginx",
                    "a.test,b.test",
                    "1.1.1.1,balancer.with.a.long.name.test",
                    "80, 443",
                    "<unknown>",
                ]),
            ),
        ];
        check_cells("networking.k8s.io", "Ingress", cases);
    }

    #[test]
    fn formats_ingress_hosts() {
        let cases: [(&[&str], &str); 5] = [
            (&["", ""], "*"),
            (&["a", "b", "c"], "a,b,c"),
            (&["a", "b", "c", ""], "a,b,c + 1 more..."),
            (&["a", "", "b", "c", "d"], "a,b,c + 2 more..."),
            (&["", "", "", "a"], "a"),
        ];
        for (names, want) in cases {
            let rules = Value::List(names.iter().map(|host| value!({"host": (*host)})).collect());
            assert_eq!(hosts(FieldRef::root(&rules)), want);
        }
    }

    #[test]
    fn prints_ingress_classes() {
        let cases = [
            (value!({}), value!(["", "", "<none>", "<unknown>"])),
            (
                value!({
                    "metadata": {"name": "a", "annotations": {"ingressclass.kubernetes.io/is-default-class": "true"}},
                    "spec": {"controller": "c.test/ctl", "parameters": {"apiGroup": "g.test", "kind": "K", "name": "n"}},
                }),
                value!(["a (default)", "c.test/ctl", "K.g.test/n", "<unknown>"]),
            ),
            (
                value!({"spec": {"parameters": {"kind": "ConfigMap", "name": "n"}}}),
                value!(["", "", "ConfigMap/n", "<unknown>"]),
            ),
        ];
        check_cells("networking.k8s.io", "IngressClass", cases);
    }

    #[test]
    fn prints_network_policies_and_service_cidrs() {
        check_cells(
            "networking.k8s.io",
            "NetworkPolicy",
            [
                (value!({}), value!(["", "<none>", "<unknown>"])),
                (value!({"spec": {"podSelector": {"matchLabels": {"a": "b"}}}}), value!(["", "a=b", "<unknown>"])),
            ],
        );
        check_cells(
            "networking.k8s.io",
            "ServiceCIDR",
            [
                (value!({}), value!(["", "", "<unknown>"])),
                (
                    value!({"metadata": {"name": "a"}, "spec": {"cidrs": ["10.0.0.0/24", "fd00::/64"]}}),
                    value!(["a", "10.0.0.0/24,fd00::/64", "<unknown>"]),
                ),
            ],
        );
    }
}
