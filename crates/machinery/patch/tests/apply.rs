//! Server-side apply, step by step: the resulting objects and the owners of their fields.

#![expect(clippy::unwrap_used, reason = "a test fails by it")]

use std::sync::OnceLock;

use binnacle_kinds::tables;
use binnacle_meta::Text;
use binnacle_patch::apply::{self, Apply, Update, Versions};
use binnacle_schema::{Field, Limits, ListType, Message, MessageRef, Ty, Value, decode, defaults, json};

fn tree(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap_or_else(|e| panic!("{text}: {e}"))
}

static STATUS: [Text; 1] = [Text::new_static("status")];

/// An object with its schema, to which requests are applied.
struct World {
    message: &'static Message,
    api_version: &'static str,
    live: Option<Value>,
    now: i64,
}

impl Versions for World {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        (api_version == self.api_version).then(|| (object.clone(), self.message))
    }
}

impl World {
    fn of(group: &'static str, version: &'static str, kind: &str) -> Self {
        let api_version = if group.is_empty() { version } else { "apps/v1" };
        Self { message: tables::kind(group, version, kind).unwrap(), api_version, live: None, now: 1_000_000_000 }
    }

    fn request<'a>(&'a self, manager: &'a str, force: bool) -> Apply<'a> {
        let (manager, subresource) = manager.split_once('/').unwrap_or((manager, ""));
        let (message, api_version, now) = (self.message, self.api_version, self.now);
        let reset: &[Text] = if message.get("status").is_none() || subresource == "status" { &[] } else { &STATUS };
        Apply { update: Update { message, api_version, manager, subresource, now, reset }, force, versions: self }
    }

    fn try_apply(&mut self, manager: &str, force: bool, config: &str) -> Result<(), String> {
        self.now += 1;
        let applied = apply::apply(&self.request(manager, force), self.live.as_ref(), &tree(config));
        let mut object = decode::value(applied.map_err(|e| e.to_string())?.object, self.message).unwrap().value;
        defaults::apply_constants(&mut object, self.message);
        object.make_at(&["metadata"]).insert("uid", "u");
        if let Some(live) = &self.live {
            apply::keep_unchanged_times(live, &mut object);
        }
        self.live = Some(object);
        Ok(())
    }

    fn apply(&mut self, manager: &str, config: &str) {
        self.try_apply(manager, false, config).unwrap_or_else(|e| panic!("{config}: {e}"));
    }

    fn update(&mut self, manager: &str, change: &str) {
        self.now += 1;
        let patched = binnacle_patch::merge::apply(self.live.clone().unwrap_or_default(), &tree(change));
        let mut object = decode::value(patched, self.message).unwrap().value;
        defaults::apply_constants(&mut object, self.message);
        apply::track_update(&self.request(manager, false).update, self.live.as_ref(), &mut object);
        object.make_at(&["metadata"]).insert("uid", "u");
        self.live = Some(object);
    }

    fn at(&self, path: &str) -> String {
        let path: Vec<&str> = path.split('.').collect();
        self.live.as_ref().unwrap().at(&path).map(json::to_string).unwrap_or_default()
    }

    /// `manager/subresource operation fields`, one per line, in order.
    fn owners(&self) -> Vec<String> {
        let entries = self.live.as_ref().unwrap().list_at(&["metadata", "managedFields"]);
        let show = |entry: &Value| {
            let (manager, subresource) = (entry.str_at(&["manager"]), entry.str_at(&["subresource"]));
            let slash = if subresource.is_empty() { "" } else { "/" };
            let fields = entry.get("fieldsV1").map(json::to_string).unwrap_or_default();
            format!("{manager}{slash}{subresource} {} {fields}", entry.str_at(&["operation"]))
        };
        entries.iter().map(show).collect()
    }
}

fn config_map(rest: &str) -> String {
    format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a"}}{rest}}}"#)
}

