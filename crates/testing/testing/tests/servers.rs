//! Servers as tests use them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::path::{Path, PathBuf};
use std::thread;

use binnacle_testing::{ApiServer, StartError};
use binnacle_testkit::https::{Client, Handshake};

fn program() -> PathBuf {
    binnacle_testkit::program().get_program().into()
}

fn start() -> ApiServer {
    ApiServer::builder().program(program()).start().unwrap()
}

/// Sends a request and returns the status of the response.
async fn ask(server: &ApiServer, handshake: &Handshake, path: &str, token: Option<&str>, body: Option<&str>) -> u16 {
    let address = server.url().strip_prefix("https://").unwrap().parse().unwrap();
    let mut client = Client::connect(address, handshake).await.unwrap();
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let method = if body.is_some() { "POST" } else { "GET" };
    client.send(method, path, &headers, body.unwrap_or_default()).await.unwrap().status
}

#[tokio::test]
async fn what_it_tells_is_what_clients_need() {
    let server = start();
    let by_certificate = Handshake::of_kubeconfig(server.kubeconfig());
    assert_eq!(ask(&server, &by_certificate, "/api/v1/secrets", None, None).await, 200);
    let anonymous = Handshake::new(server.ca());
    assert_eq!(ask(&server, &anonymous, "/api/v1/secrets", Some(server.token()), None).await, 200);
    assert_eq!(ask(&server, &anonymous, "/api/v1/secrets", Some("other"), None).await, 401);
    assert_eq!(std::fs::read_to_string(server.kubeconfig_path()).unwrap(), server.kubeconfig());
    assert_eq!(std::fs::read_to_string(server.ca_path()).unwrap(), server.ca());
}

#[tokio::test]
async fn takes_pods_where_no_service_accounts_are() {
    const POD: &str =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    for (flag, code) in [(None, 201), (Some("--enable-admission-plugins=ServiceAccount"), 403)] {
        let mut builder = ApiServer::builder().program(program());
        if let Some(flag) = flag {
            builder = builder.flag(flag);
        }
        let server = builder.start().unwrap();
        let handshake = Handshake::of_kubeconfig(server.kubeconfig());
        assert_eq!(ask(&server, &handshake, "/api/v1/namespaces/default/pods", None, Some(POD)).await, code);
    }
}

/// Fifty servers at once: each has its own objects, and all are removed completely.
#[test]
fn fifty_at_once() {
    const NAMESPACE: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"mine"}}"#;
    let threads: Vec<_> = (0..50).map(|_| thread::spawn(start)).collect();
    let servers: Vec<ApiServer> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    for server in &servers {
        let handshake = Handshake::of_kubeconfig(server.kubeconfig());
        let made = runtime.block_on(ask(server, &handshake, "/api/v1/namespaces", None, Some(NAMESPACE)));
        assert_eq!(made, 201, "{}", server.log());
    }
    let left: Vec<(u32, PathBuf)> = servers.iter().map(|server| (server.id(), server.kubeconfig_path())).collect();
    drop(servers);
    for (id, path) in left {
        assert!(!Path::new(&format!("/proc/{id}")).exists(), "{id} still runs");
        assert!(!path.ancestors().nth(2).unwrap().exists(), "{} is still there", path.display());
    }
}

#[test]
fn what_does_not_start_says_why() {
    let failed = |builder: binnacle_testing::Builder| builder.start().err().unwrap();
    let error = failed(ApiServer::builder().program("/nowhere/kube-apiserver"));
    assert!(matches!(error, StartError::Spawn { .. }), "{error}");
    let error = failed(ApiServer::builder().program(program()).flag("--no-such-flag"));
    assert!(error.to_string().contains("no-such-flag"), "{error}");
    // A program that ends without output.
    let error = failed(ApiServer::builder().program("/bin/true"));
    assert!(matches!(error, StartError::NotReady { .. }), "{error}");
}
