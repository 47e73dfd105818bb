//! The objects of a new cluster, compared with those of kube-apiserver.

use std::collections::BTreeMap;
use std::time::Duration;

use binnacle_controllers::{Manager, Queues};
use binnacle_controlplane::{Config, ControlPlane, RequestHeader, Trust};
use binnacle_request::{Shutdown, ShutdownTrigger};
use binnacle_schema::{Value, json};

use binnacle_services::service_controllers;
use binnacle_test_cluster::{Server, user};
use binnacle_test_requirements::shared;

fn config() -> Config {
    let header = |text: &str| vec![text.to_owned()];
    let proxies = RequestHeader {
        client_ca: authority(),
        allowed_names: header("front-proxy-client"),
        username_headers: header("X-Remote-User"),
        group_headers: header("X-Remote-Group"),
        extra_header_prefixes: header("X-Remote-Extra-"),
        ..RequestHeader::default()
    };
    Config {
        advertised: Some("192.0.2.2:7443".parse().unwrap()),
        trust: Trust::new(Some(authority()), Some(proxies)),
        ..Config::default()
    }
}

fn authority() -> String {
    "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n".to_owned()
}

/// Starts the control plane's controllers, with those of services.
fn start(server: &Server, config: Config, shutdown: Shutdown) -> Manager {
    let services = service_controllers(&server.resources, &config.services, &Queues::default());
    let plane = ControlPlane::new(server.resources.clone(), config);
    let mut then = plane.controllers();
    then.push(services.repair);
    Manager::start([vec![plane.namespaces(), services.cidr], then], shutdown)
}

async fn start_cluster() -> Server {
    let server = Server::new(&config().services);
    let controllers = start(&server, config(), Shutdown::never());
    tokio::time::timeout(Duration::from_secs(20), controllers.done()).await.unwrap();
    server
}

