//! The server on real sockets: protocols, certificates, connections that end, and stopping.

#![allow(clippy::unwrap_used, reason = "what cannot be set up fails the test")]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_authn::{Anonymous, Authorities, FailFast, Union, X509};
use binnacle_authz::AlwaysAllow;
use binnacle_request::{Body, BoxError, BoxFuture, Link, Request, RequestInfo, Response, ShutdownTrigger};
use binnacle_server::{
    Authentication, BoundPort, Chain, ChainConfig, ChainOptions, DefaultCertificate, Links, Metrics, PortSharing,
    Server, Tls, TlsFiles, TlsSettings, json_failure,
};
use binnacle_testkit::https::{Client, Handshake};
use bytes::Bytes;
use futures::StreamExt;
use http_body_util::BodyExt;
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls::ProtocolVersion;
use rustls_pki_types::PrivateKeyDer;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// A link with a watch that sends one event and then waits for the server to stop, and some short requests.
struct TestLink {
    /// Told when the slow request is being handled.
    slow: Arc<Notify>,
}

impl Link for TestLink {
    fn claims(&self, _: &RequestInfo) -> bool {
        true
    }

    fn handle(&self, mut request: Request) -> BoxFuture<'_, Response> {
        Box::pin(async move {
            match request.info.verb.as_str() {
                "watch" if request.info.resource == "stubborn" => {
                    Response::new(Body::stream(futures::stream::pending::<Result<Bytes, BoxError>>()))
                }
                "watch" => {
                    let first = futures::stream::iter([Ok::<_, BoxError>(Bytes::from_static(b"event\n"))]);
                    let rest = futures::stream::pending().take_until(request.shutdown.fired());
                    Response::new(Body::stream(first.chain(rest)))
                }
                "create" => match request.read_body(100).await {
                    Ok(body) => Response::new(Body::from(format!("{} bytes", body.len()))),
                    Err(error) => json_failure(&(&error).into(), &request.headers),
                },
                "list" => {
                    self.slow.notify_one();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Response::new(Body::from("slow"))
                }
                _ => Response::new(Body::from(request.user.name.to_string())),
            }
        })
    }
}

struct Running {
    address: SocketAddr,
    authority: String,
    issuer: Issuer<'static, KeyPair>,
    stop: oneshot::Sender<()>,
    done: JoinHandle<()>,
    slow: Arc<Notify>,
}

