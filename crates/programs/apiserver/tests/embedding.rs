//! Servers embedded in another program: several at once, each with settings of its own.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

use std::net::TcpListener;
use std::sync::Arc;

use binnacle_apiserver::{ClusterError, Gates, Handle, LogicalCluster, Server, Settings, Version};
use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{TempDir, wait_until};
use serde_json::{Value, json};

const DEPLOYMENTS: &str = "/apis/apps/v1/namespaces/default/deployments";

async fn client(server: &Handle) -> Client {
    Client::connect(server.address(), &Handshake::of_kubeconfig(&server.kubeconfig().unwrap())).await.unwrap()
}

async fn create(client: &mut Client, name: &str, privileged: bool) -> (u16, Value) {
    let deployment = json!({
        "apiVersion": "apps/v1",
        "kind": "Deployment",
        "metadata": {"name": name},
        "spec": {
            "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}},
                "spec": {
                    "schedulingGroup": {"podGroupName": "group"},
                    "containers": [{"name": "c", "image": "i", "securityContext": {"privileged": privileged}}]
                }
            }
        }
    });
    let json = [("content-type", "application/json")];
    let Answer { status, body, .. } = client.send("POST", DEPLOYMENTS, &json, deployment.to_string()).await.unwrap();
    (status, serde_json::from_str(&body).unwrap())
}

