//! Clean-up after a case, which leaves the cluster unchanged for the next one.

use serde_json::{Value, json};

use crate::answer::Answer;
use crate::endpoint::{Endpoint, Outgoing};

/// A POST to these subresources creates no object.
const SUBRESOURCES: [&str; 15] = [
    "status",
    "scale",
    "binding",
    "bindings",
    "eviction",
    "token",
    "finalize",
    "approval",
    "proxy",
    "log",
    "exec",
    "attach",
    "portforward",
    "ephemeralcontainers",
    "resize",
];

/// Returns the path of the object that a request has created, according to its response.
pub(crate) fn created(outgoing: &Outgoing, answer: &Answer) -> Option<String> {
    let (path, query) = outgoing.target.split_once('?').unwrap_or((&outgoing.target, ""));
    if answer.status != 201 || query.split('&').any(|pair| pair.starts_with("dryRun=")) {
        return None;
    }
    match outgoing.method.as_str() {
        "POST" => {
            let last = path.rsplit('/').next().unwrap_or_default();
            if SUBRESOURCES.contains(&last) || last.ends_with("reviews") {
                return None;
            }
            let answered = answer.parsed();
            let sent = || serde_json::from_slice::<Value>(outgoing.data.as_deref()?).ok();
            let name = answered.pointer("/metadata/name").or(answered.get("name")).and_then(Value::as_str);
            let name = match name {
                Some(name) => name.to_owned(),
                None => sent()?.pointer("/metadata/name")?.as_str()?.to_owned(),
            };
            (!name.is_empty()).then(|| format!("{path}/{name}"))
        }
        "PUT" | "PATCH" => Some(path.to_owned()),
        _ => None,
    }
}

/// Deletes objects, first those that affect other requests, and the namespace of the case.
pub(crate) async fn remove(endpoint: &Endpoint, created: &[String], namespace: Option<&str>) -> Result<(), String> {
    let admission = |path: &&String| path.contains("/admissionregistration.k8s.io/");
    let newest = || created.iter().rev();
    let mut order: Vec<&String> = newest().filter(admission).collect();
    order.extend(newest().filter(|path| !admission(path)));
    let mut done: Vec<&String> = Vec::new();
    for path in order {
        if !done.contains(&path) {
            delete(endpoint, path).await?;
            done.push(path);
        }
    }
    if let Some(namespace) = namespace {
        let path = format!("/api/v1/namespaces/{namespace}");
        endpoint.request(&Outgoing::empty("DELETE", &path)).await?;
        release_namespace(endpoint, &path).await?;
    }
    Ok(())
}

async fn delete(endpoint: &Endpoint, path: &str) -> Result<(), String> {
    let options = json!({"kind": "DeleteOptions", "apiVersion": "v1", "gracePeriodSeconds": 0,
        "propagationPolicy": "Background"});
    let answer = endpoint.request(&Outgoing::json("DELETE", path, &options)).await?;
    if answer.status == 404 {
        return Ok(());
    }
    if path.strip_prefix("/api/v1/namespaces/").is_some_and(|name| !name.contains('/')) {
        return release_namespace(endpoint, path).await;
    }
    let held = answer.parsed().pointer("/metadata/finalizers").is_some();
    // The server itself removes the finalizer of a definition after the last of its objects.
    if (held || ![200, 202].contains(&answer.status)) && !path.contains("/customresourcedefinitions/") {
        drop_finalizers(endpoint, path).await?;
        endpoint.request(&Outgoing::json("DELETE", path, &options)).await?;
    }
    Ok(())
}

async fn drop_finalizers(endpoint: &Endpoint, path: &str) -> Result<(), String> {
    let patch = json!({"metadata": {"finalizers": null}});
    endpoint.request(&Outgoing::patch("PATCH", path, "application/merge-patch+json", &patch)).await.map(drop)
}

/// Finalizes a namespace that is being deleted, in place of the namespace controller.
async fn release_namespace(endpoint: &Endpoint, path: &str) -> Result<(), String> {
    let mut namespace = endpoint.request(&Outgoing::empty("GET", path)).await?.parsed();
    if namespace.pointer("/metadata/deletionTimestamp").is_none() {
        return Ok(());
    }
    if namespace.pointer("/metadata/finalizers").is_some() {
        drop_finalizers(endpoint, path).await?;
        namespace = endpoint.request(&Outgoing::empty("GET", path)).await?.parsed();
    }
    if namespace["kind"] != "Namespace" {
        return Ok(());
    }
    namespace["spec"] = json!({"finalizers": []});
    endpoint.request(&Outgoing::json("PUT", &format!("{path}/finalize"), &namespace)).await.map(drop)
}

#[cfg(test)]
mod tests {
    use http::HeaderMap;
    use serde_json::{Value, json};

    use super::created;
    use crate::answer::Answer;
    use crate::endpoint::Outgoing;

    #[test]
    fn finds_created_objects_in_responses() {
        let object = |name: &str| json!({"metadata": {"name": name}});
        for (method, target, sent, status, body, want) in [
            ("POST", "/api/v1/nodes", object("a"), 201, object("b"), Some("/api/v1/nodes/b")),
            ("POST", "/api/v1/nodes?x=1", object("a"), 201, json!("protobuf"), Some("/api/v1/nodes/a")),
            ("POST", "/api/v1/nodes", object("a"), 201, json!({"name": "b"}), Some("/api/v1/nodes/b")),
            ("POST", "/api/v1/nodes?dryRun=All", object("a"), 201, object("a"), None),
            ("POST", "/api/v1/nodes", object("a"), 409, object("a"), None),
            ("POST", "/api/v1/namespaces/n/pods/p/binding", object("a"), 201, object("a"), None),
            ("POST", "/apis/authorization.k8s.io/v1/subjectaccessreviews", object("a"), 201, object("a"), None),
            ("PATCH", "/api/v1/nodes/a?force=true", json!({}), 201, object("a"), Some("/api/v1/nodes/a")),
            ("PUT", "/api/v1/nodes/a", json!({}), 200, object("a"), None),
            ("GET", "/api/v1/nodes/a", json!({}), 201, object("a"), None),
        ] {
            let sent: Value = sent;
            let answer = Answer { status, headers: HeaderMap::new(), data: body.to_string().into() };
            let got = created(&Outgoing::json(method, target, &sent), &answer);
            assert_eq!(got.as_deref(), want, "{method} {target} {body}");
        }
    }
}
