//! The parameter objects of a binding.

use std::sync::Arc;

use binnacle_admission::Decoded;
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Context, ListOptions, Match, Resource, Snapshot};
use binnacle_schema::Value;
use binnacle_watchcache::Entry;

use crate::policy::{ParamKind, ParamRef, Which};

/// A parameter object; `None` where the policy or its binding has none.
pub(crate) type Param = Option<Arc<Value>>;

/// The resource of a policy's parameters; `None` where there are no objects of the kind that could be listed.
///
/// # Errors
/// In kube-apiserver's words where it is not served.
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

/// The parameters for a request in a namespace. Without any the policy is not evaluated.
///
/// # Errors
/// In kube-apiserver's words where there must be some, or where they cannot be told.
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

/// An object in the version of its resource, as policies look at it.
pub(crate) fn decoded(known: &Decoded, resource: &Arc<Resource>, entry: &Entry) -> Result<Arc<Value>, Status> {
    known.object(resource, entry, || {
        let mut object = resource.collection.decode(entry.value(), entry.revision())?;
        resource.from_stored(&mut object);
        if resource.collection.kind.custom.is_none()
            && let Some(metadata) = object.get_mut("metadata").and_then(Value::as_object_mut)
        {
            // kube-apiserver's informers of its own kinds drop them.
            metadata.remove("managedFields");
        }
        Ok(object)
    })
}
