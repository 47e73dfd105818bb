//! Namespaces are isolated: an object of one is visible only there and in lists of all namespaces.

use binnacle_testkit::Server;
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, Secret};
use kube::ResourceExt;
use kube::api::{Api, DeleteParams, ListParams, PostParams, WatchEvent, WatchParams};
use serde_json::json;

/// Names that are prefixes of others, which affects their order.
const NAMESPACES: [&str; 4] = ["a", "a-b", "a.b", "ab"];

#[tokio::test(flavor = "multi_thread")]
async fn isolates_objects_of_namespaces() {
    let server = Server::ephemeral();
    let client = server.kube().await;
    let namespaces = NAMESPACES.map(|name| name.replace('.', "-dot-"));
    for namespace in &namespaces {
        crate::namespace(&client, namespace).await;
    }
    let everywhere: Api<ConfigMap> = Api::all(client.clone());
    let start = everywhere.list(&ListParams::default()).await.unwrap().metadata.resource_version.unwrap();
    for (n, namespace) in namespaces.iter().enumerate() {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        for name in ["same", &format!("only-{n}")] {
            let object = json!({"metadata": {"name": name}, "data": {"in": namespace}});
            api.create(&PostParams::default(), &serde_json::from_value(object).unwrap()).await.unwrap();
        }
    }
    // Deleting all objects of one keeps those of the others.
    let emptied: Api<ConfigMap> = Api::namespaced(client.clone(), &namespaces[0]);
    emptied.delete_collection(&DeleteParams::default(), &ListParams::default()).await.unwrap();
    assert!(emptied.list(&ListParams::default()).await.unwrap().items.is_empty());
    for (n, namespace) in namespaces.iter().enumerate().skip(1) {
        let api: Api<ConfigMap> = Api::namespaced(client.clone(), namespace);
        let names: Vec<_> = api.list(&ListParams::default()).await.unwrap().iter().map(ResourceExt::name_any).collect();
        assert_eq!(names, [format!("only-{n}"), "same".to_owned()]);
        assert_eq!(api.get("same").await.unwrap().data.unwrap()["in"], *namespace);
        assert!(api.get_opt("only-0").await.unwrap().is_none());
        // The same name in another kind is another object.
        let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
        assert!(secrets.get_opt("same").await.unwrap().is_none());
        // A watch of the namespace only has its events.
        let events = api.watch(&WatchParams::default().timeout(1), &start).await.unwrap();
        let seen: Vec<_> = events.map(Result::unwrap).collect().await;
        let seen: Vec<_> = seen
            .iter()
            .filter_map(|event| match event {
                WatchEvent::Added(object) => Some((object.namespace().unwrap(), object.name_any())),
                _ => None,
            })
            .collect();
        assert_eq!(seen, [(namespace.clone(), "same".to_owned()), (namespace.clone(), format!("only-{n}"))]);
    }
    let all: Vec<_> = everywhere.list(&ListParams::default().fields("metadata.name=same")).await.unwrap().items;
    let all: Vec<_> = all.iter().map(|object| object.namespace().unwrap()).collect();
    let mut want = namespaces[1..].to_vec();
    want.sort();
    assert_eq!(all, want);
    let one = ListParams::default().fields("metadata.namespace=ab,metadata.name!=same");
    let one: Vec<_> = everywhere.list(&one).await.unwrap().iter().map(ResourceExt::name_any).collect();
    assert_eq!(one, ["only-3"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_writes_outside_the_namespace_of_the_path() {
    let server = Server::ephemeral();
    let client = server.kube().await;
    crate::namespace(&client, "here").await;
    let api: Api<ConfigMap> = Api::namespaced(client.clone(), "here");
    // An object whose namespace differs from the path's is rejected.
    let elsewhere = json!({"metadata": {"name": "x", "namespace": "default"}});
    let error = api.create(&PostParams::default(), &serde_json::from_value(elsewhere).unwrap()).await.unwrap_err();
    let kube::Error::Api(status) = error else { panic!("{error}") };
    assert_eq!(status.code, 400);
    assert_eq!(status.message, "the namespace of the provided object does not match the namespace sent on the request");
    // Nothing can be created in a namespace that does not exist or is terminating.
    let nowhere: Api<ConfigMap> = Api::namespaced(client.clone(), "nowhere");
    let object: ConfigMap = serde_json::from_value(json!({"metadata": {"name": "x"}})).unwrap();
    let kube::Error::Api(status) = nowhere.create(&PostParams::default(), &object).await.unwrap_err() else {
        panic!("no status")
    };
    assert_eq!((status.code, status.message.as_str()), (404, "namespaces \"nowhere\" not found"));
    let namespaces: Api<Namespace> = Api::all(client);
    namespaces.delete("here", &DeleteParams::default()).await.unwrap();
    let here = namespaces.get("here").await.unwrap();
    assert_eq!(here.status.unwrap().phase.as_deref(), Some("Terminating"));
    let kube::Error::Api(status) = api.create(&PostParams::default(), &object).await.unwrap_err() else {
        panic!("no status")
    };
    assert_eq!(status.code, 403);
    assert!(status.message.ends_with("because it is being terminated"), "{}", status.message);
    let kube::Error::Api(status) = namespaces.delete("default", &DeleteParams::default()).await.unwrap_err() else {
        panic!("no status")
    };
    assert_eq!(status.code, 403);
}
