//! The Scale of a workload or custom resource, and its replicas.

use binnacle_meta::{FieldError, FieldPath, GroupKind, Status, Text};
use binnacle_registry::object;
use binnacle_schema::{Object, Value, json};
use binnacle_scheme::ScaleFields;

pub(super) const GROUP: &str = "autoscaling";
pub(super) const VERSION: &str = "v1";
pub(super) const KIND: &str = "Scale";
pub(super) const SCALE: &str = "autoscaling/v1";

/// Returns the path of the replicas, if any, in each version of the workload's kind.
pub(super) fn replicas_by_version<'a>(
    fields: Option<&'a ScaleFields>,
    api_version: &'a str,
) -> Vec<(&'a str, Option<&'a str>)> {
    match fields {
        Some(fields) => fields.versions.iter().map(|(version, path)| (version.as_str(), path.as_deref())).collect(),
        None => vec![(api_version, Some("spec.replicas"))],
    }
}

/// Returns the dotted path of a workload's replicas.
pub(super) fn replicas_path(fields: Option<&ScaleFields>) -> String {
    fields.map_or("spec.replicas".to_owned(), |fields| fields.spec_replicas.join("."))
}

/// Checks that the parents of a custom resource's replicas are objects, as far as they exist.
pub(super) fn check_parents(fields: Option<&ScaleFields>, workload: &Value) -> Result<(), Status> {
    let Some([parents @ .., _]) = fields.map(|fields| &fields.spec_replicas[..]) else { return Ok(()) };
    let mut found = workload;
    for (depth, name) in parents.iter().enumerate() {
        match found.get(name) {
            None => return Ok(()),
            Some(next @ Value::Object(_)) => found = next,
            Some(_) => {
                let path = parents[..=depth].join(".");
                let why = format!("value cannot be set because .{path} is not a map[string]interface{{}}");
                return Err(Status::unknown(500, &why));
            }
        }
    }
    Ok(())
}

/// Writes the replicas of a scale into its workload.
pub(super) fn set_replicas(fields: Option<&ScaleFields>, workload: &mut Value, replicas: i64) {
    match fields.map(|fields| &fields.spec_replicas[..]) {
        None => drop(workload.make_at(&["spec"]).insert("replicas", replicas)),
        Some([parents @ .., member]) => {
            let parents: Vec<&str> = parents.iter().map(Text::as_str).collect();
            workload.make_at(&parents).insert(member.clone(), replicas);
        }
        Some([]) => {}
    }
}

pub(super) fn validate(scale: &Value) -> Result<(), Status> {
    let replicas = scale.int_at(&["spec", "replicas"]).unwrap_or(0);
    if replicas >= 0 {
        return Ok(());
    }
    let field = FieldPath::new("spec").child("replicas");
    let error = FieldError::invalid(&field, replicas, "must be greater than or equal to 0");
    Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), object::name(scale), &error.into()))
}

/// Returns the value at a path of members.
pub(super) fn at<'v>(object: &'v Value, path: &[Text]) -> Option<&'v Value> {
    path.iter().try_fold(object, |value, name| value.get(name)).filter(|value| !value.is_null())
}

/// Returns the replicas, or 0 if absent.
///
/// # Errors
///
/// Returns 500 if the value is not a number.
fn replicas_at(object: &Value, path: &[Text]) -> Result<i64, Status> {
    match at(object, path) {
        None => Ok(0),
        Some(Value::Int(n)) => Ok(*n),
        Some(other) => {
            let path = path.join(".");
            let found = json::json_type(other);
            Err(Status::unknown(
                500,
                &format!(".{path} accessor error: {found} is of the type {found}, expected int64"),
            ))
        }
    }
}

/// Returns the Scale of a workload (in its stored version), or of a custom resource with its configured fields.
pub(super) fn scale_of(fields: Option<&ScaleFields>, workload: &Value) -> Result<Value, Status> {
    let mut metadata = Object::new();
    for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = workload.at(&["metadata", member]) {
            metadata.insert(member, value.clone());
        }
    }
    let mut spec = Object::new();
    let (replicas, status_replicas, selector) = match fields {
        None => (
            workload.int_at(&["spec", "replicas"]).unwrap_or(0),
            workload.int_at(&["status", "replicas"]).unwrap_or(0),
            selector(workload),
        ),
        Some(fields) => {
            let selector = fields.label_selector.as_ref().and_then(|path| at(workload, path)?.as_str());
            (
                replicas_at(workload, &fields.spec_replicas)?,
                replicas_at(workload, &fields.status_replicas)?,
                selector.unwrap_or_default().to_owned(),
            )
        }
    };
    if replicas != 0 {
        spec.insert("replicas", replicas);
    }
    let mut status = Object::new();
    status.insert("replicas", status_replicas);
    if !selector.is_empty() {
        status.insert("selector", selector);
    }
    let mut scale = Object::new();
    scale.insert("kind", "Scale");
    scale.insert("apiVersion", SCALE);
    scale.insert("metadata", metadata);
    scale.insert("spec", spec);
    scale.insert("status", status);
    Ok(Value::Object(scale))
}

/// Returns the workload's selector as text: of a LabelSelector, or of the map of a replication controller.
fn selector(workload: &Value) -> String {
    let Some(selector) = workload.object_at(&["spec", "selector"]) else { return String::new() };
    let is_label_selector = selector.contains("matchLabels") || selector.contains("matchExpressions");
    let plain = if is_label_selector { selector.get("matchLabels").and_then(Value::as_object) } else { Some(selector) };
    let mut terms: Vec<(String, String)> = plain
        .into_iter()
        .flat_map(|labels| labels.iter())
        .map(|(key, value)| (key.to_string(), format!("{key}={}", value.as_str().unwrap_or(""))))
        .collect();
    for expression in selector.get("matchExpressions").and_then(Value::as_list).unwrap_or(&[]) {
        let key = expression.str_at(&["key"]);
        let mut values: Vec<&str> = expression.list_at(&["values"]).iter().filter_map(Value::as_str).collect();
        values.sort_unstable();
        let values = values.join(",");
        let term = match expression.str_at(&["operator"]) {
            "In" => format!("{key} in ({values})"),
            "NotIn" => format!("{key} notin ({values})"),
            "Exists" => key.to_owned(),
            _ => format!("!{key}"),
        };
        terms.push((key.to_owned(), term));
    }
    // Stable: terms with equal keys keep their order.
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}
