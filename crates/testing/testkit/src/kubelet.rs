//! A kubelet as the server sees it: HTTPS with client certificates, logs written by tests, commands that really run (on
//! this machine, in the test's own directory), ports of this machine. Tests can make it misbehave.

mod command;
mod forward;
mod http;
mod query;

use std::collections::HashMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};
use rustls_pki_types::pem::PemObject;
use rustls_pki_types::{CertificateDer, PrivateKeyDer};
use tokio::sync::{oneshot, watch};

use crate::TempDir;

/// A running kubelet, until dropped.
pub struct Kubelet {
    address: SocketAddr,
    files: TempDir,
    shared: Arc<Shared>,
    stop: Option<oneshot::Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

/// A misbehavior of the kubelet.
#[derive(Clone, Debug)]
pub enum Misbehavior {
    /// Answers with a code and a text.
    Refuses(u16, &'static str),
    /// Redirects the server.
    Redirects(&'static str),
    /// Reads the request and closes the connection.
    HangsUp,
    /// Reads the request and never answers.
    Hangs,
    /// Announces more bytes than it sends.
    Lies,
    /// Begins a session and breaks it after the command's first output.
    BreaksOff,
}

struct Shared {
    /// Misbehaviors, by pod.
    troubles: Mutex<HashMap<String, Misbehavior>>,
    /// Received requests and terminal sizes.
    seen: Mutex<Vec<String>>,
    /// The log of all containers.
    log: watch::Sender<Vec<String>>,
    /// The working directory of commands.
    directory: PathBuf,
}

impl Kubelet {
    /// Starts it with an authority of its own for the server's certificate.
    #[must_use]
    pub fn start() -> Self {
        Self::start_with(None)
    }

    /// Starts it with the server's authority, as PEM.
    #[must_use]
    pub fn trusting(authority: &str) -> Self {
        Self::start_with(Some(authority))
    }

    fn start_with(clients: Option<&str>) -> Self {
        let files = TempDir::new();
        let directory = files.path().join("container");
        std::fs::create_dir(&directory).unwrap();
        let shared = Arc::new(Shared {
            troubles: Mutex::default(),
            seen: Mutex::default(),
            log: watch::Sender::new(Vec::new()),
            directory,
        });
        let config = Arc::new(pki(&files, clients));
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let address = listener.local_addr().unwrap();
        let (stop, stopped) = oneshot::channel();
        let thread = std::thread::spawn({
            let shared = shared.clone();
            move || {
                let runtime =
                    tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build().unwrap();
                runtime.block_on(async {
                    tokio::select! {
                        () = http::serve(listener, config, shared) => {}
                        _ = stopped => {}
                    }
                });
                runtime.shutdown_background();
            }
        });
        Self { address, files, shared, stop: Some(stop), thread: Some(thread) }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// Returns the flags with which a server reaches it.
    #[must_use]
    pub fn flags(&self) -> Vec<String> {
        [("certificate-authority", "ca.crt"), ("client-certificate", "client.crt"), ("client-key", "client.key")]
            .map(|(flag, file)| format!("--kubelet-{flag}={}", self.files.path().join(file).display()))
            .to_vec()
    }

    /// Returns the working directory of commands.
    #[must_use]
    pub fn directory(&self) -> PathBuf {
        self.shared.directory.clone()
    }

    /// Writes a line to the log of all containers.
    pub fn log(&self, line: &str) {
        self.shared.log.send_modify(|lines| lines.push(line.to_owned()));
    }

    /// Makes it misbehave for a pod from now on.
    pub fn trouble(&self, pod: &str, trouble: Misbehavior) {
        self.shared.troubles.lock().unwrap().insert(pod.to_owned(), trouble);
    }

    /// Returns received requests, as `METHOD PATH`, and terminal sizes.
    #[must_use]
    pub fn seen(&self) -> Vec<String> {
        self.shared.seen.lock().unwrap().clone()
    }
}

impl Drop for Kubelet {
    fn drop(&mut self) {
        drop(self.stop.take());
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn saw(&self, what: String) {
        self.seen.lock().unwrap().push(what);
    }

    fn trouble_with(&self, pod: &str) -> Option<Misbehavior> {
        self.troubles.lock().unwrap().get(pod).cloned()
    }
}

/// Makes an authority with a certificate for the kubelet and one for the server, in files for the latter. `clients` is
/// another authority of the server.
fn pki(files: &TempDir, clients: Option<&str>) -> ServerConfig {
    let mut authority = rcgen::CertificateParams::new([]).unwrap();
    authority.is_ca = rcgen::IsCa::Ca(rcgen::BasicConstraints::Unconstrained);
    let authority_key = rcgen::KeyPair::generate().unwrap();
    let authority_pem = authority.self_signed(&authority_key).unwrap().pem();
    let issuer = rcgen::Issuer::new(authority, authority_key);
    let issue = |name: &str| {
        let key = rcgen::KeyPair::generate().unwrap();
        let certificate = rcgen::CertificateParams::new([name.to_owned()]).unwrap().signed_by(&key, &issuer).unwrap();
        (certificate.pem(), key.serialize_pem())
    };
    let (client, client_key) = issue("kube-apiserver");
    for (name, text) in [("ca.crt", &authority_pem), ("client.crt", &client), ("client.key", &client_key)] {
        std::fs::write(files.path().join(name), text).unwrap();
    }

    let (server, server_key) = issue("127.0.0.1");
    let mut roots = RootCertStore::empty();
    let clients = clients.unwrap_or(&authority_pem);
    roots.add(CertificateDer::from_pem_slice(clients.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let verifier = WebPkiClientVerifier::builder_with_provider(roots.into(), provider.clone()).build().unwrap();
    ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_client_cert_verifier(verifier)
        .with_single_cert(
            vec![CertificateDer::from_pem_slice(server.as_bytes()).unwrap()],
            PrivateKeyDer::from_pem_slice(server_key.as_bytes()).unwrap(),
        )
        .unwrap()
}
