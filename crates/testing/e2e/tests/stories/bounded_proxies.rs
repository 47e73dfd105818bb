//! Pods with endless responses: only their own users wait for them.

use std::sync::Arc;

use binnacle_testkit::{Hostile, POD_IPS, Server, in_own_network};
use serde_json::json;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::proxies::{CORE, make, pod, send};

/// The number of concurrent requests for each response.
const ATTACKERS: usize = 4;
/// The number of requests of other clients meanwhile.
const OTHERS: usize = 300;

#[test]
fn limits_endless_responses_of_backends() {
    if in_own_network("bounded_proxies::limits_endless_responses_of_backends") {
        let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
        runtime.block_on(story());
    }
}

async fn story() {
    let ip = POD_IPS[0].to_string();
    let hostile = Hostile::start(POD_IPS[0]).await;
    let server = Server::start(&["--ephemeral", &format!("--advertise-address={ip}")]);
    make(&server, "/api/v1/namespaces", json!({"metadata": {"name": "web"}})).await;
    make(&server, &format!("{CORE}/serviceaccounts"), json!({"metadata": {"name": "default"}})).await;
    pod(&server, "hostile", &ip, hostile.port()).await;

    // What the attackers see.
    let proxy = format!("{CORE}/pods/hostile/proxy");
    let answer = send(&server, "GET", &format!("{proxy}/informational"), "").await;
    assert_eq!(answer.status, 503, "{}", answer.body);
    assert!(answer.body.contains("net/http: server response headers exceeded"), "{}", answer.body);
    for path in ["digits", "spaces"] {
        // The head of the response was already sent.
        let mut client = server.client().await;
        let error = client.send("GET", &format!("{proxy}/{path}"), &[], "").await.err();
        assert!(error.is_some(), "{path}");
    }

    // The others are not affected.
    let mut attackers = tokio::task::JoinSet::new();
    for path in Hostile::PATHS {
        for _ in 0..ATTACKERS {
            let (mut client, url) = (server.client().await, format!("{proxy}/{path}"));
            attackers.spawn(async move {
                // A page is received for the whole duration.
                while client.send("GET", &url, &[], "").await.is_ok() {}
            });
        }
    }
    for _ in 0..OTHERS {
        let answer = send(&server, "GET", &format!("{CORE}/pods/hostile"), "").await;
        assert_eq!(answer.status, 200, "{}", answer.body);
    }
    attackers.abort_all();
    let answer = send(&server, "GET", "/livez", "").await;
    assert_eq!(answer.status, 200, "{}", answer.body);
    let log = server.log();
    assert!(!log.contains("a worker was kept from other requests"), "{log}");
}

/// Chunk extensions of a request body may be endless, too.
#[tokio::test(flavor = "multi_thread")]
async fn limits_endless_chunk_sizes_of_requests() {
    // After its response, the server drains the connection for a moment, so that the client can read the response.
    const MOST: usize = 1 << 30;
    let server = Server::ephemeral();
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let config = server.admin().alpn(&["http/1.1"]).config();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    let head = "POST /api/v1/namespaces/default/configmaps HTTP/1.1\r\nHost: localhost\r\n\
                Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n";
    stream.write_all(head.as_bytes()).await.unwrap();
    let zeros = vec![b'0'; 64 << 10];
    let mut sent = 0;
    while sent < MOST && stream.write_all(&zeros).await.is_ok() {
        sent += zeros.len();
    }
    assert!(sent < MOST, "the connection is still open");
    // A body in chunks of one byte is read normally.
    let body = json!({"metadata": {"name": "c"}, "data": {"k": "x".repeat(10_000)}}).to_string();
    let tcp = TcpStream::connect(server.address).await.unwrap();
    let name = rustls_pki_types::ServerName::try_from("localhost").unwrap();
    let config = server.admin().alpn(&["http/1.1"]).config();
    let mut stream = TlsConnector::from(Arc::new(config)).connect(name, tcp).await.unwrap();
    let chunks: String = body.chars().map(|byte| format!("000001\r\n{byte}\r\n")).collect();
    stream.write_all(format!("{head}{chunks}0\r\n\r\n").as_bytes()).await.unwrap();
    let mut answer = [0; 12];
    stream.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");
}