/// Returns the value of a gate in the server's own metrics.
async fn gate(client: &mut Client, name: &str) -> String {
    let families = client.get("/metrics").await.unwrap().body;
    let row = format!("kubernetes_feature_enabled{{name=\"{name}\"");
    let row = families.lines().find(|line| line.starts_with(&row)).unwrap();
    row.rsplit_once(' ').unwrap().1.to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn two_servers_share_a_process() {
    let temp = TempDir::new();
    let gates = Gates::parse(&["GenericWorkload=true"], Version::BINARY, Version::BINARY.previous()).unwrap();
    let in_directory = || Settings::in_directory(temp.path().join("data")).allow_privileged(false);
    let mut passing = Server::start(Settings::ephemeral().gates(gates)).await.unwrap();
    let mut lasting = Server::start(in_directory()).await.unwrap();
    assert_ne!(passing.address(), lasting.address());
    for server in [&mut passing, &mut lasting] {
        server.ready().await.unwrap();
    }
    let (mut first, mut second) = (client(&passing).await, client(&lasting).await);
    for connection in [&mut first, &mut second] {
        assert_eq!(connection.get("/readyz").await.unwrap().status, 200);
    }

    // Gates: a feature's field is kept only if the feature is on.
    let group = "/spec/template/spec/schedulingGroup/podGroupName";
    for (connection, enabled, kept) in [(&mut first, "1", Some("group")), (&mut second, "0", None)] {
        assert_eq!(gate(connection, "GenericWorkload").await, enabled);
        let (status, made) = create(connection, "plain", false).await;
        assert_eq!(status, 201, "{made}");
        assert_eq!(made.pointer(group).and_then(Value::as_str), kept);
    }
    // Privileged containers: the first server allows them, the second does not.
    assert_eq!(create(&mut first, "privileged", true).await.0, 201);
    let (status, refused) = create(&mut second, "privileged", true).await;
    assert_eq!(status, 422, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("disallowed by cluster policy"), "{refused}");

    // One server ends, the other continues.
    let (address, kubeconfig) = (passing.address(), passing.kubeconfig_path().unwrap().to_owned());
    passing.stop().await;
    drop(TcpListener::bind(address).unwrap());
    assert!(!kubeconfig.exists());
    assert_eq!(second.get(&format!("{DEPLOYMENTS}/plain")).await.unwrap().status, 200);

    // The next server can use the directory, and has the objects of this one.
    let address = lasting.address();
    lasting.stop().await;
    drop(TcpListener::bind(address).unwrap());
    let again = Server::start(in_directory()).await.unwrap();
    assert_eq!(client(&again).await.get(&format!("{DEPLOYMENTS}/plain")).await.unwrap().status, 200);
    again.stop().await;
}

/// Lists the namespaces of a logical cluster as its administrator, and returns the status.
async fn namespaces(server: &Handle, cluster: &LogicalCluster) -> u16 {
    let handshake = Handshake::of_kubeconfig(cluster.kubeconfig());
    let mut client = Client::connect(server.address(), &handshake).await.unwrap();
    let path = format!("{}/api/v1/namespaces", cluster.url().strip_prefix(server.url()).unwrap());
    client.get(&path).await.unwrap().status
}

#[tokio::test(flavor = "multi_thread")]
async fn server_provides_logical_clusters() {
    let server = Server::start(Settings::ephemeral().logical_clusters(true)).await.unwrap();
    let server = Arc::new(server);
    let spawned = server.clone();
    let spawned = tokio::spawn(async move { spawned.cluster("b").await });
    // At once after the start, and concurrently.
    let (a, b, again) = tokio::join!(server.cluster("a"), spawned, server.cluster("a"));
    let (a, b, again) = (a.unwrap(), b.unwrap().unwrap(), again.unwrap());
    assert_eq!((a.name(), a.url()), ("a", format!("{}/clusters/a", server.url()).as_str()));
    assert_eq!(a.kubeconfig(), again.kubeconfig());
    assert_ne!(a.kubeconfig(), b.kubeconfig());
    assert_eq!((namespaces(&server, &a).await, namespaces(&server, &b).await), (200, 200));
    assert!(!format!("{a:?}").contains("client-key-data"));

    let fork = server.fork("b", "fork").await.unwrap();
    assert_eq!((fork.name(), namespaces(&server, &fork).await), ("fork", 200));

    // A deleted cluster is another one when it is created again.
    server.delete_cluster("a").await.unwrap();
    server.delete_cluster("a").await.unwrap();
    // The host, which gets the request now, does not know the user.
    assert_eq!(namespaces(&server, &a).await, 401);
    let (next, _) = tokio::join!(server.cluster("a"), server.cluster("b"));
    let next = next.unwrap();
    assert_eq!((namespaces(&server, &next).await, namespaces(&server, &b).await), (200, 200));
    assert_ne!(next.kubeconfig(), a.kubeconfig());

    let error = server.cluster("No-Label").await.unwrap_err();
    assert!(error.to_string().starts_with("the logical cluster No-Label: "), "{error}");
    Arc::into_inner(server).unwrap().stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn waiting_for_a_cluster_ends_with_the_server() {
    let mut server = Server::start(Settings::ephemeral().logical_clusters(true)).await.unwrap();
    server.begin_stop();
    server.ended().await;
    assert!(matches!(server.cluster("a").await, Err(ClusterError::Ended(_))));
    let plain = Server::start(Settings::ephemeral()).await.unwrap();
    assert!(matches!(plain.cluster("a").await, Err(ClusterError::NotHosted)));
    plain.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn dropping_the_handle_stops_the_server() {
    let temp = TempDir::new();
    let settings = || Settings::in_directory(temp.path().join("data"));
    let server = Server::start(settings()).await.unwrap();
    let address = server.address();
    drop(server);
    wait_until("the port to be free", async || TcpListener::bind(address).ok()).await;
    wait_until("the store to be closed", async || Server::start(settings()).await.ok()).await.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn failed_start_leaves_no_files() {
    let temp = TempDir::new();
    let directory = temp.path().join("data");
    let taken = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = taken.local_addr().unwrap().port();
    let error = Server::start(Settings::in_directory(&directory).port(port)).await.unwrap_err().to_string();
    assert!(error.starts_with("failed to create listener: failed to listen on 127.0.0.1:"), "{error}");
    assert!(!directory.exists());
    // The store is in use by another server of the process.
    let holder = Server::start(Settings::in_directory(&directory)).await.unwrap();
    assert!(Server::start(Settings::in_directory(&directory)).await.is_err());
    holder.stop().await;
    Server::start(Settings::in_directory(&directory)).await.unwrap().stop().await;
}

/// A stopped server leaves no task behind: tasks would hold caches, connections and the store.
#[tokio::test(flavor = "multi_thread")]
async fn stopped_server_leaves_no_tasks() {
    let tasks = || tokio::runtime::Handle::current().metrics().num_alive_tasks();
    let before = tasks();
    for _ in 0..3 {
        let mut server = Server::start(Settings::ephemeral()).await.unwrap();
        server.ready().await.unwrap();
        let mut client = client(&server).await;
        assert_eq!(create(&mut client, "plain", false).await.0, 201);
        assert_eq!(client.get("/api/v1/pods").await.unwrap().status, 200);
        assert!(tasks() > before);
        server.stop().await;
    }
    wait_until("all tasks to end", async || (tasks() <= before).then_some(())).await;
}

/// The size is shown under kube-apiserver's name for the size of etcd's database.
#[tokio::test(flavor = "multi_thread")]
async fn exposes_size_of_store_as_metric() {
    let temp = TempDir::new();
    let mut server = Server::start(Settings::in_directory(temp.path().join("data"))).await.unwrap();
    server.ready().await.unwrap();
    let mut client = client(&server).await;
    wait_until("the size of the store", async || {
        let families = client.get("/metrics").await.unwrap().body;
        let begins = "apiserver_storage_size_bytes{storage_cluster_id=\"embedded\"} ";
        let size: f64 = families.lines().find_map(|line| line.strip_prefix(begins))?.parse().unwrap();
        (size > 0.0).then_some(())
    })
    .await;
    server.stop().await;
}

#[test]
fn page_shows_the_example() {
    let page = include_str!("../../../../docs/embedding.md");
    let example = include_str!("../examples/embed.rs");
    let code = example.split_once("\n\n").unwrap().1;
    assert!(page.contains(code), "docs/embedding.md does not have the code of examples/embed.rs");
}
