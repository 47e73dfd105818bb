//! The `scale` subresource: the number of replicas of a workload as an `autoscaling/v1` Scale.

use std::sync::Arc;

use binnacle_fields::autoscaling::v1::{Scale, ScaleSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, metadata};
use binnacle_meta::{GroupResource, GroupVersionKind, Status, Text};
use binnacle_patch::apply;
use binnacle_registry::{Context, Resource, UpdateOptions, object, record_request_object};
use binnacle_request::Response;
use binnacle_schema::{Message, Value, decode};
use binnacle_scheme::{CustomSource, Verb};

use super::patch::patch_type;
use super::patch::{ApplyConfiguration, apply_failure};
use super::patcher::{ExpectedKind, Patch};
use super::scale_admission::ScaleAdmission;
use super::scale_columns::ScaleColumns;
use super::scale_object::{
    GROUP, KIND, SCALE, VERSION, at, check_parents, replicas_by_version, replicas_path, scale_of, set_replicas,
    spec_replicas, validate,
};
use super::{Call, HandlerResult, check_name};
use crate::negotiate::Output;
use crate::params::{self, WriteKind, WriteParams};
use crate::patch_type::PatchType;
use crate::{audit, body, subresources};

pub(crate) async fn handle(call: Call, verb: Verb) -> HandlerResult {
    match verb {
        Verb::Get => get(call).await,
        Verb::Update => update(call).await,
        _ => patch(call).await,
    }
}

async fn get(call: Call) -> HandlerResult {
    let output = call.output(false)?;
    params::reject_export(&call.request.query)?;
    let context = call.read_context();
    let version = super::get::version(&call, &context)?;
    let stored = call.resource.get_object(&context, call.name(), version).await?;
    if let Some(fields) = &call.resource.collection.kind.scale
        && at(&stored.object, &fields.spec_replicas).is_none()
    {
        let path = fields.spec_replicas.join(".");
        return Err(Status::internal(format!("the spec replicas field \".{path}\" does not exist")));
    }
    respond_scale(&call, output, &stored.object)
}

async fn update(mut call: Call) -> HandlerResult {
    let output = call.output(false)?;
    let bytes = body::read(&mut call.request).await?;
    let params = params::write(&call.request.query, WriteKind::Update)?;
    let context = call.context(params.options());
    let resource = Arc::clone(&call.resource);
    let kinds = resource.collection.kinds();
    let expected = body::ExpectedKind { group: GROUP, version: VERSION, kind: KIND, kinds };
    let encoding = call.input()?;
    let decoded = body::decode(&context, &expected, message(&resource)?, encoding, &bytes, params.validation);
    if decoded.is_err() && resource.collection.kind.custom.is_some() {
        return Err(Status::bad_request(UNDECODABLE));
    }
    let (mut scale, _) = decoded?;
    if object::namespace(&scale).is_empty() {
        object::set_metadata(&mut scale, ObjectMeta::NAMESPACE.name(), Some(context.namespace.as_str().into()));
    }
    record_request_object(&call.request.record, &scale);
    check_name(&scale, call.name(), &call.resource, &context)?;
    let uid = Some(object::uid(&scale)).filter(|uid| !uid.is_empty()).map(Text::from);
    write_replicas(call, context, (output, uid), &params, &mut |_, live_scale, update| {
        let mut new_scale = scale.clone();
        apply::track_update(update, Some(&live_scale), &mut new_scale);
        Ok(new_scale)
    })
    .await
}

/// kube-apiserver's error for an undecodable scale of a custom resource: it looks up the kind for the message in a
/// scheme without scales.
const UNDECODABLE: &str =
    "no kind is registered for the type v1.Scale in scheme \"pkg/apiserver/customresource_handler.go:781\"";

/// The location in kube-apiserver's sources at which the scheme for scales of custom resources is defined.
const CUSTOM_SCHEME: &str = "k8s.io/client-go/scale/util.go:146";

async fn patch(mut call: Call) -> HandlerResult {
    let kind = patch_type(&call)?;
    let output = call.output(false)?;
    let bytes = body::read(&mut call.request).await?;
    let write_kind = if kind.is_apply() { WriteKind::Apply } else { WriteKind::Patch };
    let params = params::write(&call.request.query, write_kind)?;
    audit::record_patch(&call.request.record, &bytes, kind);
    let context = call.context(params.options());
    let (name, resource) = (call.name().to_owned(), Arc::clone(&call.resource));
    let message = message(&resource)?;
    let is_custom = resource.collection.kind.custom.is_some();
    let expected = ExpectedKind {
        group: GROUP,
        version: VERSION,
        kind: KIND,
        message,
        kinds: resource.collection.kinds(),
        scheme: if is_custom { CUSTOM_SCHEME } else { body::scheme_location(GROUP) },
        resource: None,
    };
    let validation = params.validation;
    write_replicas(call, context, (output, None), &params, &mut |context, live_scale, update| {
        // The text is read after the live object, which is missing first.
        let new_scale = match kind {
            PatchType::Apply(format) => {
                let config = ApplyConfiguration::parse(format, &bytes, &params)?;
                apply_configuration(context, &config, &live_scale, update, is_custom)?
            }
            _ => {
                let patch = Patch::parse(kind, &bytes, validation)?;
                let mut new_scale = patch.apply(context, &expected, &|| live_scale.clone())?.value;
                apply::track_update(update, Some(&live_scale), &mut new_scale);
                new_scale
            }
        };
        check_name(&new_scale, &name, &resource, context)?;
        Ok(new_scale)
    })
    .await
}

