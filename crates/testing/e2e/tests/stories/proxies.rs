//! Proxies to a real pod, service and node. Their servers are on a network that only exists for the test, because
//! connections to this machine itself are rejected.

use std::collections::BTreeSet;

use binnacle_testkit::https::Answer;
use binnacle_testkit::{Backend, POD_IPS, Server, in_own_network};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio_rustls::TlsConnector;

pub(crate) const CORE: &str = "/api/v1/namespaces/web";

pub(crate) async fn send(server: &Server, method: &str, path: &str, body: &str) -> Answer {
    let kind = if method == "PATCH" { "application/merge-patch+json" } else { "application/json" };
    server.client().await.send(method, path, &[("content-type", kind)], body).await.unwrap()
}

pub(crate) async fn make(server: &Server, path: &str, object: Value) {
    let answer = send(server, "POST", path, &object.to_string()).await;
    assert_eq!(answer.status, 201, "{}", answer.body);
}

/// Creates a running pod with this address.
pub(crate) async fn pod(server: &Server, name: &str, ip: &str, port: u16) {
    let pod = json!({
        "metadata": {"name": name, "labels": {"app": "web"}},
        "spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "registry.test/web:1", "ports": [{"containerPort": port}]}],
        },
    });
    make(server, &format!("{CORE}/pods"), pod).await;
    let status = json!({"status": {"phase": "Running", "podIP": ip, "podIPs": [{"ip": ip}]}}).to_string();
    let answer = send(server, "PATCH", &format!("{CORE}/pods/{name}/status"), &status).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
}

fn told(answer: &Answer) -> Value {
    serde_json::from_str(&answer.body).unwrap_or_else(|_| panic!("{answer:?}"))
}

#[test]
fn proxies_requests_and_rewrites_links() {
    if in_own_network("proxies::proxies_requests_and_rewrites_links") {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(story());
    }
}

async fn story() {
    let [first, second] = POD_IPS.map(|ip| ip.to_string());
    let one = Backend::start(POD_IPS[0], "one").await;
    let two = Backend::start(POD_IPS[1], "two").await;
    let server = Server::start(&["--ephemeral", &format!("--advertise-address={first}")]);
    make(&server, "/api/v1/namespaces", json!({"metadata": {"name": "web"}})).await;
    make(&server, &format!("{CORE}/serviceaccounts"), json!({"metadata": {"name": "default"}})).await;
    pod(&server, "one", &first, one.port()).await;
    pod(&server, "two", &second, two.port()).await;
    let node = json!({"metadata": {"name": "n"}, "status": {"addresses": [{"type": "InternalIP", "address": first}]}});
    make(&server, "/api/v1/nodes", node).await;
    let service = json!({
        "metadata": {"name": "s"}, "spec": {"ports": [{"name": "web", "port": 80}, {"name": "other", "port": 81}]}
    });
    make(&server, &format!("{CORE}/services"), service).await;

    // Every verb, the rest of the path with its query, and the body are forwarded, but not the caller's credentials.
    let at_one = format!("{CORE}/pods/one/proxy");
    for method in ["GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] {
        let body = if method == "GET" { "" } else { "text" };
        let answer = send(&server, method, &format!("{at_one}/a%20b/c?x=1&y=%2F"), body).await;
        assert_eq!(answer.status, 200, "{method} {}", answer.body);
        let seen = told(&answer);
        let want = json!([method, "/a%20b/c?x=1&y=%2F", body, "one"]);
        assert_eq!(json!([seen["method"], seen["target"], seen["body"], seen["name"]]), want);
        assert_eq!(seen["headers"]["authorization"], Value::Null, "{method}");
        assert!(seen["headers"]["x-forwarded-uri"].as_str().unwrap().starts_with(&at_one), "{seen}");
    }
    // By all of its names.
    for (path, want) in [
        (format!("{CORE}/pods/two:{}/proxy/x", two.port()), "two"),
        (format!("{CORE}/pods/http:two:{}/proxy/x", two.port()), "two"),
        (format!("/api/v1/nodes/n:{}/proxy/x", one.port()), "one"),
        (format!("/api/v1/nodes/http:n:{}/proxy/x", one.port()), "one"),
    ] {
        let answer = send(&server, "GET", &path, "").await;
        assert_eq!(answer.status, 200, "{path} {}", answer.body);
        assert_eq!((&told(&answer)["name"], &told(&answer)["target"]), (&json!(want), &json!("/x")), "{path}");
    }
    // A path without a trailing slash is redirected to the path with one. Locations in the pod's responses are
    // rewritten to the proxy.
    let answer = send(&server, "GET", &at_one, "").await;
    assert_eq!((answer.status, answer.header("location")), (301, format!("{at_one}/").as_str()));
    let answer = send(&server, "GET", &format!("{at_one}/moved"), "").await;
    assert_eq!((answer.status, answer.header("location")), (302, format!("{at_one}/here?from=moved").as_str()));
    let answer = send(&server, "GET", &format!("{at_one}/page"), "").await;
    assert!(answer.body.contains(&format!("href=\"{at_one}/here\"")), "{}", answer.body);

    services(&server, &first, &second, one.port(), two.port()).await;
    upgrades(&server, &at_one).await;

    // A closed port.
    let closed = Backend::start(POD_IPS[0], "closed").await.port();
    let answer = send(&server, "GET", &format!("{CORE}/pods/one:{closed}/proxy/"), "").await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(told(&answer)["message"].as_str().unwrap().starts_with("error trying to reach service: "));
    // Addresses in a pod's status do not lead into this machine.
    for ip in ["127.0.0.1", "169.254.169.254", "::1"] {
        let name = format!("liar-{}", ip.replace([':', '.'], "-"));
        pod(&server, &name, ip, one.port()).await;
        let answer = send(&server, "GET", &format!("{CORE}/pods/{name}/proxy/"), "").await;
        assert_eq!((answer.status, &told(&answer)["message"]), (400, &json!("address not allowed")), "{ip}");
    }
}

