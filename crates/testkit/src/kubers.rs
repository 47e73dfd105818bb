//! The client that Rust programs use.

use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::Server;

impl Server {
    /// A kube-rs client of the administrator.
    pub async fn kube(&self) -> kube::Client {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        let options = KubeConfigOptions::default();
        let config = kube::Config::from_custom_kubeconfig(kubeconfig, &options).await.unwrap();
        kube::Client::try_from(config).unwrap()
    }
}
