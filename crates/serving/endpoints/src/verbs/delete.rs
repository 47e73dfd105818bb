//! DELETE of one object or of a collection.

use std::sync::Arc;

use binnacle_meta::{GroupVersion, Status, go_quote};
use binnacle_registry::admission::WriteOptions;
use binnacle_registry::{DeleteOptions, DeleteOutcome, Match, record_request_object};
use binnacle_request::{BoxFuture, RequestInfo, User};
use binnacle_schema::{Value, decode, json, proto, yaml};

use super::{Call, HandlerResult};
use crate::negotiate::{Encoding, Output};
use crate::{body, failure, list_stream, params, respond};

/// Authorizes deletes of objects that cannot be decoded. The error is the reason for a denial.
pub trait UnsafeDeleteAuthorizer: Send + Sync + 'static {
    fn permit<'a>(&'a self, info: &'a RequestInfo, user: &'a User) -> BoxFuture<'a, Result<(), String>>;
}

pub(crate) async fn handle(mut call: Call) -> HandlerResult {
    let output = call.output(false)?;
    let include = call.include(output)?;
    let options = read_options(&mut call).await?;
    options.validate()?;
    if options.ignore_read_error {
        return delete_unreadable(call, output).await;
    }
    let context = call.context(WriteOptions { dry_run: !options.dry_run.is_empty(), ..WriteOptions::default() });
    let resource = Arc::clone(&call.resource);
    let deleted = resource.delete(&context, call.name(), &options).await?;
    let returns_deleted_object = resource.description.returns_deleted_object;
    let (stored, is_gone, returns_object) = match deleted {
        DeleteOutcome::Gone(stored) => (stored, true, returns_deleted_object),
        DeleteOutcome::WouldBeGone(stored) => (stored, true, true),
        DeleteOutcome::Pending(stored) => (stored, false, true),
    };
    // With `orphanDependents: false`, 202 means that the deletion is still in progress.
    let code = if !is_gone && options.orphan_dependents == Some(false) { 202 } else { 200 };
    if returns_object {
        return respond::object(&resource, output, include, code, stored);
    }
    let status = resource.deleted_status(&stored.object);
    Ok(failure::status(output, code, &status))
}

/// Deletes an object that cannot be decoded. This requires a permission in addition to `delete`.
async fn delete_unreadable(call: Call, output: Output) -> HandlerResult {
    call.request.record.annotate("apiserver.k8s.io/unsafe-delete-ignore-read-error", "");
    let resource = Arc::clone(&call.resource);
    if !resource.deletes_unreadable() {
        let why = "no unsafe deleter provided, can not honor ignoreStoreReadErrorWithClusterBreakingPotential";
        return Err(Status::internal(why));
    }
    let Some(authorizer) = call.unsafe_deletes.clone() else {
        return Err(Status::internal("no authorizer provided, unable to authorize unsafe delete"));
    };
    let (context, info, user) = (call.read_context(), call.request.info.clone(), call.request.user.clone());
    drop(call);
    if let Err(why) = authorizer.permit(&info, &user).await {
        return Err(Status::forbidden(&resource.group_resource(), &info.name, why));
    }
    resource.delete_unreadable(&context, &info.name).await?;
    Ok(failure::status(output, 200, &resource.deleted_unreadable(&info.name)))
}

pub(crate) async fn handle_collection(mut call: Call) -> HandlerResult {
    let output = call.output(false)?;
    let include = call.include(output)?;
    let mut params = params::collection(
        &call.request.query,
        &call.request.info,
        &call.resource.description,
        &call.resource.collection.features,
        false,
    )?;
    let options = read_options(&mut call).await?;
    options.validate_for_collection()?;
    params.list.shard = params::shard(&call.request.query, &call.resource.collection.features)?;
    if params.list.version == Match::Any {
        params.list.version = Match::Consistent;
    }
    let context = call.context(WriteOptions { dry_run: !options.dry_run.is_empty(), ..WriteOptions::default() });
    let resource = Arc::clone(&call.resource);
    let page = resource.delete_collection(&context, &params.list, &options).await?;
    list_stream::response(resource, output, include, page).await
}

