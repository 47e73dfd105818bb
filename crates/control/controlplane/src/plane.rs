//! The controllers of the control plane's own objects.

use std::sync::Arc;

use binnacle_controllers::Controller;
use binnacle_features::Features;
use binnacle_registry::Catalog;

use crate::config::Config;
use crate::storage_versions::StorageVersions;
use crate::work::Work;
use crate::{
    bootstrap_roles, cluster_authentication, config_maps, flowcontrol, identity_lease, kubernetes_service,
    leader_election, priority_classes, storage_readiness, storage_versions, system_namespaces,
};

/// The objects that every cluster has, and what maintains them.
pub struct ControlPlane(Arc<Work>);

impl ControlPlane {
    pub fn new(resources: Catalog, config: Config) -> Self {
        Self(Arc::new(Work::new(resources, config)))
    }

    /// Returns the identity name of this server.
    pub fn server_name(&self) -> &str {
        self.0.identity.name()
    }

    /// Returns the published storage versions of resources.
    pub fn storage_versions(&self) -> &StorageVersions {
        &self.0.storage_versions
    }

    /// Returns the controller that the others depend on: nothing can be written without a namespace.
    pub fn namespaces(&self) -> Controller {
        Controller::repeated("start-system-namespaces-controller", Some(60), &self.0, |work| {
            Box::pin(system_namespaces::ensure(&work.resources))
        })
        .optional()
    }

    /// Returns the other controllers.
    pub fn controllers(&self) -> Vec<Controller> {
        let mut controllers = self.cluster_objects().to_vec();
        controllers.extend(self.identity());
        controllers.extend(self.flow_control());
        let (work, features) = (&self.0, self.0.resources.features());
        if storage_versions::is_on(features) {
            let name = "built-in-resources-storage-version-updater";
            controllers
                .push(Controller::repeated(name, Some(600), work, |work| Box::pin(storage_versions::ensure(work))));
        }
        if features.enabled("CoordinatedLeaderElection") {
            let name = "start-kube-apiserver-coordinated-leader-election-controller";
            controllers.push(Controller::watching(name, &[], work, leader_election::follow));
        }
        controllers.extend(self.storage_readiness(features));
        controllers
    }

    /// Returns the hook that is done when all caches are filled, if it is enabled.
    pub fn storage_readiness(&self, features: &Features) -> Option<Controller> {
        let ensure = || {
            Controller::repeated("storage-readiness", None, &self.0, |work| Box::pin(storage_readiness::ensure(work)))
        };
        features.enabled("WatchCacheInitializationPostStartHook").then(ensure)
    }

    /// Returns the controllers of the objects that every cluster has.
    fn cluster_objects(&self) -> [Controller; 5] {
        let work = &self.0;
        [
            Controller::repeated("bootstrap-controller", Some(10), work, |work| {
                Box::pin(kubernetes_service::ensure(work))
            })
            .optional()
            .undone_by(work, |work| Box::pin(kubernetes_service::leave(work))),
            Controller::repeated("rbac/bootstrap-roles", None, work, |work| {
                Box::pin(bootstrap_roles::ensure(&work.resources))
            }),
            Controller::repeated("scheduling/bootstrap-system-priority-classes", None, work, |work| {
                Box::pin(priority_classes::ensure(&work.resources))
            }),
            Controller::watching("start-cluster-authentication-info-controller", &[], work, |work, done, shutdown| {
                Box::pin(cluster_authentication::follow(work, done, shutdown))
            }),
            Controller::repeated("start-legacy-token-tracking-controller", Some(60), work, |work| {
                Box::pin(config_maps::ensure_legacy_token_tracking(work))
            })
            .optional()
            .counted(vec![work.config.queues.queue("legacy_token_tracking_controller")]),
        ]
    }

    /// Returns the controllers of the servers' identity leases.
    fn identity(&self) -> [Controller; 2] {
        let work = &self.0;
        [
            Controller::repeated("start-kube-apiserver-identity-lease-controller", Some(10), work, |work| {
                Box::pin(identity_lease::renew(work))
            })
            .optional()
            .undone_by(work, |work| Box::pin(identity_lease::leave(work))),
            Controller::repeated("start-kube-apiserver-identity-lease-garbage-collector", Some(3600), work, |work| {
                Box::pin(identity_lease::collect(work))
            })
            .optional(),
        ]
    }

    /// Returns the controllers of priority and fairness.
    fn flow_control(&self) -> [Controller; 2] {
        let work = &self.0;
        [
            Controller::repeated("priority-and-fairness-config-producer", Some(60), work, |work| {
                Box::pin(flowcontrol::ensure(&work.resources))
            }),
            Controller::watching("priority-and-fairness-config-consumer", &[], work, flowcontrol::follow),
        ]
    }
}
