//! Validation of manifests: that of their kinds, and additional rules for manifests.

use std::collections::HashMap;
use std::time::{SystemTime, UNIX_EPOCH};

use binnacle_features::Features;
use binnacle_meta::{FieldPath, aggregate, go_quote};
use binnacle_schema::{Value, defaults};
use binnacle_scheme::{NoKinds, StoredType, StrategyContext};
use binnacle_validation::metadata;

use crate::documents::{Object, objects};
use crate::files::Document;
use crate::manifest_type::{ManifestType, StoredTypes};

/// The required suffix of names, which is reserved for manifests.
const SUFFIX: &str = ".static.k8s.io";
const API_VERSION: &str = "admissionregistration.k8s.io/v1";

/// Validates documents and collects their objects.
pub(crate) struct Validator<'t> {
    manifest_type: ManifestType,
    types: &'t StoredTypes,
    objects: NamedObjects,
    bindings: NamedObjects,
}

/// Objects of a kind by name, with the file of each.
#[derive(Default)]
struct NamedObjects {
    values: Vec<Value>,
    files: HashMap<String, String>,
}

impl<'t> Validator<'t> {
    pub(crate) fn new(manifest_type: ManifestType, types: &'t StoredTypes) -> Self {
        Self { manifest_type, types, objects: NamedObjects::default(), bindings: NamedObjects::default() }
    }

    pub(crate) fn add_document(&mut self, document: &Document) -> Result<(), String> {
        let kinds = self.types.of_kind(self.manifest_type.kind()).map(|stored| &*stored.kinds);
        for object in objects(&document.text, kinds.unwrap_or(&NoKinds), self.manifest_type.scheme())? {
            self.add_object(object, &document.path)?;
        }
        Ok(())
    }

    /// Returns the webhook configurations or policies, and the bindings, sorted by name.
    pub(crate) fn finish(mut self) -> Result<(Vec<Value>, Vec<Value>), String> {
        for binding in &self.bindings.values {
            let policy = policy_name(binding);
            if !self.objects.files.contains_key(policy) {
                return Err(format!(
                    "binding {} references policy {} which does not exist in the manifest directory",
                    go_quote(name(binding)),
                    go_quote(policy)
                ));
            }
        }
        for named in [&mut self.objects, &mut self.bindings] {
            named.values.sort_by(|one, other| name(one).cmp(name(other)));
        }
        Ok((self.objects.values, self.bindings.values))
    }

    fn add_object(&mut self, object: Object, file: &str) -> Result<(), String> {
        let unsupported = || format!("unsupported resource type *{}.{}", object.version, object.kind);
        if object.version != "v1" {
            return Err(unsupported());
        }
        let single = object.kind.strip_suffix("List").unwrap_or(&object.kind);
        let is_binding = self.manifest_type.binding() == Some(single);
        if !is_binding && single != self.manifest_type.kind() {
            return Err(unsupported());
        }
        let stored = self.types.of_kind(single).ok_or_else(unsupported)?;
        let mut values = match single == object.kind {
            true => vec![object.value],
            false => object.value.list_at(&["items"]).to_vec(),
        };
        for value in &mut values {
            check(stored, &self.types.features, single, value)?;
        }
        let named = if is_binding { &mut self.bindings } else { &mut self.objects };
        for value in values {
            named.reserve_name(name(&value), file)?;
            match (is_binding, self.manifest_type.binding()) {
                (true, _) => check_binding(&value)?,
                (false, Some(_)) => check_policy(&value, single)?,
                (false, None) => check_webhooks(&value, file)?,
            }
            named.values.push(value);
        }
        Ok(())
    }
}

impl NamedObjects {
    fn reserve_name(&mut self, name: &str, file: &str) -> Result<(), String> {
        let shown = go_quote(file);
        if name.is_empty() {
            return Err(format!("resource in file {shown} must have a name"));
        }
        let quoted = go_quote(name);
        if !name.ends_with(SUFFIX) {
            return Err(format!("{quoted} in file {shown} must have a name ending with {}", go_quote(SUFFIX)));
        }
        if let Some(before) = self.files.get(name) {
            let before = go_quote(before);
            return Err(format!("duplicate name {quoted} found in file {shown} (previously seen in {before})"));
        }
        self.files.insert(name.to_owned(), file.to_owned());
        Ok(())
    }
}

/// Sets the defaults of an object and validates it as on create.
fn check(stored: &StoredType, features: &Features, kind: &str, object: &mut Value) -> Result<(), String> {
    let members = object.make_object();
    members.insert("kind", kind);
    members.insert("apiVersion", API_VERSION);
    defaults::apply_constants(object, &stored.message);
    stored.strategy.set_defaults("v1", object);
    let nothing = Value::Null;
    let mut errors = metadata::validate(
        object.get("metadata").unwrap_or(&nothing),
        false,
        |name, prefix| stored.strategy.validate_name(features, name, prefix),
        &FieldPath::new("metadata"),
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let ctx = StrategyContext {
        now: i64::try_from(now.as_secs()).unwrap_or(i64::MAX),
        namespace: "",
        api_version: API_VERSION,
        dry_run: false,
        features,
    };
    errors.extend(stored.strategy.validate(&ctx, object));
    if errors.is_empty() {
        return Ok(());
    }
    Err(format!("{kind} {}: {}", go_quote(name(object)), aggregate(errors.iter())))
}

fn check_webhooks(configuration: &Value, file: &str) -> Result<(), String> {
    for webhook in configuration.list_at(&["webhooks"]) {
        let wrong = |why: &str| {
            let (webhook, configuration) = (go_quote(webhook.str_at(&["name"])), go_quote(name(configuration)));
            Err(format!("webhook {webhook} in {configuration} (file {}): {why}", go_quote(file)))
        };
        if webhook.at(&["clientConfig", "service"]).is_some_and(|service| !service.is_null()) {
            return wrong("clientConfig.service is not supported for static manifests; use clientConfig.url instead");
        }
        if webhook.str_at(&["clientConfig", "url"]).is_empty() {
            return wrong("clientConfig.url is required for static manifests");
        }
    }
    Ok(())
}

fn check_policy(policy: &Value, kind: &str) -> Result<(), String> {
    if policy.at(&["spec", "paramKind"]).is_some_and(|kind| !kind.is_null()) {
        let name = go_quote(name(policy));
        return Err(format!("{kind} {name}: spec.paramKind is not supported for static manifests"));
    }
    Ok(())
}

fn check_binding(binding: &Value) -> Result<(), String> {
    let (name, policy) = (go_quote(name(binding)), policy_name(binding));
    if policy.is_empty() {
        return Err(format!("binding {name} must reference a policy (spec.policyName)"));
    }
    if !policy.ends_with(SUFFIX) {
        let (policy, suffix) = (go_quote(policy), go_quote(SUFFIX));
        return Err(format!("binding {name}: spec.policyName {policy} must end with {suffix}"));
    }
    if binding.at(&["spec", "paramRef"]).is_some_and(|reference| !reference.is_null()) {
        return Err(format!("binding {name}: spec.paramRef is not supported for static manifests"));
    }
    Ok(())
}

fn name(object: &Value) -> &str {
    object.str_at(&["metadata", "name"])
}

fn policy_name(binding: &Value) -> &str {
    binding.str_at(&["spec", "policyName"])
}