impl Running {
    async fn start() -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::default();
        params.is_ca = IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
        let certificate = params.self_signed(&key).unwrap();
        let authority = certificate.pem();
        let issuer = Issuer::new(params, key);
        let key = KeyPair::generate().unwrap();
        let serving = CertificateParams::new(vec!["localhost".to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        let files =
            TlsFiles { chain: vec![serving.der().clone()], key: PrivateKeyDer::try_from(key.serialize_der()).unwrap() };
        let authorities = Arc::new(Authorities::from_pem("test", authority.as_bytes()).unwrap());
        let port = BoundPort::bind(([127, 0, 0, 1], 0).into(), PortSharing::Refused).await.unwrap();
        let address = port.address();
        let listener = port.with_tls(
            Tls::new(&TlsSettings::default(), DefaultCertificate::Made(files), Vec::new(), authorities.names())
                .unwrap(),
        );
        let (trigger, shutdown) = ShutdownTrigger::new();
        let slow = Arc::new(Notify::new());
        let chain = Chain::new(ChainConfig {
            authentication: Authentication::by(Arc::new(FailFast(
                Union::new(vec![Box::new(X509::new(authorities))]),
                Anonymous::new(),
            ))),
            authorizer: Arc::new(AlwaysAllow),
            links: Links::new(vec![Arc::new(TestLink { slow: slow.clone() })]),
            failure: json_failure,
            metrics: Metrics::new().unwrap(),
            shutdown,
            request_timeout: Duration::from_secs(60),
            options: ChainOptions::default(),
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let server = Server::new(listener, Arc::new(chain), trigger);
        let done = tokio::spawn(server.run(async { drop(stopped.await) }));
        Self { address, authority, issuer, stop, done, slow }
    }

    fn handshake(&self) -> Handshake {
        Handshake::new(&self.authority)
    }

    fn identity(&self, name: &str) -> Handshake {
        identity(self.handshake(), name, &self.issuer)
    }

    async fn connect(&self, handshake: &Handshake) -> Client {
        Client::connect(self.address, handshake).await.unwrap()
    }

    /// Stops the server and says how long that took.
    async fn stop(self) -> Duration {
        let began = Instant::now();
        self.stop.send(()).unwrap();
        self.done.await.unwrap();
        began.elapsed()
    }
}

fn identity(handshake: Handshake, name: &str, issuer: &Issuer<'static, KeyPair>) -> Handshake {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, issuer).unwrap();
    handshake.identity(&certificate.pem(), &key.serialize_pem())
}

#[tokio::test]
async fn protocols() {
    let server = Running::start().await;
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
            // The second request shows that the connection is kept.
            for _ in 0..2 {
                let answer = client.get("/who").await.unwrap();
                assert_eq!((answer.status, answer.body.as_str()), (200, "me"));
            }
        }
    }
    assert!(Client::connect(server.address, &server.handshake().alpn(&["h3"])).await.is_err());
}

#[tokio::test]
async fn certificates_of_strangers_are_a_401() {
    let server = Running::start().await;
    let stranger = Running::start().await;
    for alpn in ["h2", "http/1.1"] {
        let handshake = identity(server.handshake(), "admin", &stranger.issuer).alpn(&[alpn]);
        let mut client = server.connect(&handshake).await;
        let answer = client.get("/who").await.unwrap();
        assert_eq!(answer.status, 401);
        assert!(answer.body.contains("\"reason\":\"Unauthorized\""), "{}", answer.body);
    }
}

#[tokio::test]
async fn nobody_keeps_an_http2_connection() {
    let server = Running::start().await;
    let mut client = server.connect(&server.handshake().alpn(&["h2"])).await;
    assert_eq!(client.get("/who").await.unwrap().body, "system:anonymous");
    tokio::time::timeout(Duration::from_secs(5), &mut client.connection).await.unwrap().unwrap();
    let mut client = server.connect(&server.handshake().alpn(&["http/1.1"])).await;
    for _ in 0..2 {
        assert_eq!(client.get("/who").await.unwrap().body, "system:anonymous");
    }
}

#[tokio::test]
async fn bodies_have_a_limit() {
    let server = Running::start().await;
    for alpn in ["h2", "http/1.1"] {
        for (size, want) in [(0, (200, "0 bytes")), (100, (200, "100 bytes")), (101, (413, "limit is 100"))] {
            let mut client = server.connect(&server.identity("me").alpn(&[alpn])).await;
            let answer = client.send("POST", "/api/v1/pods", &[], "x".repeat(size)).await.unwrap();
            assert_eq!(answer.status, want.0, "{alpn}");
            assert!(answer.body.contains(want.1), "{}", answer.body);
        }
    }
}

#[tokio::test]
async fn head_has_no_body() {
    let server = Running::start().await;
    for alpn in ["h2", "http/1.1"] {
        let mut client = server.connect(&server.identity("me").alpn(&[alpn])).await;
        let answer = client.send("HEAD", "/who", &[], "").await.unwrap();
        assert_eq!((answer.status, answer.header("content-length"), answer.body.as_str()), (200, "2", ""), "{alpn}");
        assert_eq!(client.get("/who").await.unwrap().body, "me");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn stopping_lets_a_thousand_watches_go() {
    let server = Running::start().await;
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
    // The target is 50 ms; a machine that builds and runs other tests at the same time gets more.
    assert!(took < Duration::from_secs(1), "{took:?}");
    for body in watches {
        // Each ended in order: no error, no further event.
        assert_eq!(body.collect().await.unwrap().to_bytes(), "");
    }
    assert!(Client::connect(address, &handshake).await.is_err());
}

#[tokio::test]
async fn stopping_waits_for_short_requests_and_not_for_stubborn_streams() {
    let server = Running::start().await;
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
