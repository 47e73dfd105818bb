//! The networking group.

use binnacle_schema::Value;

use crate::columns::{Columns, Kind, cells, definitions, doc, string, text};
use crate::format::{NONE, join, load_balancer, pointer_or, strings};
use crate::metadata::{AGE, NAME, annotation, created, name};
use crate::selector::label_selector;

pub(crate) const KINDS: &[Kind] = &[
    ("IPAddress", &IP_ADDRESS),
    ("Ingress", &INGRESS),
    ("IngressClass", &INGRESS_CLASS),
    ("NetworkPolicy", &NETWORK_POLICY),
    ("ServiceCIDR", &SERVICE_CIDR),
];

definitions!("io.k8s.api.networking.v1":
    IP_ADDRESS_SPEC = "IPAddressSpec",
    NETWORK_POLICY_SPEC = "NetworkPolicySpec",
    SERVICE_CIDR_SPEC = "ServiceCIDRSpec",
);

/// Its rows have one cell more than there are columns: the age, which has no column definition.
const IP_ADDRESS: Columns =
    Columns::new(&[NAME, string("ParentRef", doc(IP_ADDRESS_SPEC, "parentRef"))], |object, now| {
        cells![name(object), parent(object), created(object, now)]
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
    |object, now| {
        let ports = if object.list_at(&["spec", "tls"]).is_empty() { "80" } else { "80, 443" };
        cells![
            name(object),
            pointer_or(object, &["spec", "ingressClassName"], NONE),
            hosts(object.list_at(&["spec", "rules"])),
            load_balancer(object),
            ports,
            created(object, now),
        ]
    },
);

const INGRESS_CLASS: Columns = Columns::new(
    &[
        NAME,
        string("Controller", text("Controller that is responsible for handling this class")),
        string("Parameters", text("A reference to a resource with additional parameters")),
        AGE,
    ],
    |object, now| {
        let default = annotation(object, "ingressclass.kubernetes.io/is-default-class") == Some("true");
        let mark = if default { " (default)" } else { "" };
        cells![
            format!("{}{mark}", name(object)),
            object.str_at(&["spec", "controller"]),
            parameters(object),
            created(object, now),
        ]
    },
);

const NETWORK_POLICY: Columns =
    Columns::new(&[NAME, string("Pod-Selector", doc(NETWORK_POLICY_SPEC, "podSelector")), AGE], |object, now| {
        cells![name(object), label_selector(object.at(&["spec", "podSelector"])), created(object, now)]
    });

const SERVICE_CIDR: Columns =
    Columns::new(&[NAME, string("CIDRs", doc(SERVICE_CIDR_SPEC, "cidrs")), AGE], |object, now| {
        cells![name(object), join(strings(object, &["spec", "cidrs"]), ","), created(object, now)]
    });

/// Formats the object that an address is assigned to: `services/ns/web`.
fn parent(object: &Value) -> String {
    let Some(parent) = object.at(&["spec", "parentRef"]).filter(|parent| !parent.is_null()) else {
        return NONE.into();
    };
    let resource = match parent.str_at(&["group"]) {
        "" => parent.str_at(&["resource"]).to_lowercase(),
        group => format!("{}.{group}", parent.str_at(&["resource"])).to_lowercase(),
    };
    match (parent.str_at(&["namespace"]), parent.str_at(&["name"])) {
        ("", name) => format!("{resource}/{name}"),
        (namespace, name) => format!("{resource}/{namespace}/{name}"),
    }
}

/// Formats the first three hosts of the rules. The number of further ones counts all rules, with or without a host.
fn hosts(rules: &[Value]) -> String {
    const SHOWN: usize = 3;
    let mut hosts = Vec::new();
    let mut more = false;
    for rule in rules {
        more |= hosts.len() == SHOWN;
        let host = rule.str_at(&["host"]);
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

/// Formats the object that configures the controller of a class: `Config.example.com/fast`.
fn parameters(object: &Value) -> String {
    let Some(parameters) = object.at(&["spec", "parameters"]).filter(|parameters| !parameters.is_null()) else {
        return NONE.into();
    };
    let (kind, name) = (parameters.str_at(&["kind"]), parameters.str_at(&["name"]));
    match parameters.at(&["apiGroup"]).and_then(Value::as_str) {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::testing::check_cells;

    #[test]
    fn ip_addresses() {
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
    fn ingresses() {
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
    fn ingress_hosts() {
        let cases: [(&[&str], &str); 5] = [
            (&["", ""], "*"),
            (&["a", "b", "c"], "a,b,c"),
            (&["a", "b", "c", ""], "a,b,c + 1 more..."),
            (&["a", "", "b", "c", "d"], "a,b,c + 2 more..."),
            (&["", "", "", "a"], "a"),
        ];
        for (names, want) in cases {
            let rules: Vec<Value> = names.iter().map(|host| value!({"host": (*host)})).collect();
            assert_eq!(hosts(&rules), want);
        }
    }

    #[test]
    fn ingress_classes() {
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
    fn network_policies_and_service_cidrs() {
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
