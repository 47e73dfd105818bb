//! APIServices: the controllers that maintain one for every group version that this server serves itself, and the
//! availability of each.

mod availability;
mod checks;
mod metrics;
mod registration;

use std::sync::Arc;

use binnacle_controllers::{Controller, Queues};
use binnacle_registry::Catalog;

pub use checks::{AggregatedServers, DiscoveryError};
pub use metrics::AvailabilityMetrics;
pub use registration::{LocalApi, Registrations};

/// The options of the controllers of APIServices.
pub struct ApiServiceOptions {
    pub resources: Catalog,
    /// The desired APIServices.
    pub registrations: Registrations,
    /// Access to the servers of aggregated APIs, if this server proxies to them.
    pub servers: Option<Arc<dyn AggregatedServers>>,
    /// Metrics of unavailable APIServices.
    pub metrics: Option<AvailabilityMetrics>,
    pub queues: Queues,
    /// True if the APIServices of built-in groups were maintained before, so that the server does not start but continues.
    pub is_resumed: bool,
}

type State = ApiServiceOptions;

/// The controllers of APIServices.
pub struct ApiServiceControllers {
    /// Maintains the APIServices of local group versions. It deletes those that it has no registration for, so it must
    /// start after the CustomResourceDefinitions have been read.
    pub registration: Controller,
    /// Writes the condition `Available`.
    pub availability: Controller,
}

/// Returns the controllers of APIServices.
pub fn api_service_controllers(options: ApiServiceOptions) -> ApiServiceControllers {
    let state = Arc::new(options);
    let also = &["apiservice-registration-controller"];
    let registration = Controller::watch("kube-apiserver-autoregistration", also, &state, registration::watch);
    let also = &["apiservice-status-remote-available-controller"];
    let name = "apiservice-status-local-available-controller";
    let availability = Controller::watch(name, also, &state, availability::watch);
    ApiServiceControllers { registration, availability }
}

