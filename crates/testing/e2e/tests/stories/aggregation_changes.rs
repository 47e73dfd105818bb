//! APIServices, their services and CA bundles that change while requests are in flight.

use std::sync::atomic::{AtomicBool, Ordering};

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::{Extension, Reply, TempDir};
use serde_json::{Value, json};

use crate::aggregation::{API_SERVICES, condition, register};
use crate::authorization::{Rig, until};

const GROUP: &str = "change.test";
const THING: &str = "/apis/change.test/v1/namespaces/team/things/x";
const SERVICES: &str = "/api/v1/namespaces/change-test/services";

fn behave(head: &str) -> Reply {
    let path = head.split(' ').nth(1).unwrap_or_default();
    match path.rsplit('/').next().unwrap_or_default() {
        "apis" | "v2" | "v3" => Reply::of(404, "text/plain", "no"),
        _ => Reply::json(&json!({
            "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "change.test/v1", "resources": []
        })),
    }
}

/// Each request gets a response meanwhile, and afterwards according to the new state.
#[tokio::test(flavor = "multi_thread")]
async fn answers_every_request_while_apiservices_change() {
    let extension = Extension::start(behave).await;
    let rig = Rig::start(TempDir::new(), &[]);
    register(&rig, GROUP, extension.address.port(), json!({"insecureSkipTLSVerify": true})).await;
    let read = async || rig.code("root", "GET", THING).await;
    until("it is served", async || read().await == 200).await;

    let done = AtomicBool::new(false);
    let reads = async {
        while !done.load(Ordering::Relaxed) {
            let code = read().await;
            assert!([200, 404, 503].contains(&code), "{code}");
        }
    };
    let changes = async {
        let name = format!("{API_SERVICES}/v1.{GROUP}");
        let told = rig.send("root", "GET", &name, &Value::Null).await;
        let told: Value = serde_json::from_str(&told.body).unwrap();
        let again = json!({"metadata": {"name": format!("v1.{GROUP}")}, "spec": told["spec"]});
        for turn in 0..20 {
            assert_eq!(rig.code("root", "DELETE", &name).await, 200, "{turn}");
            rig.make(API_SERVICES, again.clone()).await;
            if turn % 5 == 0 {
                until("it is served again", async || read().await == 200).await;
            }
        }
        let bundle = BASE64_STANDARD.encode(&extension.authority);
        let change = async |spec: Value| {
            let merge = [("authorization", "Bearer root"), ("content-type", "application/merge-patch+json")];
            let body = json!({"spec": spec}).to_string();
            assert_eq!(rig.client().await.send("PATCH", &name, &merge, body).await.unwrap().status, 200);
        };
        for _ in 0..3 {
            condition(&rig, GROUP, "True").await;
            assert_eq!(rig.code("root", "DELETE", &format!("{SERVICES}/ext")).await, 200);
            assert_eq!(condition(&rig, GROUP, "False").await["reason"], "ServiceNotFound");
            until("requests are refused", async || read().await == 503).await;
            let service =
                json!({"metadata": {"name": "ext"}, "spec": {"type": "ExternalName", "externalName": "localhost"}});
            rig.make(SERVICES, service).await;
            condition(&rig, GROUP, "True").await;
            until("it is served again", async || read().await == 200).await;
            // The certificate is for a name other than the service's.
            change(json!({"insecureSkipTLSVerify": false, "caBundle": bundle})).await;
            assert_eq!(condition(&rig, GROUP, "False").await["reason"], "FailedDiscoveryCheck");
            until("requests are refused", async || read().await == 503).await;
            change(json!({"insecureSkipTLSVerify": true, "caBundle": null})).await;
            condition(&rig, GROUP, "True").await;
            until("it is served again", async || read().await == 200).await;
        }
        done.store(true, Ordering::Relaxed);
    };
    tokio::join!(reads, changes);
    for _ in 0..10 {
        assert_eq!(read().await, 200);
    }
}

/// Names that no service can have are not resolved.
#[tokio::test(flavor = "multi_thread")]
async fn ignores_invalid_service_names() {
    let rig = Rig::start(TempDir::new(), &[]);
    for (number, (namespace, name)) in
        [("..", "a"), ("default/a", "b"), ("default", "a/b"), ("default", "-a")].into_iter().enumerate()
    {
        let group = format!("no{number}.test");
        let spec = json!({
            "group": group, "version": "v1", "groupPriorityMinimum": 100, "versionPriority": 10, "insecureSkipTLSVerify": true,
            "service": {"namespace": namespace, "name": name}
        });
        rig.make(API_SERVICES, json!({"metadata": {"name": format!("v1.{group}")}, "spec": spec})).await;
        let told = condition(&rig, &group, "False").await;
        assert_eq!(told["reason"], "ServiceNotFound", "{told}");
        assert_eq!(told["message"], format!("service/{name} in {namespace:?} is not present"));
    }
}
