//! The server in this process, on a real socket, with handlers for the different behaviors.

#![allow(
    dead_code,
    unreachable_pub,
    clippy::unwrap_used,
    reason = "each test uses a part of it, and what cannot be set up fails the test"
)]

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::{Duration, Instant};

use binnacle_authn::{Anonymous, Authorities, FailFast, Union, X509};
use binnacle_authz::AlwaysAllow;
use binnacle_flowcontrol::FlowControl;
use binnacle_request::{
    Body, BoxError, BoxFuture, Handler, Preferences, Request, RequestInfo, Response, ShutdownTrigger, waiting,
};
use binnacle_server::{
    Authentication, Canary, CanaryTimes, Chain, ChainConfig, ChainOptions, Health, HealthMetrics, Metrics, PingCheck,
    Router, Server, json_failure,
};
use binnacle_testkit::https::{Client, Handshake};
use binnacle_transport::{BoundPort, ConnectionLimits, DefaultCertificate, PortSharing, Tls, TlsFiles, TlsSettings};
use bytes::Bytes;
use futures::StreamExt;
use rcgen::{CertificateParams, DnType, IsCa, Issuer, KeyPair};
use rustls_pki_types::PrivateKeyDer;
use tokio::runtime::Handle;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;

/// The options of a server.
pub(crate) struct Options {
    pub limits: ConnectionLimits,
    pub request_timeout: Duration,
    /// A separate runtime for the listener.
    pub front: Option<Handle>,
    /// The thresholds of the supervision of workers, which needs a separate runtime.
    pub canary: Option<CanaryTimes>,
    pub fairness: Option<Arc<FlowControl>>,
}

impl Default for Options {
    fn default() -> Self {
        let (limits, request_timeout) = (ConnectionLimits::default(), Duration::from_secs(60));
        Self { limits, request_timeout, front: None, canary: None, fairness: None }
    }
}

/// A handler with a watch that sends one event and then waits for the shutdown, and with some short requests.
pub(crate) struct TestHandler {
    /// Notified when the slow request is being handled.
    pub slow: Arc<Notify>,
    /// Ends requests that wait for it.
    pub end_wait: Arc<Notify>,
    pub freezer: Arc<Freezer>,
}

/// Blocks workers, as no handler should, until they are released.
#[derive(Default)]
pub(crate) struct Freezer {
    released: Mutex<bool>,
    changed: Condvar,
}

impl Freezer {
    fn block(&self) {
        let mut released = self.released.lock().unwrap();
        while !*released {
            released = self.changed.wait(released).unwrap();
        }
    }

    pub(crate) fn release(&self) {
        *self.released.lock().unwrap() = true;
        self.changed.notify_all();
    }
}

impl Handler for TestHandler {
    fn matches(&self, _: &RequestInfo) -> bool {
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
                    Err(error) => json_failure(&(&error).into(), &Preferences::default()),
                },
                "list" => {
                    self.slow.notify_one();
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    Response::new(Body::from("slow"))
                }
                _ if request.info.path == "/freeze" => {
                    self.freezer.block();
                    Response::new(Body::from("released"))
                }
                _ if request.info.path == "/wait" => match waiting(self.end_wait.notified()).await {
                    Ok(()) => Response::new(Body::from("waited")),
                    Err(error) => json_failure(&error.into(), &Preferences::default()),
                },
                // Blocks a worker, as no handler should.
                _ if request.info.path == "/block" => {
                    std::thread::sleep(Duration::from_secs(3));
                    Response::new(Body::from("blocked"))
                }
                _ if request.info.path == "/large" => Response::new(Body::from(vec![b'x'; 10 << 20])),
                _ => Response::new(Body::from(request.user.name.to_string())),
            }
        })
    }
}

pub(crate) struct TestServer {
    pub address: SocketAddr,
    pub authority: String,
    pub issuer: Issuer<'static, KeyPair>,
    pub stop: oneshot::Sender<()>,
    pub done: JoinHandle<()>,
    pub slow: Arc<Notify>,
    /// Ends requests that wait for it.
    pub end_wait: Arc<Notify>,
    pub freezer: Arc<Freezer>,
    pub canary: Option<Arc<Canary>>,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(Options::default()).await
    }

    pub(crate) async fn with(options: Options) -> Self {
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
        let names = authorities.clone();
        let mut listener = port.with_tls(
            Tls::new(
                &TlsSettings::default(),
                DefaultCertificate::Generated(files),
                Vec::new(),
                vec![Arc::new(move || names.names())],
            )
            .unwrap(),
        );
        listener = listener.limits(options.limits);
        if let Some(front) = &options.front {
            listener = listener.front(front.clone());
        }
        let front = options.front.as_ref();
        let canary = options.canary.map(|times| Canary::start(&Handle::current(), front.unwrap(), times));
        let (trigger, shutdown) = ShutdownTrigger::new();
        let health = Health::new(HealthMetrics::new().unwrap());
        let health = match &canary {
            Some(canary) => health.alive(canary.alive()).ready(canary.ready()),
            None => health.everywhere(Arc::new(PingCheck)),
        };
        let (slow, freezer) = (Arc::new(Notify::new()), Arc::new(Freezer::default()));
        let end_wait = Arc::new(Notify::new());
        let handler = TestHandler { slow: slow.clone(), end_wait: end_wait.clone(), freezer: freezer.clone() };
        let chain = Chain::new(ChainConfig {
            authentication: Authentication::by(Arc::new(FailFast(
                Union::new(vec![Box::new(X509::new(authorities))]),
                Anonymous::new(),
            ))),
            authorizer: Arc::new(AlwaysAllow),
            router: Router::new(vec![Arc::new(health), Arc::new(handler)]),
            failure: json_failure,
            metrics: Metrics::new().unwrap(),
            features: Arc::default(),
            shutdown,
            request_timeout: options.request_timeout,
            options: ChainOptions { fairness: options.fairness, ..ChainOptions::default() },
        });
        let (stop, stopped) = oneshot::channel::<()>();
        let server = Server::new(listener, Arc::new(chain), trigger);
        let done = tokio::spawn(server.run(async { drop(stopped.await) }));
        Self { address, authority, issuer, stop, done, slow, end_wait, freezer, canary }
    }

    pub(crate) fn handshake(&self) -> Handshake {
        Handshake::new(&self.authority)
    }

    pub(crate) fn identity(&self, name: &str) -> Handshake {
        identity(self.handshake(), name, &self.issuer)
    }

    pub(crate) async fn connect(&self, handshake: &Handshake) -> Client {
        Client::connect(self.address, handshake).await.unwrap()
    }

    /// Stops the server and returns the duration.
    pub(crate) async fn stop(self) -> Duration {
        let began = Instant::now();
        self.stop.send(()).unwrap();
        self.done.await.unwrap();
        began.elapsed()
    }
}

pub(crate) fn identity(handshake: Handshake, name: &str, issuer: &Issuer<'static, KeyPair>) -> Handshake {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::default();
    params.distinguished_name = rcgen::DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, name);
    let certificate = params.signed_by(&key, issuer).unwrap();
    handshake.identity(&certificate.pem(), &key.serialize_pem())
}
