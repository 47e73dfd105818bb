//! The controllers of the control plane's own objects.

use std::sync::Arc;

use binnacle_controllers::Controller;
use binnacle_features::Features;
use binnacle_registry::Catalog;

use crate::config::{Bootstrap, Config};
use crate::context::ControllerContext;
use crate::storage_versions::StorageVersions;
use crate::{
    bootstrap_roles, cluster_authentication, config_maps, flowcontrol, identity_lease, kubernetes_service,
    leader_election, priority_classes, storage_readiness, storage_version_objects, storage_versions, system_namespaces,
};

/// The controllers of the objects that every cluster has, with their shared state.
pub struct ControlPlane(Arc<ControllerContext>);

impl ControlPlane {
    pub fn new(resources: Catalog, config: Config) -> Self {
        Self(Arc::new(ControllerContext::new(resources, config)))
    }

    /// Returns the identity name of this server.
    pub fn server_name(&self) -> &str {
        self.0.identity.name()
    }

    /// Returns the name of the machine, or the name that replaces it.
    pub fn hostname(&self) -> &str {
        self.0.identity.hostname()
    }

    /// Returns the published storage versions of resources.
    pub fn storage_versions(&self) -> &StorageVersions {
        &self.0.storage_versions
    }

    /// Returns the controller of the system namespaces. The others depend on it, since objects need their namespace.
    pub fn namespaces(&self) -> Controller {
        let namespaces = Controller::periodic("start-system-namespaces-controller", Some(60), &self.0, |ctx| {
            Box::pin(system_namespaces::ensure(&ctx.resources))
        });
        self.resumed(namespaces.optional())
    }

    /// Lets a controller continue if its objects have been written.
    fn resumed(&self, controller: Controller) -> Controller {
        match self.0.config.bootstrap {
            Bootstrap::Unknown => controller,
            Bootstrap::Written | Bootstrap::Complete => controller.resumed(),
        }
    }

    /// Returns the other controllers.
    pub fn controllers(&self) -> Vec<Controller> {
        let mut controllers = self.cluster_objects().to_vec();
        controllers.extend(self.identity());
        controllers.extend(self.flow_control());
        let (ctx, features) = (&self.0, self.0.resources.features());
        if storage_versions::is_on(features) {
            let name = "built-in-resources-storage-version-updater";
            controllers
                .push(Controller::periodic(name, Some(600), ctx, |ctx| Box::pin(storage_version_objects::ensure(ctx))));
        }
        if features.enabled("CoordinatedLeaderElection") {
            let name = "start-kube-apiserver-coordinated-leader-election-controller";
            controllers.push(Controller::watch(name, &[], ctx, leader_election::run));
        }
        controllers.extend(self.storage_readiness(features));
        controllers
    }

    /// Returns the hook that is done when all caches are filled, if it is enabled.
    pub fn storage_readiness(&self, features: &Features) -> Option<Controller> {
        // A cluster that continues fills each cache at its first use.
        let ensure = || {
            let readiness = Controller::periodic("storage-readiness", None, &self.0, |ctx| {
                Box::pin(storage_readiness::ensure(ctx))
            });
            self.resumed(readiness)
        };
        features.enabled("WatchCacheInitializationPostStartHook").then(ensure)
    }

    /// Returns the controllers of the objects that every cluster has.
    fn cluster_objects(&self) -> [Controller; 5] {
        let ctx = &self.0;
        [
            Controller::periodic("bootstrap-controller", Some(10), ctx, |ctx| {
                Box::pin(kubernetes_service::ensure(ctx))
            })
            .optional()
            .with_cleanup(ctx, |ctx| Box::pin(kubernetes_service::remove_endpoints(ctx))),
            self.resumed(Controller::periodic("rbac/bootstrap-roles", None, ctx, |ctx| {
                Box::pin(bootstrap_roles::ensure(&ctx.resources))
            })),
            self.resumed(Controller::periodic("scheduling/bootstrap-system-priority-classes", None, ctx, |ctx| {
                Box::pin(priority_classes::ensure(&ctx.resources))
            })),
            Controller::watch("start-cluster-authentication-info-controller", &[], ctx, |ctx, done, shutdown| {
                Box::pin(cluster_authentication::run(ctx, done, shutdown))
            }),
            Controller::periodic("start-legacy-token-tracking-controller", Some(60), ctx, |ctx| {
                Box::pin(config_maps::ensure_legacy_token_tracking(ctx))
            })
            .optional()
            .with_queues(vec![ctx.config.queues.queue("legacy_token_tracking_controller")]),
        ]
    }

    /// Returns the controllers of the servers' identity leases.
    fn identity(&self) -> [Controller; 2] {
        let ctx = &self.0;
        // The lease lasts for an hour. Nobody follows the lease of a logical cluster, and a host has many clusters.
        let renewal = if ctx.config.has_peers { 10 } else { 600 };
        [
            Controller::periodic("start-kube-apiserver-identity-lease-controller", Some(renewal), ctx, |ctx| {
                Box::pin(identity_lease::renew(ctx))
            })
            .optional()
            .with_cleanup(ctx, |ctx| Box::pin(identity_lease::release(ctx))),
            Controller::periodic("start-kube-apiserver-identity-lease-garbage-collector", Some(3600), ctx, |ctx| {
                Box::pin(identity_lease::collect_expired(ctx))
            })
            .optional(),
        ]
    }

    /// Returns the controllers of priority and fairness.
    fn flow_control(&self) -> [Controller; 2] {
        let ctx = &self.0;
        [
            self.resumed(Controller::periodic("priority-and-fairness-config-producer", Some(60), ctx, |ctx| {
                Box::pin(flowcontrol::ensure(&ctx.resources))
            })),
            Controller::watch("priority-and-fairness-config-consumer", &[], ctx, flowcontrol::maintain_conditions),
        ]
    }
}