/// Applies a configuration to a scale.
///
/// kube-apiserver fails to convert scales of custom resources here, so only an apply that does not change the scale
/// succeeds, if the scale has managers.
fn apply_configuration(
    context: &Context,
    config: &ApplyConfiguration,
    live_scale: &Value,
    update: &apply::Update<'_>,
    is_custom: bool,
) -> Result<Value, Status> {
    config.check(&GroupVersionKind::new(GROUP, VERSION, KIND))?;
    let not_converted = |action: String| {
        let why = "request to convert CR to an invalid group/version: autoscaling/v1";
        Status::unknown(500, &format!("{action} to proper version: {why}"))
    };
    if is_custom && metadata(live_scale).at(ObjectMeta::MANAGED_FIELDS).is_empty() {
        let live = "failed to convert live object (/; autoscaling/v1, Kind=Scale)";
        return Err(not_converted(format!("failed to create manager for existing fields: {live}")));
    }
    let request = apply::Apply { update: *update, force: config.force, versions: &OneVersion(update.message) };
    let applied = apply::apply(&request, Some(live_scale), &config.value).map_err(|error| apply_failure(&error))?;
    if is_custom && applied.changed {
        return Err(not_converted(format!("failed to convert new object ({})", apply::describe(&config.value))));
    }
    let decoded =
        decode::value(applied.object, update.message).map_err(|error| Status::unknown(500, &error.to_string()))?;
    config.validate_duplicates(context)?;
    Ok(decoded.value)
}

/// The value of absent replicas of a custom resource, as in kube-apiserver.
const UNSET: i64 = i32::MIN as i64;

/// The only version of a scale.
struct OneVersion<'a>(&'a Message);

impl apply::Versions for OneVersion<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        (api_version == SCALE).then(|| (object.clone(), self.0))
    }
}

/// A function from the current scale to the new one, with its managers.
type Change<'a> = dyn FnMut(&Context, Value, &apply::Update<'_>) -> Result<Value, Status> + Send + 'a;

/// Writes the replicas of the scale that `change` returns. With a UID, the object must have it.
async fn write_replicas(
    call: Call,
    context: Context,
    (output, uid): (Output, Option<Text>),
    params: &WriteParams,
    change: &mut Change<'_>,
) -> HandlerResult {
    let resource = ScaleAdmission::wrap(&call.resource);
    let manager = call.manager(params);
    let options = UpdateOptions { subresource: Text::new_static("scale"), uid, ..UpdateOptions::default() };
    let name = call.name().to_owned();
    let message = message(&resource)?;
    let scale = resource.collection.kind.scale.as_ref();
    let path = replicas_path(scale);
    let replicas = replicas_by_version(scale, resource.api_version());
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
            let owners = metadata(live).at(ObjectMeta::MANAGED_FIELDS).list();
            let mut live_scale = scale_of(scale, live)?;
            let unset = scale.is_some_and(|fields| at(live, &fields.spec_replicas).is_none());
            if unset {
                FieldMut::<Scale>::root(&mut live_scale).entry(Scale::SPEC).set(ScaleSpec::REPLICAS, UNSET);
            }
            object::set_metadata(&mut live_scale, "managedFields", managers.to_scale(owners));
            let new_scale = change(&context, live_scale, &update)?;
            let new_replicas = spec_replicas(&new_scale);
            if scale.is_none() {
                validate(&new_scale)?;
            } else if new_replicas == Some(UNSET) {
                return Err(Status::bad_request(format!("the spec replicas field \".{path}\" cannot be empty")));
            }
            let uid = object::uid(&new_scale);
            if !uid.is_empty() && uid != object::uid(live) {
                let found = object::uid(live);
                if scale.is_some() {
                    return Err(resource.uid_conflict(&context, &name, uid, found));
                }
                let why = format!("Precondition failed: UID in precondition: {uid}, UID in object meta: {found}");
                let described = &resource.description;
                let resource = GroupResource::new(described.group.clone(), format!("{}/scale", described.plural));
                return Err(Status::conflict(&resource, &name, why));
            }
            let mut object = live.clone();
            let version = object::resource_version(&new_scale);
            // A scale of a custom resource without a version keeps the current version.
            if scale.is_none() || !version.is_empty() {
                object::set_metadata(&mut object, "resourceVersion", Some(version.into()));
            }
            check_parents(scale, &object)?;
            set_replicas(scale, &mut object, new_replicas.unwrap_or(0));
            let owners = managers.to_object(owners, metadata(&new_scale).at(ObjectMeta::MANAGED_FIELDS).list());
            object::set_metadata(&mut object, "managedFields", owners);
            Ok(object.into())
        })
        .await?;
    let mut object = updated.stored.object;
    // The schema may not declare the replicas, which are then pruned when the object is decoded again.
    if let Some(custom) = &resource.collection.kind.custom {
        custom.prune(&mut object, CustomSource::Server).map_err(|why| Status::unknown(500, &why))?;
    }
    respond_scale(&call, output, &object)
}

fn respond_scale(call: &Call, output: Output, workload: &Value) -> Result<Response, Status> {
    let scale = scale_of(call.resource.collection.kind.scale.as_ref(), workload)?;
    let columns = ScaleColumns { is_custom: call.resource.collection.kind.custom.is_some() };
    let include = call.include(output)?;
    subresources::respond(output, include, 200, scale, message(&call.resource)?, Some(&columns))
}

fn message(resource: &Resource) -> Result<&Message, Status> {
    let kinds = resource.collection.kinds();
    kinds.kind(GROUP, VERSION, KIND).ok_or_else(|| Status::internal("the schema of Scale is missing"))
}
