//! `apiextensions.k8s.io/v1beta1` CustomResourceDefinition, as old releases stored it: fields that v1 has per version
//! could be given once for all versions, and some defaults were different.

use binnacle_schema::{Object, Value, value};

use super::{finish, rename};

/// The fields that could be given once for all versions, and their names in a version.
const SHARED: [(&str, &str); 4] = [
    ("validation", "schema"),
    ("subresources", "subresources"),
    ("additionalPrinterColumns", "additionalPrinterColumns"),
    ("selectableFields", "selectableFields"),
];

pub(super) fn to_v1(definition: &mut Value) {
    set_defaults(definition);
    let spec = definition.make_at(&["spec"]);
    spec.remove("version");
    let shared: Vec<(&'static str, Value)> = SHARED
        .iter()
        .filter_map(|(name, within)| Some((*within, spec.remove(name).filter(|value| !value.is_null())?)))
        .collect();
    for version in spec.get_mut("versions").and_then(Value::as_list_mut).into_iter().flatten() {
        for (name, value) in &shared {
            version.make_object().insert(*name, value.clone());
        }
        rename_paths(version, "JSONPath", "jsonPath");
    }
    if let Some(conversion) = spec.get_mut("conversion") {
        let conversion = conversion.make_object();
        let parts = [("webhookClientConfig", "clientConfig"), ("conversionReviewVersions", "conversionReviewVersions")];
        let webhook: Object = parts
            .into_iter()
            .filter_map(|(name, within)| Some((within, conversion.remove(name).filter(|value| !value.is_null())?)))
            .collect();
        if !webhook.is_empty() {
            conversion.insert("webhook", Value::Object(webhook));
        }
    }
    finish(definition, "apiextensions.k8s.io", "v1", "CustomResourceDefinition");
}

pub(super) fn from_v1(definition: &mut Value) {
    let spec = definition.make_at(&["spec"]);
    let first = spec.get("versions").and_then(Value::as_list).and_then(<[Value]>::first);
    if let Some(name) = first.and_then(|version| version.get("name")).cloned() {
        spec.insert("version", name);
    }
    for version in spec.get_mut("versions").and_then(Value::as_list_mut).into_iter().flatten() {
        rename_paths(version, "jsonPath", "JSONPath");
    }
    if let Some(conversion) = spec.get_mut("conversion") {
        if let Some(Value::Object(webhook)) = conversion.make_object().remove("webhook") {
            webhook.into_iter().for_each(|(name, value)| drop(conversion.make_object().insert(name, value)));
        }
        rename(conversion, "clientConfig", "webhookClientConfig");
    }
    finish(definition, "apiextensions.k8s.io", "v1beta1", "CustomResourceDefinition");
}

fn rename_paths(version: &mut Value, from: &str, to: &'static str) {
    let columns = version.at_mut(&["additionalPrinterColumns"]).and_then(Value::as_list_mut);
    columns.into_iter().flatten().for_each(|column| rename(column, from, to));
}

/// Sets the defaults of v1beta1, which apply when an object is read.
fn set_defaults(definition: &mut Value) {
    let spec = definition.make_at(&["spec"]);
    let is_empty = |value: Option<&Value>| match value {
        None | Some(Value::Null) => true,
        Some(Value::Str(text)) => text.is_empty(),
        Some(Value::List(items)) => items.is_empty(),
        Some(_) => false,
    };
    if is_empty(spec.get("scope")) {
        spec.insert("scope", "Namespaced");
    }
    let names = spec.entry("names", || Value::Object(Object::new()));
    let kind = names.str_at(&["kind"]).to_owned();
    let names = names.make_object();
    if is_empty(names.get("singular")) {
        names.insert("singular", kind.to_lowercase());
    }
    if is_empty(names.get("listKind")) && !kind.is_empty() {
        names.insert("listKind", format!("{kind}List"));
    }
    let version = spec.get("version").filter(|version| !is_empty(Some(version))).cloned();
    if let Some(version) = version.filter(|_| is_empty(spec.get("versions"))) {
        spec.insert("versions", value!([{"name": version, "served": true, "storage": true}]));
    }
    if is_empty(spec.get("preserveUnknownFields")) {
        spec.insert("preserveUnknownFields", true);
    }
    if is_empty(spec.get("conversion")) {
        spec.insert("conversion", value!({"strategy": "None"}));
    }
    if let Some(conversion) = spec.get_mut("conversion") {
        if conversion.str_at(&["strategy"]) == "Webhook" && is_empty(conversion.get("conversionReviewVersions")) {
            conversion.make_object().insert("conversionReviewVersions", value!(["v1beta1"]));
        }
        let service = conversion.at_mut(&["webhookClientConfig", "service"]).filter(|service| !service.is_null());
        if let Some(service) = service.filter(|service| is_empty(service.get("port"))) {
            service.make_object().insert("port", 443i64);
        }
    }
    let stored = definition.list_at(&["spec", "versions"]).iter().find(|version| version.bool_at(&["storage"]));
    let stored = stored.map(|version| version.str_at(&["name"]).to_owned());
    let status = definition.make_at(&["status"]);
    if let Some(stored) = stored.filter(|_| is_empty(status.get("storedVersions"))) {
        status.insert("storedVersions", value!([stored]));
    }
}
