use binnacle_registry::DeleteOptions;
use binnacle_schema::value;

use super::*;
use binnacle_controllers::Objects;

#[test]
fn resolves_by_cluster_ip() {
    let service = |kind: &str, ip: &str| {
        ServiceSpec::of(&value!({"spec": {
            "type": kind, "clusterIP": ip, "externalName": "far.test", "ports": [{"name": "a", "port": 80i64}, {"port": 443i64}]
        }}))
    };
    for (service, port, want) in [
        (service("ClusterIP", "10.0.0.1"), 443, Ok("10.0.0.1:443")),
        (service("NodePort", "fd00::1"), 80, Ok("[fd00::1]:80")),
        (service("LoadBalancer", "10.0.0.1"), 81, Err("no service port 81 found for service \"s\"")),
        (service("ClusterIP", "None"), 443, Err("cannot route to service with ClusterIP \"None\"")),
        (service("ExternalName", ""), 8443, Ok("far.test:8443")),
        (service("Other", ""), 443, Err("unsupported service type \"Other\"")),
    ] {
        assert_eq!(service.by_cluster_ip("s", port), want.map(str::to_owned).map_err(str::to_owned));
    }
    assert_eq!(
        service("ExternalName", "").port_of_endpoints("s", 80).unwrap_err(),
        "unsupported service type \"ExternalName\""
    );
    assert_eq!(service("ClusterIP", "None").port_of_endpoints("s", 80).unwrap(), "a");
}

#[test]
fn chooses_ready_endpoints_of_the_first_family() {
    let slice = |family: &str, port: &str, endpoints: Value| {
        let ports = value!([{"name": port, "port": 8443i64}, {"port": 1i64}, {"name": "unnumbered"}]);
        Slice::of(&value!({"addressType": family, "ports": ports, "endpoints": endpoints}))
    };
    let ready = |address: &str| value!([{"addresses": [address], "conditions": {"ready": true}}]);
    let without_condition = value!([{"addresses": ["10.0.0.9", "10.0.0.10"]}]);
    let down = value!([{"addresses": ["10.0.0.8"], "conditions": {"ready": false}}]);
    let mixed = value!([{"addresses": ["10.0.0.8"], "conditions": {"ready": false}}, {"addresses": ["10.0.0.7"]}]);
    let v6 = || slice("IPv6", "https", ready("fd00::1"));
    for (slices, want) in [
        (vec![], None),
        (vec![slice("IPv4", "https", ready("10.0.0.1"))], Some("10.0.0.1:8443")),
        (vec![slice("IPv4", "https", without_condition)], Some("10.0.0.9:8443")),
        (vec![slice("IPv4", "https", down.clone())], None),
        (vec![slice("IPv4", "https", mixed)], Some("10.0.0.7:8443")),
        (vec![slice("IPv4", "http", ready("10.0.0.1"))], None),
        (vec![v6(), slice("IPv4", "https", ready("10.0.0.1"))], Some("10.0.0.1:8443")),
        (vec![slice("IPv4", "https", down), v6()], Some("[fd00::1]:8443")),
    ] {
        for pick in [|_| 0usize, |n: usize| n.saturating_sub(1)] {
            assert_eq!(choose(&slices, "IPv4", "https", pick).as_deref(), want);
        }
    }
}

/// The next call sees changes, and unchanged endpoints are not listed again.
#[tokio::test]
async fn resolves_changed_services_and_endpoints() {
    let resources = binnacle_test_cluster::resources();
    let services = binnacle_test_cluster::objects(&resources, "", "services");
    let addresses = |routing| ServiceAddresses::new(resources.clone(), routing, Some(([127, 0, 0, 1], 6443).into()));
    let (by_ip, by_endpoint) = (addresses(ServiceRouting::ClusterIp), addresses(ServiceRouting::Endpoints));
    for each in [&by_ip, &by_endpoint] {
        assert_eq!(each.resolve("default", "kubernetes", 443).await.unwrap(), "127.0.0.1:6443");
        assert_eq!(each.resolve("default", "s", 443).await.unwrap_err(), "service \"s\" not found");
    }
    let spec = value!({
        "type": "ClusterIP", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"], "ipFamilies": ["IPv4"],
        "ports": [{"name": "https", "port": 443i64}]
    });
    services.create("default", value!({"metadata": {"name": "s"}, "spec": spec})).await.unwrap();
    assert_eq!(until(&by_ip, |found| found.is_ok()).await.unwrap(), "10.0.0.7:443");
    let none = until(&by_endpoint, |found| found != &Err("service \"s\" not found".to_owned())).await;
    assert_eq!(none.unwrap_err(), "no endpoints available for service \"s\"");

    let slices: Objects = binnacle_test_cluster::objects(&resources, "discovery.k8s.io", "endpointslices");
    for round in 1..20 {
        let address = format!("10.1.0.{round}");
        let slice = value!({
            "metadata": {"name": "s-1", "labels": {"kubernetes.io/service-name": "s"}}, "addressType": "IPv4",
            "endpoints": [{"addresses": [(address.clone())]}], "ports": [{"name": "https", "port": 8443i64}]
        });
        slices.create("default", slice).await.unwrap();
        until(&by_endpoint, |found| *found == Ok(format!("{address}:8443"))).await.unwrap();
        let known = by_endpoint.known("default", "s");
        let kept = known.slices(&resources).await.unwrap();
        assert!(Arc::ptr_eq(&kept, &known.slices(&resources).await.unwrap()), "nothing has changed");
        slices.resource().delete(&Context::internal("default"), "s-1", &DeleteOptions::default()).await.unwrap();
        until(&by_endpoint, Result::is_err).await.unwrap_err();
    }
}

/// Resolves the service until the result is `good`.
async fn until(addresses: &ServiceAddresses, good: impl Fn(&Result<String, String>) -> bool) -> Result<String, String> {
    let began = Instant::now();
    loop {
        let found = addresses.resolve("default", "s", 443).await;
        if good(&found) {
            return found;
        }
        assert!(began.elapsed() < Duration::from_secs(20), "still {found:?}");
        tokio::task::yield_now().await;
    }
}
