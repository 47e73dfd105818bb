//! Forwarded requests and responses, with a backend that echoes the received request.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]
#![allow(clippy::disallowed_methods, reason = "there are no authorizers here")]

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;

use binnacle_client::{ConnectionOptions, Target};
use binnacle_proxy::{Forward, forward};
use binnacle_request::{
    Action, Body, BoxError, ConnectionInfo, Decision, Permit, Query, Record, Request, RequestInfo, Response, Shutdown,
    User, decode_path,
};
use bytes::Bytes;
use futures::StreamExt;
use http::Method;
use http_body_util::BodyExt;
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;

const PREFIX: &str = "/api/v1/namespaces/n/services/s/proxy";

/// Returns a request as the handler chain creates it.
fn request(method: Method, url: &str, headers: &[(&'static str, &str)], body: impl Into<Body>) -> Request {
    let uri: http::Uri = format!("{PREFIX}{url}").parse().unwrap();
    let query = Query::parse(uri.query().unwrap_or_default());
    let info = RequestInfo::parse(&method, &decode_path(uri.path()).unwrap(), &query, url).unwrap();
    let mut map = http::HeaderMap::new();
    for (name, value) in headers {
        map.append(*name, value.parse().unwrap());
    }
    Request {
        method: method.clone(),
        headers: map,
        body: body.into(),
        upgrade: None,
        info: Arc::new(info),
        query,
        user: Arc::new(User::new("u", &[])),
        permit: Permit::from_decision(&Decision::Allow("".into()), Action::default()).unwrap(),
        connection: Arc::new(ConnectionInfo::new(([10, 0, 0, 9], 1).into(), Vec::new(), None)),
        record: Record::open(method, url.into(), None, None),
        deadline: None,
        shutdown: Shutdown::never(),
        uri,
    }
}

/// Starts a server whose response depends on the path; by default, it echoes the request.
async fn backend() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        loop {
            let (tcp, _) = listener.accept().await.unwrap();
            let connection = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(tcp), service_fn(move |request| answer(request, address)));
            tokio::spawn(async move { drop(connection.await) });
        }
    });
    address
}

async fn answer(request: http::Request<Incoming>, own: SocketAddr) -> Result<http::Response<Body>, Infallible> {
    let (parts, body) = request.into_parts();
    let mut response = http::Response::builder();
    let body = match parts.uri.path() {
        "/elsewhere" => {
            response = response.status(302).header("location", format!("http://{own}/there?a"));
            Body::empty()
        }
        "/page" => {
            response = response.header("content-type", "text/html; charset=utf-8").header("content-length", "17");
            Body::from("<a href='/x'>x</a")
        }
        "/lies" => {
            response = response.header("content-length", "1000");
            let pieces = futures::stream::iter([Ok(Bytes::from_static(b"half"))]);
            let end = futures::stream::once(async {
                tokio::task::yield_now().await;
                Err(BoxError::from("on purpose"))
            });
            Body::stream(pieces.chain(end))
        }
        _ => {
            let body = body.collect().await.unwrap().to_bytes();
            let mut text = format!("{} {}\n", parts.method, parts.uri);
            for (name, value) in &parts.headers {
                text.push_str(&format!("{name}: {}\n", value.to_str().unwrap()));
            }
            response = response.status(207).header("access-control-allow-origin", "*").header("x-kept", "1");
            Body::from(format!("{text}\n{}", String::from_utf8_lossy(&body)))
        }
    };
    Ok(response.body(body).unwrap())
}

async fn through(address: SocketAddr, request: Request, path: &str) -> Response {
    let target = Target {
        host: address.ip().to_string(),
        port: Some(address.port()),
        tls: None,
        addresses: None,
        server_name: None,
        connection: ConnectionOptions::default(),
    };
    forward(request, Forward { target: &target, path }).await.unwrap()
}

fn location(response: &Response) -> String {
    response.headers()["location"].to_str().unwrap().to_owned()
}

