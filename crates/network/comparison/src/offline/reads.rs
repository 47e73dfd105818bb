//! Reads of everything that a server serves, generated from its discovery, and requests that it refuses.

use serde_json::{Value, json};

use super::audit::subjects_of;
use super::{Options, refusals};
use crate::answer::Answer;
use crate::endpoint::{Endpoint, Outgoing};
use crate::subject::Subject;

/// The maximum number of objects of a resource that are read one by one.
const OBJECTS: usize = 3;
/// The aggregated form of discovery.
const AGGREGATED: &str = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
const RULES: &str = "/apis/authorization.k8s.io/v1/selfsubjectrulesreviews";
const ACCESS: &str = "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews";
/// Parameters of lists, valid and invalid ones.
const PARAMETERS: [&str; 10] = [
    "limit=1",
    "limit=x",
    "resourceVersion=0",
    "resourceVersion=x",
    "resourceVersionMatch=Exact",
    "labelSelector=a%3D%3Db",
    "labelSelector=a%3D%3D%3D",
    "fieldSelector=metadata.name%3Dx",
    "fieldSelector=spec.none%3Dx",
    "continue=x",
];

/// Parameters of watches from the current state, valid and invalid ones.
const WATCHES: [&str; 5] = [
    "watch=1&resourceVersion=0",
    "watch=1&resourceVersion=0&sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true",
    "watch=1&resourceVersion=x",
    "watch=1&resourceVersion=0&labelSelector=a%3D%3D%3D",
    "watch=1&resourceVersion=0&resourceVersionMatch=Exact",
];

/// Returns the documents, lists, watches, first objects and reviews of the first server, and refused requests.
pub(super) async fn generate(options: &Options) -> Result<Vec<Subject>, String> {
    let server = &options.servers[0];
    let mut subjects = Vec::new();
    let mut add = |outgoing: Outgoing| subjects.extend(subjects_of(options, outgoing));
    for path in ["/version", "/api", "/apis", "/openapi/v2", "/openapi/v3"] {
        add(Outgoing::empty("GET", path));
    }
    for path in ["/api", "/apis"] {
        let mut outgoing = Outgoing::empty("GET", path);
        outgoing.headers.insert("Accept".to_owned(), Value::from(AGGREGATED));
        add(outgoing);
    }
    let openapi = document(server, "/openapi/v3").await?;
    for path in openapi["paths"].as_object().into_iter().flat_map(|paths| paths.keys()) {
        add(Outgoing::empty("GET", &format!("/openapi/v3/{path}")));
    }
    let groups = document(server, "/apis").await?;
    let mut versions = vec!["/api/v1".to_owned()];
    for group in groups["groups"].as_array().into_iter().flatten() {
        add(Outgoing::empty("GET", &format!("/apis/{}", text(&group["name"]))));
        let served = group["versions"].as_array().into_iter().flatten();
        versions.extend(served.map(|version| format!("/apis/{}", text(&version["groupVersion"]))));
    }
    for version in versions {
        add(Outgoing::empty("GET", &version));
        let document = document(server, &version).await?;
        let resources: Vec<&Value> = document["resources"].as_array().into_iter().flatten().collect();
        for resource in resources.iter().filter(|resource| !text(&resource["name"]).contains('/')) {
            for target in reads_of(server, &version, resource, &resources).await? {
                add(Outgoing::empty("GET", &target));
            }
        }
    }
    let rules = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectRulesReview", "spec": {"namespace": "default"}});
    let access = json!({"apiVersion": "authorization.k8s.io/v1", "kind": "SelfSubjectAccessReview",
        "spec": {"resourceAttributes": {"verb": "list", "resource": "pods", "namespace": "default"}}});
    add(Outgoing::json("POST", RULES, &rules));
    add(Outgoing::json("POST", ACCESS, &access));
    subjects.extend(refusals::generate());
    Ok(subjects)
}

/// Returns the targets for a resource: lists with parameters, its first objects, and their readable subresources.
async fn reads_of(
    server: &Endpoint,
    version: &str,
    resource: &Value,
    resources: &[&Value],
) -> Result<Vec<String>, String> {
    let name = text(&resource["name"]);
    if !has_verb(resource, "list") {
        return Ok(Vec::new());
    }
    let list = format!("{version}/{name}");
    let mut targets = vec![list.clone()];
    targets.extend(PARAMETERS.iter().map(|parameter| format!("{list}?{parameter}")));
    let is_watched = has_verb(resource, "watch");
    if is_watched {
        targets.extend(WATCHES.iter().map(|parameters| format!("{list}?{parameters}")));
    }
    let is_namespaced = resource["namespaced"] == true;
    if is_namespaced {
        targets.push(format!("{version}/namespaces/default/{name}"));
    }
    if !has_verb(resource, "get") {
        return Ok(targets);
    }
    let missing = if is_namespaced { format!("{version}/namespaces/default/{name}") } else { list.clone() };
    targets.push(format!("{missing}/does-not-exist"));
    let prefix = format!("{name}/");
    let subresources: Vec<&str> = resources
        .iter()
        .filter(|other| has_verb(other, "get"))
        .filter_map(|other| other["name"].as_str()?.strip_prefix(&prefix))
        .collect();
    let objects = document(server, &format!("{list}?limit={OBJECTS}")).await?;
    for object in objects["items"].as_array().into_iter().flatten() {
        let metadata = &object["metadata"];
        if is_watched {
            targets.push(format!("{list}?watch=1&resourceVersion={}", text(&metadata["resourceVersion"])));
        }
        let object = match metadata["namespace"].as_str() {
            Some(namespace) => format!("{version}/namespaces/{namespace}/{name}/{}", text(&metadata["name"])),
            None => format!("{list}/{}", text(&metadata["name"])),
        };
        targets.extend(subresources.iter().map(|subresource| format!("{object}/{subresource}")));
        targets.push(object);
    }
    Ok(targets)
}

fn has_verb(resource: &Value, verb: &str) -> bool {
    resource["verbs"].as_array().is_some_and(|verbs| verbs.iter().any(|other| other == verb))
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

/// Reads a document that the generated requests depend on.
async fn document(server: &Endpoint, target: &str) -> Result<Value, String> {
    let answer: Answer = server.request(&Outgoing::empty("GET", target)).await?;
    match answer.status {
        200 => Ok(answer.parsed()),
        status => Err(format!("{}: GET {target}: {status} {}", server.address(), answer.text())),
    }
}
