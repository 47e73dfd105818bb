//! A registry of a few lines, without storage, admission or concurrency.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::{env, fs};

use binnacle_kinds::{conversion, strategy, tables};
use binnacle_meta::{FieldErrors, FieldPath};
use binnacle_resources::groups;
use binnacle_schema::{Limits, Message, Value, canonical, decode, defaults, json, value};
use binnacle_scheme::ResourceDescription;
use binnacle_scheme::{Situation, Strategy};
use binnacle_validation::metadata as validate_metadata;
use serde_json::Value as Json;

/// Groups whose strategies are checked here.
const GROUPS: [&str; 17] = [
    "admissionregistration.k8s.io",
    "apiextensions.k8s.io",
    "apiregistration.k8s.io",
    "autoscaling",
    "certificates.k8s.io",
    "coordination.k8s.io",
    "discovery.k8s.io",
    "flowcontrol.apiserver.k8s.io",
    "internal.apiserver.k8s.io",
    "networking.k8s.io",
    "node.k8s.io",
    "policy",
    "rbac.authorization.k8s.io",
    "resource.k8s.io",
    "scheduling.k8s.io",
    "storage.k8s.io",
    "storagemigration.k8s.io",
];

/// What others than strategies write: who asks (a hook of the registry), and what admission and
/// controllers add.
const WRITTEN_BY_OTHERS: [(&str, &[&str]); 3] = [
    ("CertificateSigningRequest", &["/spec/username", "/spec/groups", "/spec/uid", "/spec/extra"]),
    ("CustomResourceDefinition", &["/status"]),
    ("VolumeAttributesClass", &["/metadata/finalizers"]),
];

/// How a step went.
pub(crate) enum Outcome {
    /// Not a write of one of our kinds, or one whose answer others decide.
    NotOurs,
    Same,
    Differs(String),
}

/// The objects of one conversation, by path, in their stored version.
#[derive(Default)]
pub(crate) struct Replay {
    objects: HashMap<String, Value>,
}

/// A path, taken apart.
struct Target {
    description: &'static ResourceDescription,
    namespace: String,
    name: String,
    subresource: String,
}

impl Replay {
    pub(crate) fn step(&mut self, step: &Json) -> Outcome {
        let step = filled_in(step);
        let (Some(verb), Some(path)) = (step["do"].as_str(), step["path"].as_str()) else { return Outcome::NotOurs };
        let Some(target) = target(path) else { return Outcome::NotOurs };
        let status = step["expect"]["status"].as_i64().unwrap_or(0);
        if !matches!(status, 200 | 201 | 422) || !step["body"].is_object() {
            return Outcome::NotOurs;
        }
        match verb {
            "POST" if target.name.is_empty() => self.create(&target, path, &step),
            "PUT" | "PATCH" if !target.name.is_empty() => self.update(&target, path, &step),
            "DELETE" => {
                self.objects.remove(path);
                Outcome::NotOurs
            }
            _ => Outcome::NotOurs,
        }
    }

    fn create(&mut self, target: &Target, path: &str, step: &Json) -> Outcome {
        let Some(mut object) = target.decode(&step["body"].to_string()) else { return Outcome::NotOurs };
        let strategy = target.strategy();
        target.stamp(&mut object);
        strategy.prepare_for_create(&target.situation(), &mut object);
        let metadata = object.get("metadata").cloned().unwrap_or_default();
        let mut errors = validate_metadata::validate(
            &metadata,
            target.description.namespaced,
            |name, prefix| strategy.validate_name(name, prefix),
            &FieldPath::new("metadata"),
        );
        errors.extend(strategy.validate(&target.situation(), &object));
        let warnings = if errors.is_empty() { strategy.warnings(&object, None) } else { Vec::new() };
        let name = object.str_at(&["metadata", "name"]).to_owned();
        let path = format!("{path}/{name}");
        self.compare(target, &path, object, &errors, &warnings, step)
    }

