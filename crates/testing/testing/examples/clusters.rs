//! kube-rs with a Kubernetes API for each test, all in one server.
//!
//!     cargo run -p binnacle-testing --features clusters --example clusters

use binnacle_testing::{ApiServer, Cluster};
use k8s_openapi::api::core::v1::Namespace;
use kube::api::{ListParams, PostParams};
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

type Failure = Box<dyn std::error::Error>;

#[tokio::main]
async fn main() -> Result<(), Failure> {
    // Tests of one process can share it in a `LazyLock`.
    let server = ApiServer::builder().flag("--logical-clusters").start()?;
    for team in ["red", "green"] {
        let cluster = server.cluster(None).await?;
        let namespaces: Api<Namespace> = Api::all(client(&cluster).await?);
        let namespace = serde_json::from_value(serde_json::json!({"metadata": {"name": team}}))?;
        namespaces.create(&PostParams::default(), &namespace).await?;
        let names =
            namespaces.list(&ListParams::default()).await?.items.into_iter().filter_map(|item| item.metadata.name);
        println!("{}", names.filter(|name| !name.starts_with("kube-")).collect::<Vec<_>>().join(" "));
        // Dropping the value deletes the cluster, too.
        cluster.delete().await?;
    }
    Ok(())
}

async fn client(cluster: &Cluster) -> Result<Client, Failure> {
    let kubeconfig = Kubeconfig::from_yaml(cluster.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    Ok(Client::try_from(config)?)
}
