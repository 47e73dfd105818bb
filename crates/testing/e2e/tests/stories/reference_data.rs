//! Data of a kube-apiserver: its objects are served as kube-apiserver serves them, and the objects that this server
//! creates at startup have the same keys and bytes.

use std::path::PathBuf;
use std::sync::Arc;

use binnacle_kinds::tables;
use binnacle_resources::all;
use binnacle_schema::{Limits, decode, proto};
use binnacle_scheme::ResourceDescription;
use binnacle_test_requirements::shared;
use binnacle_testkit::{Etcd, Server, wait_until};
use serde_json::Value;

/// Returns the descriptions of stored resources, in their stored versions.
fn kept() -> impl Iterator<Item = &'static Arc<ResourceDescription>> {
    let resources = all();
    resources.filter(|resource| {
        let kept_as = resource.storage.as_ref().map(|storage| (&storage.group, &storage.version, &storage.kind));
        kept_as == Some((&resource.group, &resource.version, &resource.kind))
    })
}

fn key(resource: &ResourceDescription, namespace: &str, name: &str) -> String {
    let prefix = &resource.storage.as_ref().unwrap().key_prefix;
    if resource.namespaced {
        format!("/registry/{prefix}/{namespace}/{name}")
    } else {
        format!("/registry/{prefix}/{name}")
    }
}

fn path(resource: &ResourceDescription, namespace: &str, name: &str) -> String {
    let root = if resource.group.is_empty() { "/api".to_owned() } else { format!("/apis/{}", resource.group) };
    let namespace = if resource.namespaced { format!("/namespaces/{namespace}") } else { String::new() };
    format!("{root}/{}{namespace}/{}/{name}", resource.version, resource.plural)
}

/// The filled objects of the Kubernetes project, under the keys and in the encoding of kube-apiserver.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_shared)), ignore = "needs etcd, and data of kube-apiserver in ../shared")]
async fn serves_data_of_kube_apiserver() {
    let folder = shared("reference/roundtrip");
    let etcd = tokio::task::block_in_place(Etcd::single);
    let mut objects = Vec::new();
    // Resources behind a feature gate are not served.
    for resource in kept().filter(|resource| resource.feature_gate.is_none()) {
        let group = if resource.group.is_empty() { "core" } else { resource.group.as_str() };
        let file = folder.join(format!("{group}.{}.{}", resource.version, resource.kind));
        let with = |extension: &str| PathBuf::from(format!("{}.{extension}", file.display()));
        let (Ok(stored), Ok(text)) = (std::fs::read(with("pb")), std::fs::read_to_string(with("json"))) else {
            continue;
        };
        let object: Value = serde_json::from_str(&text).unwrap();
        let of = |name: &str| object["metadata"][name].as_str().unwrap().to_owned();
        let (namespace, name) = (of("namespace"), of("name"));
        tokio::task::block_in_place(|| etcd.put(&key(resource, &namespace, &name), &stored));
        objects.push((resource, path(resource, &namespace, &name), key(resource, &namespace, &name), stored, object));
    }
    assert!(objects.len() > 30, "{} kinds", objects.len());
    let server =
        tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers(), "--runtime-config=api/all=true"]));
    let mut client = server.client().await;
    let mut wrong = Vec::new();
    for (resource, path, key, stored, mut want) in objects {
        let answer = client.get(&path).await.unwrap();
        let got: Value = serde_json::from_str(&answer.body).unwrap_or_default();
        want["metadata"]["resourceVersion"] = got["metadata"]["resourceVersion"].clone();
        // Protobuf does not contain the type of claim templates, and kube-apiserver omits it.
        let claims = want.pointer_mut("/spec/volumeClaimTemplates").and_then(Value::as_array_mut);
        for claim in claims.into_iter().flatten() {
            claim["apiVersion"] = "v1".into();
            claim["kind"] = "PersistentVolumeClaim".into();
        }
        if answer.status != 200 || got != want {
            wrong.push(format!("{} {}: {}\nwant {want}", resource.kind, answer.status, answer.body));
        }
        // Reading does not write.
        let now = tokio::task::block_in_place(|| etcd.value(&key));
        if now != stored {
            wrong.push(format!("{} was written again", resource.kind));
        }
    }
    assert!(wrong.is_empty(), "{} are wrong:\n{}", wrong.len(), wrong.join("\n"));
}