#[test]
fn shared_fields_stay_until_the_last_owner_leaves() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.apply("one", &config_map(r#","data":{"a":"1","b":"2"}"#));
    world.apply("two", &config_map(r#","data":{"a":"1"}"#));
    world.apply("one", &config_map(""));
    assert_eq!(world.at("data"), r#"{"a":"1"}"#);
    assert_eq!(world.owners(), [r#"two Apply {"f:data":{"f:a":{}}}"#]);
    world.apply("two", &config_map(""));
    assert_eq!((world.at("data"), world.owners().len()), (String::new(), 0));
}

#[test]
fn reports_conflicts_unless_forced() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.apply("one", &config_map(r#","data":{"a":"1","b":"2"}"#));
    world.update("two", r#"{"data":{"b":"3"}}"#);
    let other = config_map(r#","data":{"a":"9","b":"9"}"#);
    assert_eq!(
        world.try_apply("three", false, &other).unwrap_err(),
        "Apply failed with 2 conflicts: conflicts with \"one\":\n- .data.a\nconflicts with \"two\" using v1:\n- .data.b"
    );
    let one = config_map(r#","data":{"b":"9"}"#);
    assert_eq!(
        world.try_apply("three", false, &one).unwrap_err(),
        "Apply failed with 1 conflict: conflict with \"two\" using v1: .data.b"
    );
    world.try_apply("three", true, &other).unwrap();
    assert_eq!(world.at("data"), r#"{"a":"9","b":"9"}"#);
    assert_eq!(world.owners(), [r#"three Apply {"f:data":{"f:a":{},"f:b":{}}}"#]);
}

#[test]
fn applying_again_changes_nothing() {
    let mut world = World::of("apps", "v1", "Deployment");
    let config = r#"{"apiVersion":"apps/v1","kind":"Deployment","metadata":{"name":"a","labels":{"x":"y"}},"spec":{"replicas":2,
        "selector":{"matchLabels":{"app":"a"}},"template":{"spec":{"containers":[{"name":"c","image":"i","env":[{"name":"A","value":"1"}]}]}}}}"#;
    world.apply("one", config);
    let before = world.live.clone();
    world.apply("one", config);
    assert_eq!(world.live, before);
    world.apply("two", config);
    let times: Vec<bool> = world
        .live
        .as_ref()
        .unwrap()
        .list_at(&["metadata", "managedFields"])
        .iter()
        .map(|e| e.get("time").is_some())
        .collect();
    assert_eq!(times, [false, true], "who changed nothing has no time, and comes first");
}

#[test]
fn merges_list_maps_with_defaulted_keys() {
    let service = |ports: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"a"}},"spec":{{"ports":[{ports}]}}}}"#)
    };
    let mut world = World::of("", "v1", "Service");
    world.apply("one", &service(r#"{"port":53,"name":"tcp"},{"port":53,"protocol":"UDP","name":"udp"}"#));
    world.apply("two", &service(r#"{"port":53,"protocol":"TCP","targetPort":5353}"#));
    assert_eq!(
        world.at("spec.ports"),
        r#"[{"name":"tcp","protocol":"TCP","port":53,"targetPort":5353},{"name":"udp","protocol":"UDP","port":53,"targetPort":0}]"#
    );
    world.apply("one", &service(r#"{"port":53,"protocol":"UDP","name":"udp"}"#));
    assert_eq!(
        world.owners(),
        [
            r#"two Apply {"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"TCP\"}":{".":{},"f:port":{},"f:protocol":{},"f:targetPort":{}}}}}"#,
            r#"one Apply {"f:spec":{"f:ports":{"k:{\"port\":53,\"protocol\":\"UDP\"}":{".":{},"f:name":{},"f:port":{},"f:protocol":{}}}}}"#,
        ]
    );
    assert!(world.at("spec.ports").contains("5353"), "the element that another applies stays");
    assert!(!world.at("spec.ports").contains(r#""name":"tcp""#), "without the name that nobody applies");
    world.apply("two", &service(""));
    assert_eq!(world.at("spec.ports"), r#"[{"name":"udp","protocol":"UDP","port":53,"targetPort":0}]"#);
}

#[test]
fn merges_sets_in_applied_order() {
    let with = |finalizers: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","finalizers":[{finalizers}]}}}}"#)
    };
    let mut world = World::of("", "v1", "ConfigMap");
    world.apply("one", &with(r#""x/a","x/b","x/c""#));
    world.apply("two", &with(r#""x/c","x/d""#));
    assert_eq!(world.at("metadata.finalizers"), r#"["x/a","x/b","x/c","x/d"]"#);
    world.apply("two", &with(r#""x/d","x/b","x/c""#));
    assert_eq!(world.at("metadata.finalizers"), r#"["x/a","x/d","x/b","x/c"]"#, "the applied order counts");
    world.apply("one", &with(r#""x/a""#));
    assert_eq!(world.at("metadata.finalizers"), r#"["x/a","x/d","x/b","x/c"]"#);
    world.apply("two", &with(""));
    assert_eq!(world.at("metadata.finalizers"), r#"["x/a"]"#);
}

#[test]
fn rejects_configurations_that_violate_the_schema() {
    let deployment = |spec: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"a","namespace":"n"}},"spec":{spec}}}"#
        )
    };
    for (spec, want) in [
        (r#"{"replicas":"two"}"#, ".spec.replicas: expected numeric (int or float), got string"),
        (r#"{"paused":"x"}"#, ".spec.paused: expected boolean, got &{x}"),
        (r#"{"extra":1}"#, ".spec.extra: field not declared in schema"),
        ("1", ".spec: expected map, got &{1}"),
        (r#"{"template":{"spec":{"containers":{}}}}"#, ".spec.template.spec.containers: expected list, got &{map[]}"),
        (
            r#"{"template":{"spec":{"nodeName":5}}}"#,
            ".spec.template.spec.nodeName: expected string, got &value.valueUnstructured{Value:5}",
        ),
        (
            r#"{"template":{"spec":{"containers":[{"name":"c"},{"name":"c"}]}}}"#,
            ".spec.template.spec.containers: duplicate entries for key [name=\"c\"]",
        ),
        (
            r#"{"template":{"spec":{"containers":[1]}}}"#,
            ".spec.template.spec.containers: element 0: associative list with keys may not have non-map elements",
        ),
        (
            r#"{"template":{"spec":{"topologySpreadConstraints":[{"maxSkew":1}],"hostAliases":[{}]}},"replicas":true}"#,
            "errors:\n  .spec.template.spec.topologySpreadConstraints: ",
        ),
    ] {
        let mut world = World::of("apps", "v1", "Deployment");
        let got = world.try_apply("one", false, &deployment(spec)).expect_err(spec);
        let want = format!("failed to create typed patch object (n/a; apps/v1, Kind=Deployment): {want}");
        // The last case has several errors; only the first is compared.
        assert!(got == want || (want.contains("errors:") && got.contains("replicas")), "{got}\n{want}");
    }
}

#[test]
fn existing_fields_get_a_before_first_apply_owner() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.update("old", r#"{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"a"},"data":{"a":"1","b":"2"}}"#);
    for forget in ["[{}]", "[]"] {
        assert_eq!(world.owners().len(), 1);
        let before = world.live.clone();
        world.update("old", &format!(r#"{{"metadata":{{"managedFields":{forget}}}}}"#));
        assert!(world.owners().is_empty());
        if forget == "[{}]" {
            world.live = before;
        }
    }
    world.update("other", r#"{"data":{"b":"3"}}"#);
    assert!(world.owners().is_empty(), "updates note nobody where nobody was noted");
    world.apply("one", &config_map(r#","data":{"a":"1"}"#));
    assert_eq!(
        world.owners(),
        [r#"one Apply {"f:data":{"f:a":{}}}"#, r#"before-first-apply Update {"f:data":{".":{},"f:a":{},"f:b":{}}}"#,]
    );
    let error = world.try_apply("one", false, &config_map(r#","data":{"b":"4"}"#)).unwrap_err();
    assert_eq!(error, "Apply failed with 1 conflict: conflict with \"before-first-apply\" using v1: .data.b");
}

#[test]
fn tracks_managers_per_subresource() {
    let status = |phase: &str| {
        format!(r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"a"}},"status":{{"phase":"{phase}"}}}}"#)
    };
    let mut world = World::of("", "v1", "Pod");
    world.apply(
        "one",
        r#"{"apiVersion":"v1","kind":"Pod","metadata":{"name":"a"},"spec":{"nodeName":"n"},"status":{"phase":"x"}}"#,
    );
    world.apply("one/status", &status("Running"));
    assert_eq!(
        world.owners(),
        [r#"one Apply {"f:spec":{"f:nodeName":{}}}"#, r#"one/status Apply {"f:status":{"f:phase":{}}}"#],
        "what an endpoint resets is not owned through it"
    );
    let error = world.try_apply("two/status", false, &status("Failed")).unwrap_err();
    assert_eq!(error, "Apply failed with 1 conflict: conflict with \"one\" with subresource \"status\": .status.phase");
}

#[test]
fn kubectl_apply_takes_over_client_side_applied_fields() {
    let last = r#"{\"apiVersion\":\"v1\",\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"},\"data\":{\"a\":\"1\",\"b\":\"2\"}}"#;
    let annotation = "kubectl.kubernetes.io/last-applied-configuration";
    let created = format!(
        r#"{{"apiVersion":"v1","kind":"ConfigMap","metadata":{{"name":"a","annotations":{{"{annotation}":"{last}"}}}},"data":{{"a":"1","b":"2"}}}}"#
    );
    let mut world = World::of("", "v1", "ConfigMap");
    world.update("kubectl-client-side-apply", &created);
    let change = config_map(r#","data":{"a":"9","b":"2"}"#);
    assert!(world.try_apply("someone", false, &change).is_err());
    world.apply("kubectl", &change);
    assert_eq!(world.at("data"), r#"{"a":"9","b":"2"}"#);
    let live = world.live.as_ref().unwrap();
    assert_eq!(
        live.str_at(&["metadata", "annotations", annotation]),
        "{\"apiVersion\":\"v1\",\"data\":{\"a\":\"9\",\"b\":\"2\"},\"kind\":\"ConfigMap\",\"metadata\":{\"name\":\"a\"}}\n"
    );
    world.update("editor", r#"{"data":{"b":"5"}}"#);
    let error = world.try_apply("kubectl", false, &config_map(r#","data":{"b":"6"}"#)).unwrap_err();
    assert_eq!(error, "Apply failed with 1 conflict: conflict with \"editor\" using v1: .data.b");
}

#[test]
fn caps_the_number_of_update_managers() {
    let mut world = World::of("", "v1", "ConfigMap");
    world.update("m00", &config_map(r#","data":{"k00":"v"}"#));
    for i in 1..12 {
        world.update(&format!("m{i:02}"), &format!(r#"{{"data":{{"k{i:02}":"v"}}}}"#));
    }
    let owners = world.owners();
    assert_eq!(owners.len(), 10);
    assert_eq!(owners[0], r#"ancient-changes Update {"f:data":{".":{},"f:k00":{},"f:k01":{},"f:k02":{}}}"#);
    assert_eq!(owners[9], r#"m11 Update {"f:data":{"f:k11":{}}}"#);
}

/// A kind whose version 2 renames a field of version 1.
struct FieldRenaming;

fn renamed(version: &str) -> &'static Message {
    static MESSAGES: OnceLock<[Message; 2]> = OnceLock::new();
    let messages = MESSAGES.get_or_init(|| {
        ["old", "new"].map(|name| {
            let item = Message::new("x.Item", vec![Field::new("id", Ty::String), Field::new("value", Ty::Int32)]);
            let items = Ty::List(Box::new(Ty::Message(MessageRef::Shared(item.into()))));
            let spec = Message::new(
                "x.Spec",
                vec![
                    Field::new(name, Ty::String),
                    Field::new("other", Ty::String),
                    Field { list_type: ListType::Map(vec!["id".into()].into()), ..Field::new("items", items) },
                ],
            );
            let metadata = tables::message("io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta").unwrap();
            let fields = vec![
                Field::new("apiVersion", Ty::String),
                Field::new("kind", Ty::String),
                Field::new("metadata", Ty::Message(MessageRef::Static(metadata))),
                Field::new("spec", Ty::Message(MessageRef::Shared(spec.into()))),
            ];
            Message::new("x.Thing", fields)
        })
    });
    if version == "x/v1" { &messages[0] } else { &messages[1] }
}

impl Versions for FieldRenaming {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        let (from, to) = match api_version {
            "x/v1" => ("new", "old"),
            "x/v2" => ("old", "new"),
            _ => return None,
        };
        let mut object = object.clone();
        object.make_object().insert("apiVersion", api_version);
        if let Some(spec) = object.get_mut("spec").and_then(Value::as_object_mut)
            && let Some(value) = spec.remove(from)
        {
            spec.insert(to, value);
        }
        Some((object, renamed(api_version)))
    }
}

fn apply_renamed(manager: &str, live: Option<&Value>, config: &str) -> Result<Value, String> {
    let config = tree(config);
    let api_version = config.str_at(&["apiVersion"]);
    // The stored object is in version 1.
    let live = live.map(|live| FieldRenaming.convert(live, api_version).unwrap().0);
    let update = Update { message: renamed(api_version), api_version, manager, subresource: "", now: 7, reset: &[] };
    let applied = apply::apply(&Apply { update, force: false, versions: &FieldRenaming }, live.as_ref(), &config);
    applied.map(|applied| FieldRenaming.convert(&applied.object, "x/v1").unwrap().0).map_err(|e| e.to_string())
}

#[test]
fn converts_managers_of_other_versions() {
    let thing = |version: &str, spec: &str| {
        format!(r#"{{"apiVersion":"x/{version}","kind":"Thing","metadata":{{"name":"a"}},"spec":{spec}}}"#)
    };
    let live = apply_renamed("one", None, &thing("v1", r#"{"old":"1","other":"o"}"#)).unwrap();
    let error = apply_renamed("two", Some(&live), &thing("v2", r#"{"new":"2"}"#)).unwrap_err();
    assert_eq!(error, "Apply failed with 1 conflict: conflict with \"one\": .spec.old");
    let live = apply_renamed("two", Some(&live), &thing("v2", r#"{"new":"1"}"#)).unwrap();
    let live = apply_renamed("one", Some(&live), &thing("v2", r#"{"other":"o"}"#)).unwrap();
    assert_eq!(live.str_at(&["spec", "old"]), "1", "the other manager owns it in its version");
    let live = apply_renamed("two", Some(&live), &thing("v1", "{}")).unwrap();
    assert_eq!(json::to_string(live.get("spec").unwrap()), r#"{"other":"o"}"#);
    let versions: Vec<&str> =
        live.list_at(&["metadata", "managedFields"]).iter().map(|entry| entry.str_at(&["apiVersion"])).collect();
    assert_eq!(versions, ["x/v2", "x/v1"]);
}

#[test]
fn rejects_list_map_elements_without_keys() {
    let thing = r#"{"apiVersion":"x/v1","kind":"Thing","metadata":{"name":"a"},"spec":{"items":[{"value":1}]}}"#;
    assert_eq!(
        apply_renamed("one", None, thing).unwrap_err(),
        "failed to create typed patch object (/a; x/v1, Kind=Thing): .spec.items: element 0: associative list with keys \
         has an element that omits all key fields [\"id\"] (and doesn't have default values for any key fields)"
    );
}

/// Random configurations of three managers with the same values: after each, the object has the applied fields and no
/// unowned ones, and repeating it changes nothing.
#[test]
fn random_applies_keep_owned_fields_only() {
    let mut seed = 11_u64;
    let mut random = |n: u64| {
        seed = seed.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (seed >> 33) % n
    };
    for _ in 0..60 {
        let mut world = World::of("", "v1", "Service");
        let mut applied: [Vec<String>; 3] = Default::default();
        for _ in 0..12 {
            let manager = random(3) as usize;
            let labels: Vec<String> = (0..3).filter(|_| random(2) == 0).map(|i| format!("l{i}")).collect();
            let ports: Vec<u64> = (80..83).filter(|_| random(2) == 0).collect();
            let finalizers: Vec<String> = (0..2).filter(|_| random(2) == 0).map(|i| format!("\"x/f{i}\"")).collect();
            let shown: Vec<String> = labels.iter().map(|label| format!("\"{label}\":\"v\"")).collect();
            let items: Vec<String> =
                ports.iter().map(|port| format!(r#"{{"port":{port},"name":"n{port}"}}"#)).collect();
            let config = format!(
                r#"{{"apiVersion":"v1","kind":"Service","metadata":{{"name":"a",{}"finalizers":[{}]}},"spec":{{"ports":[{}]}}}}"#,
                // A manager that applies an empty map owns the map itself, and conflicts with all others.
                if shown.is_empty() { String::new() } else { format!("\"labels\":{{{}}},", shown.join(",")) },
                finalizers.join(","),
                items.join(",")
            );
            let name = format!("m{manager}");
            world.apply(&name, &config);
            applied[manager] = labels.into_iter().chain(ports.iter().map(u64::to_string)).chain(finalizers).collect();
            let live = world.live.clone().unwrap();
            let mut present: Vec<String> = live
                .object_at(&["metadata", "labels"])
                .map(|o| o.keys().map(ToString::to_string).collect())
                .unwrap_or_default();
            present.extend(
                live.list_at(&["spec", "ports"]).iter().map(|port| port.int_at(&["port"]).unwrap().to_string()),
            );
            present.extend(live.list_at(&["metadata", "finalizers"]).iter().map(json::to_string));
            let mut wanted: Vec<String> = applied.iter().flatten().cloned().collect();
            wanted.sort();
            wanted.dedup();
            present.sort();
            assert_eq!(present, wanted, "{config}");
            world.try_apply(&name, false, &config).unwrap();
            assert_eq!(world.live, Some(live), "{config}");
        }
    }
}

#[test]
fn owns_values_that_became_atomic_as_a_whole() {
    let mut world = World::of("apps", "v1", "Deployment");
    let with = |label: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"Deployment","metadata":{{"name":"a"}},"spec":{{"selector":{{"matchLabels":{{"app":"{label}"}}}}}}}}"#
        )
    };
    world.apply("one", &with("a"));
    // As tracked by a server with the previous schema.
    let granular = r#"{"f:spec":{"f:selector":{"f:matchLabels":{"f:app":{}}}}}"#;
    let live = world.live.as_mut().unwrap();
    let list = live.at_mut(&["metadata", "managedFields"]).and_then(Value::as_list_mut).unwrap();
    list[0].make_object().insert("fieldsV1", Value::Raw(granular.into()));
    let error = world.try_apply("two", false, &with("b")).unwrap_err();
    assert_eq!(error, "Apply failed with 1 conflict: conflict with \"one\": .spec.selector");
    world.update("three", r#"{"spec":{"selector":{"matchLabels":{"app":"c"}}}}"#);
    assert_eq!(world.owners(), [r#"three Update {"f:spec":{"f:selector":{}}}"#]);
}

/// The raw text of a free-form part is kept while nothing changes, and is replaced by a tree on the first change.
#[test]
fn whitespace_of_raw_json_has_no_owner() {
    let mut world = World::of("apps", "v1", "ControllerRevision");
    let config = |metadata: &str, data: &str| {
        format!(
            r#"{{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{metadata},"revision":1,"data":{data}}}"#
        )
    };
    let sent = config(r#"{"name":"a","uid":"u"}"#, r#"{ "a": 1 }"#);
    let mut made = decode::json(sent.as_bytes(), world.message, &Limits::default()).unwrap().value;
    apply::track_update(&world.request("maker", false).update, None, &mut made);
    world.live = Some(made);
    let is_text = |world: &World| matches!(world.live.as_ref().unwrap().get("data"), Some(Value::Raw(_)));
    world.apply("one", &config(r#"{"name":"a"}"#, r#"{"a":1}"#));
    assert!(is_text(&world), "nothing changed");
    world.apply("two", &config(r#"{"name":"a","labels":{"x":"y"}}"#, r#"{"a":1.0}"#));
    assert!(!is_text(&world), "another label");
    assert_eq!(
        world.owners(),
        [
            r#"one Apply {"f:data":{},"f:revision":{}}"#,
            r#"two Apply {"f:data":{},"f:metadata":{"f:labels":{"f:x":{}}},"f:revision":{}}"#,
            r#"maker Update {"f:data":{},"f:revision":{}}"#,
        ]
    );
}
