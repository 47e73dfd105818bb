//! Replays what the reference server was recorded to answer, as far as it follows from an object and what changes it.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::collections::HashMap;
use std::path::PathBuf;

use binnacle_kinds::Situation;
use binnacle_kinds::tables;
use binnacle_meta::GroupVersion;
use binnacle_patch::apply::{self, Apply, ApplyError, Update, Versions};
use binnacle_schema::{Message, Value, canonical, decode, defaults, json};

const NOW: &str = "2026-01-02T03:04:05Z";

/// Kinds whose strategy, admission or controller fills in fields behind the back of the field managers, so that the
/// answer is not what was tracked. (In `generate-name-cluster` an empty list was sent and null answered.)
const FILLED: [&str; 11] = [
    "CertificateSigningRequest",
    "CustomResourceDefinition",
    "HorizontalPodAutoscaler",
    "Job",
    "Namespace",
    "Node",
    "PersistentVolume",
    "PersistentVolumeClaim",
    "Pod",
    "Service",
    "VolumeAttributesClass",
];

/// The recorded cases of an area; `None` where they are not at hand.
fn cases(area: &str) -> Option<Vec<Value>> {
    let shared = std::env::var_os("BINNACLE_SHARED").map(PathBuf::from);
    let shared = shared.unwrap_or_else(|| PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../../shared"));
    let path = shared.join("conformance/cases").join(format!("{area}.json"));
    let Ok(text) = std::fs::read_to_string(&path) else {
        println!("skipped: no {}", path.display());
        return None;
    };
    // What the recording made nameless gets a value of its type again.
    let text = text.replace("\"<time>\"", &format!("\"{NOW}\"")).replace("<time>", NOW);
    let text = text.replace("<microtime>", "2026-01-02T03:04:05.000000Z");
    let text = (1..9).fold(text, |text, n| text.replace(&format!("\"<nodeport:{n}>\""), &format!("{}", 30000 + n)));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let value = tree(&value);
    Some(value.list_at(&["cases"]).to_vec())
}

fn tree(value: &serde_json::Value) -> Value {
    match value {
        serde_json::Value::Null => Value::Null,
        serde_json::Value::Bool(b) => Value::Bool(*b),
        serde_json::Value::Number(n) => n.as_i64().map_or_else(|| Value::Float(n.as_f64().unwrap()), Value::Int),
        serde_json::Value::String(s) => Value::from(s.as_str()),
        serde_json::Value::Array(items) => Value::List(items.iter().map(tree).collect()),
        serde_json::Value::Object(members) => {
            Value::Object(members.iter().map(|(k, v)| (k.as_str(), tree(v))).collect())
        }
    }
}

fn message(object: &Value) -> Option<&'static Message> {
    let version = GroupVersion::parse(object.str_at(&["apiVersion"]))?;
    tables::kind(&version.group, &version.version, object.str_at(&["kind"]))
}

fn decoded(object: &Value) -> Option<Value> {
    decode::value(object.clone(), message(object)?).ok().map(|decoded| decoded.value)
}

/// The entries, in the recording's order.
fn entries(object: &Value) -> Vec<String> {
    let mut texts: Vec<String> = object.list_at(&["metadata", "managedFields"]).iter().map(json::to_string).collect();
    texts.sort();
    texts
}

struct Request<'c> {
    step: &'c Value,
    subresource: &'c str,
    manager: &'c str,
}

impl<'c> Request<'c> {
    fn of(step: &'c Value) -> Self {
        let parts: Vec<&str> = step.str_at(&["path"]).split('/').collect();
        let namespaced = parts.iter().position(|part| *part == "namespaces");
        // .../namespaces/{ns}/{resource}/{name}/{subresource}, .../{resource}/{name}/{subresource}
        let from = match namespaced {
            Some(at) if parts.len() > at + 2 && !["status", "finalize"].contains(&parts[at + 2]) => at + 2,
            Some(at) => at,
            None if parts.get(1) == Some(&"apis") => 4,
            None => 3,
        };
        let subresource = parts.get(from + 2).copied().unwrap_or_default();
        let manager = match step.str_at(&["query", "fieldManager"]) {
            "" => "conformance",
            manager => manager,
        };
        Self { step, subresource, manager }
    }

