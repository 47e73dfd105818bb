//! PATCH in its four kinds: the object as it stands, changed by description, then written like an update.

use std::sync::Arc;

use binnacle_kinds::tables;
use binnacle_meta::{FieldError, FieldPath, GroupKind, GroupVersion, Status, StatusCause};
use binnacle_patch::{apply, json_patch, merge, strategic};
use binnacle_registry::{Context, Resource, UpdateOptions, object};
use binnacle_schema::decode::{self, Decoded};
use binnacle_schema::{Findings, Limits, Message, Value, json, yaml};

use super::{Answer, Call, DUPLICATE_OWNERS, check_name};
use crate::create_gate::AskAuthorizers;
use crate::params::{self, FieldValidation, WriteKind, WriteParams};
use crate::patch_type::PatchType;
use crate::{audit, body, managed, respond};

pub(crate) async fn handle(mut call: Call) -> Answer {
    let kind = PatchType::of(call.request.header("content-type")).ok_or_else(Status::router_unsupported_media_type)?;
    let output = call.output(false)?;
    let include = call.include(output)?;
    let bytes = body::read(&mut call.request).await?;
    let write_kind = if kind == PatchType::Apply { WriteKind::Apply } else { WriteKind::Patch };
    let params = params::write(&call.request.query, write_kind)?;
    audit::note_patch(&call.request.record, &bytes, kind == PatchType::Apply);
    let context = call.context(params.dry_run);
    let resource = Arc::clone(&call.resource);
    let patch = Patch::parse(&context, kind, &bytes, &params)?;
    let manager = call.manager(&params);
    let options = UpdateOptions {
        subresource: call.subresource.clone(),
        create: (kind == PatchType::Apply && call.subresource.is_empty()).then(|| AskAuthorizers::about(&call)),
        uid: None,
    };
    let name = call.name().to_owned();
    let mut change = |live: Option<&Value>| {
        let target =
            Target { context: &context, resource: &resource, manager: &manager, subresource: &call.subresource };
        let mut object = patch.apply(&target, &name, live)?;
        if object::dedup_owner_references(&mut object) {
            context.warn(DUPLICATE_OWNERS);
        }
        resource.to_stored(&mut object);
        Ok(object)
    };
    let updated = match kind {
        // Which is nothing without its notes.
        PatchType::Apply => resource.update(&context, &name, &options, &mut change).await?,
        _ => managed::update(&context, &resource, &name, &options, &mut change).await?,
    };
    let code = if updated.created { 201 } else { 200 };
    respond::object(&resource, output, include, code, updated.stored.object)
}

/// A patch that was read, ready to be applied, and again if somebody else is quicker.
struct Patch {
    kind: Kind,
    validation: FieldValidation,
    /// Members that the patch itself gives twice.
    duplicates: Findings,
}

enum Kind {
    Json(json_patch::Patch),
    Merge(Value),
    Strategic(Value),
    Apply { config: Value, force: bool },
}

/// What a patch is applied to, and for whom.
struct Target<'a> {
    context: &'a Context,
    resource: &'a Resource,
    manager: &'a str,
    subresource: &'a str,
}

impl Patch {
    fn parse(context: &Context, kind: PatchType, bytes: &[u8], params: &WriteParams) -> Result<Self, Status> {
        let limits = Limits::default();
        let mut duplicates = Findings::default();
        let undecodable = |why: String| Status::bad_request(format!("error decoding patch: {why}"));
        let kind = match kind {
            PatchType::Json => Kind::Json(json_patch::parse(bytes)?),
            PatchType::Merge | PatchType::Strategic => {
                let (value, found) = json::parse_strict(bytes, &limits).map_err(|e| undecodable(e.to_string()))?;
                duplicates = found;
                let Value::Object(_) = value else {
                    let found = kind_of(&value);
                    let why = format!("json: cannot unmarshal {found} into Go value of type map[string]interface {{}}");
                    return Err(undecodable(why));
                };
                if kind == PatchType::Merge { Kind::Merge(value) } else { Kind::Strategic(value) }
            }
            PatchType::Apply => {
                let config = configuration(context, bytes, params.validation)?;
                Kind::Apply { config, force: params.force == Some(true) }
            }
        };
        Ok(Self { kind, validation: params.validation, duplicates })
    }

