//! The parameter objects of a binding.

use std::sync::Arc;

use binnacle_admission::DecodedCache;
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_fields::{FieldMut, metadata, route};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Context, ListOptions, Match, Resource, Snapshot};
use binnacle_schema::Value;
use binnacle_watchcache::Entry;
use binnacle_work::{allocate, charge};

use crate::policy::{ParamKind, ParamRef, ParamSelection};
use crate::remote::{RemoteKinds, RemoteParams};

/// The bytes of a stored parameter that are decoded in ten nanoseconds.
const BYTES_PER_STEP: u64 = 2;

/// A parameter of a binding. There may be thousands, and decoded ones take many times the memory of stored ones, so
/// each is decoded when its policy is evaluated.
#[derive(Clone)]
pub(crate) enum Param {
    /// The policy or its binding has no parameters.
    None,
    /// An object of another server.
    Remote(Arc<Value>),
    /// An object that this server stores.
    Stored(Arc<Resource>, Arc<Entry>),
}

/// Where the parameters of a kind are stored.
pub(crate) enum ParamSource {
    /// This server stores them.
    Local(Arc<Resource>),
    /// Another server has them.
    Remote(Arc<dyn RemoteParams>),
    /// The kind has no objects that can be listed.
    NotListable,
}

impl Param {
    /// Returns the object. `kind` is the one of the policy.
    ///
    /// # Errors
    ///
    /// Returns a message if the object cannot be decoded, or if decoding it exceeds the budget.
    pub(crate) fn object(&self, kind: Option<&ParamKind>) -> Result<Option<Arc<Value>>, String> {
        match (self, kind) {
            (Self::None, _) | (Self::Stored(..), None) => Ok(None),
            (Self::Remote(object), _) => Ok(Some(object.clone())),
            (Self::Stored(resource, entry), Some(kind)) => {
                let object = decoded(&kind.param_cache.decoded, resource, entry);
                object.map(Some).map_err(|status| status.message().to_owned())
            }
        }
    }
}

/// Returns where a policy's parameters are stored.
///
/// # Errors
///
/// Returns kube-apiserver's message if the kind is not served.
pub(crate) fn source(kind: &ParamKind, snapshot: &Snapshot, remote: &dyn RemoteKinds) -> Result<ParamSource, String> {
    let found = &kind.kind;
    if let Some(resource) = snapshot.find_kind(&found.group, &found.version, &found.kind) {
        return Ok(ParamSource::Local(resource.clone()));
    }
    if snapshot.served().find_kind(&found.group, &found.version, &found.kind).is_some() {
        return Ok(ParamSource::NotListable);
    }
    // As in kube-apiserver, objects that are already watched are used even if the kind is no longer served.
    let cache = &kind.param_cache.remote;
    if let Some(objects) = cache.get() {
        return Ok(ParamSource::Remote(objects.clone()));
    }
    if let Some(objects) = remote.objects(found) {
        return Ok(ParamSource::Remote(cache.get_or_init(|| objects).clone()));
    }
    Err(format!(
        "failed to find resource referenced by paramKind: '{}/{}, Kind={}'",
        found.group, found.version, found.kind
    ))
}

/// Returns the parameters for a request in a namespace. The policy is not evaluated if there are none.
///
/// # Errors
///
/// Returns kube-apiserver's message if required parameters are missing, or if parameters cannot be determined.
pub(crate) async fn collect(
    kind: &ParamKind,
    source: &ParamSource,
    reference: &ParamRef,
    namespace: &str,
) -> Result<Vec<Param>, String> {
    let not_synced = || {
        format!(
            "paramKind kind `&ParamKind{{APIVersion:{},Kind:{},}}` not yet synced to use for admission",
            kind.kind.api_version(),
            kind.kind.kind
        )
    };
    let namespaced = match source {
        ParamSource::Local(resource) => resource.description.namespaced,
        ParamSource::Remote(objects) => objects.namespaced(),
        ParamSource::NotListable => return Err(not_synced()),
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
        ParamSource::Local(resource) => local_params(resource, reference, namespace).await?,
        ParamSource::Remote(objects) if objects.are_read().await => remote_params(&**objects, reference, namespace)?,
        _ => return Err(not_synced()),
    };
    if params.is_empty() && reference.deny_if_none {
        return Err("no params found for policy binding with `Deny` parameterNotFoundAction".into());
    }
    Ok(params)
}

const NEITHER: &str = "one of name or selector must be provided";

/// Returns the parameters that another server has.
fn remote_params(objects: &dyn RemoteParams, reference: &ParamRef, namespace: &str) -> Result<Vec<Param>, String> {
    match &reference.selection {
        ParamSelection::Name(name) => Ok(objects.get(namespace, name).map(Param::Remote).into_iter().collect()),
        ParamSelection::Selector(selector) => {
            let selector = selector.as_ref().map_err(String::clone)?;
            let matches = |object: &Arc<Value>| {
                let labels = metadata(object).at(ObjectMeta::LABELS).detached();
                selector.matches(|label| labels.key(label).get_str())
            };
            Ok(objects.list(namespace).into_iter().filter(matches).map(Param::Remote).collect())
        }
        ParamSelection::Missing => Err(NEITHER.into()),
    }
}

/// Returns the parameters that this server stores.
async fn local_params(resource: &Arc<Resource>, reference: &ParamRef, namespace: &str) -> Result<Vec<Param>, String> {
    let context = Context::internal(namespace);
    let failed = |status: Status| status.message().to_owned();
    let stored = |entry: Arc<Entry>| Param::Stored(resource.clone(), entry);
    let mut params = Vec::new();
    match &reference.selection {
        ParamSelection::Name(name) => match resource.get(&context, name, Match::Any).await {
            Ok(entry) => params.push(stored(entry)),
            Err(status) if status.is(StatusReason::NotFound) => {}
            Err(status) => return Err(failed(status)),
        },
        ParamSelection::Selector(selector) => {
            let labels = selector.clone()?;
            let options = ListOptions { labels, version: Match::Any, ..ListOptions::default() };
            let mut page = resource.list(&context, &options).await.map_err(failed)?;
            while let Some(chunk) = page.next_chunk() {
                allocate(chunk.len() * size_of::<Param>()).map_err(|exceeded| exceeded.to_string())?;
                params.extend(chunk.into_iter().map(stored));
            }
        }
        ParamSelection::Missing => return Err(NEITHER.into()),
    }
    Ok(params)
}

/// Returns a decoded object in the version of its resource.
pub(crate) fn decoded(cache: &DecodedCache, resource: &Arc<Resource>, entry: &Entry) -> Result<Arc<Value>, Status> {
    cache.object(resource, entry, || {
        charge(1 + entry.value_len() as u64 / BYTES_PER_STEP)?;
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