    fn is_apply(&self) -> bool {
        self.step.str_at(&["headers", "Content-Type"]).starts_with("application/apply-patch")
    }

    fn key(&self, object: &Value) -> String {
        let name = object.str_at(&["metadata", "name"]);
        format!("{} {} {name}", object.str_at(&["apiVersion"]), object.str_at(&["kind"]))
    }
}

fn update<'a>(request: &Request<'a>, object: &'a Value, message: &'static Message) -> Update<'a> {
    let reset: &[&str] = match request.subresource {
        "status" => &["spec"],
        "" if object.str_at(&["kind"]) == "CertificateSigningRequest" => &["spec", "status"],
        "" if message.get("status").is_some() => &["status"],
        _ => &[],
    };
    let now = binnacle_meta::Time::parse(NOW).unwrap().unix_seconds();
    let api_version = object.str_at(&["apiVersion"]);
    Update { message, api_version, manager: request.manager, subresource: request.subresource, now, reset }
}

#[test]
fn updates() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for area in [
        "builtin-crud",
        "deletion",
        "lists",
        "patch",
        "status",
        "builtin-apply",
        "apply",
        "metadata",
        "services",
        "pods",
    ] {
        for case in cases(area).unwrap_or_default() {
            let mut known: HashMap<String, Value> = HashMap::new();
            for step in case.list_at(&["steps"]) {
                let body = step.at(&["expect", "body"]);
                let Some(body) = body.filter(|body| body.at(&["metadata", "managedFields"]).is_some()) else {
                    continue;
                };
                let Some(answer) = decoded(body) else { continue };
                let Some(message) = message(&answer) else { continue };
                let request = Request::of(step);
                let verb = step.str_at(&["do"]);
                let live = known.get(&request.key(&answer));
                if FILLED.contains(&answer.str_at(&["kind"])) || case.str_at(&["name"]) == "generate-name-cluster" {
                    continue;
                }
                let writes = matches!(verb, "POST" | "PUT" | "PATCH") && !request.is_apply();
                if writes && (verb == "POST" || live.is_some()) {
                    let mut object = answer.clone();
                    let sent = step.at(&["body", "metadata", "managedFields"]).cloned();
                    let sent = sent.or_else(|| live.and_then(|live| live.at(&["metadata", "managedFields"]).cloned()));
                    let metadata = object.get_mut("metadata").unwrap().make_object();
                    metadata.remove("managedFields");
                    if let Some(sent) = sent {
                        metadata.insert("managedFields", sent);
                    }
                    let api_version = answer.clone();
                    apply::track_update(&update(&request, &api_version, message), live, &mut object);
                    checked += 1;
                    let (got, want) = (entries(&object), entries(&answer));
                    if got != want {
                        let name = case.str_at(&["name"]);
                        wrong.push(format!(
                            "{area}/{name} {verb} {}\n  got  {got:?}\n  want {want:?}",
                            step.str_at(&["path"])
                        ));
                    }
                }
                known.insert(request.key(&answer), answer);
            }
        }
    }
    assert!(checked == 0 || checked > 100, "{checked} writes are too few");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}

/// All that was recorded was written in one version.
struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &'static Message)> {
        if object.str_at(&["apiVersion"]) != api_version {
            return None;
        }
        Some((object.clone(), message(object)?))
    }
}

