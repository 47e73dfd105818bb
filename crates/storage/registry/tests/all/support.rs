//! Resources with an in-memory store, and comparisons with expected results.

use std::sync::Arc;

use binnacle_builtin::Releases;
use binnacle_meta::Status;
use binnacle_registry::admission::AdmitAll;
use binnacle_registry::{
    Catalog, Context, DeleteOptions, DeleteOutcome, Installer, Resource, StorageOptions, UpdateOptions,
};
use binnacle_request::{CreatePermit, User};
use binnacle_schema::{Limits, Value, decode, json};
use binnacle_store::Store;
use binnacle_store_embedded::EmbeddedStore;
use serde_json::{Map, Value as Json};

/// The built-in resources.
pub(crate) struct Cluster(Catalog);

impl Cluster {
    pub(crate) fn new() -> Self {
        Self::with_store(Arc::new(EmbeddedStore::ephemeral()))
    }

    pub(crate) fn with_store(store: Arc<dyn Store>) -> Self {
        let catalog = Catalog::new(binnacle_builtin::kinds(), Arc::default());
        let storage = StorageOptions::new(store);
        let installer = Installer::new(storage, Arc::new(AdmitAll), Default::default(), 1 << 20);
        let releases = Releases::default();
        let served = binnacle_builtin::served(releases, |_, description| description.feature_gate.is_none());
        binnacle_builtin::install(&catalog, &installer, served, releases);
        Self(catalog)
    }

    /// Returns the resource of a path such as `apps/v1/deployments`; the core group is empty.
    pub(crate) fn resource(&self, path: &str) -> Arc<Resource> {
        let parts: Vec<&str> = path.split('/').collect();
        let [group, version, plural] = parts[..] else { panic!("{path} is not group/version/plural") };
        self.0.find(group, version, plural).unwrap_or_else(|| panic!("{path} is not served"))
    }

    /// Creates the object of a YAML manifest, with defaults.
    pub(crate) async fn create(&self, context: &Context, path: &str, manifest: &str) -> Result<Value, Status> {
        let resource = self.resource(path);
        let decoded = decode::yaml(manifest.as_bytes(), &resource.message, &Limits::default()).unwrap();
        let mut object = resource.complete(decoded.value, decoded.empty_fields).unwrap();
        object.make_object().insert("kind", resource.description.kind.clone());
        object.make_object().insert("apiVersion", resource.api_version());
        let object = resource.to_write_object(object);
        #[expect(clippy::disallowed_methods, reason = "the permission to create is not tested here")]
        let permit = CreatePermit::system();
        resource.create(context, &permit, object).await.map(|stored| stored.object)
    }

    /// Merges a change into the live object.
    pub(crate) async fn update(
        &self,
        context: &Context,
        path: &str,
        name: &str,
        options: &UpdateOptions,
        change: &Json,
    ) -> Result<Value, Status> {
        let resource = self.resource(path);
        let mut changed = |old: Option<&Value>| {
            let mut object = to_json(old.unwrap());
            merge(&mut object, change);
            Ok(decode::yaml(object.to_string().as_bytes(), &resource.message, &Limits::default()).unwrap().value.into())
        };
        resource.update(context, name, options, &mut changed).await.map(|updated| updated.stored.object)
    }

    pub(crate) async fn delete(
        &self,
        context: &Context,
        path: &str,
        name: &str,
        options: &DeleteOptions,
    ) -> Result<DeleteOutcome, Status> {
        self.resource(path).delete(context, name, options).await
    }

    pub(crate) async fn get(&self, path: &str, name: &str) -> Result<Value, Status> {
        let found = self.resource(path).get_object(&context(), name, Default::default()).await;
        found.map(|stored| stored.object)
    }
}

/// Returns a request in the namespace `default`.
pub(crate) fn context() -> Context {
    Context::new(User::new("somebody", &["system:authenticated"]), "default".into(), false)
}

/// Returns a request like [`context`], with `dryRun=All`.
pub(crate) fn dry_run() -> Context {
    Context::new(User::new("somebody", &["system:authenticated"]), "default".into(), true)
}

/// The expected result of a row.
#[derive(Debug)]
pub(crate) enum Want {
    /// An object with at least these members; `null` means absent.
    Has(Json),
    /// An error with this code and message.
    Fails(u16, &'static str),
}

/// Compares a result with the expected one. In strings, `*` matches anything and `?` one character.
pub(crate) fn check(about: &str, got: &Result<Value, Status>, want: &Want) {
    match (got, want) {
        (Ok(object), Want::Has(members)) => {
            let object = to_json(object);
            if let Err(path) = covers(members, &object, "") {
                panic!("{about}: {path} is not as in {members}: {object}");
            }
        }
        (Err(status), Want::Fails(code, message)) => {
            assert_eq!(status.code(), *code, "{about}: {}", status.message());
            assert!(matches(message, status.message()), "{about}: expected {message:?}, got {:?}", status.message());
        }
        (Ok(object), Want::Fails(..)) => panic!("{about}: no failure: {}", to_json(object)),
        (Err(status), Want::Has(_)) => panic!("{about}: {} {}", status.code(), status.message()),
    }
}

pub(crate) fn to_json(object: &Value) -> Json {
    serde_json::from_str(&json::to_string(object)).unwrap()
}

/// Returns the path of the first member that differs as an error.
fn covers(want: &Json, got: &Json, path: &str) -> Result<(), String> {
    let same = match (want, got) {
        (Json::Object(members), Json::Object(have)) => {
            for (name, member) in members {
                covers(member, have.get(name).unwrap_or(&Json::Null), &format!("{path}.{name}"))?;
            }
            true
        }
        (Json::String(pattern), Json::String(text)) => matches(pattern, text),
        _ => want == got,
    };
    if same { Ok(()) } else { Err(path.to_owned()) }
}

fn matches(pattern: &str, text: &str) -> bool {
    let mut rest = pattern.chars();
    match rest.next() {
        None => text.is_empty(),
        Some('*') => (0..=text.len()).any(|at| text.is_char_boundary(at) && matches(rest.as_str(), &text[at..])),
        Some(first) => {
            let mut chars = text.chars();
            chars.next().is_some_and(|c| first == '?' || first == c) && matches(rest.as_str(), chars.as_str())
        }
    }
}

/// Applies a merge patch.
fn merge(target: &mut Json, patch: &Json) {
    let Json::Object(patch) = patch else { return target.clone_from(patch) };
    if !target.is_object() {
        *target = Json::Object(Map::new());
    }
    let Json::Object(members) = target else { return };
    for (name, value) in patch {
        if value.is_null() {
            members.remove(name);
        } else {
            merge(members.entry(name.clone()).or_insert(Json::Null), value);
        }
    }
}

#[test]
fn covers_reports_first_difference() {
    let object = serde_json::json!({"a": "x1y", "b": {"c": [1]}, "d": null});
    for (want, path) in [
        (serde_json::json!({}), None),
        (serde_json::json!({"a": "x?y", "b": {"c": [1], "e": null}, "f": null}), None),
        (serde_json::json!({"a": "x*"}), None),
        (serde_json::json!({"a": "x"}), Some(".a")),
        (serde_json::json!({"a": "x??y"}), Some(".a")),
        (serde_json::json!({"a": null}), Some(".a")),
        (serde_json::json!({"b": {"c": [1, 2]}}), Some(".b.c")),
        (serde_json::json!({"b": {"e": "*"}}), Some(".b.e")),
    ] {
        assert_eq!(covers(&want, &object, "").err().as_deref(), path, "{want}");
    }
}