    /// The new object in the resource's version, with its managed fields. `live` is in the stored version.
    fn apply(&self, target: &Target<'_>, name: &str, live: Option<&Value>) -> Result<Value, Status> {
        if let Kind::Apply { config, force } = &self.kind {
            return self.server_side(target, name, live, config, *force);
        }
        let Some(live) = live else { return Err(Status::not_found(&target.resource.group_resource(), name)) };
        let message = target.resource.message;
        let patched = || {
            let mut versioned = managed::versioned(target.resource, live).into_owned();
            unpack(&mut versioned);
            Ok(match &self.kind {
                Kind::Json(patch) => patch.apply(versioned)?,
                Kind::Merge(patch) => merge::apply(versioned, patch),
                Kind::Strategic(patch) => strategic::apply(versioned, patch, message).map_err(|e| e.to_status())?,
                Kind::Apply { .. } => versioned,
            })
        };
        let decoded = self.typed(target, message, &patched)?;
        let mut object = target.resource.complete(target.context, decoded.value, decoded.empties);
        check_name(&object, name, &target.context.namespace)?;
        managed::updated(target.context, target.resource, target.manager, target.subresource, Some(live), &mut object);
        Ok(object)
    }

    /// Server-side apply: the fields of the configuration become the manager's.
    fn server_side(
        &self,
        target: &Target<'_>,
        name: &str,
        live: Option<&Value>,
        config: &Value,
        force: bool,
    ) -> Result<Value, Status> {
        let resource = target.resource;
        let kind = resource.kind();
        let (api_version, given_kind) = (config.str_at(&["apiVersion"]), config.str_at(&["kind"]));
        let given = GroupVersion::parse(api_version).unwrap_or_else(|| GroupVersion::new("", api_version));
        if given != kind.group_version() || given_kind != kind.kind {
            return Err(Status::bad_request(format!("invalid object type: {}", given.with_kind(given_kind))));
        }
        if !config.list_at(&["metadata", "managedFields"]).is_empty() {
            return Err(Status::bad_request("metadata.managedFields must be nil"));
        }
        let uid = object::uid(config);
        if live.is_none() && !uid.is_empty() {
            let why =
                format!("uid mismatch: the provided object specified uid {uid}, and no existing object was found");
            return Err(Status::conflict(&resource.group_resource(), name, why));
        }
        check_name(config, name, &target.context.namespace)?;
        let versioned = live.map(|live| managed::versioned(resource, live));
        let request = apply::Apply {
            update: resource.update_by(target.context, target.manager, target.subresource),
            force,
            versions: &managed::Versions { resource },
        };
        let applied = apply::apply(&request, versioned.as_deref(), config).map_err(|error| refused(&error))?;
        let decoded =
            decode::value(applied, resource.message).map_err(|error| Status::unknown(500, &error.to_string()))?;
        body::judge(target.context, &decoded.findings, self.validation, |why| Status::unknown(500, why))?;
        Ok(resource.complete(target.context, decoded.value, decoded.empties))
    }

    /// The free-form result of a patch as an object of its kind. The patch is applied once more where a refusal shows
    /// its result.
    fn typed(
        &self,
        target: &Target<'_>,
        message: &Message,
        apply: &dyn Fn() -> Result<Value, Status>,
    ) -> Result<Decoded, Status> {
        let patched = apply()?;
        let kind = target.resource.kind();
        let (api_version, given_kind) = (patched.str_at(&["apiVersion"]), patched.str_at(&["kind"]));
        if api_version != kind.api_version() || given_kind != kind.kind {
            let given = GroupVersion::parse(api_version).unwrap_or_else(|| GroupVersion::new("", api_version));
            let other = tables::kind(&given.group, &given.version, given_kind);
            let why = if let Some(other) = other {
                // It is read as what it says it is, and fails there or as the wrong kind.
                let read = decode::value(patched, other);
                read.err().map_or_else(|| "unable to decode".to_owned(), |error| error.to_string())
            } else {
                format!(
                    "no kind {given_kind:?} is registered for version {api_version:?} in scheme \"pkg/api/legacyscheme/scheme.go:30\""
                )
            };
            return Err(self.invalid(apply()?, &why));
        }
        let refused = |why: &str| apply().map_or_else(|status| status, |patched| self.invalid(patched, why));
        let decoded = decode::value(patched, message).map_err(|error| refused(&error.to_string()))?;
        let mut findings = self.duplicates.clone();
        findings.extend(decoded.findings.iter().cloned());
        body::judge(target.context, &findings, self.validation, refused)?;
        Ok(decoded)
    }

