//! TLS of the server's port: certificates by name and after a change, versions, and headers for browsers.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::path::Path;

use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{Server, TempDir, wait_until};
use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

/// Writes a certificate for a domain. Returns its files and its CA.
fn certificate(directory: &Path, name: &str, domain: &str) -> (String, String, String) {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = params.self_signed(&key).unwrap().pem();
    let issuer = Issuer::new(params, key);
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![domain.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
    let (certificate_path, key_path) = (directory.join(format!("{name}.crt")), directory.join(format!("{name}.key")));
    std::fs::write(&key_path, key.serialize_pem()).unwrap();
    std::fs::write(&certificate_path, certificate.pem()).unwrap();
    (certificate_path.display().to_string(), key_path.display().to_string(), authority)
}

#[tokio::test(flavor = "multi_thread")]
async fn selects_certificates_by_name_and_reloads_them() {
    let temp = TempDir::new();
    let (default, default_key, authority) = certificate(temp.path(), "default", "localhost");
    let (other, other_key, other_authority) = certificate(temp.path(), "other", "other.example");
    let tokens = temp.file("tokens.csv", "t,root,1,system:masters");
    let named = format!("--tls-sni-cert-key={other},{other_key}");
    let server = Server::start(&[
        "--ephemeral",
        "--token-auth-file",
        &tokens,
        "--tls-cert-file",
        &default,
        "--tls-private-key-file",
        &default_key,
        "--tls-min-version=VersionTLS13",
        &named,
    ]);
    let token = [("authorization", "Bearer t")];
    let mut open = server.connect(&Handshake::new(&authority)).await;
    assert_eq!(open.send("GET", "/version", &token, "").await.unwrap().status, 200);
    let mut by_name = Handshake::new(&other_authority);
    by_name.name = "other.example";
    server.connect(&by_name).await;
    let old = Handshake::new(&authority).version(&rustls::version::TLS12);
    assert!(Client::connect(server.address, &old).await.is_err());

    // A new certificate of another CA: new connections get it, open ones are not affected.
    let (_, _, renewed) = certificate(temp.path(), "default", "localhost");
    let handshake = Handshake::new(&renewed);
    wait_until("the new certificate to be shown", async || Client::connect(server.address, &handshake).await.ok())
        .await;
    assert_eq!(open.send("GET", "/version", &token, "").await.unwrap().status, 200);
}

#[tokio::test(flavor = "multi_thread")]
async fn sends_cors_and_hsts_headers() {
    let server = Server::start(&[
        "--ephemeral",
        "--cors-allowed-origins=//example\\.com(:|$)",
        "--strict-transport-security-directives=max-age=60,preload",
        "--disable-http2-serving",
    ]);
    let mut client = server.client().await;
    assert_eq!(client.alpn.as_deref(), Some("http/1.1"));
    let friend = ("origin", "https://example.com");
    let answer = client.send("GET", "/version", &[friend], "").await.unwrap();
    assert_eq!(answer.header("access-control-allow-origin"), "https://example.com");
    assert_eq!(answer.header("strict-transport-security"), "max-age=60; preload");
    let stranger = client.send("GET", "/version", &[("origin", "https://evil.org")], "").await.unwrap();
    assert_eq!((stranger.status, stranger.header("access-control-allow-origin")), (200, ""));
    let preflight = client.send("OPTIONS", "/api/v1/pods", &[friend], "").await.unwrap();
    assert_eq!(
        (preflight.status, preflight.header("access-control-allow-methods")),
        (204, "POST, GET, OPTIONS, PUT, DELETE, PATCH")
    );
}

/// Like Go's server, which answers clients that do not use TLS.
#[tokio::test(flavor = "multi_thread")]
async fn rejects_http_without_tls() {
    let server = Server::ephemeral();
    for (sent, want) in [
        ("GET /version HTTP/1.1\r\nhost: a\r\n\r\n", "Client sent an HTTP request to an HTTPS server.\n"),
        ("POST /api HTTP/1.1\r\nhost: a\r\n\r\n", "Client sent an HTTP request to an HTTPS server.\n"),
    ] {
        let mut stream = tokio::net::TcpStream::connect(server.address).await.unwrap();
        stream.write_all(sent.as_bytes()).await.unwrap();
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.unwrap();
        assert_eq!(answer, format!("HTTP/1.0 400 Bad Request\r\n\r\n{want}"), "{sent}");
    }
    assert_eq!(server.client().await.get("/version").await.unwrap().status, 200);
}

/// Flags are read before the log is configured.
#[tokio::test(flavor = "multi_thread")]
async fn logs_warnings_about_flags() {
    let suites = "--tls-cipher-suites=TLS_RSA_WITH_AES_128_CBC_SHA,TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256";
    let server = Server::start(&["--ephemeral", suites]);
    let warning = "skipping insecure cipher suite TLS_RSA_WITH_AES_128_CBC_SHA";
    assert!(server.log().lines().any(|line| line.starts_with('W') && line.contains(warning)), "{}", server.log());
}