    fn update(&mut self, target: &Target, path: &str, step: &Json) -> Outcome {
        let main = path.strip_suffix(&format!("/{}", target.subresource)).unwrap_or(path).to_owned();
        let Some(old) = self.objects.get(&main).cloned() else { return Outcome::NotOurs };
        let Some(text) = target.new_text(&old, step) else { return Outcome::NotOurs };
        let Some(mut object) = target.decode(&text) else { return Outcome::NotOurs };
        let (strategy, situation) = (target.strategy(), target.situation());
        for member in ["uid", "creationTimestamp", "generation", "resourceVersion"] {
            let metadata = object.make_at(&["metadata"]);
            match old.at(&["metadata", member]) {
                Some(value) => drop(metadata.insert(member, value.clone())),
                None => drop(metadata.remove(member)),
            }
        }
        if target.description.namespaced {
            object.make_at(&["metadata"]).insert("namespace", target.namespace.clone());
        }
        let mut errors = FieldErrors::new();
        let warnings = if target.subresource.is_empty() {
            strategy.prepare_for_update(&situation, &mut object, &old);
            errors.extend(target.metadata_errors(&object, &old));
            errors.extend(strategy.validate_update(&situation, &object, &old));
            strategy.warnings(&object, Some(&old))
        } else {
            strategy.prepare_for_subresource(&target.subresource, &situation, &mut object, &old);
            errors.extend(target.metadata_errors(&object, &old));
            errors.extend(strategy.validate_subresource(&target.subresource, &situation, &object, &old));
            Vec::new()
        };
        let warnings = if errors.is_empty() { warnings } else { Vec::new() };
        self.compare(target, &main, object, &errors, &warnings, step)
    }

    fn compare(
        &mut self,
        target: &Target,
        path: &str,
        mut object: Value,
        errors: &FieldErrors,
        warnings: &[String],
        step: &Json,
    ) -> Outcome {
        let expected = &step["expect"]["body"];
        if step["expect"]["status"] == 422 {
            // Admission refuses without saying which field is wrong.
            let by_admission = expected["details"]["causes"][0]["field"].is_null();
            if by_admission || is_about_cel(expected) {
                return Outcome::NotOurs;
            }
            return compare_errors(errors, expected, step);
        }
        // Answers show the object as it is read back.
        target.strategy().complete_stored(&mut object);
        canonical::canonicalize(&mut object, target.stored_message());
        self.objects.insert(path.to_owned(), established(object.clone()));
        if !errors.is_empty() {
            let errors: Vec<String> = errors.iter().map(ToString::to_string).collect();
            return Outcome::Differs(format!("refused: {}", errors.join("; ")));
        }
        if let Some(expected) = step["expect"]["headers"]["Warning"].as_str() {
            let got: Vec<String> = warnings.iter().map(|text| format!("299 - {text:?}")).collect();
            if got.join(", ") != expected {
                return Outcome::Differs(format!("warnings: {got:?} but expected {expected}"));
            }
        } else if !warnings.is_empty() {
            return Outcome::Differs(format!("unexpected warnings: {warnings:?}"));
        }
        // Protobuf answers are recorded as an outline.
        if !step["compare"].is_null() || expected["contentType"].is_string() {
            return Outcome::Same;
        }
        target.serve(&mut object);
        let got: Json = serde_json::from_str(&json::to_string(&object)).unwrap_or_default();
        let ignored: Vec<&str> = step["ignore"].as_array().into_iter().flatten().filter_map(Json::as_str).collect();
        let others = WRITTEN_BY_OTHERS.iter().filter(|(kind, _)| *kind == target.description.kind);
        let ignored: Vec<&str> =
            ignored.into_iter().chain(others.flat_map(|(_, pointers)| pointers.iter().copied())).collect();
        let (got, expected) = (comparable(got, &ignored), comparable(expected.clone(), &ignored));
        if same(&got, &expected) {
            Outcome::Same
        } else {
            Outcome::Differs(format!("\n  got      {got}\n  expected {expected}"))
        }
    }
}

