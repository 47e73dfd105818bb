//! CBOR behind its feature gate: objects of all kinds, watches as CBOR sequences, and custom resources stored in CBOR,
//! which servers read whether the gate is on or off.

use binnacle_schema::{Limits, Value, cbor, json, value};
use binnacle_testkit::https::Client;
use binnacle_testkit::{Etcd, Server, wait_until};
use http_body_util::BodyExt;

const ON: &str = "--feature-gates=CBORServingAndStorage=true";
const CBOR: &str = "application/cbor";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const SAILS: &str = "/apis/shop.test/v1/sails";

/// A response: status code, media type and decoded body.
struct Answer {
    code: u16,
    media_type: String,
    body: Vec<u8>,
}

impl Answer {
    fn tree(&self) -> Value {
        match self.media_type.as_str() {
            CBOR => cbor::parse(&self.body, &Limits::default()).unwrap(),
            _ => json::parse(&self.body, &Limits::default()).unwrap(),
        }
    }

    fn message(&self) -> String {
        self.tree().str_at(&["message"]).to_owned()
    }
}

async fn ask(client: &mut Client, method: &str, path: &str, [sent, accept]: [&str; 2], body: Vec<u8>) -> Answer {
    let headers = [("content-type", sent), ("accept", accept)];
    let (parts, body) = client.open(method, path, &headers, body).await.unwrap().into_parts();
    let media_type = parts.headers["content-type"].to_str().unwrap().to_owned();
    let body = body.collect().await.unwrap().to_bytes().to_vec();
    Answer { code: parts.status.as_u16(), media_type, body }
}

fn document(tree: &Value) -> Vec<u8> {
    let mut out = Vec::new();
    cbor::write(tree, None, &mut out);
    out
}