#[tokio::test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
async fn bootstrap_objects_match_kube_apiserver() {
    let folder = shared("reference/bootstrap");
    let server = start_cluster().await;
    for (file, path) in [
        ("namespaces", "namespaces"),
        ("servicecidrs", "networking.k8s.io/v1/servicecidrs"),
        ("ipaddresses", "networking.k8s.io/v1/ipaddresses"),
        ("services", "services"),
        ("clusterroles", "rbac.authorization.k8s.io/v1/clusterroles"),
        ("clusterrolebindings", "rbac.authorization.k8s.io/v1/clusterrolebindings"),
        ("roles", "rbac.authorization.k8s.io/v1/roles"),
        ("rolebindings", "rbac.authorization.k8s.io/v1/rolebindings"),
        ("priorityclasses", "scheduling.k8s.io/v1/priorityclasses"),
        ("configmaps", "configmaps"),
        ("endpoints", "endpoints"),
        ("endpointslices", "discovery.k8s.io/v1/endpointslices"),
        ("flowschemas", "flowcontrol.apiserver.k8s.io/v1/flowschemas"),
        ("prioritylevelconfigurations", "flowcontrol.apiserver.k8s.io/v1/prioritylevelconfigurations"),
        ("leases", "coordination.k8s.io/v1/leases"),
    ] {
        let text = std::fs::read_to_string(folder.join(format!("{file}.json"))).unwrap();
        let recorded: serde_json::Value = serde_json::from_str(&text).unwrap();
        let mut theirs = BTreeMap::new();
        for object in recorded["items"].as_array().unwrap() {
            let name = |member| object["metadata"][member].as_str().unwrap_or("").to_owned();
            let path = if name("namespace").is_empty() {
                name("name")
            } else {
                format!("{}/{}", name("namespace"), name("name"))
            };
            theirs.insert(portable_path(&path), normalized(object.clone()));
        }
        // Controllers write the status of an object shortly after the object.
        let mut ours = listed(&server, path).await;
        for _ in 0..200 {
            if ours == theirs {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
            ours = listed(&server, path).await;
        }
        assert_eq!(ours.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>(), "{file}");
        for (path, theirs) in theirs {
            let ours = &ours[&path];
            assert_eq!(
                serde_json::to_string_pretty(ours).unwrap(),
                serde_json::to_string_pretty(&theirs).unwrap(),
                "{file} {path}"
            );
        }
    }
}

/// Returns all objects of a resource, without the parts that differ between servers.
async fn listed(server: &Server, path: &str) -> BTreeMap<String, serde_json::Value> {
    let resource = server.resource(path);
    let mut page = resource.list(&user("", false), &Default::default()).await.unwrap();
    let mut objects = BTreeMap::new();
    while let Some(chunk) = page.next_chunk() {
        for entry in chunk {
            let object = resource.collection.decode_entry(&entry).unwrap();
            objects.insert(portable_path(entry.path()), normalized(to_json(&object)));
        }
    }
    objects
}

#[tokio::test]
async fn servers_join_and_leave_endpoints() {
    let server = Server::new(&config().services);
    let other = Server::over(server.store.clone(), &config().services);
    let (trigger, shutdown) = ShutdownTrigger::new();
    let first = start(&server, config(), shutdown);
    first.done().await;
    let (other_trigger, shutdown) = ShutdownTrigger::new();
    let other_config = Config { advertised: Some("192.0.2.1:7443".parse().unwrap()), ..config() };
    let second = start(&other, other_config, shutdown);
    second.done().await;
    assert_eq!(endpoint_addresses(&server).await, ["192.0.2.1", "192.0.2.2"]);
    trigger.fire();
    first.ended().await;
    assert_eq!(endpoint_addresses(&server).await, ["192.0.2.1"]);
    other_trigger.fire();
    second.ended().await;
    assert_eq!(endpoint_addresses(&server).await, Vec::<String>::new());
    let slice = server.get("discovery.k8s.io/v1/endpointslices", "default", "kubernetes").await.unwrap();
    assert!(slice.list_at(&["endpoints"]).is_empty());
}

async fn endpoint_addresses(server: &Server) -> Vec<String> {
    let endpoints = server.get("endpoints", "default", "kubernetes").await.unwrap();
    let addresses = endpoints.list_at(&["subsets"]).iter().flat_map(|subset| subset.list_at(&["addresses"]));
    addresses.map(|address| address.str_at(&["ip"]).to_owned()).collect()
}

/// Converts an object to the JSON that clients read, without nulls.
fn to_json(object: &Value) -> serde_json::Value {
    let mut text = Vec::new();
    json::write(object, &mut text);
    serde_json::from_slice(&text).unwrap()
}

/// Removes the parts that differ between starts.
fn normalized(mut object: serde_json::Value) -> serde_json::Value {
    let members = object.as_object_mut().unwrap();
    if let Some(data) = members.get_mut("data").and_then(serde_json::Value::as_object_mut) {
        data.remove("since");
        for (name, value) in data.iter_mut().filter(|(name, _)| name.ends_with("-ca-file")) {
            assert!(value.as_str().is_some_and(|pem| pem.ends_with("-----END CERTIFICATE-----\n")), "{name}");
            *value = authority().into();
        }
    }
    members.remove("kind");
    members.remove("apiVersion");
    // The identity lease of a server has the name of its machine.
    for (label, text) in object.pointer_mut("/metadata/labels").into_iter().flat_map(as_members) {
        if label == "kubernetes.io/hostname" {
            *text = "HOST".into();
        }
    }
    for member in ["/metadata/name", "/spec/holderIdentity"] {
        if let Some(name) = object.pointer_mut(member)
            && name.as_str().is_some_and(|name| name.starts_with("apiserver-"))
        {
            *name = "apiserver".into();
        }
    }
    strip(&mut object);
    object
}

/// Returns the path of an object, without the part that depends on the machine.
fn portable_path(path: &str) -> String {
    path.split_once("/apiserver-").map_or(path, |(namespace, _)| namespace).to_owned()
}

fn as_members(value: &mut serde_json::Value) -> Vec<(String, &mut serde_json::Value)> {
    let members = value.as_object_mut().into_iter().flatten();
    members.map(|(name, member)| (name.clone(), member)).collect()
}

fn strip(value: &mut serde_json::Value) {
    match value {
        serde_json::Value::Object(members) => {
            for member in ["uid", "resourceVersion", "creationTimestamp", "time", "lastTransitionTime", "renewTime"] {
                members.remove(member);
            }
            members.values_mut().for_each(strip);
            members.retain(|_, member| !member.is_null());
        }
        serde_json::Value::Array(items) => items.iter_mut().for_each(strip),
        _ => {}
    }
}