/// Parses DeleteOptions from the body, or from the query if the body is empty.
async fn read_options(call: &mut Call) -> Result<DeleteOptions, Status> {
    let bytes = body::read(&mut call.request).await?;
    let mut options = if bytes.is_empty() {
        params::delete(&call.request.query)?
    } else {
        let mut value = decode_options(call.input()?, &bytes)?;
        // kube-apiserver records the version into which it decodes the options, regardless of the client's.
        let members = value.make_object();
        members.insert("kind", "DeleteOptions");
        members.insert("apiVersion", "meta.k8s.io/__internal");
        record_request_object(&call.request.record, &value);
        DeleteOptions::from_object(&value)
    };
    options.ignore_read_error &= call.resource.collection.unsafe_deletion;
    Ok(options)
}

fn decode_options(encoding: Encoding, bytes: &[u8]) -> Result<Value, Status> {
    let limits = binnacle_schema::Limits::default();
    let bad_request = |why: String| Status::bad_request(why);
    let message = binnacle_apimachinery::delete_options();
    let value = match encoding {
        Encoding::Json => {
            let type_meta = json::type_meta(bytes, &limits)
                .map_err(|e| bad_request(format!("couldn't get version/kind; json parse error: {e}")))?;
            check_type(&type_meta.api_version, &type_meta.kind, bytes)?;
            decode::json(bytes, message, &limits).map_err(|e| bad_request(e.to_string()))?.value
        }
        Encoding::Yaml => {
            let (type_meta, _) = yaml::parse(bytes, &limits).map_err(|e| bad_request(e.to_string()))?;
            check_type(type_meta.str_at(&["apiVersion"]), type_meta.str_at(&["kind"]), bytes)?;
            decode::yaml(bytes, message, &limits).map_err(|e| bad_request(e.to_string()))?.value
        }
        Encoding::Cbor => {
            let type_meta = decode::cbor_type_meta(bytes, &limits)
                .map_err(|e| bad_request(format!("unable to determine group/version/kind: {e}")))?;
            check_type(&type_meta.api_version, &type_meta.kind, bytes)?;
            decode::cbor(bytes, message, &limits).map_err(|e| bad_request(e.to_string()))?.value
        }
        Encoding::Protobuf => {
            let envelope = proto::unwrap(bytes).map_err(|e| bad_request(e.to_string()))?;
            check_type(&envelope.api_version, &envelope.kind, bytes)?;
            proto::decode(envelope.raw, message, limits.max_depth).map_err(|e| bad_request(e.to_string()))?
        }
    };
    Ok(value)
}

/// Checks that options are of the right kind, in any group version.
fn check_type(api_version: &str, kind: &str, body: &[u8]) -> Result<(), Status> {
    // The kinds in kube-apiserver's scheme for decoding options.
    const OPTIONS: [&str; 10] = [
        "WatchEvent",
        "ListOptions",
        "GetOptions",
        "CreateOptions",
        "UpdateOptions",
        "PatchOptions",
        "Table",
        "TableOptions",
        "PartialObjectMetadata",
        "PartialObjectMetadataList",
    ];
    const UNVERSIONED: [&str; 5] = ["Status", "APIVersions", "APIGroup", "APIGroupList", "APIResourceList"];
    let given = match api_version {
        "" | "/" | "meta.k8s.io/" => "meta.k8s.io/v1",
        given if given.ends_with('/') => return Err(Status::bad_request(body::missing_version(body))),
        given if GroupVersion::parse(given).is_none() => {
            return Err(Status::bad_request(format!("unexpected GroupVersion string: {given}")));
        }
        given => given,
    };
    let is_known = match given {
        "meta.k8s.io/v1" => OPTIONS.contains(&kind),
        "v1" => UNVERSIONED.contains(&kind),
        _ => false,
    };
    Err(Status::bad_request(match kind {
        "" | "DeleteOptions" => return Ok(()),
        kind if is_known => format!("converting (v1.{kind}) to (v1.DeleteOptions): unknown conversion"),
        kind => format!(
            "no kind {} is registered for version {} in scheme \"pkg/apis/meta/internalversion/scheme/register.go:27\"",
            go_quote(kind),
            go_quote(given)
        ),
    }))
}
