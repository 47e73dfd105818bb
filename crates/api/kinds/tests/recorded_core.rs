//! Replays recorded requests through the rules of their kinds: the objects after defaults and preparation, and the
//! validation errors, must be those of kube-apiserver's answers.
//!
//! There is no storage, admission or allocation here: the parts of objects that these add are taken from the answers.

use std::collections::HashMap;
use std::sync::LazyLock;

use binnacle_features::Features;
use binnacle_kinds::{strategy, tables};
use binnacle_meta::{FieldPath, GroupKind, Status};
use binnacle_schema::{Limits, Message, Object, Value, canonical, decode, defaults, json};
use binnacle_scheme::{Strategy, StrategyContext};
use binnacle_test_requirements::shared;
use binnacle_validation::metadata;

/// The groups that are compared as a whole.
const GROUPS: [&str; 3] = ["", "apps", "batch"];

/// The kinds whose validation is compared.
const VALIDATED: [&str; 18] = [
    "ConfigMap",
    "Secret",
    "Namespace",
    "ServiceAccount",
    "Service",
    "Endpoints",
    "Pod",
    "PodTemplate",
    "Deployment",
    "ReplicaSet",
    "DaemonSet",
    "StatefulSet",
    "ControllerRevision",
    "ReplicationController",
    "Job",
    "CronJob",
    "PersistentVolume",
    "PersistentVolumeClaim",
];

/// Recorded responses that do not depend on the kinds alone: admission plugins and webhooks reject or change objects,
/// or the response depends on other state of the cluster.
const FOREIGN_AREAS: [&str; 3] = ["admission", "policies", "webhooks"];

/// Cases that depend on the options of the request, the registry, admission, or the allocation of addresses and ports.
const FOREIGN_CASES: [&str; 15] = [
    "apply/force-not-apply",
    "builtin-crud/controllerrevisions",
    "deletion/service-frees-ip",
    "fieldvalidation/merge-patch-strict",
    "http/fieldmanager-bad",
    "immutable/controllerrevisions-revision",
    "immutable/services-cluster-ip",
    "immutable/services-cluster-ip-clear",
    "immutable/pods-tolerations",
    "metadata/patch-name",
    "pods/defaults-full",
    "services/nodeport-static",
    "validation-apps/replicasets-selector-mismatch",
    "validation-networking/services-ip-families",
    "validation-networking/services-ip-family-policy",
];

/// The time of every request.
const NOW: &str = "2023-11-14T22:13:20Z";

fn ctx(api_version: &str, namespaced: bool) -> StrategyContext<'_> {
    static FEATURES: LazyLock<Features> = LazyLock::new(Features::default);
    let namespace = if namespaced { "ns" } else { "" };
    StrategyContext { now: 1_700_000_000, namespace, api_version, dry_run: false, features: &FEATURES }
}

#[test]
#[cfg_attr(not(has_shared), ignore = "needs recorded data of kube-apiserver in ../shared")]
fn write_responses_match_recorded_ones() {
    let mut replay = Replay::default();
    for (area, cases) in &areas() {
        for case in cases.list_at(&["cases"]) {
            replay.case(area, case);
        }
    }
    println!("{} writes compared", replay.compared);
    assert!(replay.compared > 100, "only {} writes were compared", replay.compared);
    assert!(replay.failures.is_empty(), "{} differ:\n{}", replay.failures.len(), replay.failures.join("\n"));
}

