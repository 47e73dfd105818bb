//! The namespaces that always exist, and requests in others.

use std::time::Duration;

use binnacle_controllers::Manager;
use binnacle_controlplane::{Config, ControlPlane};
use binnacle_request::ShutdownTrigger;
use binnacle_schema::value;
use binnacle_services::ServiceConfig;
use binnacle_test_cluster::Server;

#[tokio::test]
async fn creates_and_protects_system_namespaces() {
    let server = Server::new(&ServiceConfig::default());
    let (trigger, shutdown) = ShutdownTrigger::new();
    let plane = ControlPlane::new(server.resources.clone(), Config::default());
    let controllers = Manager::start([vec![plane.namespaces()], plane.controllers()], shutdown);
    tokio::time::timeout(Duration::from_secs(20), controllers.done()).await.unwrap();
    assert_eq!(server.names("namespaces").await, ["default", "kube-node-lease", "kube-public", "kube-system"]);
    let default = server.get("namespaces", "", "default").await.unwrap();
    assert_eq!(default.str_at(&["metadata", "labels", "kubernetes.io/metadata.name"]), "default");
    let managers = default.list_at(&["metadata", "managedFields"]);
    assert_eq!(managers[0].str_at(&["manager"]), "kube-apiserver");

    for (name, why) in [
        ("default", "namespaces \"default\" is forbidden: this namespace may not be deleted"),
        ("kube-system", "namespaces \"kube-system\" is forbidden: this namespace may not be deleted"),
        ("kube-public", "namespaces \"kube-public\" is forbidden: this namespace may not be deleted"),
    ] {
        let refused = server.delete("namespaces", "", name).await.unwrap_err();
        assert_eq!((refused.code(), refused.message()), (403, why));
    }
    server.delete("namespaces", "", "kube-node-lease").await.unwrap();
    trigger.fire();
    controllers.ended().await;
}

#[tokio::test]
async fn rejects_creation_in_missing_or_terminating_namespaces() {
    let server = Server::new(&ServiceConfig::default());
    let map = || value!({"metadata": {"name": "a"}});
    let refused = server.create("configmaps", "away", map()).await.unwrap_err();
    assert_eq!((refused.code(), refused.message()), (404, "namespaces \"away\" not found"));

    server.create("namespaces", "", value!({"metadata": {"name": "here"}})).await.unwrap();
    server.create("configmaps", "here", map()).await.unwrap();
    server.delete("namespaces", "", "here").await.unwrap();
    let generated = value!({"metadata": {"generateName": "b-"}});
    let refused = server.create("configmaps", "here", generated).await.unwrap_err();
    assert_eq!(
        refused.message(),
        "configmaps \"b-\" is forbidden: unable to create new content in namespace here because it is being terminated"
    );
    let causes = &refused.details().unwrap().causes;
    assert_eq!(
        (causes[0].reason.as_str(), causes[0].message.as_str(), causes[0].field.as_str()),
        ("NamespaceTerminating", "namespace here is being terminated", "metadata.namespace")
    );
    server
        .update("configmaps", "here", "a", |object| {
            object.make_at(&["data"]).insert("a", "b");
        })
        .await
        .unwrap();
    server.delete("configmaps", "here", "a").await.unwrap();
}