fn map(name: &str) -> Value {
    value!({
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name},
        "data": {"text": "AAEC"}, "binaryData": {"bytes": "AAH/"}
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_built_in_resources_as_cbor() {
    let server = Server::start(&["--ephemeral", ON]);
    let client = &mut server.client().await;
    let both = [CBOR, CBOR];
    let made = ask(client, "POST", MAPS, both, document(&map("a"))).await;
    assert_eq!((made.code, made.media_type.as_str()), (201, CBOR));
    assert_eq!(made.body[..3], cbor::SELF_DESCRIBED);
    // Bytes are encoded as bytes, not as text.
    assert!(made.body.windows(5).any(|bytes| bytes == b"\xd6\x43\x00\x01\xff"), "{:02x?}", made.body);
    let read = ask(client, "GET", &format!("{MAPS}/a"), ["", "application/json"], Vec::new()).await;
    assert_eq!(read.tree(), made.tree());

    let applied = map("b");
    let path = format!("{MAPS}/b?fieldManager=m");
    let applied = ask(client, "PATCH", &path, ["application/apply-patch+cbor", CBOR], document(&applied)).await;
    assert_eq!((applied.code, applied.tree().str_at(&["data", "text"])), (201, "AAEC"));
    let list = ask(client, "GET", MAPS, ["", CBOR], Vec::new()).await.tree();
    let names: Vec<_> =
        list.list_at(&["items"]).iter().map(|item| item.str_at(&["metadata", "name"]).to_owned()).collect();
    assert_eq!(names.iter().filter(|name| ["a", "b"].contains(&name.as_str())).count(), 2);
    let events = format!("{MAPS}?watch=1&timeoutSeconds=1&resourceVersion=0&fieldSelector=metadata.name=a");
    let events = ask(client, "GET", &events, ["", CBOR], Vec::new()).await;
    assert_eq!((events.code, events.media_type.as_str()), (200, "application/cbor-seq"));
    let event = cbor::parse(&events.body, &Limits::default()).unwrap();
    assert_eq!((event.str_at(&["type"]), event.get("object")), ("ADDED", Some(&made.tree())));

    let table = "application/cbor;as=Table;v=v1;g=meta.k8s.io";
    let offered = "only the following media types are accepted: application/json, application/yaml, \
                   application/vnd.kubernetes.protobuf, application/cbor";
    let table = ask(client, "GET", MAPS, ["", table], Vec::new()).await;
    assert_eq!((table.code, table.message().as_str()), (406, offered));
    let refused = |why: &str| format!("ConfigMap in version \"v1\" cannot be handled as a ConfigMap: {why}");
    let unknown = value!({"kind": "ConfigMap", "x": 1i64, "metadata": {"name": "c"}});
    for (body, want) in [
        (document(&unknown), refused("strict decoding error: cbor: found unknown field at map element index 1")),
        (
            b"\xa1\x64data\xa2\x61a\x61b\x41a\x61c".to_vec(),
            refused("cbor: found duplicate map key \"a\" at map element index 1"),
        ),
        (
            document(&value!({"metadata": {"name": 5i64}})),
            refused(
                "cbor: cannot unmarshal positive integer into Go struct field v1.ConfigMap.metadata of type string",
            ),
        ),
        (
            b"\xa1\x64kind".to_vec(),
            "the object provided is unrecognized (must be of type ConfigMap): unable to determine group/version/kind: \
             unexpected EOF (a1646b696e64)"
                .to_owned(),
        ),
    ] {
        let answer = ask(client, "POST", &format!("{MAPS}?fieldValidation=Strict"), both, body).await;
        assert_eq!((answer.code, answer.media_type.as_str(), answer.message()), (400, CBOR, want));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn rejects_cbor_without_the_feature_gate() {
    let server = Server::ephemeral();
    let client = &mut server.client().await;
    let body = document(&map("a"));
    let apply = ["application/apply-patch+cbor", "application/json"];
    let path = format!("{MAPS}/a?fieldManager=m");
    for (method, path, types, code) in [
        ("POST", MAPS, [CBOR, "application/json"], 415),
        ("PATCH", path.as_str(), apply, 415),
        ("GET", MAPS, ["", CBOR], 406),
        ("GET", MAPS, ["", "application/cbor-seq"], 406),
    ] {
        let answer = ask(client, method, path, types, body.clone()).await;
        assert_eq!((answer.code, answer.media_type.as_str()), (code, "application/json"), "{method} {path}");
        assert!(!answer.message().contains("cbor"), "{}", answer.message());
    }
}

fn definition() -> Value {
    value!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "sails.shop.test"},
        "spec": {
            "group": "shop.test", "scope": "Cluster", "names": {"plural": "sails", "kind": "Sail"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true
            }}}]
        }
    })
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn stores_custom_resources_as_cbor() {
    let etcd = Etcd::single();
    let key = "/registry/shop.test/sails/one";
    let sail = |area: i64| value!({"apiVersion": "shop.test/v1", "kind": "Sail", "metadata": {"name": "one"}, "area": area, "cut": ["a", null, 1.5]});
    let made = {
        let server = Server::durable_with(&[&etcd.servers(), ON]);
        let client = &mut server.client().await;
        let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
        assert_eq!(ask(client, "POST", definitions, [CBOR, CBOR], document(&definition())).await.code, 201);
        let made = wait_until("the resource is served", async || {
            let answer = ask(client, "POST", SAILS, [CBOR, CBOR], document(&sail(3))).await;
            (answer.code == 201).then_some(answer)
        })
        .await;
        let stored = etcd.value(key);
        assert_eq!(stored[..3], cbor::SELF_DESCRIBED);
        let mut again = Vec::new();
        cbor::write_sorted(&cbor::parse(&stored, &Limits::default()).unwrap(), &mut again);
        assert_eq!(again, stored, "members have one order");
        made.tree()
    };
    // A server without the gate reads the object, and replaces it with JSON.
    let server = Server::durable_with(&[&etcd.servers()]);
    let client = &mut server.client().await;
    let json = ["application/json", "application/json"];
    let path = format!("{SAILS}/one");
    let read = wait_until("the resource is served", async || {
        let answer = ask(client, "GET", &path, json, Vec::new()).await;
        (answer.code == 200).then_some(answer)
    })
    .await;
    assert_eq!(read.tree(), made);
    let list = ask(client, "GET", SAILS, json, Vec::new()).await.tree();
    assert_eq!(list.list_at(&["items"]), std::slice::from_ref(&made));
    let merge = ["application/merge-patch+json", "application/json"];
    let changed = ask(client, "PATCH", &path, merge, b"{\"area\":4}".to_vec()).await;
    assert_eq!((changed.code, changed.tree().int_at(&["area"])), (200, Some(4)));
    assert!(etcd.value(key).starts_with(b"{"));
    // A write without changes still rewrites an object that is stored in the other encoding.
    let mut stored = Vec::new();
    let mut plain = json::parse(&etcd.value(key), &Limits::default()).unwrap();
    plain.make_object().insert("area", 5i64);
    cbor::write_sorted(&plain, &mut stored);
    etcd.put(key, &stored);
    let seen = async || {
        let answer = ask(&mut server.client().await, "GET", &path, json, Vec::new()).await.tree();
        (answer.int_at(&["area"]) == Some(5)).then_some(answer)
    };
    let seen = wait_until("the change is seen", seen).await;
    let same = ask(client, "PUT", &path, json, json::to_string(&seen).into_bytes()).await;
    assert_eq!(same.code, 200, "{}", same.message());
    assert!(etcd.value(key).starts_with(b"{"));
}

