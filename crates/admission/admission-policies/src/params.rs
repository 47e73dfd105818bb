//! The parameter objects of a binding.

use std::sync::{Arc, OnceLock};

use binnacle_admission::Decoded;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_fields::{FieldMut, metadata, route};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Context, ListOptions, Match, Resource, Snapshot};
use binnacle_schema::Value;
use binnacle_watchcache::Entry;

use crate::remote::{OtherObjects, OtherServers};
use crate::policy::{ParamKind, ParamRef, Which};

/// A parameter object; `None` if the policy or its binding has none.
pub(crate) type Param = Option<Arc<Value>>;

/// The data about the parameters of a kind that policies share.
#[derive(Default)]
pub(crate) struct KnownParams {
    /// Decoded objects of this server.
    decoded: Decoded,
    /// The objects on another server, once a request has needed them.
    elsewhere: OnceLock<Arc<dyn OtherObjects>>,
}

/// The place of the parameters of a kind.
pub(crate) enum Source {
    /// This server stores them.
    Here(Arc<Resource>),
    /// Another server has them.
    Elsewhere(Arc<dyn OtherObjects>),
    /// The kind has no objects that can be listed.
    Nowhere,
}

/// Returns the place of a policy's parameters.
///
/// # Errors
/// kube-apiserver's message if the kind is not served.
pub(crate) fn source(kind: &ParamKind, snapshot: &Snapshot, others: &dyn OtherServers) -> Result<Source, String> {
    let found = &kind.kind;
    if let Some(resource) = snapshot.find_kind(&found.group, &found.version, &found.kind) {
        return Ok(Source::Here(resource.clone()));
    }
    if snapshot.served().find_kind(&found.group, &found.version, &found.kind).is_some() {
        return Ok(Source::Nowhere);
    }
    // As in kube-apiserver, objects that are followed once are used even if nobody serves the kind any more.
    let known = &kind.known.elsewhere;
    if let Some(objects) = known.get() {
        return Ok(Source::Elsewhere(objects.clone()));
    }
    if let Some(objects) = others.objects(found) {
        return Ok(Source::Elsewhere(known.get_or_init(|| objects).clone()));
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
    source: &Source,
    reference: &ParamRef,
    namespace: &str,
) -> Result<Vec<Param>, String> {
    let unread = || {
        format!(
            "paramKind kind `&ParamKind{{APIVersion:{},Kind:{},}}` not yet synced to use for admission",
            kind.kind.api_version(),
            kind.kind.kind
        )
    };
    let namespaced = match source {
        Source::Here(resource) => resource.description.namespaced,
        Source::Elsewhere(objects) => objects.namespaced(),
        Source::Nowhere => return Err(unread()),
    };
    let namespace = match (namespaced, reference.namespace.as_str()) {
        (true, "") if namespace.is_empty() => {
            return Err("cannot use namespaced paramRef in policy binding that matches cluster-scoped resources".into());
        }
        (true, "") => namespace,
        (true, given) => given,
        (false, "") => "",
        (false, _) => return Err("paramRef.namespace must not be provided for a cluster-scoped `paramKind`".into()),
    };
    let params = match source {
        Source::Here(resource) => stored(kind, resource, reference, namespace).await?,
        Source::Elsewhere(objects) if objects.are_read().await => selected(&**objects, reference, namespace)?,
        _ => return Err(unread()),
    };
    if params.is_empty() && reference.deny_if_none {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(params)
}

const NEITHER: &str = "one of name or selector must be provided";

/// Returns the parameters that another server has.
fn selected(objects: &dyn OtherObjects, reference: &ParamRef, namespace: &str) -> Result<Vec<Param>, String> {
    match &reference.which {
        Which::Named(name) => Ok(objects.get(namespace, name).map(Some).into_iter().collect()),
        Which::Selected(selector) => {
            let selector = selector.as_ref().map_err(String::clone)?;
            let matches = |object: &Arc<Value>| {
                let labels = metadata(object).at(ObjectMeta::LABELS).detached();
                selector.matches(|label| labels.key(label).get_str())
            };
            Ok(objects.list(namespace).into_iter().filter(matches).map(Some).collect())
        }
        Which::Unknown => Err(NEITHER.into()),
    }
}

/// Returns the parameters that this server stores.
async fn stored(
    kind: &ParamKind,
    resource: &Arc<Resource>,
    reference: &ParamRef,
    namespace: &str,
) -> Result<Vec<Param>, String> {
    let context = Context::internal(namespace);
    let failed = |status: Status| status.message().to_owned();
    let object = |entry: &Entry| decoded(&kind.known.decoded, resource, entry).map(Some).map_err(failed);
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
        Which::Unknown => return Err(NEITHER.into()),
    }
    Ok(params)
}

/// Returns an object decoded in the version of its resource, for policies.
pub(crate) fn decoded(known: &Decoded, resource: &Arc<Resource>, entry: &Entry) -> Result<Arc<Value>, Status> {
    known.object(resource, entry, || {
        let mut object = resource.collection.decode_entry(entry)?;
        resource.from_stored(&mut object);
        if resource.collection.kind.custom.is_none() {
            // kube-apiserver's informers of built-in kinds drop managed fields.
            let managed_fields = route![PartialObjectMetadata::METADATA, ObjectMeta::MANAGED_FIELDS];
            FieldMut::root(&mut object).remove_at(managed_fields);
        }
        Ok(object)
    })
}

impl std::fmt::Debug for KnownParams {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KnownParams").field("decoded", &self.decoded).finish_non_exhaustive()
    }
}
