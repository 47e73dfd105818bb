//! kube-rs with a server of its own.
//!
//!     cargo run -p binnacle-testing --example kube_rs

use binnacle_testing::ApiServer;
use k8s_openapi::api::core::v1::Pod;
use kube::api::PostParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Api, Client, Config};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let server = ApiServer::start()?;
    let kubeconfig = Kubeconfig::from_yaml(server.kubeconfig())?;
    let config = Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    let pods: Api<Pod> = Api::default_namespaced(Client::try_from(config)?);
    let pod = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "web"},
        "spec": {"containers": [{"name": "web", "image": "nginx"}]},
    }))?;
    pods.create(&PostParams::default(), &pod).await?;
    let phase = pods.get("web").await?.status.and_then(|status| status.phase);
    println!("the pod is {}", phase.as_deref().unwrap_or("without a phase"));
    Ok(())
}
