//! PATCH with any patch type: the live object is patched, then written like an update.

use std::sync::Arc;

use binnacle_meta::{GroupVersion, GroupVersionKind, Status, StatusCause, StatusReason};
use binnacle_patch::apply;
use binnacle_registry::{Context, RequestObject, Resource, UpdateOptions, object};
use binnacle_schema::decode::{DecodedObject, EmptyFields};
use binnacle_schema::{Findings, Limits, Value, cbor, decode, json, yaml};
use binnacle_scheme::CustomSource;

use super::create_gate::AuthorizerGate;
use super::patcher::{ExpectedKind, Patch};
use super::{Call, HandlerResult, check_name};
use crate::params::{self, FieldValidation, WriteKind, WriteParams};
use crate::patch_type::{ApplyFormat, PatchType};
use crate::{audit, body, custom_resource, managed_fields, respond};

/// The resources that kube-apiserver creates by an apply patch to the status of a missing object.
const CREATED_BY_STATUS: [&str; 2] = ["services", "validatingadmissionpolicies"];

pub(crate) async fn handle(mut call: Call) -> HandlerResult {
    let kind = patch_type(&call)?;
    let output = call.output(false)?;
    let include = call.include(output)?;
    let bytes = body::read(&mut call.request).await?;
    let write_kind = if kind.is_apply() { WriteKind::Apply } else { WriteKind::Patch };
    let params = params::write(&call.request.query, write_kind)?;
    audit::record_patch(&call.request.record, &bytes, kind);
    let context = call.context(params.options());
    let resource = Arc::clone(&call.resource);
    // An error in the patch is returned later, because a missing object is reported first.
    let patch = (!kind.is_apply()).then(|| Patch::parse(kind, &bytes, params.validation));
    let configuration = match kind {
        PatchType::Apply(format) => Some(ApplyConfiguration::parse(format, &bytes, &params)),
        _ => None,
    };
    let manager = call.manager(&params);
    let options = UpdateOptions {
        subresource: call.subresource.clone(),
        create: (kind.is_apply() && call.subresource.is_empty()).then(|| AuthorizerGate::for_call(&call)),
        uid: None,
    };
    let name = call.name().to_owned();
    let mut change = |live: Option<&Value>| {
        let target =
            Target { context: &context, resource: &resource, manager: &manager, subresource: &call.subresource };
        let object = match (&configuration, &patch, live) {
            (Some(configuration), _, live) => configuration.as_ref().map_err(Clone::clone)?.apply(&target, live)?,
            (None, Some(patch), Some(live)) => target.patch(patch.as_ref().map_err(Clone::clone)?, live)?,
            _ => return Err(Status::not_found(&resource.group_resource(), &name)),
        };
        check_name(&object, &name, &resource, &context)?;
        // Unlike in other writes, duplicate owners are only removed after admission.
        Ok(resource.to_write_object(object))
    };
    let updated = match kind {
        // An apply always keeps managed fields.
        PatchType::Apply(_) => {
            let updated = resource.update(&context, &name, &options, &mut change).await;
            if updated.as_ref().is_err_and(|status| status.is(StatusReason::NotFound))
                && CREATED_BY_STATUS.contains(&resource.description.plural.as_str())
            {
                // Errors of the configuration come before that of the missing object, whose status it would change.
                change(None)?;
            }
            updated?
        }
        _ => managed_fields::update(&context, &resource, &name, &options, &mut change).await?,
    };
    let code = if updated.created { 201 } else { 200 };
    respond::object(&resource, output, include, code, updated.stored)
}

/// Returns the patch type of a body.
///
/// # Errors
///
/// Returns 415; for custom resources with the handler's message, because they have no router.
pub(crate) fn patch_type(call: &Call) -> Result<PatchType, Status> {
    let is_custom = call.resource.collection.kind.custom.is_some();
    let content_type = call.request.header("content-type").unwrap_or_default();
    PatchType::of(content_type, is_custom, call.encodings.has_cbor())
}

/// The object to be patched, and the request.
struct Target<'a> {
    context: &'a Context,
    resource: &'a Resource,
    manager: &'a str,
    subresource: &'a str,
}

