//! Connections through a proxy: an HTTP CONNECT proxy in this test records its requests.

use std::net::SocketAddr;
use std::sync::Arc;

use binnacle_testkit::{Etcd, Server, TempDir, wait_until};
use parking_lot::Mutex;
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader, copy_bidirectional};
use tokio::net::{TcpListener, TcpStream};

/// A proxy that dials any requested address, and resolves the host names of this machine.
#[derive(Clone, Default)]
pub(crate) struct Proxy(Arc<Mutex<Vec<String>>>);

impl Proxy {
    pub(crate) async fn start() -> (Self, SocketAddr) {
        let proxy = Self::default();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let serving = proxy.clone();
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(serving.clone().serve(stream));
            }
        });
        (proxy, address)
    }

    async fn serve(self, stream: TcpStream) -> Option<()> {
        let mut stream = BufReader::new(stream);
        let mut first = String::new();
        stream.read_line(&mut first).await.ok()?;
        let mut line = String::new();
        while line != "\r\n" {
            line.clear();
            stream.read_line(&mut line).await.ok()?;
        }
        let asked = first.strip_prefix("CONNECT ")?.split(' ').next()?.to_owned();
        self.0.lock().push(asked.clone());
        let dialed = TcpStream::connect(&asked).await;
        match dialed {
            Ok(mut other) => {
                stream.write_all(b"HTTP/1.1 200 OK\r\n\r\n").await.ok()?;
                copy_bidirectional(&mut stream, &mut other).await.ok()?;
            }
            Err(_) => stream.write_all(b"HTTP/1.1 502 Bad Gateway\r\n\r\n").await.ok()?,
        }
        Some(())
    }

    pub(crate) fn asked(&self) -> Vec<String> {
        self.0.lock().clone()
    }
}

pub(crate) fn config(temp: &TempDir, network: &str, proxy: SocketAddr) -> String {
    let text = format!(
        "apiVersion: apiserver.k8s.io/v1beta1\nkind: EgressSelectorConfiguration\negressSelections:\n- name: {network}\n  \
         connection: {{proxyProtocol: HTTPConnect, transport: {{tcp: {{url: 'http://{proxy}'}}}}}}\n"
    );
    temp.file("egress.yaml", &text)
}

#[tokio::test(flavor = "multi_thread")]
async fn reaches_nodes_through_the_egress_proxy() {
    let temp = TempDir::new();
    let (proxy, address) = Proxy::start().await;
    let config = config(&temp, "cluster", address);
    let server = Server::start(&["--ephemeral", "--egress-selector-config-file", &config]);
    let mut client = server.client().await;
    let json = [("content-type", "application/json")];
    let node = br#"{"apiVersion":"v1","kind":"Node","metadata":{"name":"n"}}"#;
    assert_eq!(client.send("POST", "/api/v1/nodes", &json, node).await.unwrap().status, 201);
    let status = br#"{"status":{"addresses":[{"type":"InternalIP","address":"192.0.2.1"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":1}}}}"#;
    let merge = [("content-type", "application/merge-patch+json")];
    assert_eq!(client.send("PATCH", "/api/v1/nodes/n/status", &merge, status).await.unwrap().status, 200);
    // The address does not exist: only the request to the proxy matters.
    let mut asking = server.client().await;
    let asked = tokio::spawn(async move { asking.get("/api/v1/nodes/n/proxy/").await });
    wait_until("the proxy is asked", async || (proxy.asked() == ["192.0.2.1:1"]).then_some(())).await;
    let metrics = client.get("/metrics").await.unwrap().body;
    let metric = "apiserver_egress_dialer_dial_start_total{protocol=\"http_connect\",transport=\"tcp\"} 1";
    assert!(metrics.lines().any(|line| line == metric), "{metric}");
    asked.abort();
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn reaches_etcd_through_the_egress_proxy() {
    let etcd = Etcd::single();
    let temp = TempDir::new();
    let (proxy, address) = Proxy::start().await;
    let config = config(&temp, "etcd", address);
    let server = Server::durable_with(&[&etcd.servers(), "--egress-selector-config-file", &config]);
    let mut client = server.client().await;
    assert_eq!(client.get("/api/v1/namespaces/default").await.unwrap().status, 200);
    let member = etcd.endpoints()[0].replace("http://", "");
    let asked = proxy.asked();
    assert!(!asked.is_empty() && asked.iter().all(|asked| *asked == member), "{asked:?} {member}");
}

#[tokio::test(flavor = "multi_thread")]
async fn reaches_the_trace_collector_through_the_egress_proxy() {
    let temp = TempDir::new();
    let (proxy, address) = Proxy::start().await;
    let egress = config(&temp, "controlplane", address);
    let tracing = temp.file(
        "tracing.yaml",
        "apiVersion: apiserver.config.k8s.io/v1\nkind: TracingConfiguration\nendpoint: 192.0.2.1:4317\n\
         samplingRatePerMillion: 1000000\n",
    );
    let server =
        Server::start(&["--ephemeral", "--egress-selector-config-file", &egress, "--tracing-config-file", &tracing]);
    assert_eq!(server.client().await.get("/api/v1/nodes").await.unwrap().status, 200);
    let is_asked = || proxy.asked().iter().any(|asked| asked == "192.0.2.1:4317");
    wait_until("the proxy is asked for the collector", async || is_asked().then_some(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn reaches_issuers_through_their_configured_network() {
    let temp = TempDir::new();
    let (proxy, address) = Proxy::start().await;
    let egress = config(&temp, "cluster", address);
    let issuer = |network: &str, address: &str| {
        format!(
            "- issuer: {{url: 'https://{address}', audiences: [a], egressSelectorType: '{network}'}}\n  claimMappings: \
             {{username: {{claim: sub, prefix: ''}}}}\n"
        )
    };
    let authentication = format!(
        "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthenticationConfiguration\njwt:\n{}{}",
        issuer("cluster", "192.0.2.1"),
        // This network has no proxy.
        issuer("controlplane", "127.0.0.1:1"),
    );
    let authentication = temp.file("authentication.yaml", &authentication);
    let flags = ["--ephemeral", "--egress-selector-config-file", &egress, "--authentication-config", &authentication];
    let _server = Server::start(&flags);
    wait_until("the proxy is asked for the issuer", async || {
        proxy.asked().iter().any(|asked| asked == "192.0.2.1:443").then_some(())
    })
    .await;
    assert!(proxy.asked().iter().all(|asked| asked == "192.0.2.1:443"), "{:?}", proxy.asked());
}