async fn text(response: Response) -> Result<String, String> {
    let bytes = response.into_body().read(100_000).await.map_err(|error| error.to_string())?;
    Ok(String::from_utf8(bytes.to_vec()).unwrap())
}

#[tokio::test]
async fn forwards_method_path_headers_and_body() {
    let address = backend().await;
    let headers = [
        ("host", "localhost:8001"),
        ("connection", "x-hop"),
        ("x-hop", "1"),
        ("te", "trailers, deflate"),
        ("x-forwarded-for", "1.1.1.1"),
        ("x-mine", "2"),
    ];
    let body = Body::stream(futures::stream::iter(["a", "b"].map(|piece| Ok::<_, BoxError>(Bytes::from(piece)))));
    let request = request(Method::POST, "/a%20b/../c/?q=1&q=%2F", &headers, body);
    let response = through(address, request, "/a b/../c/").await;
    assert_eq!(response.status(), 207);
    assert!(response.headers().get("access-control-allow-origin").is_none());
    assert_eq!(response.headers()["x-kept"], "1");
    let got = text(response).await.unwrap();
    let (head, body) = got.split_once("\n\n").unwrap();
    let mut lines: Vec<&str> = head.lines().collect();
    assert_eq!(lines.remove(0), "POST /c/?q=1&q=%2F");
    lines.sort_unstable();
    assert_eq!(
        lines,
        [
            "host: localhost:8001",
            "te: trailers",
            "transfer-encoding: chunked",
            "x-forwarded-for: 1.1.1.1, 10.0.0.9",
            &format!("x-forwarded-uri: {PREFIX}/a b/../c/").replace("/a b/../c/", "/c/"),
            "x-mine: 2",
        ]
    );
    assert_eq!(body, "ab");
}

#[tokio::test]
async fn rewrites_responses_for_the_client() {
    let address = backend().await;
    let get = |url: &str| request(Method::GET, url, &[("host", "localhost:8001")], Body::empty());
    let response = through(address, get("/elsewhere"), "/elsewhere").await;
    assert_eq!((response.status().as_u16(), location(&response)), (302, format!("{PREFIX}/there?a")));

    let response = through(address, get("/page"), "/page").await;
    assert!(response.headers().get("content-length").is_none());
    assert_eq!(text(response).await.unwrap(), format!("<a href='{PREFIX}/x'>x</a"));
    let response = through(address, get("?a=b"), "").await;
    assert_eq!((response.status().as_u16(), location(&response)), (301, format!("{PREFIX}/?a=b")));

    // Links lead through the path at which the client reaches this server.
    let below = |url: &str| {
        let mut request = get(url);
        let info = RequestInfo { base_path: "/clusters/a".into(), ..(*request.info).clone() };
        request.info = Arc::new(info);
        request
    };
    let response = through(address, below("/elsewhere"), "/elsewhere").await;
    assert_eq!(location(&response), format!("/clusters/a{PREFIX}/there?a"));
    let response = through(address, below("/page"), "/page").await;
    assert_eq!(text(response).await.unwrap(), format!("<a href='/clusters/a{PREFIX}/x'>x</a"));
    let response = through(address, below("?a=b"), "").await;
    assert_eq!(location(&response), format!("/clusters/a{PREFIX}/?a=b"));

    // A truncated body must not look complete.
    let response = through(address, get("/lies"), "/lies").await;
    assert_eq!(response.headers()["content-length"], "1000");
    assert!(text(response).await.is_err());

    let nobody = TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap();
    let target = Target {
        host: "127.0.0.1".into(),
        port: Some(nobody.port()),
        tls: None,
        addresses: None,
        server_name: None,
        connection: ConnectionOptions::default(),
    };
    let status = forward(get("/"), Forward { target: &target, path: "/" }).await.err().unwrap();
    let want = format!("error trying to reach service: dial tcp {nobody}: connect: connection refused");
    assert_eq!((status.code(), status.message()), (503, want.as_str()));
}