impl Target<'_> {
    /// Returns the new object with its managed fields. `live` is in the stored version.
    fn patch(&self, patch: &Patch, live: &Value) -> Result<RequestObject, Status> {
        let resource = self.resource;
        let description = &resource.description;
        let expected = ExpectedKind {
            group: &description.group,
            version: &description.version,
            kind: &description.kind,
            message: &resource.message,
            kinds: resource.collection.kinds(),
            scheme: body::scheme_location(&description.group),
            resource: Some(resource),
        };
        let present = || {
            let mut versioned = managed_fields::in_resource_version(resource, live).into_owned();
            unpack(&mut versioned);
            if resource.collection.kind.custom.is_some() {
                json::normalize_numbers(&mut versioned);
            }
            versioned
        };
        let mut decoded = patch.apply(self.context, &expected, &present)?;
        if resource.collection.kind.custom.is_some() {
            let sent = decoded.value.str_at(&["apiVersion"]);
            // A version with a leading slash has no group.
            let version = sent.strip_prefix('/').unwrap_or(sent).to_owned();
            if version.is_empty() {
                check_name(&decoded.value, &self.context.name, resource, self.context)?;
                // kube-apiserver notices the missing version when it stores the object.
                if object::resource_version(&decoded.value).is_empty() {
                    return Err(resource.version_required(&self.context.name, &decoded.value));
                }
                return Err(Status::internal(custom_resource::NO_VERSION));
            }
            if version != sent {
                decoded.value.make_object().insert("apiVersion", version);
            }
        }
        let mut object = resource.complete(decoded.value, decoded.empty_fields)?;
        object.with_fields_of_apply(|object| {
            managed_fields::track_update(self.context, resource, self.manager, self.subresource, Some(live), object);
        });
        Ok(object)
    }
}

impl Target<'_> {
    /// Returns true if other managers have written an object in a served version other than that of the request.
    /// kube-apiserver converts the result of an apply to these versions first.
    fn has_managers_of_other_versions(&self, live: &Value) -> bool {
        let resource = self.resource;
        live.list_at(&["metadata", "managedFields"]).iter().any(|entry| {
            let version = entry.str_at(&["apiVersion"]);
            let is_served = |version: &GroupVersion| {
                let kinds = resource.collection.kinds();
                kinds.kind(&version.group, &version.version, &resource.description.kind).is_some()
            };
            // Managers of events through the other group are dropped before.
            let is_core = |version: &str| !version.contains('/');
            version != resource.api_version()
                && is_core(version) == is_core(resource.api_version())
                && entry.str_at(&["manager"]) != self.manager
                && GroupVersion::parse(version).as_ref().is_some_and(is_served)
        })
    }
}

/// The configuration of a server-side apply request.
pub(crate) struct ApplyConfiguration {
    pub(crate) value: Value,
    pub(crate) force: bool,
    validation: FieldValidation,
    /// Duplicate members.
    duplicates: Findings,
}

impl ApplyConfiguration {
    /// Parses the body of an apply: CBOR, or YAML, which includes JSON.
    pub(crate) fn parse(format: ApplyFormat, bytes: &[u8], params: &WriteParams) -> Result<Self, Status> {
        let undecodable = |why: String| Status::bad_request(format!("error decoding YAML: {why}"));
        let build = |value, duplicates| Self {
            value,
            force: params.force == Some(true),
            validation: params.validation,
            duplicates,
        };
        if format == ApplyFormat::Cbor {
            let object = cbor::parse_object(bytes, &Limits::default());
            let object = object.map_err(|error| body::cbor_failure(error, undecodable))?;
            return Ok(build(Value::Object(object), Findings::default()));
        }
        let (value, found) = yaml::parse(bytes, &Limits::default())
            .map_err(|error| undecodable(format!("error converting YAML to JSON: {error}")))?;
        if !matches!(value, Value::Object(_) | Value::Null) {
            let found = json::json_type(&value);
            return Err(undecodable(format!(
                "error unmarshaling JSON: while decoding JSON: json: cannot unmarshal {found} into Go value of type map[string]interface {{}}"
            )));
        }
        let mut duplicates = Findings::default();
        duplicates.extend(found);
        Ok(build(value, duplicates))
    }

