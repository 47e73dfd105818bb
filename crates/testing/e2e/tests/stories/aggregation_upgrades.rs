//! Upgraded connections through the aggregator, and upgrades that must fail.

use std::path::Path;
use std::sync::Arc;

use binnacle_testkit::https::Handshake;
use binnacle_testkit::{Authority, Extension, Reply, Server, TempDir};
use serde_json::{Value, json};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;
use tokio_rustls::client::TlsStream;

use crate::aggregation::{API_SERVICES, condition, register};
use crate::authorization::{Rig, until};

const THINGS: &str = "/apis/up.test/v1/namespaces/team/things";
pub(crate) type Stream = BufReader<TlsStream<TcpStream>>;

fn behave(head: &str) -> Reply {
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "v1" => Reply::json(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "up.test/v1",
            "resources": [{"name": "things", "singularName": "thing", "namespaced": true, "kind": "Thing", "verbs": ["get"]}]
        })),
        "websocket" => Reply::Answer(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\r\nfirst\n".to_vec(),
        ),
        "spdy" => Reply::Answer(
            b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: SPDY/3.1\r\nConnection: Upgrade\r\n\r\nfirst\n".to_vec(),
        ),
        "refuse" => Reply::of(403, "text/plain", "no"),
        // Bytes after the upgrade that the extension server would parse as the head of a request.
        "said" => Reply::Answer(b"second\n".to_vec()),
        _ => Reply::of(404, "text/plain", "no"),
    }
}

/// Sends bytes on a new connection and reads the head of the response.
pub(crate) async fn say(server: &Server, text: &str) -> (String, Stream) {
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let config = Handshake::new(server.admin().authority).alpn(&["http/1.1"]).config();
    let mut stream = BufReader::new(TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap());
    stream.write_all(text.as_bytes()).await.unwrap();
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        assert_ne!(stream.read_line(&mut head).await.unwrap(), 0, "{head}");
    }
    (head, stream)
}

async fn start() -> (Extension, Rig) {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, "up.test", extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, "up.test", "True").await;
    until("requests are handed on", async || rig.code("root", "GET", &format!("{THINGS}/refuse")).await == 403).await;
    (extension, rig)
}

#[tokio::test(flavor = "multi_thread")]
async fn proxies_upgraded_connections_both_ways() {
    let (extension, rig) = start().await;
    for (name, protocol) in [("websocket", "websocket"), ("spdy", "SPDY/3.1")] {
        // The connection leads to the APIService's server, regardless of the client's Host header.
        let request = format!(
            "GET {THINGS}/{name} HTTP/1.1\r\nHost: elsewhere.test\r\nAuthorization: Bearer root\r\nConnection: Upgrade\r\n\
             Upgrade: {protocol}\r\nX-Remote-User: somebody\r\nX-Remote-Group: others\r\n\r\n"
        );
        let (head, mut stream) = say(&rig.server, &request).await;
        assert!(head.starts_with("HTTP/1.1 101 ") && head.contains(protocol), "{head}");
        let mut line = String::new();
        stream.read_line(&mut line).await.unwrap();
        assert_eq!(line, "first\n");
        stream.write_all(b"x /said\r\n\r\n").await.unwrap();
        line.clear();
        stream.read_line(&mut line).await.unwrap();
        assert_eq!(line, "second\n");
        let seen = extension.seen();
        let head = seen.iter().find(|head| head.contains(&format!("/{name} "))).unwrap().to_lowercase();
        assert!(head.contains("x-remote-user: root") && head.contains("x-remote-group: system:masters"), "{head}");
        assert!(!head.contains("authorization") && !head.contains("somebody") && !head.contains("others"), "{head}");
        assert!(!head.contains("host: elsewhere.test"), "{head}");
    }
    // This server rejects users without permission before the request reaches the other server.
    let before = extension.seen().len();
    let request = format!(
        "GET {THINGS}/websocket HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer alice\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    let (head, _) = say(&rig.server, &request).await;
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    assert_eq!(extension.seen().len(), before);
}

/// A rejected upgrade leaves no tunnel: later bytes of the client are for this server (CVE-2018-1002105).
#[tokio::test(flavor = "multi_thread")]
async fn a_refused_upgrade_leaves_no_tunnel() {
    let (extension, rig) = start().await;
    let smuggled = format!(
        "GET {THINGS}/smuggled HTTP/1.1\r\nHost: x\r\nX-Remote-User: root\r\nX-Remote-Group: system:masters\r\n\r\n"
    );
    let request = format!(
        "GET {THINGS}/refuse HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer root\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\r\n"
    );
    let (head, mut stream) = say(&rig.server, &format!("{request}{smuggled}")).await;
    assert!(head.starts_with("HTTP/1.1 403 "), "{head}");
    // Either the connection ends, or the second request is anonymous.
    let mut rest = Vec::new();
    let _ = stream.write_all(smuggled.as_bytes()).await;
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), stream.read_to_end(&mut rest)).await;
    let rest = String::from_utf8_lossy(&rest).into_owned();
    assert!(!rest.contains("HTTP/1.1 200"), "{rest}");
    assert!(!extension.seen().iter().any(|head| head.contains("smuggled")), "{:?}", extension.seen());
}

/// The client certificate for other servers is replaced under load: no request fails, and new connections use the new
/// certificate.
#[tokio::test(flavor = "multi_thread")]
async fn rotates_the_client_certificate_under_load() {
    let (before, after) = (Authority::make(), Authority::make());
    let files = TempDir::new();
    let read = |path: &Path| std::fs::read_to_string(path).unwrap();
    let (old, new) = (before.issue("front"), after.issue("front"));
    let [certificate, key, authorities] = ["front.crt", "front.key", "ca.crt"].map(|name| files.path().join(name));
    let write = |pair: &(std::path::PathBuf, std::path::PathBuf)| {
        std::fs::write(&key, read(&pair.1)).unwrap();
        std::fs::write(&certificate, read(&pair.0)).unwrap();
    };
    write(&old);
    std::fs::write(&authorities, format!("{}{}", read(&before.ca()), read(&after.ca()))).unwrap();
    let mut inner = Server::durable_with(&[
        &format!("--requestheader-client-ca-file={}", authorities.display()),
        "--requestheader-allowed-names=front",
        "--requestheader-username-headers=X-Remote-User",
        "--requestheader-group-headers=X-Remote-Group",
        "--requestheader-extra-headers-prefix=X-Remote-Extra-",
    ]);
    let identity = [
        format!("--proxy-client-cert-file={}", certificate.display()),
        format!("--proxy-client-key-file={}", key.display()),
    ];
    let rig = Rig::start(TempDir::new(), &identity);
    let deleted = rig.send("root", "DELETE", &format!("{API_SERVICES}/v1.batch"), &Value::Null).await;
    assert_eq!(deleted.status, 200, "{}", deleted.body);
    register(&rig, "batch", inner.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    condition(&rig, "batch", "True").await;
    let jobs = "/apis/batch/v1/namespaces/default/jobs";
    let get = async || rig.code("root", "GET", jobs).await;
    until("jobs are read there", async || get().await == 200).await;
    for turn in 0..40 {
        if turn == 10 {
            write(&new);
        }
        assert_eq!(get().await, 200, "{turn}");
    }
    // The old CA is removed: new connections need the new certificate.
    std::fs::write(&authorities, read(&after.ca())).unwrap();
    inner.restart();
    until("jobs are read there again", async || get().await == 200).await;
}
