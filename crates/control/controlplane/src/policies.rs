//! The informers of admission policies and their bindings, which feed the plugins that evaluate them.

use std::sync::Arc;

use binnacle_admission_policies::{OtherServers, Policies, PolicyResource};
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use binnacle_supervise::supervise;
use tokio::task::JoinSet;

use crate::policy_status;
use binnacle_controllers::{EventHandler, Informer};

const GROUP: &str = "admissionregistration.k8s.io";

struct PolicyHandler {
    resource: PolicyResource,
    policies: Arc<Policies>,
}

impl EventHandler for PolicyHandler {
    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        self.policies.retain(self.resource, &|name| exists("", name));
    }

    fn put(&self, object: Value) {
        self.policies.put(self.resource, &object);
    }

    fn remove(&self, _: &str, name: &str) {
        self.policies.remove(self.resource, name);
    }
}

/// Starts the informers of the four resources; they end with the shutdown signal. A resource that is not served has no
/// objects. `others` provide the schemas of kinds that this server does not serve itself.
pub fn follow_policies(
    policies: &Arc<Policies>,
    resources: &Catalog,
    others: &Arc<dyn OtherServers>,
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
) {
    for resource in PolicyResource::ALL {
        let policies = policies.clone();
        let Some(served) = resources.find(GROUP, "v1", resource.plural()) else {
            policies.read(resource);
            continue;
        };
        if resource == PolicyResource::ValidatingPolicies {
            let (resources, served, stopped) = (resources.clone(), served.clone(), shutdown.clone());
            let others = others.clone();
            tasks.spawn(async move {
                tokio::select! {
                    () = supervise("policy status", || policy_status::run(resources.clone(), served.clone(), others.clone())) => {}
                    () = stopped.fired() => {}
                }
            });
        }
        let informer = Informer::new(served, PolicyHandler { resource, policies: policies.clone() });
        tasks.spawn(informer.run(shutdown.clone(), move || policies.read(resource)));
    }
}
