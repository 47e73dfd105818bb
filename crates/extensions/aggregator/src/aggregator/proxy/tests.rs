//! Tests of forwarding with a real extension API server: what it receives, and what the client gets.

use std::net::SocketAddr;
use std::sync::Arc;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_authz::{AlwaysAllow, Attributes, authorize_with_permit};
use binnacle_discovery::Addresses;
use binnacle_registry::Catalog;
use binnacle_request::{
    Body, BoxFuture, ByteStream, ConnectionInfo, Query, Record, Request, RequestInfo, ShutdownTrigger, Upgrade, User,
    decode_path,
};
use binnacle_schema::{Value, value};
use binnacle_testkit::Hook as Server;
use binnacle_webhook::ServiceResolver;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri};
use http_body_util::BodyExt;
use parking_lot::Mutex;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use crate::{Aggregator, AggregatorOptions};

/// Resolves the service `here` to an address.
#[derive(Debug)]
struct OneService(SocketAddr);

impl ServiceResolver for OneService {
    fn resolve<'a>(&'a self, _: &'a str, name: &'a str, _: u16) -> BoxFuture<'a, Result<String, String>> {
        Box::pin(async move { if name == "here" { Ok(self.0.to_string()) } else { Err("no such service".to_owned()) } })
    }
}

/// A response with its complete body.
struct TestResponse {
    status: u16,
    headers: HeaderMap,
    body: String,
}

fn aggregator(server: SocketAddr, rejects_redirects: bool) -> Aggregator {
    Aggregator::new(AggregatorOptions {
        catalog: Catalog::default(),
        resolver: Arc::new(OneService(server)),
        identity: None,
        rejects_redirects,
        addresses: Addresses { default: "localhost:6443".to_owned(), rules: Vec::new() },
        discovery_metrics: None,
        certificates: None,
    })
}

/// Returns an APIService of the group version `g.test/v1` by a service. `trust` is a member of its spec.
fn api_service(service: &str, available: &str, trust: (&str, Value)) -> Value {
    let mut object = value!({
        "metadata": {"name": "v1.g.test"},
        "spec": {"group": "g.test", "version": "v1", "service": {"namespace": "n", "name": service, "port": 443i64}},
        "status": {"conditions": [{"type": "Available", "status": available}]},
    });
    object.make_at(&["spec"]).insert(trust.0, trust.1);
    object
}

/// Returns the server of an APIService that is available, and whose certificate is not verified.
fn available() -> Value {
    api_service("here", "True", ("insecureSkipTLSVerify", Value::from(true)))
}

fn headers(lines: &[&str]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines {
        let (name, value) = line.split_once(": ").unwrap();
        headers.append(name.parse::<HeaderName>().unwrap(), HeaderValue::from_str(value).unwrap());
    }
    headers
}

/// Returns a request of the user `ann`. `request_line` is a method and a path with its query.
async fn request(request_line: &str, lines: &[&str], body: &str) -> Request {
    let (method, target) = request_line.split_once(' ').unwrap();
    let (method, uri): (Method, Uri) = (method.parse().unwrap(), target.parse().unwrap());
    let query = Query::parse(uri.query().unwrap_or_default());
    let path = decode_path(uri.path()).unwrap();
    let info = Arc::new(RequestInfo::parse(&method, &path, &query, target).unwrap());
    let user = Arc::new(User::new("ann", &["devs"]));
    let (_, permit) = authorize_with_permit(&AlwaysAllow, &Attributes::of(&info, &user)).await.unwrap();
    Request {
        headers: headers(lines),
        body: Body::full(body.to_owned()),
        upgrade: None,
        info,
        query,
        user,
        permit: permit.unwrap(),
        connection: Arc::new(ConnectionInfo::new("192.0.2.7:1234".parse().unwrap(), Vec::new(), None)),
        record: Record::open(method.clone(), target.into(), None, None),
        deadline: None,
        shutdown: ShutdownTrigger::new().1,
        method,
        uri,
    }
}