/// The object as it is stored: decoded, defaulted, and with what the kind does to it.
fn finished(object: Value, live: Option<&Value>, message: &Message) -> Value {
    let mut object = decode::value(object, message).unwrap().value;
    let version = GroupVersion::parse(object.str_at(&["apiVersion"])).unwrap();
    let strategy = binnacle_kinds::strategy(&version.group, object.str_at(&["kind"]));
    defaults::apply_constants(&mut object, message);
    strategy.set_defaults(&version.version, &mut object);
    let namespace = if message.name.contains("Namespace") { "" } else { "{{ns}}" };
    let situation = Situation { now: 0, namespace, dry_run: false };
    match live {
        Some(live) => strategy.prepare_for_update(&situation, &mut object, live),
        None => strategy.prepare_for_create(&situation, &mut object),
    }
    canonical::canonicalize(&mut object, message);
    object
}

/// What an object is apart from what the server keeps of its own.
fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["managedFields", "namespace", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(name);
        }
    }
    object
}

#[test]
fn server_side_apply() {
    let mut checked = 0;
    let mut wrong = Vec::new();
    for area in ["apply", "builtin-apply"] {
        for case in cases(area).unwrap_or_default() {
            let mut known: HashMap<String, Value> = HashMap::new();
            for step in case.list_at(&["steps"]) {
                let Some(body) = step.at(&["expect", "body"]) else {
                    known.clear();
                    continue;
                };
                let request = Request::of(step);
                if request.subresource == "scale" {
                    known.clear();
                    continue;
                }
                let Some(config) = step.get("body").filter(|_| request.is_apply()) else {
                    match decoded(body) {
                        Some(answer) => _ = known.insert(request.key(&answer), answer),
                        // A write of which not everything was recorded.
                        None if step.str_at(&["do"]) != "GET" => known.clear(),
                        None => {}
                    }
                    continue;
                };
                let Some(message) = message(config) else { continue };
                if config.get("metadata").is_none() {
                    continue;
                }
                let create = step.int_at(&["expect", "status"]) == Some(201);
                let live = known.get(&request.key(config)).filter(|_| !create);
                if step.get("compare").is_some() || (live.is_none() && !create && body.str_at(&["kind"]) != "Status") {
                    known.clear();
                    continue;
                }
                let force = step.str_at(&["query", "force"]) == "true";
                let request_to_apply =
                    Apply { update: update(&request, config, message), force, versions: &OneVersion };
                let got = apply::apply(&request_to_apply, live, config);
                let at = format!("{area}/{} {}", case.str_at(&["name"]), step.str_at(&["path"]));
                let status = step.int_at(&["expect", "status"]).unwrap_or_default();
                match got {
                    Ok(object) if status < 300 => {
                        let object = finished(object, live, message);
                        let want = decoded(body).unwrap();
                        checked += 1;
                        if entries(&object) != entries(&want) {
                            wrong.push(format!("{at}\n  got  {:?}\n  want {:?}", entries(&object), entries(&want)));
                        }
                        if content(&object) != content(&want) && !FILLED.contains(&want.str_at(&["kind"])) {
                            let show = |value: &Value| json::to_string(&content(value));
                            wrong.push(format!("{at}\n  got  {}\n  want {}", show(&object), show(&want)));
                        }
                        known.insert(request.key(&want), want);
                    }
                    Err(error @ ApplyError::Conflicts(_)) => {
                        checked += 1;
                        let (got, want) = (error.to_string(), body.str_at(&["message"]));
                        if status != 409 || got != want {
                            wrong.push(format!("{at}\n  got  {got}\n  want {want}"));
                        }
                    }
                    Err(ApplyError::Failed(got)) => {
                        checked += 1;
                        if status != 500 || got != body.str_at(&["message"]) {
                            wrong.push(format!("{at}\n  got  {got}\n  want {}", body.str_at(&["message"])));
                        }
                    }
                    Ok(_) => {}
                }
            }
        }
    }
    assert!(checked == 0 || checked > 100, "{checked} requests are too few");
    assert!(wrong.is_empty(), "{} of {checked}:\n{}", wrong.len(), wrong.join("\n"));
}