/// All ready endpoints are used, by name and number of the port, and no others.
async fn services(server: &Server, first: &str, second: &str, one: u16, two: u16) {
    let path = format!("{CORE}/services/s:web/proxy/x");
    let answer = send(server, "GET", &path, "").await;
    assert_eq!(answer.status, 404, "{}", answer.body);
    let address =
        |ip: &str, pod: &str| json!({"ip": ip, "targetRef": {"kind": "Pod", "namespace": "web", "name": pod}});
    let subset = |ip: &str, pod: &str, port: u16| json!({"addresses": [address(ip, pod)], "ports": [{"name": "web", "port": port}]});
    let mut unready = subset(first, "one", one);
    unready["notReadyAddresses"] = unready["addresses"].take();
    unready.as_object_mut().unwrap().remove("addresses");
    unready["ports"] = json!([{"name": "other", "port": one}]);
    let endpoints = json!({
        "metadata": {"name": "s"},
        "subsets": [
            subset(first, "one", one), subset(second, "two", two), unready,
            // The address of a pod is used, and other addresses are not.
            {"addresses": [address("10.231.0.9", "one")], "ports": [{"name": "web", "port": one}]},
        ],
    });
    make(server, &format!("{CORE}/endpoints"), endpoints).await;
    let mut seen = BTreeSet::new();
    for turn in 0..60 {
        let id = ["s:web", "s:80", "http:s:web", "http:s:80"][turn % 4];
        let answer = send(server, "GET", &format!("{CORE}/services/{id}/proxy/x?turn={turn}"), "").await;
        assert_eq!(answer.status, 200, "{id} {}", answer.body);
        let told = told(&answer);
        assert_eq!(told["target"], format!("/x?turn={turn}"));
        seen.insert(told["name"].as_str().unwrap().to_owned());
    }
    assert_eq!(seen, BTreeSet::from(["one".to_owned(), "two".to_owned()]));
    let answer = send(server, "GET", &format!("{CORE}/services/s:other/proxy/"), "").await;
    let none = json!("no endpoints available for service \"s:other\"");
    assert_eq!((answer.status, &told(&answer)["message"]), (503, &none));
}

/// Upgraded connections are forwarded in both directions.
async fn upgrades(server: &Server, at: &str) {
    let tcp = tokio::net::TcpStream::connect(server.address).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let config = server.admin().alpn(&["http/1.1"]).config();
    let mut stream = BufReader::new(TlsConnector::from(std::sync::Arc::new(config)).connect(name, tcp).await.unwrap());
    let request = format!(
        "GET {at}/echo HTTP/1.1\r\nHost: localhost\r\nConnection: Upgrade\r\nUpgrade: example.com/reverse\r\n\r\n"
    );
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).await.unwrap(), 0, "{head}");
    }
    assert!(head.starts_with("HTTP/1.1 101 "), "{head}");
    assert!(head.to_lowercase().contains("upgrade: example.com/reverse"), "{head}");
    for (said, want) in [("one two", "owt eno\n"), ("", "\n"), ("ü", "ü\n")] {
        stream.write_all(format!("{said}\n").as_bytes()).await.unwrap();
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert_eq!(line, want);
    }
}