impl Target {
    fn strategy(&self) -> &'static dyn Strategy {
        let storage = self.description.storage.as_ref().expect("stored, see target()");
        strategy(&storage.group, &storage.kind)
    }

    fn stored_message(&self) -> &'static Message {
        let storage = self.description.storage.as_ref().expect("stored, see target()");
        tables::kind(&storage.group, &storage.version, &storage.kind).expect("described kinds are in the tables")
    }

    fn message(&self) -> &'static Message {
        let d = self.description;
        tables::kind(&d.group, &d.version, &d.kind).expect("described kinds are in the tables")
    }

    fn situation(&self) -> Situation<'_> {
        Situation { now: 1_767_225_600, namespace: &self.namespace, api_version: "", dry_run: false }
    }

    /// An object as the registry sees it: with defaults, in the stored version.
    fn decode(&self, text: &str) -> Option<Value> {
        let mut object = decode::json(text.as_bytes(), self.message(), &Limits::default()).ok()?.value;
        defaults::apply_constants(&mut object, self.message());
        self.strategy().set_defaults(&self.description.version, &mut object);
        let d = self.description;
        if let Some((to_stored, _)) = conversion(&d.group, &d.version, &d.kind) {
            to_stored(&mut object);
        }
        Some(object)
    }

    fn serve(&self, object: &mut Value) {
        let d = self.description;
        if let Some((_, from_stored)) = conversion(&d.group, &d.version, &d.kind) {
            from_stored(object);
        }
    }

    fn stamp(&self, object: &mut Value) {
        let metadata = object.make_at(&["metadata"]);
        metadata.insert("uid", "a");
        metadata.insert("resourceVersion", "1");
        metadata.insert("creationTimestamp", "2026-01-01T00:00:00Z");
        metadata.remove("namespace");
        if self.description.namespaced {
            metadata.insert("namespace", self.namespace.clone());
        }
        if let Some(prefix) = metadata.get("generateName").and_then(Value::as_str) {
            let name = format!("{prefix}x");
            metadata.insert("name", name);
        }
    }

    fn metadata_errors(&self, object: &Value, old: &Value) -> FieldErrors {
        let path = FieldPath::new("metadata");
        let null = Value::Null;
        let (new, old) = (object.get("metadata").unwrap_or(&null), old.get("metadata").unwrap_or(&null));
        let names = binnacle_validation::names::path_segment;
        let mut errors = validate_metadata::validate(new, self.description.namespaced, names, &path);
        errors.extend(validate_metadata::validate_update(new, old, &path));
        errors
    }

    /// The object that a PUT sends or a merge patch makes, as JSON of this version.
    fn new_text(&self, old: &Value, step: &Json) -> Option<String> {
        if step["do"] == "PUT" {
            return step["body"].is_object().then(|| step["body"].to_string());
        }
        if step["headers"]["Content-Type"] != "application/merge-patch+json" || !step["body"].is_object() {
            return None;
        }
        let mut current = old.clone();
        self.serve(&mut current);
        let mut current: Json = serde_json::from_str(&json::to_string(&current)).ok()?;
        merge(&mut current, &step["body"]);
        Some(current.to_string())
    }
}

/// The recorded areas and their cases.
pub(crate) fn conversations() -> Option<Vec<(String, Vec<Json>)>> {
    let shared = env::var_os("BINNACLE_SHARED")
        .map_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared"), PathBuf::from);
    let folder = shared.join("conformance/cases");
    let Ok(entries) = fs::read_dir(&folder) else {
        println!("skipped: there is no {}", folder.display());
        return None;
    };
    let mut paths: Vec<PathBuf> = entries.filter_map(|entry| entry.ok().map(|entry| entry.path())).collect();
    paths.sort();
    let read = |path: &PathBuf| {
        let file: Json = serde_json::from_str(&fs::read_to_string(path).expect("readable")).expect("JSON");
        (file["area"].as_str().unwrap_or_default().to_owned(), file["cases"].as_array().cloned().unwrap_or_default())
    };
    Some(paths.iter().map(read).collect())
}