/// Forwards a request to the server of an APIService.
async fn forward(aggregator: &Aggregator, api_service: &Value, request: Request) -> TestResponse {
    let remote = aggregator.remotes().of(api_service).unwrap();
    let response = aggregator.0.proxy(request, &remote).await;
    let (parts, body) = response.into_parts();
    let body = body.collect().await.unwrap().to_bytes();
    TestResponse {
        status: parts.status.as_u16(),
        headers: parts.headers,
        body: String::from_utf8_lossy(&body).into_owned(),
    }
}

/// Starts a server that answers each request with its first line, headers and body. The headers that tests give are
/// added, and the path `/apis/g.test/v1/N` has the status N.
async fn echo(response_headers: &'static [&'static str]) -> Server {
    Server::start(move |request| async move {
        let (parts, body) = request.into_parts();
        let mut lines: Vec<String> =
            parts.headers.iter().map(|(name, value)| format!("{name}: {}", value.to_str().unwrap())).collect();
        lines.sort();
        let text =
            format!("{} {}\n{}\n\n{}", parts.method, parts.uri, lines.join("\n"), String::from_utf8_lossy(&body));
        let status = parts.uri.path().rsplit('/').next().and_then(|last| last.parse().ok()).unwrap_or(200);
        let mut response = http::Response::new(text.into_bytes());
        *response.status_mut() = http::StatusCode::from_u16(status).unwrap();
        response.headers_mut().extend(headers(response_headers));
        response
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn forwards_method_path_query_and_body() {
    let server = echo(&[]).await;
    let aggregator = aggregator(server.address, false);
    for (sent, body, want) in [
        ("GET /apis/g.test/v1", "", "GET /apis/g.test/v1"),
        ("POST /apis/g.test/v1/things", "{\"a\": 1}", "POST /apis/g.test/v1/things"),
        ("PATCH /apis/g.test/v1/things/a%20b", "x", "PATCH /apis/g.test/v1/things/a%20b"),
        // The query is parsed and encoded again, in the order of its keys.
        ("GET /apis/g.test/v1/things?b=2&a=%2F&a=1+2", "", "GET /apis/g.test/v1/things?a=%2F&a=1+2&b=2"),
        ("DELETE /apis/g.test/v1/things?bad;pair&a=1", "", "DELETE /apis/g.test/v1/things?a=1"),
    ] {
        let response = forward(&aggregator, &available(), request(sent, &[], body).await).await;
        assert_eq!(response.status, 200, "{sent}");
        // HTTP/2 has complete URIs.
        let first = response.body.lines().next().unwrap().replace(&format!("https://{}", server.address), "");
        assert_eq!(first, want, "{sent}");
        assert_eq!(response.body.split("\n\n").nth(1), Some(body), "{sent}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn forwards_end_to_end_headers_and_the_identity_of_the_caller() {
    let server = echo(&[]).await;
    let aggregator = aggregator(server.address, false);
    let sent = [
        "accept: application/json",
        "accept-encoding: gzip",
        "authorization: Bearer secret",
        "connection: x-hop, keep-alive",
        "cookie: a=1",
        "impersonate-user: root",
        "keep-alive: timeout=5",
        "proxy-authorization: Basic x",
        "proxy-connection: keep-alive",
        "te: trailers, gzip",
        "trailer: x-trailer",
        "user-agent: kubectl",
        "x-forwarded-for: 198.51.100.1",
        "x-forwarded-host: elsewhere",
        "x-hop: 1",
        "x-other: 1",
        "x-remote-group: system:masters",
        "x-remote-user: root",
    ];
    let response = forward(&aggregator, &available(), request("GET /apis/g.test/v1/things", &sent, "").await).await;
    let received: Vec<&str> = response.body.lines().skip(1).take_while(|line| !line.is_empty()).collect();
    let own = ["audit-id: ", "host: ", "via: 1.1 binnacle-"];
    let (own_lines, others): (Vec<&str>, Vec<&str>) =
        received.iter().partition(|line| own.iter().any(|start| line.starts_with(start)));
    let address = server.address;
    let forwarded_host = format!("x-forwarded-host: {address}");
    let want = [
        "accept-encoding: gzip",
        "accept: application/json",
        "cookie: a=1",
        "te: trailers",
        "user-agent: kubectl",
        "x-forwarded-for: 198.51.100.1, 192.0.2.7",
        &forwarded_host,
        "x-forwarded-proto: https",
        "x-forwarded-uri: /apis/g.test/v1/things",
        "x-other: 1",
        "x-remote-group: devs",
        "x-remote-user: ann",
    ];
    assert_eq!(others, want);
    assert!(own_lines.iter().any(|line| line.starts_with("via: ")), "{own_lines:?}");
}

/// kube-apiserver decides about origins itself (CORS), and does not pass on what concerns one connection only.
#[tokio::test(flavor = "multi_thread")]
async fn drops_headers_of_responses_that_only_this_server_may_set() {
    let server = echo(&[
        "access-control-allow-credentials: true",
        "access-control-allow-headers: x",
        "access-control-allow-methods: PUT",
        "access-control-allow-origin: *",
        "access-control-expose-headers: date",
        "content-type: text/x-test",
        "etag: \"1\"",
        "warning: 299 - \"old\"",
    ])
    .await;
    let aggregator = aggregator(server.address, false);
    let response = forward(&aggregator, &available(), request("GET /apis/g.test/v1/418", &[], "").await).await;
    assert_eq!(response.status, 418);
    let mut names: Vec<&str> = response.headers.keys().map(HeaderName::as_str).collect();
    names.sort_unstable();
    names.retain(|name| !["content-length", "date"].contains(name));
    assert_eq!(names, ["access-control-expose-headers", "content-type", "etag", "warning"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn redirects_are_forwarded_unless_they_are_refused() {
    let server = echo(&["location: https://elsewhere.test/"]).await;
    for (rejects, path, want) in [
        (false, "302", (302, true, None)),
        (true, "302", (502, false, Some("the backend attempted to redirect this request, which is not permitted"))),
        (true, "200", (200, true, None)),
    ] {
        let sent = request(&format!("GET /apis/g.test/v1/{path}"), &[], "").await;
        let response = forward(&aggregator(server.address, rejects), &available(), sent).await;
        assert_eq!((response.status, response.headers.contains_key("location")), (want.0, want.1), "{rejects} {path}");
        assert!(want.2.is_none_or(|body| response.body == body), "{}", response.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unusable_servers_are_reported_as_plain_text() {
    let server = echo(&[]).await;
    let insecure = || ("insecureSkipTLSVerify", Value::from(true));
    let bundle = |text: &str| ("caBundle", Value::from(BASE64_STANDARD.encode(text)));
    let unknown_authority = "error trying to reach service: tls: failed to verify certificate: x509: certificate is valid \
                             for localhost, not here.n.svc";
    for (api_service, code, want) in [
        (api_service("here", "False", insecure()), 503, "service unavailable"),
        (api_service("here", "Unknown", insecure()), 503, "service unavailable"),
        (api_service("gone", "True", insecure()), 503, "service unavailable"),
        (
            api_service("here", "True", bundle("no certificate")),
            500,
            "unable to load root certificates: unable to parse bytes as PEM block",
        ),
        // An APIService that is not available is reported first.
        (api_service("here", "False", bundle("no certificate")), 503, "service unavailable"),
        (api_service("here", "True", bundle(&server.authority)), 503, unknown_authority),
    ] {
        let sent = request("GET /apis/g.test/v1/things", &[], "").await;
        let response = forward(&aggregator(server.address, false), &api_service, sent).await;
        assert_eq!((response.status, response.body), (code, format!("{want}\n")), "{api_service:?}");
        assert_eq!(response.headers["content-type"], "text/plain; charset=utf-8");
        assert_eq!(response.headers["x-content-type-options"], "nosniff");
    }
    let unused = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = unused.local_addr().unwrap();
    drop(unused);
    let sent = request("GET /apis/g.test/v1/things", &[], "").await;
    let response = forward(&aggregator(address, false), &available(), sent).await;
    let want = format!("error trying to reach service: dial tcp {address}: connect: connection refused\n");
    assert_eq!((response.status, response.body), (503, want));
}

#[tokio::test(flavor = "multi_thread")]
async fn request_that_returns_is_refused() {
    let server = echo(&[]).await;
    let aggregator = aggregator(server.address, false);
    let sent = "GET /apis/g.test/v1/things";
    let response = forward(&aggregator, &available(), request(sent, &[], "").await).await;
    let via = response.body.lines().find(|line| line.starts_with("via: ")).unwrap().to_owned();
    let response = forward(&aggregator, &available(), request(sent, &[&via], "").await).await;
    assert_eq!(response.status, 508, "{}", response.body);
}

/// The server receives the headers as for other requests, with those of the upgrade, and then bytes in both directions.
#[tokio::test(flavor = "multi_thread")]
async fn upgraded_connections_reach_the_server() {
    let head: Arc<Mutex<String>> = Arc::default();
    let seen = head.clone();
    let server = Server::raw(&["http/1.1"], move |mut stream| {
        let seen = seen.clone();
        async move {
            let mut read = Vec::new();
            while !read.ends_with(b"\r\n\r\n") {
                read.push(stream.read_u8().await.unwrap());
            }
            *seen.lock() = String::from_utf8(read).unwrap();
            let answer = b"HTTP/1.1 101 Switching Protocols\r\nconnection: Upgrade\r\nupgrade: SPDY/3.1\r\n\r\n";
            stream.write_all(answer).await.unwrap();
            let mut bytes = [0; 4];
            stream.read_exact(&mut bytes).await.unwrap();
            bytes.reverse();
            stream.write_all(&bytes).await.unwrap();
        }
    })
    .await;
    let aggregator = aggregator(server.address, false);
    let sent = ["connection: Upgrade", "upgrade: SPDY/3.1", "authorization: Bearer secret", "x-remote-user: root"];
    let mut request = request("POST /apis/g.test/v1/things/x/exec?command=ls", &sent, "").await;
    let (mut client, connection) = tokio::io::duplex(64);
    request.upgrade = Some(Upgrade::new(async { Ok(Box::new(connection) as Box<dyn ByteStream>) }));
    let remote = aggregator.remotes().of(&available()).unwrap();
    let response = aggregator.0.proxy(request, &remote).await;
    assert_eq!(response.status(), 101);
    assert_eq!(response.headers()["upgrade"], "SPDY/3.1");
    client.write_all(b"ping").await.unwrap();
    let mut bytes = [0; 4];
    client.read_exact(&mut bytes).await.unwrap();
    assert_eq!(&bytes, b"gnip");
    let head = head.lock().to_lowercase();
    assert!(head.starts_with("post /apis/g.test/v1/things/x/exec?command=ls http/1.1\r\n"), "{head}");
    for line in ["connection: upgrade", "upgrade: spdy/3.1", "x-remote-user: ann", "x-remote-group: devs"] {
        assert!(head.contains(&format!("\r\n{line}\r\n")), "{line}: {head}");
    }
    assert!(!head.contains("secret") && !head.contains("root"), "{head}");
}

#[tokio::test(flavor = "multi_thread")]
async fn refused_upgrade_is_answered_with_the_error_of_the_server() {
    let server = echo(&[]).await;
    let aggregator = aggregator(server.address, false);
    for (path, want) in [("403", 403), ("200", 503)] {
        let sent = ["connection: Upgrade", "upgrade: SPDY/3.1"];
        let sent = request(&format!("POST /apis/g.test/v1/{path}"), &sent, "").await;
        let response = forward(&aggregator, &available(), sent).await;
        assert_eq!(response.status, want, "{}", response.body);
    }
}
