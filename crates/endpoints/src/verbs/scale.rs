//! The `scale` subresource: the number of replicas of a workload as an `autoscaling/v1` Scale.

use std::sync::Arc;

use binnacle_kinds::tables;
use binnacle_meta::{FieldError, FieldPath, GroupKind, Status, Text};
use binnacle_patch::{merge, strategic};
use binnacle_registry::{Context, Match, UpdateOptions, object};
use binnacle_request::Response;
use binnacle_resources::Verb;
use binnacle_schema::{Message, Object, Value, decode, json};

use super::{Answer, Call, check_name};
use crate::negotiate::{self, Output, Transform};
use crate::params::{self, FieldValidation, WriteKind};
use crate::patch_type::PatchType;
use crate::{body, managed, respond, table};

pub(crate) async fn handle(call: Call, verb: Verb) -> Answer {
    match verb {
        Verb::Get => get(call).await,
        Verb::Update => update(call).await,
        _ => patch(call).await,
    }
}

async fn get(call: Call) -> Answer {
    let output = call.output(false)?;
    let context = call.context(false);
    let stored = call.resource.get_object(&context, call.name(), Match::Consistent).await?;
    respond_scale(&context, &call, output, &stored.object)
}

async fn update(mut call: Call) -> Answer {
    let output = call.output(false)?;
    let bytes = body::read(&mut call.request).await?;
    let params = params::write(&call.request.query, WriteKind::Update)?;
    let context = call.context(params.dry_run);
    let expected = body::Expected { group: "autoscaling", version: "v1", kind: "Scale" };
    let encoding = negotiate::input(call.request.header("content-type"))?;
    let scale = body::typed(&context, &expected, message()?, encoding, &bytes, params.validation)?;
    check_name(&scale, call.name(), &context.namespace)?;
    write(call, context, output, &params.field_manager, &mut |_| Ok(scale.clone())).await
}

async fn patch(mut call: Call) -> Answer {
    let kind = PatchType::of(call.request.header("content-type")).ok_or_else(Status::router_unsupported_media_type)?;
    let output = call.output(false)?;
    let bytes = body::read(&mut call.request).await?;
    let params = params::write(&call.request.query, WriteKind::Patch)?;
    let context = call.context(params.dry_run);
    let message = message()?;
    let limits = binnacle_schema::Limits::default();
    let name = call.name().to_owned();
    let namespace = context.namespace.clone();
    let validation = params.validation;
    write(call, context, output, &params.field_manager, &mut |live| {
        let patched = match kind {
            PatchType::Json => binnacle_patch::json_patch::parse(&bytes)?.apply(live)?,
            PatchType::Merge | PatchType::Strategic => {
                let patch = json::parse(&bytes, &limits);
                let patch = patch.map_err(|e| Status::bad_request(format!("error decoding patch: {e}")))?;
                if kind == PatchType::Merge {
                    merge::apply(live, &patch)
                } else {
                    strategic::apply(live, &patch, message).map_err(|e| e.to_status())?
                }
            }
        };
        let decoded = decode::value(patched, message).map_err(|e| Status::bad_request(e.to_string()))?;
        if let (FieldValidation::Strict, Some(why)) = (validation, decoded.findings.strict_error()) {
            return Err(Status::bad_request(why));
        }
        check_name(&decoded.value, &name, &namespace)?;
        Ok(decoded.value)
    })
    .await
}

