//! Applies a mutating webhook's patch and decodes the result.

use binnacle_admission_matching::{MatchedResource, Subject};
use binnacle_meta::{GroupVersion, GroupVersionKind, Status, go_quote};
use binnacle_patch::json_patch;
use binnacle_schema::{JsonError, Value, decode, json};

use crate::call::Failure;
use crate::encodings::as_written;
use crate::hook::Hook;
use crate::refusal::refusal;
use crate::response::WebhookResponse;
use crate::type_meta::MissingTypeMeta;

/// The name of kube-apiserver's scheme in errors.
const SCHEME: &str = "pkg/api/legacyscheme/scheme.go:30";

/// A patched object in the version of plugins.
pub(crate) struct PatchedObject {
    pub(crate) object: Value,
    pub(crate) missing_type_meta: MissingTypeMeta,
}

/// Applies a webhook's patch; `None` without a patch. `missing_type_meta` are the type fields that earlier patches
/// removed.
pub(crate) async fn apply_patch(
    subject: &Subject<'_>,
    hook: &Hook,
    matched: &MatchedResource,
    response: &WebhookResponse,
    object: &Value,
    missing_type_meta: &MissingTypeMeta,
) -> Result<Option<PatchedObject>, Failure> {
    if response.patch.is_empty() {
        return Ok(None);
    }
    let patch = json_patch::parse_unvalidated(&response.patch).map_err(|status| {
        Failure::of_response(format!("received undecodable patch in webhook response: {}", status.message()))
    })?;
    if patch.is_empty() {
        return Ok(None);
    }
    if object.is_null() {
        return Err(Failure::Unusable(Status::internal(format!(
            "admission webhook {} attempted to modify the object, which is not supported for this operation",
            go_quote(&hook.name)
        ))));
    }
    if response.patch_type != "JSONPatch" {
        let code = refusal(&hook.name, response.status.as_ref()).code();
        let why = format!("unsupported patch type {}", go_quote(&response.patch_type));
        return Err(Failure::Call { why, code, passed_over: None });
    }
    let internal = |why: String| Failure::Unusable(Status::internal(why));
    let versioned = as_written(subject, &matched.kind, object).await.map_err(Failure::Unusable)?;
    let mut versioned = versioned.into_owned();
    missing_type_meta.strip(&matched.kind, &mut versioned);
    let mut changed = patch.apply_with_reason(versioned).map_err(internal)?;
    let kind = &matched.kind;
    let missing_type_meta = match subject.built_in(kind) {
        Some(_) => {
            let missing_type_meta = MissingTypeMeta::of(kind, &changed);
            check_built_in(subject, &mut changed, kind).map(|()| missing_type_meta)
        }
        None => {
            check_custom(&changed, patch.exceeds_f64()).map(|()| MissingTypeMeta::default()).map_err(Status::internal)
        }
    };
    let missing_type_meta = missing_type_meta.map_err(Failure::Unusable)?;
    let object = subject.accept(&matched.kind, changed).await.map_err(Failure::Unusable)?;
    Ok(Some(PatchedObject { object, missing_type_meta }))
}

/// Checks that a patched custom object can be decoded. `exceeds_f64` is true if the patch has a number that overflows an
/// `f64`.
fn check_custom(changed: &Value, exceeds_f64: bool) -> Result<(), String> {
    if exceeds_f64 && let Some(number) = json::raw_number(changed) {
        json::interpret(changed)?;
        return Err(JsonError::Number(number.to_owned()).to_string());
    }
    json::check_unstructured(changed)
}

/// Checks that a patched built-in object has its original kind or none.
fn check_built_in(subject: &Subject<'_>, changed: &mut Value, kind: &GroupVersionKind) -> Result<(), Status> {
    let unread = |why: String| Status::internal(format!("couldn't get version/kind; json parse error: {why}"));
    json::check_type_meta(changed).map_err(unread)?;
    let version = match changed.str_at(&["apiVersion"]) {
        "" => kind.group_version(),
        version => GroupVersion::parse(version)
            .ok_or_else(|| Status::internal(format!("unexpected GroupVersion string: {version}")))?,
    };
    let name = Some(changed.str_at(&["kind"])).filter(|name| !name.is_empty()).unwrap_or(&kind.kind).to_owned();
    if version == kind.group_version() && name == kind.kind {
        let members = changed.make_object();
        members.insert("kind", kind.kind.clone());
        members.insert("apiVersion", kind.api_version());
        return Ok(());
    }
    let Some(message) =
        subject.built_in(&GroupVersionKind::new(version.group.clone(), version.version.clone(), &*name))
    else {
        return Err(Status::internal(format!(
            "no kind {} is registered for version {} in scheme {}",
            go_quote(&name),
            go_quote(&version.to_string()),
            go_quote(SCHEME)
        )));
    };
    // As in kube-apiserver, it is decoded as its new kind first, which may fail.
    decode::value(std::mem::take(changed), message).map_err(|error| Status::internal(error.to_string()))?;
    let package = kind.group.split('.').next().filter(|package| !package.is_empty()).unwrap_or("core");
    let why = format!("converting ({}.{name}) to ({package}.{}): unknown conversion", version.version, kind.kind);
    Err(Status::unknown(500, &why))
}
