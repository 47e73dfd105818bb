//! The recorded cases, and conversion of objects to their stored form.

use binnacle_features::Features;
use binnacle_kinds::tables;
use binnacle_meta::GroupVersion;
use binnacle_meta::Text;
use binnacle_patch::apply::Update;
use binnacle_schema::{Message, Value, canonical, decode, defaults, json};
use binnacle_scheme::StrategyContext;
use binnacle_test_requirements::shared;

pub(crate) const NOW: &str = "2026-01-02T03:04:05Z";

/// Kinds with fields that the strategy, admission or a controller sets after tracking, so that the response differs
/// from the tracked object. (In `generate-name-cluster` an empty list was sent and null returned.)
pub(crate) const FILLED: [&str; 11] = [
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

/// Returns the recorded cases of an area.
pub(crate) fn cases(area: &str) -> Vec<Value> {
    let text = std::fs::read_to_string(shared(&format!("conformance/cases/{area}.json"))).unwrap();
    // Placeholders of the recording are replaced by values of their types.
    let text = text.replace("\"<time>\"", &format!("\"{NOW}\"")).replace("<time>", NOW);
    let text = text.replace("<microtime>", "2026-01-02T03:04:05.000000Z");
    let text = (1..9).fold(text, |text, n| text.replace(&format!("\"<nodeport:{n}>\""), &format!("{}", 30000 + n)));
    let value: serde_json::Value = serde_json::from_str(&text).unwrap();
    let value = tree(&value);
    value.list_at(&["cases"]).to_vec()
}

pub(crate) fn tree(value: &serde_json::Value) -> Value {
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

pub(crate) fn message(object: &Value) -> Option<&'static Message> {
    let version = GroupVersion::parse(object.str_at(&["apiVersion"]))?;
    tables::kind(&version.group, &version.version, object.str_at(&["kind"]))
}

pub(crate) fn decoded(object: &Value) -> Option<Value> {
    decode::value(object.clone(), message(object)?).ok().map(|decoded| decoded.value)
}

/// Returns the entries, in the order of the recording.
pub(crate) fn entries(object: &Value) -> Vec<String> {
    let mut texts: Vec<String> = object.list_at(&["metadata", "managedFields"]).iter().map(json::to_string).collect();
    texts.sort();
    texts
}

pub(crate) struct Request<'c> {
    pub(crate) step: &'c Value,
    pub(crate) subresource: &'c str,
    pub(crate) manager: &'c str,
}

impl<'c> Request<'c> {
    pub(crate) fn of(step: &'c Value) -> Self {
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

    pub(crate) fn is_apply(&self) -> bool {
        self.step.str_at(&["headers", "Content-Type"]).starts_with("application/apply-patch")
    }

    pub(crate) fn key(&self, object: &Value) -> String {
        let name = object.str_at(&["metadata", "name"]);
        format!("{} {} {name}", object.str_at(&["apiVersion"]), object.str_at(&["kind"]))
    }
}

static SPEC_AND_STATUS: [Text; 2] = [Text::new_static("spec"), Text::new_static("status")];

pub(crate) fn update<'a>(request: &Request<'a>, object: &'a Value, message: &'static Message) -> Update<'a> {
    let reset: &[Text] = match request.subresource {
        "status" => &SPEC_AND_STATUS[..1],
        "" if object.str_at(&["kind"]) == "CertificateSigningRequest" => &SPEC_AND_STATUS,
        "" if message.get("status").is_some() => &SPEC_AND_STATUS[1..],
        _ => &[],
    };
    let now = binnacle_meta::Time::parse(NOW).unwrap().unix_seconds();
    let api_version = object.str_at(&["apiVersion"]);
    Update { message, api_version, manager: request.manager, subresource: request.subresource, now, reset }
}

/// Returns the object as it is stored: decoded, defaulted, and prepared by its kind's strategy.
pub(crate) fn finished(object: Value, live: Option<&Value>, message: &Message) -> Value {
    let mut object = decode::value(object, message).unwrap().value;
    let version = GroupVersion::parse(object.str_at(&["apiVersion"])).unwrap();
    let strategy = binnacle_kinds::strategy(&version.group, object.str_at(&["kind"]));
    defaults::apply_constants(&mut object, message);
    strategy.set_defaults(&version.version, &mut object);
    let namespace = if message.name.contains("Namespace") { "" } else { "{{ns}}" };
    let features = Features::default();
    let situation = StrategyContext { features: &features, now: 0, namespace, api_version: "", dry_run: false };
    match live {
        Some(live) => strategy.prepare_for_update(&situation, &mut object, live),
        None => strategy.prepare_for_create(&situation, &mut object),
    }
    canonical::canonicalize(&mut object, message);
    object
}

/// Returns an object without the fields that the server sets.
pub(crate) fn content(object: &Value) -> Value {
    let mut object = object.clone();
    if let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut) {
        for name in ["managedFields", "namespace", "resourceVersion", "generation", "uid", "creationTimestamp"] {
            metadata.remove(name);
        }
    }
    object
}
