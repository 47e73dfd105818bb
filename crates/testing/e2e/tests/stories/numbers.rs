//! Numbers that do not fit in floating point, and metadata with numbers in other forms. The responses are
//! kube-apiserver's.

use binnacle_testkit::Server;
use binnacle_testkit::https::Client;
use serde_json::{Value, json};

const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
const OBJECTS: &str = "/apis/num.test/v1/namespaces/default/xs";
const MAPS: &str = "/api/v1/namespaces/default/configmaps";
const JSON: &str = "application/json";
const MERGE: &str = "application/merge-patch+json";
const PATCH: &str = "application/json-patch+json";
const APPLY: &str = "application/apply-patch+yaml";

fn definition() -> Value {
    let free = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let schema = json!({"type": "object", "properties": {"spec": free, "status": free}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition", "metadata": {"name": "xs.num.test"},
        "spec": {"group": "num.test", "scope": "Namespaced", "names": {"plural": "xs", "kind": "X"}, "versions": [{
            "name": "v1", "served": true, "storage": true, "subresources": {"status": {}},
            "schema": {"openAPIV3Schema": schema}
        }]}
    })
}

async fn send(client: &mut Client, method: &str, path: &str, kind: &str, body: &str) -> (u16, Value) {
    let answer = client.send(method, path, &[("content-type", kind)], body.to_owned()).await.unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap_or_default())
}