/// Floating point numbers keep their type where JSON has the same text for them as for an integer.
#[tokio::test(flavor = "multi_thread")]
async fn preserves_whole_floats() {
    let server = Server::start(&["--ephemeral", ON]);
    let client = &mut server.client().await;
    let both = [CBOR, CBOR];
    let definitions = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    assert_eq!(ask(client, "POST", definitions, both, document(&definition())).await.code, 201);
    let area = || value!([1i64, (Value::Float(2.0)), (Value::Float(2.5)), (Value::Float(-0.0))]);
    let sail = |name: &str| value!({"apiVersion": "shop.test/v1", "kind": "Sail", "metadata": {"name": name}, "area": (area())});
    let made = wait_until("the resource is served", async || {
        let answer = ask(client, "POST", SAILS, both, document(&sail("one"))).await;
        (answer.code == 201).then_some(answer)
    })
    .await;
    let text = |tree: &Value| format!("{:?}", tree.get("area"));
    let want = format!("{:?}", Some(area()));
    assert_eq!(text(&made.tree()), want);
    let path = format!("{SAILS}/one");
    assert_eq!(text(&ask(client, "GET", &path, ["", CBOR], Vec::new()).await.tree()), want);
    let list = ask(client, "GET", SAILS, ["", CBOR], Vec::new()).await.tree();
    assert_eq!(text(&list.list_at(&["items"])[0]), want);
    let json = ask(client, "GET", &path, ["", "application/json"], Vec::new()).await;
    assert!(String::from_utf8_lossy(&json.body).contains("\"area\":[1,2,2.5,-0]"));
    // A patch is applied to the JSON of the object, and keeps its own numbers.
    let merge = ["application/merge-patch+json", CBOR];
    let patched = ask(client, "PATCH", &path, merge, b"{\"cut\":[1,1.0]}".to_vec()).await.tree();
    assert_eq!(text(&patched), format!("{:?}", Some(value!([1i64, 2i64, (Value::Float(2.5)), 0i64]))));
    assert_eq!(format!("{:?}", patched.get("cut")), format!("{:?}", Some(value!([1i64, (Value::Float(1.0))]))));

    // In a free-form part of a built-in kind, kube-apiserver keeps the text of JSON.
    let revisions = "/apis/apps/v1/namespaces/default/controllerrevisions";
    let revision = value!({"metadata": {"name": "a"}, "revision": 1i64, "data": {"area": (area())}});
    let made = ask(client, "POST", revisions, both, document(&revision)).await;
    let area = value!([1i64, 2i64, (Value::Float(2.5)), 0i64]);
    assert_eq!((made.code, made.tree().at(&["data", "area"])), (201, Some(&area)));
}

#[tokio::test(flavor = "multi_thread")]
async fn serves_component_pages_as_cbor() {
    let gates = "--feature-gates=CBORServingAndStorage=true,ComponentFlagz=true,ComponentStatusz=true";
    let server = Server::start(&["--ephemeral", gates]);
    let client = &mut server.client().await;
    let all =
        "only the following media types are accepted: application/json, application/yaml, text/plain, application/cbor";
    for (path, kind) in [("/flagz", "Flagz"), ("/statusz", "Statusz")] {
        let asked = format!("{CBOR};as={kind};v=v1beta1;g=config.k8s.io");
        let page = client.open("GET", path, &[("accept", asked.as_str())], Vec::new()).await.unwrap();
        assert_eq!(page.headers()["content-type"], format!("{CBOR};g=config.k8s.io;v=v1beta1;as={kind}"));
        let body = page.into_body().collect().await.unwrap().to_bytes();
        assert_eq!(cbor::parse(&body, &Limits::default()).unwrap().str_at(&["kind"]), kind);
        for (accept, told) in [
            (CBOR, CBOR),
            ("application/json", "application/json"),
            // The pages have no protobuf form, and so the failure has none.
            ("application/vnd.kubernetes.protobuf", "application/json"),
        ] {
            let refused = ask(client, "GET", path, ["", accept], Vec::new()).await;
            assert_eq!((refused.code, refused.media_type.as_str(), refused.message()), (406, told, all.to_owned()));
        }
    }
}
