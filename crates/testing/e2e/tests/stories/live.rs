//! The page at `/debug/live`, and the permission to open its WebSocket.

mod browser;

use std::sync::Arc;

use binnacle_testkit::{Kubectl, Server, TempDir};
use futures::StreamExt;
use rustls_pki_types::ServerName;
use serde_json::{Value, json};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;
use tokio_tungstenite::tungstenite::client::IntoClientRequest;
use tokio_tungstenite::tungstenite::{Error, Message};
use tokio_tungstenite::{WebSocketStream, client_async};

use crate::authorization::{Rig, until};

const PAGE: &str = "/debug/live";
/// A user agent that would do harm if it were treated as HTML.
const HOSTILE: &str = "<script>window.evil=1</script><img src=x onerror=window.evil=1>";

fn rig() -> Rig {
    Rig::start(TempDir::new(), &["--enable-live-page".to_owned()])
}

/// Opens a TLS connection without a client certificate.
async fn tls(server: &Server) -> TlsStream<TcpStream> {
    let mut handshake = server.admin().alpn(&["http/1.1"]);
    handshake.identity = None;
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let name = ServerName::try_from("localhost").unwrap();
    TlsConnector::from(Arc::new(handshake.config())).connect(name, tcp).await.unwrap()
}

/// Opens a WebSocket on a connection; the error is the status code of the rejection.
async fn open<S>(stream: S, url: &str, headers: &[(&'static str, &str)]) -> Result<WebSocketStream<S>, u16>
where
    S: AsyncRead + AsyncWrite + Unpin,
{
    let mut request = url.into_client_request().unwrap();
    for (name, value) in headers {
        request.headers_mut().insert(*name, value.parse().unwrap());
    }
    match client_async(request, stream).await {
        Ok((socket, _)) => Ok(socket),
        Err(Error::Http(refusal)) => Err(refusal.status().as_u16()),
        Err(error) => panic!("{error}"),
    }
}

/// Opens the WebSocket of the page as the holder of a token, with the origin and ticket of a page if given.
async fn socket(
    server: &Server,
    token: &str,
    origin: Option<&str>,
    ticket: Option<&str>,
) -> Result<WebSocketStream<TlsStream<TcpStream>>, u16> {
    let bearer = format!("Bearer {token}");
    let protocols = ticket.map_or("live.binnacle".to_owned(), |ticket| format!("live.binnacle, {ticket}"));
    let mut headers = vec![("authorization", bearer.as_str()), ("sec-websocket-protocol", &protocols)];
    headers.extend(origin.map(|origin| ("origin", origin)));
    open(tls(server).await, "wss://localhost/debug/live/socket", &headers).await
}

async fn ticket(rig: &Rig, token: &str) -> String {
    let answer = rig.send(token, "GET", "/debug/live/ticket", &Value::Null).await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let told: Value = serde_json::from_str(&answer.body).unwrap();
    told["ticket"].as_str().unwrap().to_owned()
}

/// Returns the next message; `None` at the end.
async fn next<S: AsyncRead + AsyncWrite + Unpin>(socket: &mut WebSocketStream<S>) -> Option<Value> {
    loop {
        match socket.next().await? {
            Ok(Message::Text(text)) => return Some(serde_json::from_str(&text).unwrap()),
            Ok(Message::Close(_)) | Err(_) => return None,
            Ok(_) => {}
        }
    }
}

/// Allows a user to see the page.
async fn allow(rig: &Rig, user: &str) {
    let group = "rbac.authorization.k8s.io";
    let rules = json!([{"verbs": ["get"], "nonResourceURLs": ["/debug/live*"]}]);
    rig.make("/apis/rbac.authorization.k8s.io/v1/clusterroles", json!({"metadata": {"name": "live"}, "rules": rules}))
        .await;
    let binding = json!({
        "metadata": {"name": "live"}, "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "live"},
        "subjects": [{"kind": "User", "apiGroup": group, "name": user}],
    });
    rig.make("/apis/rbac.authorization.k8s.io/v1/clusterrolebindings", binding).await;
    until("the right to hold", async || rig.code(user, "GET", PAGE).await == 200).await;
}

#[tokio::test]
async fn requires_permission() {
    let off = Rig::start(TempDir::new(), &[]);
    for path in [PAGE, "/debug/live/ticket", "/debug/live/socket"] {
        assert_eq!(off.code("root", "GET", path).await, 404, "{path}");
    }
    assert_eq!(socket(&off.server, "root", None, None).await.unwrap_err(), 404);

    let rig = rig();
    for path in [PAGE, "/debug/live/", "/debug/live/ticket", "/debug/live/socket"] {
        assert_eq!(rig.code("alice", "GET", path).await, 403, "{path}");
        assert_eq!(rig.code("wrong", "GET", path).await, 401, "{path}");
    }
    assert_eq!(socket(&rig.server, "alice", None, None).await.unwrap_err(), 403);
    for (method, path, want) in [
        ("GET", "/debug/live/", 302),
        ("POST", PAGE, 405),
        ("GET", "/debug/live/socket", 400),
        ("GET", "/debug/live/x", 404),
        ("GET", "/debug/lively", 404),
    ] {
        assert_eq!(rig.code("root", method, path).await, want, "{method} {path}");
    }
    allow(&rig, "alice").await;
    let page = rig.send("alice", "GET", PAGE, &Value::Null).await;
    assert_eq!((page.status, page.header("content-type")), (200, "text/html; charset=utf-8"));
    let policy = page.header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; script-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(page.header("x-frame-options"), "DENY");
    assert!(socket(&rig.server, "alice", None, None).await.is_ok());
    assert_eq!(rig.code("bob", "GET", PAGE).await, 403);
}

/// Foreign pages cannot use the credentials that a browser or a proxy adds.
#[tokio::test]
async fn rejects_pages_of_other_origins() {
    let rig = rig();
    allow(&rig, "alice").await;
    let (of_root, of_alice) = (ticket(&rig, "root").await, ticket(&rig, "alice").await);
    let local = Some("http://127.0.0.1:8001");
    for (origin, ticket, want) in [
        (None, None, Ok(())),
        (Some("https://localhost"), None, Ok(())),
        (Some("https://evil.example.com"), None, Err(403)),
        (Some("http://localhost"), None, Err(403)),
        (Some("null"), None, Err(403)),
        (local, None, Err(403)),
        (local, Some("ticket.9999999999.AAAA"), Err(403)),
        (local, Some(of_alice.as_str()), Err(403)),
        (local, Some(of_root.as_str()), Ok(())),
    ] {
        let opened = socket(&rig.server, "root", origin, ticket).await.map(drop);
        assert_eq!(opened, want, "{origin:?} {ticket:?}");
    }
}

#[tokio::test]
async fn streams_events() {
    let mut rig = rig();
    let mut first = socket(&rig.server, "root", None, None).await.unwrap();
    assert_eq!(next(&mut first).await.unwrap()["pages"], 1);
    let headers = [("authorization", "Bearer alice"), ("user-agent", HOSTILE)];
    let refused = rig.client().await.send("GET", "/api/v1/namespaces/n/secrets?limit=7", &headers, "").await.unwrap();
    assert_eq!(refused.status, 403);
    rig.make("/api/v1/namespaces/default/configmaps", json!({"metadata": {"name": "c"}})).await;
    assert_eq!(rig.code("root", "GET", "/api/v1/namespaces/default/configmaps").await, 200);
    let told = loop {
        let told = next(&mut first).await.unwrap();
        if told["requests"]["total"].as_u64() >= Some(3) {
            break told;
        }
    };
    let rows = |of: &str| told[of]["rows"].as_array().unwrap().clone();
    let row = |verb: &str, resource: &str| {
        let rows = rows("requests");
        let row = rows.iter().find(|row| row["verb"] == verb && row["resource"] == resource).cloned();
        row.unwrap_or_else(|| panic!("{verb} {resource}: {told}"))
    };
    assert_eq!(row("create", "configmaps")["total"], 1);
    assert_eq!(
        (row("list", "secrets")["refused"].as_u64(), row("list", "configmaps")["refused"].as_u64()),
        (Some(1), Some(0))
    );
    let client = rows("clients").into_iter().find(|row| row["user"] == "alice").unwrap();
    assert_eq!((client["agent"].as_str(), client["address"].as_str()), (Some(HOSTILE), Some("127.0.0.1")));
    let slow = told["slowest"].as_array().unwrap();
    assert!(
        slow.iter().any(|slow| slow["uri"] == "/api/v1/namespaces/n/secrets?limit=7" && slow["status"] == 403),
        "{told}"
    );
    assert_eq!(told["stores"][0]["kind"], "memory");
    assert!(rows("caches").iter().any(|row| row["resource"] == "configmaps"), "{told}");
    assert!(told["flowControl"]["levels"].as_array().unwrap().iter().any(|level| level["name"] == "exempt"), "{told}");
    assert_eq!(told["webhooks"], json!([]));

    // Eight pages at most; a closed page frees a place.
    let mut more = Vec::new();
    for _ in 0..7 {
        more.push(socket(&rig.server, "root", None, None).await.unwrap());
    }
    assert_eq!(socket(&rig.server, "root", None, None).await.unwrap_err(), 503);
    more.pop();
    until("a free place", async || socket(&rig.server, "root", None, None).await.is_ok()).await;

    let gone = tokio::spawn(async move { while next(&mut first).await.is_some() {} });
    rig.server.terminate();
    gone.await.unwrap();
}

/// `kubectl proxy` adds the credentials; the origin of its pages is not the server's name.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn works_through_kubectl_proxy() {
    let rig = rig();
    let kubectl = Kubectl::new(&rig.server);
    let mut proxy = kubectl.spawn(&["proxy", "--port=0"]);
    let line = proxy.until("Starting to serve on ");
    let address = line.rsplit(' ').next().unwrap().to_owned();
    let (url, origin) = (format!("ws://{address}/debug/live/socket"), format!("http://{address}"));
    // The ticket is for the user whose credentials kubectl adds.
    let mut client = rig.server.client().await;
    let told: Value = serde_json::from_str(&client.get("/debug/live/ticket").await.unwrap().body).unwrap();
    let protocols = format!("live.binnacle, {}", told["ticket"].as_str().unwrap());
    let connect = async || TcpStream::connect(&address).await.unwrap();
    for origin in [origin.as_str(), "https://evil.example.com"] {
        let without = [("origin", origin), ("sec-websocket-protocol", "live.binnacle")];
        assert_eq!(open(connect().await, &url, &without).await.map(drop), Err(403), "{origin}");
    }
    let with = [("origin", origin.as_str()), ("sec-websocket-protocol", &protocols)];
    let mut opened = open(connect().await, &url, &with).await.unwrap();
    assert_eq!(next(&mut opened).await.unwrap()["pages"], 1);
}