/// Writes the replicas of a scale that `change` makes of the present one.
async fn write(
    call: Call,
    context: Context,
    output: Output,
    field_manager: &str,
    change: &mut (dyn FnMut(Value) -> Result<Value, Status> + Send),
) -> Answer {
    let resource = Arc::clone(&call.resource);
    let manager = call.manager(&params::WriteParams { field_manager: field_manager.to_owned(), ..Default::default() });
    let options = UpdateOptions { subresource: Text::new_static("scale"), ..UpdateOptions::default() };
    let name = call.name().to_owned();
    let updated = resource
        .update(&context, &name, &options, &mut |live| {
            let Some(live) = live else { return Err(Status::not_found(&resource.group_resource(), &name)) };
            let present = scale_of(live);
            let wanted = change(present.clone())?;
            validate(&wanted)?;
            let mut object = live.clone();
            if let Some(precondition) =
                Some(object::uid(&wanted)).filter(|uid| !uid.is_empty() && *uid != object::uid(live))
            {
                let why = format!(
                    "Precondition failed: UID in precondition: {precondition}, UID in object meta: {}",
                    object::uid(live)
                );
                return Err(Status::conflict(&resource.group_resource(), &name, why));
            }
            let version = object::resource_version(&wanted);
            object::set_metadata(&mut object, "resourceVersion", Some(version.into()));
            object.make_at(&["spec"]).insert("replicas", wanted.int_at(&["spec", "replicas"]).unwrap_or(0));
            resource.from_stored(&mut object);
            managed::updated(&context, &resource, &manager, "scale", Some(live), &mut object);
            untimed(&mut object);
            resource.to_stored(&mut object);
            Ok(object)
        })
        .await?;
    respond_scale(&context, &call, output, &updated.stored.object)
}

/// Managers of a scale carry no time: the reference loses it when it moves their entries to the workload.
fn untimed(object: &mut Value) {
    let entries = object.at_mut(&["metadata", "managedFields"]).and_then(Value::as_list_mut);
    for entry in entries.into_iter().flatten().filter_map(Value::as_object_mut) {
        if entry.get("subresource").and_then(Value::as_str) == Some("scale") {
            entry.remove("time");
        }
    }
}

fn validate(scale: &Value) -> Result<(), Status> {
    let replicas = scale.int_at(&["spec", "replicas"]).unwrap_or(0);
    if replicas >= 0 {
        return Ok(());
    }
    let field = FieldPath::new("spec").child("replicas");
    let error = FieldError::invalid(&field, replicas, "must be greater than or equal to 0");
    Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), object::name(scale), &vec![error]))
}

/// The Scale of a workload (in its stored version).
fn scale_of(workload: &Value) -> Value {
    let mut metadata = Object::new();
    for member in ["name", "namespace", "uid", "resourceVersion", "creationTimestamp"] {
        if let Some(value) = workload.at(&["metadata", member]) {
            metadata.insert(member, value.clone());
        }
    }
    let mut spec = Object::new();
    let replicas = workload.int_at(&["spec", "replicas"]).unwrap_or(0);
    if replicas != 0 {
        spec.insert("replicas", replicas);
    }
    let mut status = Object::new();
    status.insert("replicas", workload.int_at(&["status", "replicas"]).unwrap_or(0));
    let selector = selector(workload);
    if !selector.is_empty() {
        status.insert("selector", selector);
    }
    let mut scale = Object::new();
    scale.insert("kind", "Scale");
    scale.insert("apiVersion", "autoscaling/v1");
    scale.insert("metadata", metadata);
    scale.insert("spec", spec);
    scale.insert("status", status);
    Value::Object(scale)
}

/// The workload's selector as text: a LabelSelector, or the plain map of a replication controller.
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
    // Stable: terms of one key keep the order in which they were added.
    terms.sort_by(|a, b| a.0.cmp(&b.0));
    terms.into_iter().map(|(_, term)| term).collect::<Vec<_>>().join(",")
}

fn respond_scale(context: &Context, call: &Call, output: Output, workload: &Value) -> Result<Response, Status> {
    let scale = scale_of(workload);
    match output.transform {
        Transform::None => Ok(respond::plain(output, 200, &scale, message()?)),
        _ => respond::object(&call.resource, output, table::Include::Metadata, 200, workload.clone()),
    }
}

fn message() -> Result<&'static Message, Status> {
    tables::kind("autoscaling", "v1", "Scale").ok_or_else(|| Status::internal("the schema of Scale is missing"))
}
