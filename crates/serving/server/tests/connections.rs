//! Tests of the server on real sockets: protocols, certificates, closing of connections, and shutdown.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

mod rig;

use std::time::Duration;

use binnacle_testkit::https::Client;
use http_body_util::BodyExt;
use rustls::ProtocolVersion;

use rig::{TestServer, identity};

#[tokio::test]
async fn negotiates_tls_and_http_versions() {
    let server = TestServer::start().await;
    for version in [&rustls::version::TLS12, &rustls::version::TLS13] {
        for (alpn, want) in [
            (&["h2", "http/1.1"][..], Some("h2")),
            (&["http/1.1"], Some("http/1.1")),
            (&[], None),
            (&["h2"], Some("h2")),
        ] {
            let mut client = server.connect(&server.identity("me").alpn(alpn).version(version)).await;
            assert_eq!(client.alpn.as_deref(), want);
            assert_eq!(
                client.tls,
                if version.version == ProtocolVersion::TLSv1_2 {
                    ProtocolVersion::TLSv1_2
                } else {
                    ProtocolVersion::TLSv1_3
                }
            );
            // The second request shows that the connection is kept open.
            for _ in 0..2 {
                let response = client.get("/who").await.unwrap();
                assert_eq!((response.status, response.body.as_str()), (200, "me"));
            }
        }
    }
    assert!(Client::connect(server.address, &server.handshake().alpn(&["h3"])).await.is_err());
}

#[tokio::test]
async fn rejects_certificates_of_unknown_authorities() {
    let server = TestServer::start().await;
    let stranger = TestServer::start().await;
    for alpn in ["h2", "http/1.1"] {
        let handshake = identity(server.handshake(), "admin", &stranger.issuer).alpn(&[alpn]);
        let mut client = server.connect(&handshake).await;
        let response = client.get("/who").await.unwrap();
        assert_eq!(response.status, 401);
        assert!(response.body.contains("\"reason\":\"Unauthorized\""), "{}", response.body);
    }
}

#[tokio::test]
async fn closes_http2_connections_of_anonymous_users() {
    let server = TestServer::start().await;
    let mut client = server.connect(&server.handshake().alpn(&["h2"])).await;
    assert_eq!(client.get("/who").await.unwrap().body, "system:anonymous");
    tokio::time::timeout(Duration::from_secs(5), &mut client.connection).await.unwrap().unwrap();
    let mut client = server.connect(&server.handshake().alpn(&["http/1.1"])).await;
    for _ in 0..2 {
        assert_eq!(client.get("/who").await.unwrap().body, "system:anonymous");
    }
}

#[tokio::test]
async fn limits_request_bodies() {
    let server = TestServer::start().await;
    for alpn in ["h2", "http/1.1"] {
        for (size, want) in [(0, (200, "0 bytes")), (100, (200, "100 bytes")), (101, (413, "limit is 100"))] {
            let mut client = server.connect(&server.identity("me").alpn(&[alpn])).await;
            let response = client.send("POST", "/api/v1/pods", &[], "x".repeat(size)).await.unwrap();
            assert_eq!(response.status, want.0, "{alpn}");
            assert!(response.body.contains(want.1), "{}", response.body);
        }
    }
}

#[tokio::test]
async fn head_has_no_body() {
    let server = TestServer::start().await;
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.connect(&server.identity("me").alpn(&[alpn])).await;
        let response = client.send("HEAD", "/who", &[], "").await.unwrap();
        assert_eq!(
            (response.status, response.header("content-length"), response.body.as_str()),
            (200, "2", ""),
            "{alpn}"
        );
        assert_eq!(client.get("/who").await.unwrap().body, "me");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn shutdown_ends_a_thousand_watches() {
    let server = TestServer::start().await;
    let mut watches = Vec::new();
    let mut clients = Vec::new();
    let handshake = server.identity("me");
    for _ in 0..10 {
        let mut client = server.connect(&handshake).await;
        for _ in 0..100 {
            let mut body = client.open("GET", "/api/v1/pods?watch=1", &[], "").await.unwrap().into_body();
            let first = body.frame().await.unwrap().unwrap().into_data().unwrap();
            assert_eq!(first, "event\n");
            watches.push(body);
        }
        clients.push(client);
    }
    let address = server.address;
    let took = server.stop().await;
    println!("stopped with {} watches in {took:?}", watches.len());
    // The target is 50 ms; the limit is higher because the machine may run builds and other tests at the same time.
    assert!(took < Duration::from_secs(1), "{took:?}");
    for body in watches {
        // Each ended properly: without an error or a further event.
        assert_eq!(body.collect().await.unwrap().to_bytes(), "");
    }
    assert!(Client::connect(address, &handshake).await.is_err());
}

#[tokio::test]
async fn shutdown_waits_for_short_requests_but_not_for_stubborn_streams() {
    let server = TestServer::start().await;
    let mut client = server.connect(&server.identity("me")).await;
    let mut other = server.connect(&server.identity("me")).await;
    let stubborn = other.open("GET", "/api/v1/stubborn?watch=1", &[], "").await.unwrap();
    let slow = tokio::spawn(async move { client.get("/api/v1/pods").await });
    server.slow.notified().await;
    let took = server.stop().await;
    assert!(took < Duration::from_secs(5), "{took:?}");
    assert_eq!(slow.await.unwrap().unwrap().body, "slow");
    drop(stubborn);
}
