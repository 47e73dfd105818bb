//! The parameter objects of a binding.

use std::sync::Arc;

use binnacle_admission::Decoded;
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Context, ListOptions, Match, Resource, Snapshot};
use binnacle_schema::Value;
use binnacle_watchcache::Entry;

use crate::policy::{ParamKind, ParamRef, Which};

/// A parameter object; `None` if the policy or its binding has none.
pub(crate) type Param = Option<Arc<Value>>;

/// Returns the resource of a policy's parameters; `None` if the kind has no objects that can be listed.
///
/// # Errors
/// kube-apiserver's message if the kind is not served.
pub(crate) fn resource(kind: &ParamKind, snapshot: &Snapshot) -> Result<Option<Arc<Resource>>, String> {
    let found = &kind.kind;
    let resource = snapshot.find_kind(&found.group, &found.version, &found.kind);
    if resource.is_some() || snapshot.served().find_kind(&found.group, &found.version, &found.kind).is_some() {
        return Ok(resource.cloned());
    }
    Err(format!(
        "failed to find resource referenced by paramKind: '{}/{}, Kind={}'",
        found.group, found.version, found.kind
    ))
}

/// Returns the parameters for a request in a namespace. If there are none, the policy is not evaluated.
///
/// # Errors
/// kube-apiserver's message if parameters are required but missing, or cannot be determined.
pub(crate) async fn collect(
    kind: &ParamKind,
    resource: Option<&Arc<Resource>>,
    reference: &ParamRef,
    namespace: &str,
) -> Result<Vec<Param>, String> {
    let Some(resource) = resource else {
        return Err(format!(
            "paramKind kind `&ParamKind{{APIVersion:{},Kind:{},}}` not yet synced to use for admission",
            kind.kind.api_version(),
            kind.kind.kind
        ));
    };
    let namespaced = resource.description.namespaced;
    let namespace = match (namespaced, reference.namespace.as_str()) {
        (true, "") if namespace.is_empty() => {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
        }
        (true, "") => namespace,
        (true, given) => given,
        (false, "") => "",
        (false, _) => return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into()),
    };
    let context = Context::internal(namespace);
    let failed = |status: Status| status.message().to_owned();
    let object = |entry: &Entry| decoded(&kind.decoded, resource, entry).map(Some).map_err(failed);
    let mut params = Vec::new();
    match &reference.which {
        Which::Named(name) => match resource.get(&context, name, Match::Any).await {
            Ok(entry) => params.push(object(&entry)?),
            Err(status) if status.is(StatusReason::NotFound) => {}
            Err(status) => return Err(failed(status)),
        },
        Which::Selected(selector) => {
            let labels = selector.clone()?;
            let options = ListOptions { labels, version: Match::Any, ..ListOptions::default() };
            let mut page = resource.list(&context, &options).await.map_err(failed)?;
            while let Some(chunk) = page.next_chunk() {
                for entry in chunk {
                    params.push(object(&entry)?);
                }
            }
        }
        Which::Unknown => return Err("one of name or selector must be provided".into()),
    }
    if params.is_empty() && reference.deny_if_none {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(params)
}

/// Returns an object decoded in the version of its resource, for policies.
pub(crate) fn decoded(known: &Decoded, resource: &Arc<Resource>, entry: &Entry) -> Result<Arc<Value>, Status> {
    known.object(resource, entry, || {
        let mut object = resource.collection.decode(entry.value(), entry.revision())?;
        resource.from_stored(&mut object);
        if resource.collection.kind.custom.is_none()
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            // kube-apiserver's informers of built-in kinds drop managed fields.
            metadata.remove("managedFields");
        }
        Ok(object)
    })
}
