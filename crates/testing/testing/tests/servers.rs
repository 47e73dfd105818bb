//! Servers as tests use them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use binnacle_testing::{ApiServer, StartError};
use binnacle_testkit::https::{Client, Handshake};
use binnacle_testkit::{TempDir, wait_until_blocking};

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
async fn credentials_give_access_as_administrator() {
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
async fn takes_pods_with_and_without_controllers() {
    const POD: &str =
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p"},"spec":{"containers":[{"name":"c","image":"i"}]}}"#;
    for (flags, code) in [
        (&[][..], 201),
        (&["--enable-admission-plugins=PodNodeSelector"], 201),
        (&["--run-controllers="], 201),
        (&["--run_controllers=", "--disable-admission-plugins=Priority"], 201),
        (&["--run-controllers=namespace", "--enable-admission-plugins=ServiceAccount"], 403),
        (&["--run-controllers=", "--admission-control=NamespaceLifecycle,ServiceAccount"], 403),
    ] {
        let builder = ApiServer::builder().program(program());
        let server = flags.iter().fold(builder, |builder, flag| builder.flag(flag)).start().unwrap();
        let handshake = Handshake::of_kubeconfig(server.kubeconfig());
        let answer = ask(&server, &handshake, "/api/v1/namespaces/default/pods", None, Some(POD)).await;
        assert_eq!(answer, code, "{flags:?}");
    }
}

/// Not a test of its own: the process that the next test kills.
#[test]
#[ignore = "waits to be killed by another test"]
fn waits_with_a_server() {
    let server = start();
    println!("server {}", server.id());
    thread::sleep(Duration::from_secs(600));
}

#[test]
fn ends_with_a_process_that_is_killed() {
    // Everything that both processes write is in this folder.
    let temp = TempDir::new();
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "waits_with_a_server", "--ignored", "--nocapture"]);
    command.env("BINNACLE_KUBE_APISERVER", program()).env("TMPDIR", temp.path());
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
    let server = lines.find_map(|line| Some(Path::new("/proc").join(line.split_once("server ")?.1))).unwrap();
    assert!(server.exists());
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 1);
    child.kill().unwrap();
    child.wait().unwrap();
    wait_until_blocking("the server has ended", || (!server.exists()).then_some(()));
    assert_eq!(std::fs::read_dir(temp.path()).unwrap().count(), 0);
}

/// Fifty servers at once: each has its own objects, and all are removed completely.
#[test]
fn runs_fifty_servers_at_once() {
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
        assert!(!path.parent().unwrap().exists(), "{} is still there", path.display());
    }
}

#[test]
fn reports_why_a_server_does_not_start() {
    let failed = |builder: binnacle_testing::Builder| builder.start().err().unwrap();
    let error = failed(ApiServer::builder().program("/nowhere/kube-apiserver"));
    assert!(matches!(error, StartError::Spawn { .. }), "{error}");
    let error = failed(ApiServer::builder().program(program()).flag("--no-such-flag"));
    assert!(error.to_string().contains("no-such-flag"), "{error}");
    // A program that ends without output.
    let error = failed(ApiServer::builder().program("/bin/true"));
    assert!(matches!(error, StartError::NotReady { .. }), "{error}");
}