/// `/apis/GROUP/VERSION[/namespaces/NS]/PLURAL[/NAME[/SUBRESOURCE]]` of a group that is checked here.
fn target(path: &str) -> Option<Target> {
    let mut parts = path.strip_prefix("/apis/")?.split('/').peekable();
    let (group, version) = (parts.next()?, parts.next()?);
    let mut namespace = String::new();
    if parts.peek() == Some(&"namespaces") {
        parts.next();
        namespace = parts.next()?.to_owned();
    }
    let plural = parts.next()?;
    let description = groups()
        .iter()
        .filter(|g| g.name == group && GROUPS.contains(&g.name))
        .flat_map(|g| &g.versions)
        .filter(|v| v.version == version)
        .flat_map(|v| &v.resources)
        .find(|r| r.plural == plural && r.storage.is_some())?;
    let name = parts.next().unwrap_or_default().to_owned();
    let subresource = parts.next().unwrap_or_default().to_owned();
    Some(Target { description, namespace, name, subresource })
}

/// A step with names in place of templates.
fn filled_in(step: &Json) -> Json {
    let text = step.to_string().replace("{{id}}", "xid").replace("{{ns}}", "xns").replace("{{crt}}", "x");
    serde_json::from_str(&text).expect("names need no escapes")
}

fn merge(target: &mut Json, patch: &Json) {
    let Json::Object(patch) = patch else {
        *target = patch.clone();
        return;
    };
    if !target.is_object() {
        *target = Json::Object(Default::default());
    }
    for (name, value) in patch {
        if value.is_null() {
            target.as_object_mut().map(|members| members.remove(name));
        } else {
            merge(&mut target[name], value);
        }
    }
}

/// Without what the server writes by itself and what is not to be compared.
fn comparable(mut object: Json, ignored: &[&str]) -> Json {
    for pointer in ignored.iter().chain(&["/metadata/managedFields", "/metadata/resourceVersion", "/metadata/uid"]) {
        let (parent, member) = pointer.rsplit_once('/').unwrap_or_default();
        if let Some(Json::Object(members)) = object.pointer_mut(parent) {
            members.remove(member);
        }
    }
    object
}

/// An object as controllers leave it for the next request.
fn established(mut object: Value) -> Value {
    if object.str_at(&["kind"]) == "CustomResourceDefinition" {
        let established = value!({"type": "Established", "status": "True"});
        object.make_at(&["status"]).insert("conditions", vec![established]);
    }
    object
}

/// Equality in which `<...>` of the expectation stands for anything.
fn same(got: &Json, expected: &Json) -> bool {
    match (got, expected) {
        (_, Json::String(text)) if text.starts_with('<') && text.ends_with('>') => true,
        (Json::Object(a), Json::Object(b)) => {
            a.len() == b.len() && b.iter().all(|(name, b)| a.get(name).is_some_and(|a| same(a, b)))
        }
        // Storage does not keep the two apart.
        (Json::Array(a), Json::Null) => a.is_empty(),
        (Json::Array(a), Json::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        _ => got == expected,
    }
}

/// Expressions are not compiled here.
fn is_about_cel(status: &Json) -> bool {
    const WORDS: [&str; 4] = ["compilation failed", "must evaluate to", "rule cost total", "oldSelf"];
    let message = status["message"].as_str().unwrap_or_default();
    WORDS.iter().any(|word| message.contains(word))
}

fn compare_errors(errors: &FieldErrors, expected: &Json, step: &Json) -> Outcome {
    let mut got: Vec<String> =
        errors.iter().map(|e| format!("{} {}: {}", e.kind.reason(), e.field, e.body())).collect();
    if step["compare"] == "status" && !got.is_empty() {
        return Outcome::Same;
    }
    let cause = |cause: &Json| {
        let text = |member: &str| cause[member].as_str().unwrap_or_default().to_owned();
        format!("{} {}: {}", text("reason"), text("field"), text("message"))
    };
    let mut expected: Vec<String> = expected["details"]["causes"].as_array().into_iter().flatten().map(cause).collect();
    if !step["any_order"].is_null() {
        got.sort();
        expected.sort();
    }
    if got == expected {
        return Outcome::Same;
    }
    Outcome::Differs(format!(
        "\n  got      {}\n  expected {}",
        got.join("\n           "),
        expected.join("\n           ")
    ))
}
