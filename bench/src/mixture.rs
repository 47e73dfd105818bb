//! Objects of about 1 KB as a large cluster has them: several kinds and custom resources, a thousand in a namespace.

use std::time::{Duration, Instant};

use futures::{StreamExt, stream};
use serde_json::{Value, json};

use crate::client::Clients;

const GROUP: &str = "bench.example.com";
const DEFINITIONS: usize = 10;
const IN_A_NAMESPACE: usize = 1_000;
/// The part of custom resources, and the number of one of them.
pub(crate) const CUSTOM: f64 = 0.2;
pub(crate) const FIRST_CUSTOM: usize = 8;
const PATIENCE: Duration = Duration::from_secs(60);

/// The definitions exist, and what all objects have in common is built.
pub(crate) struct Mixture {
    text: String,
}

/// The kind of the object with a number.
enum Kind {
    ConfigMap,
    Secret,
    Pod,
    EndpointSlice,
    /// A custom resource of this definition.
    Custom(usize),
}

/// Of ten objects, four are config maps, two pods, two custom resources, one a secret and one an endpoint slice.
fn kind(n: usize) -> Kind {
    match n % 10 {
        0..=3 => Kind::ConfigMap,
        4 => Kind::Secret,
        5 | 6 => Kind::Pod,
        7 => Kind::EndpointSlice,
        _ => Kind::Custom(n / 10 % DEFINITIONS),
    }
}

fn namespace(n: usize) -> String {
    format!("bench-{:05}", n / IN_A_NAMESPACE)
}

fn collection(n: usize) -> String {
    let namespace = namespace(n);
    match kind(n) {
        Kind::ConfigMap => format!("/api/v1/namespaces/{namespace}/configmaps"),
        Kind::Secret => format!("/api/v1/namespaces/{namespace}/secrets"),
        Kind::Pod => format!("/api/v1/namespaces/{namespace}/pods"),
        Kind::EndpointSlice => format!("/apis/discovery.k8s.io/v1/namespaces/{namespace}/endpointslices"),
        Kind::Custom(definition) => format!("/apis/{GROUP}/v1/namespaces/{namespace}/widgets{definition}"),
    }
}

fn name(n: usize) -> String {
    format!("object-{n:08}")
}

pub(crate) fn object_path(n: usize) -> String {
    format!("{}/{}", collection(n), name(n))
}

/// Returns the paths of all resources.
pub(crate) fn collections() -> impl Iterator<Item = String> {
    let builtin = ["/api/v1/configmaps", "/api/v1/secrets", "/api/v1/pods", "/apis/discovery.k8s.io/v1/endpointslices"];
    let custom = (0..DEFINITIONS).map(|definition| format!("/apis/{GROUP}/v1/widgets{definition}"));
    builtin.into_iter().map(str::to_owned).chain(custom)
}

/// Returns the path of the config maps in the namespace of an object.
pub(crate) fn list_path(n: usize) -> String {
    format!("/api/v1/namespaces/{}/configmaps", namespace(n))
}

impl Mixture {
    /// Creates the definitions, and waits until they are served.
    pub(crate) async fn prepare(clients: &Clients) -> Self {
        for definition in 0..DEFINITIONS {
            create_definition(clients, definition).await;
        }
        let text = (0..200).map(|n| format!("{:x}", n * 7_919 + 4_096)).collect();
        Self { text }
    }

    /// Creates the namespaces of a range of objects, each with the account that pods need.
    pub(crate) async fn namespaces(&self, clients: &Clients, from: usize, to: usize) {
        let first = from.div_ceil(IN_A_NAMESPACE) * IN_A_NAMESPACE;
        stream::iter((first..to).step_by(IN_A_NAMESPACE))
            .for_each_concurrent(16, async |n| {
                let namespace = namespace(n);
                let body = json!({"metadata": {"name": namespace}}).to_string();
                let made = clients.send(n / IN_A_NAMESPACE, "POST", "/api/v1/namespaces", &[], body.into()).await;
                assert!([201, 409].contains(&made.status), "status {}", made.status);
                let accounts = format!("/api/v1/namespaces/{namespace}/serviceaccounts");
                let body = json!({"metadata": {"name": "default"}}).to_string();
                let made = clients.send(n / IN_A_NAMESPACE, "POST", &accounts, &[], body.into()).await;
                assert!([201, 409].contains(&made.status), "status {}", made.status);
            })
            .await;
    }

    /// Returns the path of the collection and the body of a create.
    pub(crate) fn object(&self, n: usize) -> (String, String) {
        let mut object = match kind(n) {
            Kind::ConfigMap => json!({"data": {"text": &self.text[..500]}}),
            Kind::Secret => json!({"stringData": {"text": &self.text[..500]}}),
            Kind::Pod => self.pod(),
            Kind::EndpointSlice => endpoints(n),
            Kind::Custom(definition) => json!({
                "apiVersion": format!("{GROUP}/v1"), "kind": format!("Widget{definition}"),
                "spec": {"text": &self.text[..300], "replicas": n % 7, "parts": [{"name": "a", "size": n}, {"name": "b", "size": 2}]},
            }),
        };
        object["metadata"] =
            json!({"name": name(n), "labels": {"app": format!("app-{}", n % 1_000), "tier": "backend"}});
        (collection(n), object.to_string())
    }

    fn pod(&self) -> Value {
        json!({"spec": {
            "automountServiceAccountToken": false,
            "containers": [{"name": "web", "image": "registry.example.com/team/web:1.42.7", "args": [&self.text[..100]]}],
        }})
    }
}

fn endpoints(n: usize) -> Value {
    let endpoint = |at: usize| {
        json!({
            "addresses": [format!("10.{}.{}.{}", n >> 16 & 255, n >> 8 & 255, at)], "conditions": {"ready": true},
            "nodeName": format!("node-{at}"), "zone": "zone-a",
            "targetRef": {"kind": "Pod", "name": format!("web-{at}"), "uid": "6d0fd7c8-4c1c-4f57-9c5b-0f6f2f0a4f11"},
        })
    };
    json!({
        "addressType": "IPv4", "endpoints": (1..4).map(endpoint).collect::<Vec<_>>(),
        "ports": [{"name": "http", "port": 8080, "protocol": "TCP"}],
    })
}

async fn create_definition(clients: &Clients, n: usize) {
    let names =
        json!({"plural": format!("widgets{n}"), "singular": format!("widget{n}"), "kind": format!("Widget{n}")});
    let part = json!({"type": "object", "properties": {"name": {"type": "string"}, "size": {"type": "integer"}}});
    let spec = json!({"type": "object", "properties": {
        "text": {"type": "string"}, "replicas": {"type": "integer", "minimum": 0}, "parts": {"type": "array", "items": part},
    }});
    let schema = json!({"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}});
    let definition = json!({
        "metadata": {"name": format!("widgets{n}.{GROUP}")},
        "spec": {
            "group": GROUP, "scope": "Namespaced", "names": names,
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": schema}],
        },
    });
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    let made = clients.send(0, "POST", definitions, &[], definition.to_string().into()).await;
    assert_eq!(made.status, 201);
    let (path, began) = (format!("/apis/{GROUP}/v1/widgets{n}"), Instant::now());
    while clients.send(0, "GET", &path, &[], Vec::new()).await.status != 200 {
        assert!(began.elapsed() < PATIENCE, "{path} is not served");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}
