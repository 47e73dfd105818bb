//! The namespace controllers: a service account for each namespace, and complete deletion.

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Namespace, ServiceAccount};
use kube::api::{ApiResource, DeleteParams, DynamicObject, ListParams, PostParams};
use kube::discovery::{Discovery, Scope, verbs};
use kube::{Api, Client, ResourceExt};
use serde_json::json;
use tokio::sync::Notify;

use super::crew::{Controller, TaskSet};
use super::informers::Informers;

const WHO: &str = "namespace controller";
const FINALIZER: &str = "kubernetes";

struct Namespaces {
    known: Informers,
}

pub(super) fn start(crew: &mut TaskSet, known: &Informers) {
    let changed = Arc::new(Notify::new());
    known.namespaces.notify_changes(&changed);
    known.accounts.notify_changes(&changed);
    crew.work(changed, Namespaces { known: known.clone() });
}

/// Returns the resources in namespaces that can be deleted, from discovery.
pub(super) async fn namespaced(client: &Client) -> Result<Vec<ApiResource>, kube::Error> {
    let found = Discovery::new(client.clone()).run_aggregated().await?;
    let resources = found.groups().flat_map(kube::discovery::ApiGroup::recommended_resources);
    let deletable =
        resources.filter(|(_, can)| can.scope == Scope::Namespaced && can.supports_operation(verbs::DELETE_COLLECTION));
    Ok(deletable.map(|(resource, _)| resource).collect())
}

impl Controller for Namespaces {
    async fn sync(&mut self) {
        if !self.known.are_listed() {
            return;
        }
        for namespace in self.known.namespaces.all() {
            let name = namespace.name_any();
            if namespace.metadata.deletion_timestamp.is_some() {
                if let Some(emptied) = self.known.tally.bear(WHO, self.empty(&name).await)
                    && emptied
                {
                    self.finalize(&namespace).await;
                }
            } else if self.known.accounts.get(&name, "default").is_none() {
                let api: Api<ServiceAccount> = Api::namespaced(self.known.client.clone(), &name);
                let account = json!({"metadata": {"name": "default"}});
                let account = serde_json::from_value(account).unwrap();
                self.known.tally.bear(WHO, api.create(&PostParams::default(), &account).await);
            }
        }
    }
}

impl Namespaces {
    /// Deletes everything in a namespace. Returns true if nothing was left.
    async fn empty(&self, namespace: &str) -> Result<bool, kube::Error> {
        let mut left = 0;
        for resource in namespaced(&self.known.client).await? {
            let api: Api<DynamicObject> = Api::namespaced_with(self.known.client.clone(), namespace, &resource);
            api.delete_collection(&DeleteParams::background(), &ListParams::default()).await?;
            left += api.list_metadata(&ListParams::default()).await?.items.len();
        }
        Ok(left == 0)
    }

    async fn finalize(&self, namespace: &Namespace) {
        let mut namespace = namespace.clone();
        let finalizers = namespace.spec.as_mut().and_then(|spec| spec.finalizers.as_mut()).unwrap();
        finalizers.retain(|finalizer| finalizer != FINALIZER);
        let api: Api<Namespace> = Api::all(self.known.client.clone());
        let name = namespace.name_any();
        let answer = api.replace_subresource("finalize", &name, &PostParams::default(), &namespace).await;
        self.known.tally.bear(WHO, answer);
    }
}