    /// Returns 400 for another kind.
    pub(crate) fn check(&self, expected: &GroupVersionKind) -> Result<(), Status> {
        let (api_version, kind) = (self.value.str_at(&["apiVersion"]), self.value.str_at(&["kind"]));
        let given = GroupVersion::parse(api_version).map(|given| given.with_kind(kind));
        if given.as_ref() == Some(expected) {
            return Ok(());
        }
        let given = given.unwrap_or_else(|| GroupVersionKind::new("", "", ""));
        Err(Status::bad_request(format!("invalid object type: {given}")))
    }

    /// Applies `fieldValidation` to duplicate members, which kube-apiserver checks after the apply.
    pub(crate) fn validate_duplicates(&self, context: &Context) -> Result<(), Status> {
        body::apply_field_validation(context, &self.duplicates, self.validation, |_| {
            let list: Vec<String> = self.duplicates.iter().map(ToString::to_string).collect();
            let why = list.join(", ");
            Status::bad_request(format!("error strict decoding YAML: error converting YAML to JSON: {why}"))
        })
    }

    /// Applies the configuration: the manager owns its fields. Omitted fields, including the name, do not change.
    fn apply(&self, target: &Target<'_>, live: Option<&Value>) -> Result<RequestObject, Status> {
        let (resource, config) = (target.resource, &self.value);
        self.check(&resource.kind())?;
        let versioned = live.map(|live| managed_fields::in_resource_version(resource, live));
        let request = apply::Apply {
            update: resource.update_by(target.context, target.manager, target.subresource),
            force: self.force,
            versions: &managed_fields::Versions { context: target.context, resource },
        };
        let applied = apply::apply(&request, versioned.as_deref(), config).map_err(|error| apply_failure(&error))?;
        let failed = |why: String| Status::unknown(500, &why);
        let mut unpruned = false;
        let decoded = match &resource.collection.kind.custom {
            Some(schema) => {
                let mut value = applied.object;
                // If the object does not change, no defaults are set.
                if !applied.changed {
                    self.validate_duplicates(target.context)?;
                    return Ok(value.into());
                }
                unpruned = schema.prune(&mut value, CustomSource::Apply).map_err(failed)?.is_unpruned;
                DecodedObject { value, findings: Findings::default(), empty_fields: EmptyFields::default() }
            }
            // kube-apiserver ignores unknown members here, which are only in structs without fields.
            None => {
                let mut applied = applied.object;
                let build = decode::convert_numbers(&mut applied, &resource.message);
                let build =
                    build.and_then(|()| decode::value(applied, &resource.message).map_err(|error| error.to_string()));
                build.map_err(|why| {
                    let object = match live.is_some_and(|live| target.has_managers_of_other_versions(live)) {
                        true => "object".to_owned(),
                        false => format!("object ({}) to proper version", apply::describe(config)),
                    };
                    let kind = resource.kind();
                    failed(format!(
                        "failed to convert new {object}: unable to convert unstructured object to {kind}: {why}"
                    ))
                })?
            }
        };
        self.validate_duplicates(target.context)?;
        let object = resource.complete(decoded.value, decoded.empty_fields)?.unpruned(unpruned);
        let uid = object::uid(&object);
        if live.is_none() && !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(&resource.group_resource(), &target.context.name, why));
        }
        Ok(object)
    }
}

/// Returns the status for a failed apply: conflicts or schema violations.
pub(crate) fn apply_failure(error: &apply::ApplyError) -> Status {
    match error {
        apply::ApplyError::HasManagers => Status::bad_request(error.to_string()),
        apply::ApplyError::Failed(why) => Status::unknown(500, why),
        apply::ApplyError::Conflicts(conflicts) => {
            let cause = |conflict: &apply::Conflict| StatusCause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.message.clone(),
                field: conflict.field.clone(),
            };
            let causes = conflicts.iter().take(apply::ApplyError::SHOWN).map(cause).collect();
            Status::apply_conflict(causes, error.to_string())
        }
    }
}

/// Parses the raw text of free-form parts, because patches apply to the object's JSON. Managed fields remain text.
fn unpack(object: &mut Value) {
    for (name, member) in object.as_object_mut().into_iter().flat_map(|members| members.iter_mut()) {
        if name != "metadata" {
            json::unpack(member);
        }
    }
}