    /// The refusal of a result, which it shows as text: members of what the patch went into are sorted by name, the
    /// rest stands as it was.
    fn invalid(&self, mut patched: Value, why: &str) -> Status {
        let shown = match &self.kind {
            Kind::Json(patch) => {
                patch.paths().for_each(|path| sort_along(&mut patched, path));
                json::to_string(&patched)
            }
            Kind::Merge(patch) => {
                sort_like(&mut patched, patch);
                json::to_string(&patched)
            }
            // Of a strategic patch the reference shows the patch, as Go prints maps.
            Kind::Strategic(patch) => strategic::go_print(patch),
            Kind::Apply { .. } => json::to_string(&patched),
        };
        let error = FieldError::invalid(&FieldPath::new("patch"), shown.as_str(), why);
        Status::invalid(&GroupKind::new("", ""), "", &error.into())
    }
}

/// The body of an apply: YAML, of which JSON is a part.
pub(crate) fn configuration(context: &Context, bytes: &[u8], validation: FieldValidation) -> Result<Value, Status> {
    let (config, duplicates) = yaml::parse(bytes, &Limits::default())
        .map_err(|e| Status::bad_request(format!("error decoding YAML: error converting YAML to JSON: {e}")))?;
    if let Some(duplicates) = duplicates {
        let mut findings = Findings::default();
        findings.push(duplicates);
        body::judge(context, &findings, validation, |_| {
            let list: Vec<String> = findings.iter().map(ToString::to_string).collect();
            let why = list.join(", ");
            Status::bad_request(format!("error strict decoding YAML: error converting YAML to JSON: {why}"))
        })?;
    }
    Ok(config)
}

/// Why a configuration was not applied: fields of others, or what the schema refuses.
pub(crate) fn refused(error: &apply::ApplyError) -> Status {
    match error {
        apply::ApplyError::Failed(why) => Status::unknown(500, why),
        apply::ApplyError::Conflicts(conflicts) => {
            let cause = |conflict: &apply::Conflict| StatusCause {
                reason: "FieldManagerConflict".to_owned(),
                message: conflict.message.clone(),
                field: conflict.field.clone(),
            };
            let told = conflicts.iter().take(apply::ApplyError::SHOWN).map(cause).collect();
            Status::apply_conflict(told, error.to_string())
        }
    }
}

/// Patches are made to what an object says in JSON, and lose the text in which free-form parts of it were sent. The
/// managed fields of the metadata stay text.
fn unpack(object: &mut Value) {
    for (name, member) in object.as_object_mut().into_iter().flat_map(|members| members.iter_mut()) {
        if name != "metadata" {
            json::unpack(member);
        }
    }
}

/// Sorts the objects that a JSON pointer leads through.
fn sort_along(value: &mut Value, path: &str) {
    let mut place = value;
    for segment in path.split('/').skip(1) {
        if let Some(members) = place.as_object_mut() {
            members.sort_by_name();
        }
        let name = segment.replace("~1", "/").replace("~0", "~");
        let next = match place {
            Value::Object(members) => members.get_mut(&name),
            Value::List(items) => name.parse::<usize>().ok().and_then(|i| items.get_mut(i)),
            _ => None,
        };
        let Some(next) = next else { return };
        place = next;
    }
}

/// Sorts the objects for which the patch has an object.
fn sort_like(value: &mut Value, patch: &Value) {
    let (Some(members), Some(changes)) = (value.as_object_mut(), patch.as_object()) else { return };
    members.sort_by_name();
    for (name, change) in changes.iter() {
        if let Some(member) = members.get_mut(name) {
            sort_like(member, change);
        }
    }
}

fn kind_of(value: &Value) -> &'static str {
    match value {
        Value::List(_) => "array",
        Value::Str(_) | Value::Raw(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Null => "null",
        Value::Object(_) => "object",
    }
}
