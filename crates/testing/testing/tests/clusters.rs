//! Logical clusters as tests use them.

#![allow(clippy::unwrap_used, reason = "what fails here fails the test")]

use std::os::unix::fs::PermissionsExt;
use std::sync::LazyLock;

use binnacle_testing::{ApiServer, Cluster, ClusterError};
use binnacle_testkit::https::{Client, Handshake};

const NAMESPACE: &str = r#"{"apiVersion":"v1","kind":"Namespace","metadata":{"name":"mine"}}"#;
const NAMESPACES: &str = "/api/v1/namespaces";

/// The server of tests that only create clusters.
static SERVER: LazyLock<ApiServer> = LazyLock::new(|| start(&["--logical-clusters"]));

fn start(flags: &[&str]) -> ApiServer {
    let builder = ApiServer::builder().program(binnacle_testkit::program().get_program());
    flags.iter().fold(builder, |builder, flag| builder.flag(flag)).start().unwrap()
}

/// Sends a request to a URL, and returns the status of the response.
async fn ask(url: &str, handshake: &Handshake, path: &str, token: Option<&str>, body: Option<&str>) -> u16 {
    let (address, prefix) = url.strip_prefix("https://").unwrap().split_once('/').unwrap();
    let mut client = Client::connect(address.parse().unwrap(), handshake).await.unwrap();
    let bearer = token.map(|token| format!("Bearer {token}"));
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(bearer.as_deref().map(|bearer| ("authorization", bearer)));
    let method = if body.is_some() { "POST" } else { "GET" };
    client.send(method, &format!("/{prefix}{path}"), &headers, body.unwrap_or_default()).await.unwrap().status
}

/// Sends a request to a cluster as the user of its kubeconfig.
async fn ask_cluster(cluster: &Cluster, path: &str, body: Option<&str>) -> u16 {
    ask(cluster.url(), &Handshake::of_kubeconfig(cluster.kubeconfig()), path, None, body).await
}

#[tokio::test]
async fn cluster_has_objects_of_its_own() {
    let (first, second) = tokio::join!(tokio::spawn(SERVER.cluster(None)), SERVER.cluster("second"));
    let (first, second) = (first.unwrap().unwrap(), second.unwrap());
    assert_eq!(second.url(), format!("{}/clusters/second", SERVER.url()));
    assert_ne!(first.name(), second.name());
    assert_eq!(ask_cluster(&first, NAMESPACES, Some(NAMESPACE)).await, 201);
    assert_eq!(ask_cluster(&second, &format!("{NAMESPACES}/mine"), None).await, 404);
    assert_eq!(ask_cluster(&second, NAMESPACES, Some(NAMESPACE)).await, 201);
    // The credentials of one are worthless in the other; the server's token is valid in both.
    let (of_first, anonymous) = (Handshake::of_kubeconfig(first.kubeconfig()), Handshake::new(second.ca()));
    assert_eq!(ask(second.url(), &of_first, NAMESPACES, None, None).await, 401);
    assert_eq!(ask(second.url(), &anonymous, NAMESPACES, Some(second.token()), None).await, 200);
    assert_eq!(std::fs::read_to_string(second.ca_path()).unwrap(), second.ca());
}

#[tokio::test]
async fn fork_has_the_objects_of_its_source() {
    let base = SERVER.cluster(None).await.unwrap();
    assert_eq!(ask_cluster(&base, NAMESPACES, Some(NAMESPACE)).await, 201);
    let (first, second) = tokio::join!(base.fork(None), base.fork("second-fork"));
    let (first, second) = (first.unwrap(), second.unwrap());
    assert_eq!(second.name(), "second-fork");
    let other = NAMESPACE.replace("mine", "other");
    assert_eq!(ask_cluster(&first, NAMESPACES, Some(&other)).await, 201);
    for (cluster, has_other) in [(&first, 200), (&second, 404), (&base, 404)] {
        assert_eq!(ask_cluster(cluster, &format!("{NAMESPACES}/mine"), None).await, 200);
        assert_eq!(ask_cluster(cluster, &format!("{NAMESPACES}/other"), None).await, has_other);
    }
}

#[tokio::test]
async fn deleted_cluster_leaves_its_name() {
    let server = start(&["--logical_clusters=true"]);
    for _ in 0..2 {
        let cluster = server.cluster("again").await.unwrap();
        let path = cluster.kubeconfig_path().to_owned();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), cluster.kubeconfig());
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(ask_cluster(&cluster, NAMESPACES, Some(NAMESPACE)).await, 201);
        cluster.delete().await.unwrap();
        assert!(!path.exists());
    }
    drop(server.blocking_cluster("again").unwrap());
    let cluster = server.blocking_cluster("again").unwrap();
    let path = cluster.kubeconfig_path().to_owned();
    drop(server);
    assert!(!path.parent().unwrap().parent().unwrap().exists());
    assert!(matches!(cluster.delete().await, Err(ClusterError::Connection(_))));
}

#[tokio::test]
async fn second_cluster_of_a_name_is_an_error() {
    let cluster = SERVER.cluster("taken").await.unwrap();
    let error = SERVER.cluster("taken").await.err().unwrap();
    assert!(matches!(&error, ClusterError::Exists { name } if name == "taken"), "{error}");
    assert_eq!(error.to_string(), "a logical cluster with the name taken exists already");
    assert_eq!(ask_cluster(&cluster, NAMESPACES, None).await, 200);
    for name in ["", "No-Label", "a.b", "../other"] {
        let error = SERVER.cluster(name).await.err().unwrap();
        let message = error.to_string();
        assert!(matches!(error, ClusterError::Refused { .. }) && message.contains("metadata.name"), "{message}");
    }
}

#[tokio::test]
async fn server_needs_the_flag() {
    let error = start(&[]).cluster(None).await.err().unwrap();
    assert!(matches!(error, ClusterError::NotHosted), "{error}");
}

#[tokio::test]
async fn cluster_whose_future_is_dropped_is_deleted() {
    {
        let creation = SERVER.cluster("abandoned");
        let now = tokio::time::timeout(std::time::Duration::ZERO, creation);
        assert!(now.await.is_err());
    }
    // The first attempts may find the cluster that is being created or deleted.
    let again = binnacle_testkit::wait_until("the name to be free", async || SERVER.cluster("abandoned").await.ok());
    assert_eq!(ask_cluster(&again.await, NAMESPACES, None).await, 200);
}
