//! Shared informers of a controller manager: a client, and one mirror of each kind that several controllers watch.

use std::sync::Arc;

use k8s_openapi::api::apps::v1::{Deployment, ReplicaSet};
use k8s_openapi::api::core::v1::{Namespace, Pod, Service, ServiceAccount};
use k8s_openapi::api::discovery::v1::EndpointSlice;
use kube::{Api, Client};

use super::crew::{Tally, TaskSet};
use super::mirror::{Mirror, follow};

#[derive(Clone)]
pub(super) struct Informers {
    pub(super) client: Client,
    pub(super) tally: Arc<Tally>,
    pub(super) deployments: Arc<Mirror<Deployment>>,
    pub(super) replica_sets: Arc<Mirror<ReplicaSet>>,
    pub(super) pods: Arc<Mirror<Pod>>,
    pub(super) services: Arc<Mirror<Service>>,
    pub(super) slices: Arc<Mirror<EndpointSlice>>,
    pub(super) namespaces: Arc<Mirror<Namespace>>,
    pub(super) accounts: Arc<Mirror<ServiceAccount>>,
}

impl Informers {
    pub(super) fn start(crew: &mut TaskSet, client: &Client, tally: &Arc<Tally>) -> Self {
        let all = || client.clone();
        Self {
            client: client.clone(),
            tally: tally.clone(),
            deployments: follow(crew, Api::all(all()), Default::default()),
            replica_sets: follow(crew, Api::all(all()), Default::default()),
            pods: follow(crew, Api::all(all()), Default::default()),
            services: follow(crew, Api::all(all()), Default::default()),
            slices: follow(crew, Api::all(all()), Default::default()),
            namespaces: follow(crew, Api::all(all()), Default::default()),
            accounts: follow(crew, Api::all(all()), Default::default()),
        }
    }

    /// Returns true if all of them have listed their objects.
    pub(super) fn are_listed(&self) -> bool {
        let apps = self.deployments.is_listed() && self.replica_sets.is_listed();
        let network = self.services.is_listed() && self.slices.is_listed();
        apps && network && self.pods.is_listed() && self.namespaces.is_listed() && self.accounts.is_listed()
    }
}