/// Starts a server with a custom resource `a` and a config map `a`.
async fn server() -> (Server, Client) {
    let server = Server::start(&["--ephemeral", "--disable-admission-plugins=ServiceAccount"]);
    let mut client = server.client().await;
    let (code, answer) = send(&mut client, "POST", DEFINITIONS, JSON, &definition().to_string()).await;
    assert_eq!(code, 201, "{answer}");
    let object = r#"{"apiVersion":"num.test/v1","kind":"X","metadata":{"name":"a"},"spec":{"k":1}}"#;
    // The resource is served soon after its definition is created.
    while send(&mut client, "POST", OBJECTS, JSON, object).await.0 == 404 {}
    let (code, answer) = send(&mut client, "POST", MAPS, JSON, r#"{"metadata":{"name":"a"},"data":{"k":"1"}}"#).await;
    assert_eq!(code, 201, "{answer}");
    (server, client)
}

const NUMBER: &str = "json: cannot unmarshal number 1E400 into Go value of type float64";

#[tokio::test]
async fn rejects_numbers_beyond_floating_point_by_type() {
    let (_server, mut client) = server().await;
    let handled =
        |kind: &str, version: &str| format!("{kind} in version \"{version}\" cannot be handled as a X: {NUMBER}");
    let unread = "the object provided is unrecognized (must be of type X): ";
    for (body, want) in [
        (r#"{"apiVersion":"num.test/v1","kind":"X","metadata":{"name":"b"},"spec":{"n":1E400}}"#, handled("X", "v1")),
        (r#"{"apiVersion":"num.test/v9","kind":"Y","metadata":{"name":"b"},"spec":{"n":1E400}}"#, handled("Y", "v9")),
        (r#"{"metadata":{"name":"b"},"spec":{"n":[1E400]}}"#, handled("X", "v1")),
        (r#"{"apiVersion":"num.test/v1","kind":"X","metadata":{"generation":1E400}}"#, handled("X", "v1")),
        (r#"{"apiVersion":"num.test/v1","Kind":"Z","spec":{"n":1E400}}"#, handled("Z", "v1")),
        (
            r#"{"apiVersion":"num.test/v1","kind":1E400}"#,
            format!(
                "{unread}couldn't get version/kind; json parse error: json: cannot unmarshal number into Go struct field \
                 .kind of type string ({{\"apiVersion\":\"num.test/v1\",\"k ...)"
            ),
        ),
        (
            r#"{"apiVersion":"a/b/c","kind":"X","spec":{"n":1E400}}"#,
            format!("{unread}unexpected GroupVersion string: a/b/c ({{\"apiVersion\":\"a/b/c\",\"kind\":\" ...)"),
        ),
    ] {
        for parameters in ["", "?fieldValidation=Ignore", "?fieldValidation=Strict"] {
            let (code, answer) = send(&mut client, "POST", &format!("{OBJECTS}{parameters}"), JSON, body).await;
            assert_eq!((code, answer["message"].as_str().unwrap_or_default()), (400, want.as_str()), "{body}");
        }
    }
    let status = r#"{"apiVersion":"num.test/v1","kind":"X","metadata":{"name":"a"},"status":{"n":1E400}}"#;
    let (code, answer) = send(&mut client, "PUT", &format!("{OBJECTS}/a/status"), JSON, status).await;
    assert_eq!((code, &answer["message"]), (400, &json!(handled("X", "v1"))));
    // In YAML the number is a text.
    let apply = r#"{"apiVersion":"num.test/v1","kind":"X","metadata":{"name":"b"},"spec":{"n":1E400}}"#;
    let (code, answer) = send(&mut client, "PATCH", &format!("{OBJECTS}/b?fieldManager=m"), APPLY, apply).await;
    assert_eq!((code, &answer["spec"]["n"]), (201, &json!("1E400")), "{answer}");
}

#[tokio::test]
async fn rejects_patches_with_numbers_beyond_floating_point() {
    let (_server, mut client) = server().await;
    let of_value = "error decoding patch: json: cannot unmarshal number 1E400 into Go struct field jsonPatchOp.value of \
                    type float64";
    for (kind, body, want) in [
        (PATCH, r#"[{"op":"add","path":"/data/x","value":1E400}]"#, of_value),
        (PATCH, r#"[{"op":"test","path":"/data/k","value":{"a":[1E400]}}]"#, of_value),
        (
            PATCH,
            r#"[{"op":1},{"op":"test","path":"/data/k","value":1E400}]"#,
            "error decoding patch: json: cannot unmarshal number into Go struct field jsonPatchOp.op of type string",
        ),
        (
            PATCH,
            "1E400",
            "error decoding patch: json: cannot unmarshal number into Go value of type []handlers.jsonPatchOp",
        ),
        (MERGE, r#"{"data":{"x":1E400}}"#, &format!("error decoding patch: {NUMBER}")),
        (
            MERGE,
            "[1E400]",
            "error decoding patch: json: cannot unmarshal array into Go value of type map[string]interface {}",
        ),
    ] {
        for collection in [OBJECTS, MAPS] {
            let (code, answer) = send(&mut client, "PATCH", &format!("{collection}/a"), kind, body).await;
            assert_eq!((code, answer["message"].as_str().unwrap_or_default()), (400, want), "{body}");
        }
    }
    // Without field validation, the result is the part that can be decoded.
    let path = format!("{OBJECTS}/a?fieldValidation=Ignore");
    for (kind, body) in
        [(PATCH, r#"[{"op":"add","path":"/spec/x","value":1E400}]"#), (MERGE, r#"{"spec":{"x":1E400}}"#)]
    {
        let (code, answer) = send(&mut client, "PATCH", &path, kind, body).await;
        let message = answer["message"].as_str().unwrap_or_default();
        assert!(code == 422 && message.contains(r#"\"x\":1E400"#) && message.ends_with(NUMBER), "{body}: {answer}");
    }
    let gone = r#"[{"op":"add","path":"/spec/x","value":1E400},{"op":"remove","path":"/spec/x"}]"#;
    let (code, answer) = send(&mut client, "PATCH", &path, PATCH, gone).await;
    assert_eq!((code, &answer["spec"]), (200, &json!({"k": 1})), "{answer}");
}

/// kube-apiserver encodes metadata of custom resources before it decodes it to its struct.
#[tokio::test]
async fn accepts_whole_numbers_with_a_point_in_metadata() {
    let (_server, mut client) = server().await;
    let object = |generation: &str| {
        format!(r#"{{"apiVersion":"num.test/v1","kind":"X","metadata":{{"name":"b","generation":{generation}}}}}"#)
    };
    for (generation, shown) in [
        ("1.0", None),
        ("1e3", None),
        ("1e-400", None),
        ("-0.0", None),
        ("1.5", Some("1.5")),
        ("1e21", Some("1e+21")),
        ("100000000000000000000", Some("100000000000000000000")),
    ] {
        let body = object(generation);
        let (code, answer) = send(&mut client, "POST", &format!("{OBJECTS}?dryRun=All"), JSON, &body).await;
        match shown {
            None => assert_eq!(code, 201, "{answer}"),
            Some(shown) => assert_eq!(
                answer["message"],
                format!(
                    "X in version \"v1\" cannot be handled as a X: json: cannot unmarshal number {shown} into Go struct \
                     field ObjectMeta.generation of type int64"
                )
            ),
        }
    }
}
