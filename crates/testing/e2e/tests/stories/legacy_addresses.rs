//! Addresses that were accepted once, in fields that are older than the strict rules: the feature gate decides if they
//! still are.

use binnacle_testkit::Server;
use serde_json::{Value, json};

const NAMESPACE: &str = "/api/v1/namespaces/default";

/// Paths and objects with addresses that can be parsed but mean different things to different programs, with a part of
/// the warning for each.
fn objects() -> Vec<(String, Value, &'static str)> {
    let service = |name: &str, spec: Value| {
        let mut spec = spec;
        spec["ports"] = json!([{"port": 1}]);
        (format!("{NAMESPACE}/services"), json!({"metadata": {"name": name}, "spec": spec}))
    };
    let external = service("external", json!({"externalIPs": ["192.000.2.1"]}));
    let own = service("own", json!({"clusterIP": "10.0.0.077", "clusterIPs": ["10.0.0.077"]}));
    let ranges = service(
        "ranges",
        json!({"type": "LoadBalancer", "loadBalancerSourceRanges": ["10.0.0.1/8", "::ffff:10.0.0.0/104"]}),
    );
    let containers = json!([{"name": "c", "image": "i"}]);
    let pod = json!({
        "metadata": {"name": "p"},
        "spec": {"containers": containers, "hostAliases": [{"ip": "::ffff:1.2.3.4", "hostnames": ["a"]}]},
    });
    let policy = json!({
        "metadata": {"name": "n"},
        "spec": {"podSelector": {}, "ingress": [{"from": [{"ipBlock": {"cidr": "010.0.0.0/08"}}]}]},
    });
    let slice = json!({
        "metadata": {"name": "s"}, "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.2.03"]}],
    });
    let endpoints = json!({"metadata": {"name": "e"}, "subsets": [{"addresses": [{"ip": "10.1.2.03"}]}]});
    let node = json!({"metadata": {"name": "node"}, "spec": {"podCIDR": "10.1.0.1/16", "podCIDRs": ["10.1.0.1/16"]}});
    vec![
        (external.0, external.1, "non-standard IP address \\\"192.000.2.1\\\" is invalid: use \\\"192.0.2.1\\\""),
        (own.0, own.1, "non-standard IP address"),
        (ranges.0, ranges.1, "is ambiguous in this context"),
        (format!("{NAMESPACE}/pods"), pod, "use \\\"1.2.3.4\\\""),
        (
            "/apis/networking.k8s.io/v1/namespaces/default/networkpolicies".to_owned(),
            policy,
            "non-standard CIDR value \\\"010.0.0.0/08\\\" is invalid: use \\\"10.0.0.0/8\\\"",
        ),
        ("/apis/discovery.k8s.io/v1/namespaces/default/endpointslices".to_owned(), slice, "non-standard IP address"),
        (format!("{NAMESPACE}/endpoints"), endpoints, "non-standard IP address"),
        ("/api/v1/nodes".to_owned(), node, "is ambiguous in this context"),
    ]
}

#[tokio::test(flavor = "multi_thread")]
async fn strict_ip_validation_follows_its_feature_gate() {
    let gate = "--feature-gates=StrictIPCIDRValidation=false";
    let admission = "--disable-admission-plugins=ServiceAccount";
    for (flags, wanted) in [(&["--ephemeral", admission][..], 422), (&["--ephemeral", admission, gate], 201)] {
        let server = tokio::task::block_in_place(|| Server::start(flags));
        let mut client = server.client().await;
        for (path, object, warning) in objects() {
            let kind = [("content-type", "application/json")];
            let answer = client.send("POST", &path, &kind, object.to_string()).await.unwrap();
            assert_eq!(answer.status, wanted, "{object}: {}", answer.body);
            if wanted == 422 {
                continue;
            }
            let warnings: Vec<_> =
                answer.headers.get_all("warning").iter().filter_map(|one| one.to_str().ok()).collect();
            assert!(warnings.iter().any(|told| told.contains(warning)), "{object}: {warnings:?}");
        }
        // Text that cannot be parsed is rejected in any case.
        let object = json!({"metadata": {"name": "x"}, "spec": {"ports": [{"port": 1}], "externalIPs": ["1.2.3"]}});
        let path = format!("{NAMESPACE}/services");
        let answer =
            client.send("POST", &path, &[("content-type", "application/json")], object.to_string()).await.unwrap();
        assert_eq!(answer.status, 422, "{}", answer.body);
        assert!(
            answer.body.contains("must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)"),
            "{}",
            answer.body
        );
    }
}
