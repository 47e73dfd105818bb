//! Nulls and empty values in applies and updates, compared with recorded results of structured-merge-diff.
//!
//! Decoding drops a null, or an empty map or list, but a manager that applies it owns the field. If another one applies
//! it, it is added again, which is a conflict, even if the same request succeeded before.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::LazyLock;

use binnacle_patch::apply::{self, Apply, Update, Versions};
use binnacle_schema::{Field, Limits, ListType, Message, MessageRef, Presence, Ty, Value, decode, defaults, json};

static SERVICE: LazyLock<Message> = LazyLock::new(service);

/// A type with fields of all shapes of server-side apply.
fn service() -> Message {
    let structure =
        |name: &str, fields: Vec<Field>| Ty::Message(MessageRef::Shared(Message::new(name.to_owned(), fields).into()));
    let zero = |name: &str, ty: Ty| Field { presence: Presence::OmitZero, ..Field::new(name.to_owned(), ty) };
    let map = || Ty::Map(Box::new(Ty::String));
    let texts = || Ty::List(Box::new(Ty::String));
    let port = structure(
        "x.Port",
        vec![
            zero("name", Ty::String),
            Field { default: Some("\"TCP\"".into()), ..zero("protocol", Ty::String) },
            Field { presence: Presence::Always, zero_default: true, ..zero("port", Ty::Int32) },
        ],
    );
    let keys = ListType::Map(vec!["port".into(), "protocol".into()].into());
    let client = structure("x.Client", vec![Field::new("timeoutSeconds", Ty::Int32)]);
    let affinity = structure("x.Affinity", vec![Field::new("clientIP", client)]);
    let strategy = structure("x.Strategy", vec![zero("type", Ty::String)]);
    let spec = structure(
        "x.Spec",
        vec![
            zero("externalName", Ty::String),
            zero("healthCheckNodePort", Ty::Int32),
            Field::new("allocateLoadBalancerNodePorts", Ty::Bool),
            Field { list_type: ListType::Atomic, ..zero("selector", map()) },
            Field { list_type: ListType::Atomic, ..zero("clusterIPs", texts()) },
            Field { list_type: keys, ..zero("ports", Ty::List(Box::new(port))) },
            Field::new("sessionAffinityConfig", affinity),
            Field { presence: Presence::Always, ..zero("strategy", strategy) },
        ],
    );
    let metadata = structure(
        "x.Metadata",
        vec![
            zero("name", Ty::String),
            zero("labels", map()),
            Field { list_type: ListType::Set, ..zero("finalizers", texts()) },
            zero("managedFields", Ty::Json),
        ],
    );
    Message::new(
        "x.Service",
        vec![
            zero("apiVersion", Ty::String),
            zero("kind", Ty::String),
            Field { presence: Presence::Always, ..zero("metadata", metadata) },
            Field { presence: Presence::Always, ..zero("spec", spec) },
        ],
    )
}

struct OneVersion;

impl Versions for OneVersion {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        (api_version == "v1").then(|| (object.clone(), &*SERVICE))
    }
}

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

/// Returns the object as the server stores it.
fn held(object: Value) -> Value {
    let mut object = decode::value(object, &SERVICE).unwrap().value;
    defaults::apply_constants(&mut object, &SERVICE);
    object
}

/// Sends one request and returns the response.
fn send(live: &mut Option<Value>, request: &str) -> String {
    let mut words = request.splitn(3, ' ');
    let (verb, manager, body) = (words.next().unwrap(), words.next().unwrap(), tree(words.next().unwrap()));
    let update = Update { message: &SERVICE, api_version: "v1", manager, subresource: "", now: 1, reset: &[] };
    let named = |object: &mut Value| {
        object.make_object().insert("apiVersion", "v1");
        object.make_object().insert("kind", "Service");
    };
    if verb == "update" {
        let mut object = live.clone().unwrap_or_default();
        named(&mut object);
        for (part, fields) in body.as_object().unwrap().iter() {
            for (name, value) in fields.as_object().unwrap().iter() {
                object.make_at(&[part]).insert(name.clone(), value.clone());
            }
        }
        let mut object = held(object);
        apply::track_update(&update, live.as_ref(), &mut object);
        *live = Some(object);
        return "ok".to_owned();
    }
    let mut config = body;
    named(&mut config);
    let request = Apply { update, force: verb == "force", versions: &OneVersion };
    match apply::apply(&request, live.as_ref(), &config) {
        Ok(applied) => {
            *live = Some(held(applied.object));
            "ok".to_owned()
        }
        Err(error) => error.to_string().replace("Apply failed with 1 conflict: ", "").replace(" using v1", ""),
    }
}

fn sorted(value: &Value) -> String {
    let mut value = value.clone();
    binnacle_schema::sort_free_form(&mut value);
    json::to_string(&value)
}

fn owners(live: &Value) -> String {
    let entries = live.list_at(&["metadata", "managedFields"]).iter();
    let mut owners: Vec<String> = entries
        .map(|entry| format!("{} {}", entry.str_at(&["manager"]), json::to_string(entry.get("fieldsV1").unwrap())))
        .collect();
    owners.sort();
    owners.join("; ")
}

#[test]
fn applies_empty_values_like_kube_apiserver() {
    let (mut scenario, mut path, mut live, mut steps) = ("", Vec::new(), None, 0);
    let mut wrong = Vec::new();
    for line in include_str!("test_data/empty_values.txt").lines().filter(|line| !line.starts_with("//")) {
        if let Some(title) = line.strip_prefix("# ") {
            let (title, at) = title.split_once(" @").unwrap();
            (scenario, path, live) = (title, at.split('.').collect(), None);
            continue;
        }
        let [request, answer, value, owned] = line.split(" | ").collect::<Vec<_>>()[..] else { panic!("{line}") };
        let got = send(&mut live, request);
        let live = live.as_ref().unwrap();
        let found = live.at(&path).map_or("-".to_owned(), sorted);
        if (got.as_str(), found.as_str(), owners(live).as_str()) != (answer, value, owned.trim()) {
            wrong.push(format!(
                "{scenario}: {request}\n  got  {got} | {found} | {}\n  want {answer} | {value} | {owned}",
                owners(live)
            ));
        }
        steps += 1;
    }
    assert!(steps > 400, "{steps}");
    assert!(wrong.is_empty(), "{} of {steps}\n{}", wrong.len(), wrong.join("\n"));
}