const GROUP: &str = "apiregistration.k8s.io";
const VERSION: &str = "v1";
const PLURAL: &str = "apiservices";

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use binnacle_registry::{Context, DeleteOptions};
    use binnacle_request::BoxFuture;
    use binnacle_schema::{Value, value};
    use binnacle_test_cluster::{RunningControllers, objects, resources, until, until_gone};

    use super::*;

    const CREATED: &str = "kube-aggregator.kubernetes.io/automanaged";

    fn api(group: &str, version: &str) -> LocalApi {
        LocalApi { group: group.into(), version: version.into(), group_priority: 100, version_priority: 15 }
    }

    fn local_apis() -> Registrations {
        Registrations::built_in(&[api("", "v1"), api("apps", "v1"), api(GROUP, "v1")])
    }

    async fn running(
        resources: &Catalog,
        registrations: Registrations,
        servers: Option<Arc<dyn AggregatedServers>>,
    ) -> RunningControllers {
        let (resources, queues) = (resources.clone(), Queues::default());
        let options = ApiServiceOptions { resources, registrations, servers, metrics: None, queues, is_resumed: false };
        let controllers = api_service_controllers(options);
        RunningControllers::start([vec![controllers.registration, controllers.availability]]).await
    }

    fn condition(object: &Value) -> (&str, &str, &str) {
        let Some(condition) = object.list_at(&["status", "conditions"]).first() else { return ("", "", "") };
        (condition.str_at(&["status"]), condition.str_at(&["reason"]), condition.str_at(&["message"]))
    }

    #[tokio::test]
    async fn creates_an_api_service_per_built_in_group_version() {
        let resources = resources();
        let _running = running(&resources, local_apis(), None).await;
        let objects = objects(&resources, GROUP, PLURAL);
        let names: Vec<_> = objects.list("").await.unwrap();
        let names: Vec<_> = names.iter().map(|object| object.str_at(&["metadata", "name"])).collect();
        assert_eq!(names, ["v1.", "v1.apps"]);
        let core = until(&objects, "", "v1.", |object| condition(object).0 == "True").await;
        let spec = value!({"version": "v1", "groupPriorityMinimum": 100i64, "versionPriority": 15i64});
        assert_eq!(core.get("spec"), Some(&spec));
        assert_eq!(core.str_at(&["metadata", "labels", CREATED]), "onstart");
        assert_eq!(condition(&core), ("True", "Local", "Local APIServices are always available"));
        assert_eq!(core.list_at(&["metadata", "managedFields"]).len(), 1);
    }

    /// An administrator may have deleted one: it returns with the next start.
    #[tokio::test]
    async fn continued_server_maintains_only_api_services_of_definitions() {
        let resources = resources();
        let (registrations, queues) = (local_apis(), Queues::default());
        registrations.keep(&api("example.com", "v1"));
        let of_catalog = resources.clone();
        let options = ApiServiceOptions {
            resources: of_catalog,
            registrations,
            servers: None,
            metrics: None,
            queues,
            is_resumed: true,
        };
        let controllers = api_service_controllers(options);
        let _running = RunningControllers::start([vec![controllers.registration, controllers.availability]]).await;
        let names = objects(&resources, GROUP, PLURAL).names("").await.unwrap();
        assert_eq!(names, ["v1.example.com"]);
    }

    /// The cases of the table in kube-apiserver's controller.
    #[tokio::test]
    async fn maintains_only_labelled_api_services() {
        let resources = resources();
        let before = objects(&resources, GROUP, PLURAL);
        let put = |group: &'static str, label: &'static str| {
            let name = format!("v1.{group}");
            before.create(
                "",
                value!({
                    "metadata": {"name": name, "labels": {"kube-aggregator.kubernetes.io/automanaged": label}},
                    "spec": {"group": group, "version": "v1", "groupPriorityMinimum": 1i64, "versionPriority": 1i64}
                }),
            )
        };
        put("apps", "onstart").await.unwrap();
        put("batch", "").await.unwrap();
        put("gone.start", "onstart").await.unwrap();
        put("gone.always", "true").await.unwrap();
        put("gone.free", "").await.unwrap();
        let registrations = Registrations::built_in(&[api("apps", "v1"), api("batch", "v1")]);
        let _running = running(&resources, registrations.clone(), None).await;
        let objects = objects(&resources, GROUP, PLURAL);
        let priority = |object: &Value| object.int_at(&["spec", "groupPriorityMinimum"]);
        assert_eq!(priority(&objects.get("", "v1.apps").await.unwrap().unwrap()), Some(100));
        assert_eq!(priority(&objects.get("", "v1.batch").await.unwrap().unwrap()), Some(1));
        assert!(objects.get("", "v1.gone.start").await.unwrap().is_none());
        assert!(objects.get("", "v1.gone.always").await.unwrap().is_none());
        assert!(objects.get("", "v1.gone.free").await.unwrap().is_some());

        // An APIService of a built-in group may be deleted while the server runs; one of custom resources is created
        // again.
        let context = Context::internal("");
        objects.resource().delete(&context, "v1.apps", &DeleteOptions::default()).await.unwrap();
        registrations.keep(&api("custom", "v2"));
        until(&objects, "", "v2.custom", |object| condition(object).0 == "True").await;
        objects.resource().delete(&context, "v2.custom", &DeleteOptions::default()).await.unwrap();
        let custom = until(&objects, "", "v2.custom", |_| true).await;
        assert_eq!(custom.str_at(&["metadata", "labels", CREATED]), "true");
        let reset = objects.update("", "v2.custom", "", |object| {
            object.make_at(&["spec"]).insert("groupPriorityMinimum", 7i64);
        });
        reset.await.unwrap();
        until(&objects, "", "v2.custom", |object| priority(object) == Some(100)).await;
        put("late", "onstart").await.unwrap();
        registrations.forget("custom", "v2");
        until_gone(&objects, "", "v2.custom").await;
        assert!(objects.get("", "v1.apps").await.unwrap().is_none());
        assert!(objects.get("", "v1.late").await.unwrap().is_some());
    }

    #[derive(Debug)]
    struct FakeServers(AtomicBool);

    impl AggregatedServers for FakeServers {
        fn discover<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<(), DiscoveryError>> {
            let servers = self.0.load(Ordering::SeqCst);
            Box::pin(async move { if servers { Ok(()) } else { Err(DiscoveryError::Failed("refused".to_owned())) } })
        }
    }

    #[tokio::test]
    async fn remote_api_services_need_endpoints_and_a_response() {
        let servers = Arc::new(FakeServers(AtomicBool::new(false)));
        let resources = resources();
        let _running = running(&resources, local_apis(), Some(servers.clone())).await;
        let api_services = objects(&resources, GROUP, PLURAL);
        let service = value!({
            "metadata": {"name": "v1.agg.test"},
            "spec": {
                "group": "agg.test", "version": "v1", "groupPriorityMinimum": 1i64, "versionPriority": 1i64,
                "insecureSkipTLSVerify": true, "service": {"name": "agg", "namespace": "default"}
            }
        });
        api_services.create("", service).await.unwrap();
        let reason = |reason: &'static str| {
            until(&api_services, "", "v1.agg.test", move |object: &Value| condition(object).1 == reason)
        };
        let missing = reason("ServiceNotFound").await;
        assert_eq!(condition(&missing), ("False", "ServiceNotFound", "service/agg in \"default\" is not present"));
        let service = value!({
            "metadata": {"name": "agg"},
            "spec": {"type": "ClusterIP", "clusterIP": "10.0.0.7", "clusterIPs": ["10.0.0.7"],
                "ports": [{"name": "https", "port": 443i64}]}
        });
        objects(&resources, "", "services").create("default", service).await.unwrap();
        reason("EndpointsNotFound").await;
        let slice = value!({
            "metadata": {"name": "agg-1", "labels": {"kubernetes.io/service-name": "agg"}},
            "addressType": "IPv4", "endpoints": [{"addresses": ["10.1.0.1"]}],
            "ports": [{"name": "https", "port": 8443i64}]
        });
        objects(&resources, "discovery.k8s.io", "endpointslices").create("default", slice).await.unwrap();
        let unresponsive = reason("FailedDiscoveryCheck").await;
        assert_eq!(condition(&unresponsive).2, "refused");
        servers.0.store(true, Ordering::SeqCst);
        let passed = reason("Passed").await;
        assert_eq!(condition(&passed), ("True", "Passed", "all checks passed"));
        // This server serves the API now, so the local condition replaces the one of the remote server.
        let local = api_services.update("", "v1.agg.test", "", |object| {
            let spec = object.make_at(&["spec"]);
            spec.remove("service");
            spec.remove("insecureSkipTLSVerify");
        });
        local.await.unwrap();
        reason("Local").await;
    }
}