/// Returns the recorded areas.
fn areas() -> Vec<(String, Value)> {
    let entries = std::fs::read_dir(shared("conformance/cases")).expect("the directory can be read");
    let limits = Limits { max_bytes: usize::MAX, ..Limits::default() };
    let mut areas: Vec<(String, Value)> = entries
        .map(|entry| entry.expect("the directory can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "json"))
        .map(|path| {
            let name = path.file_stem().and_then(|name| name.to_str()).expect("names are ASCII").to_owned();
            let text = std::fs::read_to_string(&path).expect("the file can be read");
            let text = (0..32).fold(text, |text, n| text.replace(&format!("<uid:{n}>"), &format!("uid-{n}")));
            let text = text.replace("{{ns}}", "ns").replace("{{id}}", "id").replace("<time>", NOW);
            let text = text.replace("<microtime>", "2023-11-14T22:13:20.000000Z");
            (name, json::parse(text.as_bytes(), &limits).expect("recordings are JSON"))
        })
        .filter(|(name, _)| !FOREIGN_AREAS.contains(&name.as_str()))
        .collect();
    areas.sort_by(|a, b| a.0.cmp(&b.0));
    areas
}

#[derive(Default)]
struct Replay {
    compared: usize,
    failures: Vec<String>,
}

/// A kind with its rules, its group and its version.
struct RecordedKind {
    group: String,
    version: String,
    kind: String,
    message: &'static Message,
    strategy: &'static dyn Strategy,
    namespaced: bool,
}

impl Replay {
    fn case(&mut self, area: &str, case: &Value) {
        let label = format!("{area}/{}", case.str_at(&["name"]));
        if FOREIGN_CASES.contains(&label.as_str()) {
            return;
        }
        // The objects of the case by path, as prepared by the rules.
        let mut objects: HashMap<String, Value> = HashMap::new();
        for (i, step) in case.list_at(&["steps"]).iter().enumerate() {
            let path = step.str_at(&["path"]).to_owned();
            let Some(target) = Target::of(&path) else { continue };
            if let Err(difference) = self.step(step, &target, &mut objects) {
                self.failures.push(format!("{label} step {i}: {} {path}: {difference}", step.str_at(&["do"])));
            }
        }
    }

    fn step(&mut self, step: &Value, target: &Target, objects: &mut HashMap<String, Value>) -> Result<(), String> {
        let verb = step.str_at(&["do"]);
        let status = step.int_at(&["expect", "status"]).unwrap_or(0);
        let content_type = step.str_at(&["headers", "Content-Type"]);
        if verb == "DELETE" {
            objects.remove(&format!("{}/{}", target.collection, target.name));
        }
        let Some(body) = step.get("body") else { return Ok(()) };
        // Captured values are unknown, and managed fields are implemented in another crate.
        let text = json::to_string(body);
        if text.contains("{{") || text.contains("managedFields") {
            return Ok(());
        }
        let dry_run = step.at(&["query", "dryRun"]).is_some();
        match verb {
            "POST" if target.name.is_empty() && (status == 201 || status == 422) => {
                let Some(kind) = RecordedKind::of(body) else { return Ok(()) };
                let mut object = kind.decode(body)?;
                kind.set_defaults(&mut object);
                kind.prepare_create(&mut object, step.at(&["expect", "body"]));
                let errors = kind.validate_create(&object);
                // Answers have the object as read back from the store.
                kind.strategy.complete_stored(&mut object);
                canonical::canonicalize(&mut object, kind.message);
                self.compare(&kind, &object, errors, step)?;
                if status == 201 && !dry_run {
                    let name = step.str_at(&["expect", "body", "metadata", "name"]);
                    let name = if name.is_empty() { object.str_at(&["metadata", "name"]) } else { name };
                    objects.insert(format!("{}/{name}", target.collection), kind.as_answered(object, step));
                }
                Ok(())
            }
            "PUT" | "PATCH" if status == 200 || status == 422 => {
                let key = format!("{}/{}", target.collection, target.name);
                let Some(old) = objects.get(&key).cloned() else { return Ok(()) };
                let Some(kind) = RecordedKind::of(&old) else { return Ok(()) };
                let mut sent = match (verb, content_type) {
                    ("PUT", _) => body.clone(),
                    (_, "application/merge-patch+json") => merge(&old, body),
                    _ => {
                        // Other patches are implemented in another crate: the object is unknown from here on.
                        objects.remove(&key);
                        return Ok(());
                    }
                };
                if sent.str_at(&["kind"]) != old.str_at(&["kind"]) {
                    objects.remove(&key);
                    return Ok(());
                }
                for member in ["uid", "creationTimestamp", "resourceVersion", "namespace", "generation"] {
                    if let Some(value) = old.at(&["metadata", member]) {
                        sent.make_at(&["metadata"]).insert(member, value.clone());
                    }
                }
                let mut object = kind.decode(&sent)?;
                kind.set_defaults(&mut object);
                if target.subresource.is_empty() {
                    kind.strategy.prepare_for_update(&ctx(&kind.api_version(), kind.namespaced), &mut object, &old);
                } else {
                    kind.strategy.prepare_for_subresource(
                        &target.subresource,
                        &ctx(&kind.api_version(), kind.namespaced),
                        &mut object,
                        &old,
                    );
                }
                canonical::canonicalize(&mut object, kind.message);
                let errors = kind.validate_update(&target.subresource, &object, &old);
                self.compare(&kind, &object, errors, step)?;
                if status == 200 && !dry_run {
                    objects.insert(key, kind.as_answered(object, step));
                }
                Ok(())
            }
            _ => Ok(()),
        }
    }

    fn compare(
        &mut self,
        kind: &RecordedKind,
        object: &Value,
        errors: binnacle_meta::FieldErrors,
        step: &Value,
    ) -> Result<(), String> {
        let want = step.at(&["expect", "body"]).unwrap_or(&Value::Null);
        if step.int_at(&["expect", "status"]) == Some(422) {
            if want.str_at(&["reason"]) != "Invalid" || !VALIDATED.contains(&kind.kind.as_str()) {
                return Ok(());
            }
            self.compared += 1;
            let causes = |list: Vec<(String, String)>| {
                let mut list = list;
                if step.bool_at(&["any_order"]) {
                    list.sort();
                }
                list
            };
            let name = object.str_at(&["metadata", "name"]);
            let got = Status::invalid(&GroupKind::new(kind.group.as_str(), kind.kind.as_str()), name, &errors);
            let got_causes = got.details().map(|d| d.causes.as_slice()).unwrap_or(&[]);
            let got = causes(got_causes.iter().map(|c| (c.field.clone(), c.message.clone())).collect());
            let wanted = want.list_at(&["details", "causes"]).iter();
            let wanted =
                causes(wanted.map(|c| (c.str_at(&["field"]).to_owned(), c.str_at(&["message"]).to_owned())).collect());
            let same = got.len() == wanted.len()
                && got.iter().zip(&wanted).all(|(got, want)| got.0 == want.0 && glob(&want.1, &got.1));
            return if same { Ok(()) } else { Err(format!("causes\n   got {got:?}\n  want {wanted:?}")) };
        }
        if !errors.is_empty() {
            let texts: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Err(format!("refused: {}", texts.join("; ")));
        }
        if want.as_object().is_none()
            || !step.str_at(&["compare"]).is_empty()
            || want.str_at(&["kind"]) != kind.kind
            || want.get("magic").is_some()
        {
            return Ok(());
        }
        self.compared += 1;
        let mut got = object.clone();
        let mut want = want.clone();
        forget_admission(&kind.kind, &mut got, &mut want);
        for pointer in step.list_at(&["ignore"]).iter().filter_map(Value::as_str) {
            let path: Vec<&str> = pointer.split('/').skip(1).collect();
            [&mut got, &mut want].into_iter().for_each(|object| remove(object, &path));
        }
        let mut differences = Vec::new();
        for member in ["generation", "labels", "annotations"] {
            let path = format!("metadata.{member}");
            differ(&path, got.at(&["metadata", member]), want.at(&["metadata", member]), &mut differences);
        }
        for object in [&mut got, &mut want] {
            object.make_object().remove("metadata");
        }
        differ("", Some(&got), Some(&want), &mut differences);
        if differences.is_empty() { Ok(()) } else { Err(differences.join("; ")) }
    }
}

impl RecordedKind {
    fn of(object: &Value) -> Option<Self> {
        let api_version = object.str_at(&["apiVersion"]);
        let (group, version) = api_version.split_once('/').unwrap_or(("", api_version));
        if !GROUPS.contains(&group) {
            return None;
        }
        let kind = object.str_at(&["kind"]);
        let cluster = ["Namespace", "Node", "PersistentVolume"];
        Some(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            kind: kind.to_owned(),
            message: tables::kind(group, version, kind)?,
            strategy: strategy(group, kind),
            namespaced: !(group.is_empty() && cluster.contains(&kind)),
        })
    }

    fn decode(&self, body: &Value) -> Result<Value, String> {
        let text = json::to_string(body);
        decode::json(text.as_bytes(), self.message, &Limits::default())
            .map(|decoded| decoded.value)
            .map_err(|error| error.to_string())
    }

    /// Returns the recorded object if it is complete, because it has the additions of admission and allocation.
    fn as_answered(&self, object: Value, step: &Value) -> Value {
        match step.at(&["expect", "body"]) {
            Some(answer) if step.str_at(&["compare"]).is_empty() && answer.str_at(&["kind"]) == self.kind => {
                self.decode(answer).unwrap_or(object)
            }
            _ => object,
        }
    }

    fn set_defaults(&self, object: &mut Value) {
        defaults::apply_constants(object, self.message);
        self.strategy.set_defaults(&self.version, object);
    }

    /// Prepares a create: copies system fields from the answer, applies the rules, and completes the object as if read
    /// back from the store.
    fn prepare_create(&self, object: &mut Value, answer: Option<&Value>) {
        let metadata = object.make_at(&["metadata"]);
        if self.namespaced {
            metadata.insert("namespace", "ns");
        }
        metadata.insert("creationTimestamp", NOW);
        let uid = answer.map_or("", |answer| answer.str_at(&["metadata", "uid"]));
        metadata.insert("uid", if uid.is_empty() { "uid-1" } else { uid });
        metadata.insert("resourceVersion", "1");
        if metadata.get("name").and_then(Value::as_str).is_none_or(str::is_empty)
            && let Some(prefix) = metadata.get("generateName").and_then(Value::as_str)
        {
            let name = format!("{prefix}12345");
            metadata.insert("name", name);
        }
        self.strategy.prepare_for_create(&ctx(&self.api_version(), self.namespaced), object);
        canonical::canonicalize(object, self.message);
    }

    /// Returns the version of the request, on which some rules depend.
    fn api_version(&self) -> String {
        if self.group.is_empty() { self.version.clone() } else { format!("{}/{}", self.group, self.version) }
    }

    fn validate_create(&self, object: &Value) -> binnacle_meta::FieldErrors {
        let rule = |name: &str, prefix| self.strategy.validate_name(&Features::default(), name, prefix);
        let none = Value::Null;
        let path = FieldPath::new("metadata");
        let mut errors = metadata::validate(object.get("metadata").unwrap_or(&none), self.namespaced, rule, &path);
        errors.extend(self.strategy.validate(&ctx(&self.api_version(), self.namespaced), object));
        errors
    }

    fn validate_update(&self, subresource: &str, object: &Value, old: &Value) -> binnacle_meta::FieldErrors {
        let none = Value::Null;
        let path = FieldPath::new("metadata");
        let (new_metadata, old_metadata) =
            (object.get("metadata").unwrap_or(&none), old.get("metadata").unwrap_or(&none));
        let rule = binnacle_validation::names::path_segment;
        let mut errors = metadata::validate(new_metadata, self.namespaced, rule, &path);
        errors.extend(metadata::validate_update(new_metadata, old_metadata, &path));
        errors.extend(if subresource.is_empty() {
            self.strategy.validate_update(&ctx(&self.api_version(), self.namespaced), object, old)
        } else {
            self.strategy.validate_subresource(subresource, &ctx(&self.api_version(), self.namespaced), object, old)
        });
        errors
    }
}

/// A path of the API: the collection, and the object and subresource in it.
struct Target {
    collection: String,
    name: String,
    subresource: String,
}

impl Target {
    fn of(path: &str) -> Option<Self> {
        let parts: Vec<&str> = path.trim_start_matches('/').split('/').collect();
        let prefix = match *parts.first()? {
            "api" => 2,
            "apis" => 3,
            _ => return None,
        };
        let namespaced = parts.get(prefix) == Some(&"namespaces") && parts.len() > prefix + 2;
        let subresource_of_namespace = matches!(parts.get(prefix + 2), Some(&"status" | &"finalize"));
        let at = if namespaced && !subresource_of_namespace { prefix + 2 } else { prefix };
        let part = |i: usize| parts.get(i).map_or("", |part| part).to_owned();
        Some(Self { collection: parts.get(..=at)?.join("/"), name: part(at + 1), subresource: part(at + 2) })
    }
}

/// Removes the additions of admission and allocation from both objects.
fn forget_admission(kind: &str, got: &mut Value, want: &mut Value) {
    let paths: &[&[&str]] = match kind {
        "Pod" => &[
            &["spec", "tolerations"],
            &["spec", "priority"],
            &["spec", "preemptionPolicy"],
            &["spec", "serviceAccount"],
            &["spec", "serviceAccountName"],
            &["spec", "volumes"],
            &["spec", "containers", "*", "volumeMounts"],
            &["spec", "initContainers", "*", "volumeMounts"],
        ],
        "Service" => &[
            &["spec", "clusterIP"],
            &["spec", "clusterIPs"],
            &["spec", "ipFamilies"],
            &["spec", "ipFamilyPolicy"],
            &["spec", "healthCheckNodePort"],
            &["spec", "ports", "*", "nodePort"],
        ],
        "Node" => &[&["spec", "taints"]],
        "PersistentVolumeClaim" => &[&["spec", "storageClassName"]],
        _ => &[],
    };
    for path in paths {
        [&mut *got, &mut *want].into_iter().for_each(|object| remove(object, path));
    }
}

fn remove(value: &mut Value, path: &[&str]) {
    let Some((first, rest)) = path.split_first() else { return };
    match value {
        Value::List(items) if *first == "*" => items.iter_mut().for_each(|item| remove(item, rest)),
        Value::Object(members) if rest.is_empty() => {
            members.remove(first);
        }
        Value::Object(members) => {
            if let Some(member) = members.get_mut(first) {
                remove(member, rest);
            }
        }
        _ => {}
    }
}

fn differ(path: &str, got: Option<&Value>, want: Option<&Value>, out: &mut Vec<String>) {
    match (got, want) {
        (Some(Value::Object(got)), Some(Value::Object(want))) => {
            let names: Vec<&str> = want.keys().map(|k| k.as_str()).collect();
            let extra = got.keys().map(|k| k.as_str()).filter(|name| !want.contains(name));
            for name in names.iter().copied().chain(extra) {
                differ(&format!("{path}.{name}"), got.get(name), want.get(name), out);
            }
        }
        (Some(Value::List(got)), Some(Value::List(want))) if got.len() == want.len() => {
            for (i, (got, want)) in got.iter().zip(want).enumerate() {
                differ(&format!("{path}[{i}]"), Some(got), Some(want), out);
            }
        }
        (Some(Value::Str(got)), Some(Value::Str(want))) if glob(want, got) => {}
        (got, want) if got == want => {}
        (got, want) => {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), json::to_string);
            out.push(format!("{path}: got {}, want {}", text(got), text(want)));
        }
    }
}

/// Returns true if a text matches the recorded one, in which `<ip:1>`, `<nodeport:1>` and the like match any text.
fn glob(pattern: &str, text: &str) -> bool {
    const MARKS: [&str; 5] = ["<rv", "<generated:", "<ip:", "<nodeport:", "<age>"];
    let Some(start) = MARKS.iter().filter_map(|mark| pattern.find(mark)).min() else { return pattern == text };
    let Some(length) = pattern[start..].find('>') else { return pattern == text };
    let (head, tail) = (&pattern[..start], &pattern[start + length + 1..]);
    let Some(rest) = text.strip_prefix(head) else { return false };
    (0..=rest.len()).filter(|i| rest.is_char_boundary(*i)).any(|i| glob(tail, &rest[i..]))
}

/// RFC 7386.
fn merge(target: &Value, patch: &Value) -> Value {
    let Some(changes) = patch.as_object() else { return patch.clone() };
    let mut object = target.as_object().cloned().unwrap_or_else(Object::new);
    for (name, change) in changes.iter() {
        if change.is_null() {
            object.remove(name);
        } else {
            let merged = merge(object.get(name).unwrap_or(&Value::Null), change);
            object.insert(name.clone(), merged);
        }
    }
    Value::Object(object)
}
