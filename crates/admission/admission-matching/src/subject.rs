//! A request that is matched with webhooks and policies.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use binnacle_admission::{Freshness, Labels, Lookup, LookupKind};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{GroupResource, GroupVersionKind, LabelSelector, Status};
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_registry::{Catalog, Snapshot};
use binnacle_schema::{Message, Value};
use binnacle_scheme::Kinds;
use tokio::sync::OnceCell;

use crate::equivalents;
use crate::matched_resource::MatchedResource;

/// A request. Data that is computed for one webhook or policy is cached for the next one.
pub struct Subject<'a> {
    pub attributes: &'a Attributes,
    pub(crate) snapshot: Arc<Snapshot>,
    lookup: &'a dyn Lookup,
    equivalents: OnceLock<Vec<MatchedResource>>,
    /// True once an unpruned custom object was accepted.
    pub(crate) left_unpruned: AtomicBool,
    /// The cached labels of the request's namespace.
    labels: OnceCell<Labels>,
}

impl<'a> Subject<'a> {
    pub fn new(attributes: &'a Attributes, catalog: &Catalog, lookup: &'a dyn Lookup) -> Self {
        let snapshot = catalog.snapshot();
        let left_unpruned = AtomicBool::new(false);
        let (equivalents, labels) = (OnceLock::new(), OnceCell::new());
        Self { attributes, snapshot, lookup, equivalents, left_unpruned, labels }
    }

    /// Returns true once an unpruned custom object was accepted; see
    /// [`WriteObject::mark_unpruned`](binnacle_registry::WriteObject::mark_unpruned).
    pub fn left_unpruned(&self) -> bool {
        self.left_unpruned.load(Ordering::Relaxed)
    }

    /// Returns the schema of a built-in kind, whether or not it is served; `None` for custom resources and unknown
    /// kinds.
    pub fn built_in(&self, kind: &GroupVersionKind) -> Option<&Message> {
        let GroupVersionKind { group, version, kind } = kind;
        match self.snapshot.find_kind(group, version, kind) {
            Some(resource) if resource.collection.kind.custom.is_some() => None,
            Some(resource) => Some(&resource.message),
            None => self.snapshot.kinds().kind(group, version, kind),
        }
    }

    /// Returns the built-in kinds.
    pub fn kinds(&self) -> &dyn Kinds {
        self.snapshot.kinds()
    }

    /// Returns the request's own resource and kind.
    pub(crate) fn own_resource(&self) -> MatchedResource {
        MatchedResource { resource: self.attributes.resource.clone(), kind: self.attributes.kind.clone() }
    }

    pub(crate) fn equivalents(&self) -> &[MatchedResource] {
        self.equivalents.get_or_init(|| equivalents::of(self.attributes, &self.snapshot))
    }

    /// Returns true if the selector matches the labels of the new or the old object. The options of a connect request
    /// do not match any selector with requirements, even one for the absence of a key.
    pub(crate) fn has_labels(&self, selector: &LabelSelector, object: &Value, old: Option<&Value>) -> bool {
        if selector.is_everything() {
            return true;
        }
        let has = |object: &Value| !object.is_null() && selects(selector, object);
        self.attributes.operation != Operation::Connect && (has(object) || old.is_some_and(has))
    }

    /// Returns true if the selector matches the request's namespace, or the object has no namespace.
    pub(crate) async fn is_in(&self, selector: &Result<LabelSelector, String>, object: &Value) -> Result<bool, Status> {
        let attributes = self.attributes;
        let is_namespace = attributes.resource.resource == "namespaces";
        if attributes.namespace.is_empty() && !is_namespace {
            return Ok(true);
        }
        let selector = selector.as_ref().map_err(Status::internal)?;
        if selector.is_everything() {
            return Ok(true);
        }
        // A namespace that is being written has labels that are not in the cache.
        let written = matches!(attributes.operation, Operation::Create | Operation::Update);
        if is_namespace && attributes.subresource.is_empty() && written {
            return Ok(selects(selector, object));
        }
        let labels = self.labels.get_or_try_init(|| self.look_up()).await?;
        Ok(selector.matches(|key| labels.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())))
    }

    async fn look_up(&self) -> Result<Labels, Status> {
        let name = &self.attributes.namespace;
        for freshness in [Freshness::Cached, Freshness::Consistent] {
            if let Some(labels) = self.lookup.labels(LookupKind::Namespace, "", name, freshness).await? {
                return Ok(labels);
            }
        }
        Err(Status::not_found(&GroupResource::new("", "namespaces"), name))
    }
}

fn selects(selector: &LabelSelector, object: &Value) -> bool {
    let labels = metadata(object).at(ObjectMeta::LABELS).detached();
    selector.matches(|key| labels.key(key).get_str())
}