/// The default objects of a cluster have kube-apiserver's keys, and its bytes for the same objects.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(all(has_etcd, has_shared)), ignore = "needs etcd, and data of kube-apiserver in ../shared")]
async fn stores_bootstrap_objects_like_kube_apiserver() {
    let folder = shared("reference/bootstrap");
    let etcd = tokio::task::block_in_place(Etcd::single);
    let server = tokio::task::block_in_place(|| Server::durable_with(&[&etcd.servers()]));
    let mut client = server.client().await;
    wait_until("all is there", async || (client.get("/readyz").await.unwrap().status == 200).then_some(())).await;
    let (mut compared, mut wrong) = (0, Vec::new());
    for entry in std::fs::read_dir(&folder).unwrap() {
        let file = entry.unwrap().path();
        let list: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
        let plural = file.file_stem().unwrap().to_str().unwrap().to_owned();
        let items = list["items"].as_array().cloned().unwrap_or_default();
        for mut object in items {
            // Objects that depend on the machine: addresses, server names, certificates.
            if ["leases", "endpoints", "endpointslices", "configmaps", "ipaddresses"].contains(&plural.as_str()) {
                continue;
            }
            let version = list["apiVersion"].as_str().unwrap().to_owned();
            let found = kept().find(|resource| {
                let (group, _) = version.split_once('/').unwrap_or(("", &version));
                resource.plural == plural && resource.group == group
            });
            let Some(resource) = found else {
                wrong.push(format!("{plural} are not kept"));
                continue;
            };
            let metadata = &object["metadata"];
            let (namespace, name) = (metadata["namespace"].as_str().unwrap_or(""), metadata["name"].as_str().unwrap());
            let key = key(resource, namespace, name);
            let stored = tokio::task::block_in_place(|| etcd.value(&key));
            if stored.is_empty() {
                wrong.push(format!("nothing is kept under {key}"));
                continue;
            }
            // Fields that differ in every cluster are copied from ours.
            let message = tables::kind(&resource.group, &resource.version, &resource.kind).unwrap();
            let api_version = if resource.group.is_empty() {
                resource.version.to_string()
            } else {
                format!("{}/{}", resource.group, resource.version)
            };
            let ours = client.get(&path(resource, namespace, name)).await.unwrap();
            let ours: Value = serde_json::from_str(&ours.body).unwrap();
            take_what_differs(&ours, &mut object);
            object["metadata"].as_object_mut().unwrap().remove("resourceVersion");
            let text = object.to_string();
            let tree = decode::json(text.as_bytes(), message, &Limits::default()).unwrap().value;
            let mut encoded = Vec::new();
            proto::encode(&tree, message, &mut encoded);
            let want = proto::wrap(&api_version, &resource.kind, |out| out.extend_from_slice(&encoded));
            compared += 1;
            if stored != want {
                wrong.push(format!("{key}: ours is {ours}\nwant {object}"));
            }
        }
    }
    println!("{compared} objects compared byte for byte");
    assert!(wrong.is_empty(), "{} of {compared} are wrong:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 100, "{compared}");
}

/// Copies identities, times, managed fields, and the port of the server, at any depth.
fn take_what_differs(ours: &Value, theirs: &mut Value) {
    match (ours, theirs) {
        (Value::Object(ours), Value::Object(theirs)) => {
            const DIFFER: [&str; 5] = ["uid", "creationTimestamp", "managedFields", "lastTransitionTime", "targetPort"];
            for name in DIFFER {
                match ours.get(name) {
                    Some(own) if theirs.contains_key(name) => drop(theirs.insert(name.to_owned(), own.clone())),
                    _ => {}
                }
            }
            for (name, their) in theirs {
                if let Some(own) = ours.get(name) {
                    take_what_differs(own, their);
                }
            }
        }
        (Value::Array(ours), Value::Array(theirs)) => {
            ours.iter().zip(theirs).for_each(|(own, their)| take_what_differs(own, their));
        }
        _ => {}
    }
}
