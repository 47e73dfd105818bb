//! The kube-rs client, which Rust programs use.

use kube::config::{KubeConfigOptions, Kubeconfig};

use crate::Server;

impl Server {
    /// Returns a kube-rs client of the administrator.
    pub async fn kube(&self) -> kube::Client {
        kube::Client::try_from(self.kube_config().await).unwrap()
    }

    /// Returns a client that sends every request once. The other one repeats after a 429, 503 or 504, so that the
    /// response to a write does not show the outcome of the first attempt.
    pub async fn kube_asking_once(&self) -> kube::Client {
        let mut config = self.kube_config().await;
        config.default_retry = false;
        kube::Client::try_from(config).unwrap()
    }

    /// Returns a client as [`Self::kube_asking_once`], which reaches the server at another URL.
    pub async fn kube_through(&self, url: &str) -> kube::Client {
        let mut config = self.kube_config().await;
        config.default_retry = false;
        config.cluster_url = url.parse().unwrap();
        kube::Client::try_from(config).unwrap()
    }

    async fn kube_config(&self) -> kube::Config {
        let kubeconfig = Kubeconfig::read_from(self.kubeconfig()).unwrap();
        kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await.unwrap()
    }
}
