//! The `scale` subresource: the number of replicas of a workload as an `autoscaling/v1` Scale.

use std::sync::Arc;

use binnacle_kinds::tables;
use binnacle_meta::{FieldError, FieldPath, GroupKind, Status, Text};
use binnacle_patch::{apply, json_patch, merge, strategic};
use binnacle_registry::{Context, Match, UpdateOptions, object};
use binnacle_request::Response;
use binnacle_resources::Verb;
use binnacle_schema::{Limits, Message, Object, Value, decode, json};

use super::patch::{configuration, refused};
use super::{Answer, Call, check_name};
use crate::negotiate::{self, Output, Transform};
use crate::params::{self, FieldValidation, WriteKind, WriteParams};
use crate::patch_type::PatchType;
use crate::{audit, body, respond, table};

const SCALE: &str = "autoscaling/v1";

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
    respond_scale(&call, output, &stored.object)
}

async fn update(mut call: Call) -> Answer {
    let output = call.output(false)?;
    let bytes = body::read(&mut call.request).await?;
    let params = params::write(&call.request.query, WriteKind::Update)?;
    let context = call.context(params.dry_run);
    let expected = body::Expected { group: "autoscaling", version: "v1", kind: "Scale" };
    let encoding = negotiate::input(call.request.header("content-type"))?;
    let (scale, _) = body::typed(&context, &expected, message()?, encoding, &bytes, params.validation)?;
    audit::note_request_object(&call.request.record, &scale);
    check_name(&scale, call.name(), &context.namespace)?;
    write(call, context, output, &params, &mut |present, update| {
        let mut wanted = scale.clone();
        apply::track_update(update, Some(&present), &mut wanted);
        Ok(wanted)
    })
    .await
}

async fn patch(mut call: Call) -> Answer {
    let kind = PatchType::of(call.request.header("content-type")).ok_or_else(Status::router_unsupported_media_type)?;
    let output = call.output(false)?;
    let bytes = body::read(&mut call.request).await?;
    let write_kind = if kind == PatchType::Apply { WriteKind::Apply } else { WriteKind::Patch };
    let params = params::write(&call.request.query, write_kind)?;
    audit::note_patch(&call.request.record, &bytes, kind == PatchType::Apply);
    let context = call.context(params.dry_run);
    let message = message()?;
    let undecodable = |e: json::JsonError| Status::bad_request(format!("error decoding patch: {e}"));
    let free_form = || json::parse(&bytes, &Limits::default()).map_err(undecodable);
    let (name, namespace) = (call.name().to_owned(), context.namespace.clone());
    let (validation, force) = (params.validation, params.force == Some(true));
    let config = match kind {
        PatchType::Apply => Some(configuration(&context, &bytes, validation)?),
        _ => None,
    };
    write(call, context, output, &params, &mut |present, update| {
        let patched = match (&config, kind) {
            (Some(config), _) => {
                check_name(config, &name, &namespace)?;
                let request = apply::Apply { update: *update, force, versions: &OneVersion };
                apply::apply(&request, Some(&present), config).map_err(|error| refused(&error))?
            }
            (None, PatchType::Json) => json_patch::parse(&bytes)?.apply(present.clone())?,
            (None, PatchType::Strategic) => {
                strategic::apply(present.clone(), &free_form()?, message).map_err(|e| e.to_status())?
            }
            (None, _) => merge::apply(present.clone(), &free_form()?),
        };
        let decoded = decode::value(patched, message).map_err(|e| Status::bad_request(e.to_string()))?;
        if let (FieldValidation::Strict, Some(why)) = (validation, decoded.findings.strict_error()) {
            return Err(Status::bad_request(why));
        }
        let mut wanted = decoded.value;
        check_name(&wanted, &name, &namespace)?;
        if config.is_none() {
            apply::track_update(update, Some(&present), &mut wanted);
        }
        Ok(wanted)
    })
    .await
}

/// A scale has one version.
struct OneVersion;

impl apply::Versions for OneVersion {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &'static Message)> {
        (api_version == SCALE).then(|| Some((object.clone(), message().ok()?))).flatten()
    }
}

/// Makes the wanted scale of the present one, managers included.
type Change<'a> = dyn FnMut(Value, &apply::Update<'_>) -> Result<Value, Status> + Send + 'a;

/// Writes the replicas of the scale that `change` makes.
async fn write(call: Call, context: Context, output: Output, params: &WriteParams, change: &mut Change<'_>) -> Answer {
    let resource = Arc::clone(&call.resource);
    let manager = call.manager(params);
    let options = UpdateOptions { subresource: Text::new_static("scale"), ..UpdateOptions::default() };
    let name = call.name().to_owned();
    let message = message()?;
    let replicas = [(resource.api_version(), "spec.replicas")];
    let managers = apply::Scale { api_version: resource.api_version(), replicas: &replicas };
    let update = apply::Update {
        message,
        api_version: SCALE,
        manager: &manager,
        subresource: "scale",
        now: context.now_seconds(),
        reset: &[],
    };
    let updated = resource
        .update(&context, &name, &options, &mut |live| {
            let Some(live) = live else { return Err(Status::not_found(&resource.group_resource(), &name)) };
            let owners = live.list_at(&["metadata", "managedFields"]);
            let mut present = scale_of(live);
            object::set_metadata(&mut present, "managedFields", managers.to_scale(owners));
            let wanted = change(present, &update)?;
            validate(&wanted)?;
            let uid = object::uid(&wanted);
            if !uid.is_empty() && uid != object::uid(live) {
                return Err(resource.uid_conflict(&context, &name, uid, object::uid(live)));
            }
            let mut object = live.clone();
            let version = object::resource_version(&wanted);
            object::set_metadata(&mut object, "resourceVersion", Some(version.into()));
            object.make_at(&["spec"]).insert("replicas", wanted.int_at(&["spec", "replicas"]).unwrap_or(0));
            let owners = managers.to_object(owners, wanted.list_at(&["metadata", "managedFields"]));
            object::set_metadata(&mut object, "managedFields", owners);
            Ok(object)
        })
        .await?;
    respond_scale(&call, output, &updated.stored.object)
}

fn validate(scale: &Value) -> Result<(), Status> {
    let replicas = scale.int_at(&["spec", "replicas"]).unwrap_or(0);
    if replicas >= 0 {
        return Ok(());
    }
    let field = FieldPath::new("spec").child("replicas");
    let error = FieldError::invalid(&field, replicas, "must be greater than or equal to 0");
    Err(Status::invalid(&GroupKind::new("autoscaling", "Scale"), object::name(scale), &error.into()))
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
    scale.insert("apiVersion", SCALE);
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

fn respond_scale(call: &Call, output: Output, workload: &Value) -> Result<Response, Status> {
    let scale = scale_of(workload);
    match output.transform {
        Transform::None => Ok(respond::plain(output, 200, &scale, message()?)),
        _ => respond::object(&call.resource, output, table::Include::Metadata, 200, workload.clone()),
    }
}

fn message() -> Result<&'static Message, Status> {
    tables::kind("autoscaling", "v1", "Scale").ok_or_else(|| Status::internal("the schema of Scale is missing"))
}
