//! NamespaceLifecycle: objects can only be created in namespaces that exist and are not terminating, and system
//! namespaces cannot be deleted.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use binnacle_meta::{GroupResource, Status, Text};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use parking_lot::Mutex;

use crate::lookup::{Freshness, Lookup, NamespaceState};
use crate::plugin::{Plugin, Request, Stage, forbidden};

const IMMORTAL: [&str; 3] = ["default", "kube-public", "kube-system"];

/// The time after a delete during which the cached state `Active` of a namespace is not trusted.
const DISTRUST_PERIOD: Duration = Duration::from_secs(30);
/// The maximum number of recorded deletes; the cache never lags behind that many.
const MAX_RECENT_DELETES: usize = 100;

pub(crate) struct NamespaceLifecycle {
    lookup: Arc<dyn Lookup>,
    /// Namespaces whose deletion was requested, with the time of the request.
    recent_deletes: Mutex<HashMap<Text, Instant>>,
}

impl NamespaceLifecycle {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, recent_deletes: Mutex::new(HashMap::new()) }
    }

    async fn state(&self, name: &str) -> Result<NamespaceState, Status> {
        let cached = self.lookup.namespace(name, Freshness::Cached).await?;
        let is_certain = match cached {
            NamespaceState::Absent => false,
            NamespaceState::Active => !self.is_recently_deleted(name),
            NamespaceState::Terminating => true,
        };
        if is_certain { Ok(cached) } else { self.lookup.namespace(name, Freshness::Consistent).await }
    }

    fn record_delete(&self, name: &str) {
        let mut recent_deletes = self.recent_deletes.lock();
        if recent_deletes.len() >= MAX_RECENT_DELETES {
            recent_deletes.retain(|_, at| at.elapsed() < DISTRUST_PERIOD);
        }
        if recent_deletes.len() >= MAX_RECENT_DELETES
            && let Some(oldest) = recent_deletes.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone())
        {
            recent_deletes.remove(&oldest);
        }
        recent_deletes.insert(name.into(), Instant::now());
    }

    fn is_recently_deleted(&self, name: &str) -> bool {
        self.recent_deletes.lock().get(name).is_some_and(|at| at.elapsed() < DISTRUST_PERIOD)
    }
}

impl Plugin for NamespaceLifecycle {
    fn name(&self) -> &'static str {
        "NamespaceLifecycle"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        if stage != Stage::Mutate {
            return false;
        }
        match attributes.operation {
            Operation::Delete => is_namespace(attributes),
            // LocalSubjectAccessReviews can be created in namespaces that do not exist.
            Operation::Create | Operation::Update => {
                !attributes.namespace.is_empty()
                    && !is_namespace(attributes)
                    && attributes.resource.resource != "localsubjectaccessreviews"
            }
            Operation::Connect => false,
        }
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let attributes = request.attributes;
            if attributes.operation == Operation::Delete {
                if IMMORTAL.contains(&attributes.name.as_str()) {
                    let why = "this namespace may not be deleted";
                    return Err(Status::forbidden(&attributes.resource.group_resource(), &attributes.name, why));
                }
                self.record_delete(&attributes.name);
                return Ok(());
            }
            let namespace = attributes.namespace.as_str();
            match self.state(namespace).await? {
                NamespaceState::Absent => Err(Status::not_found(&GroupResource::new("", "namespaces"), namespace)),
                NamespaceState::Terminating if request.is_create() => Err(terminating(attributes, object)),
                NamespaceState::Terminating | NamespaceState::Active => Ok(()),
            }
        })
    }
}

fn is_namespace(attributes: &Attributes) -> bool {
    attributes.kind.kind == "Namespace" && attributes.kind.group.is_empty()
}

fn terminating(attributes: &Attributes, object: &Value) -> Status {
    let namespace = &attributes.namespace;
    let why = format!("unable to create new content in namespace {namespace} because it is being terminated");
    forbidden(attributes, object, why).with_cause(
        "NamespaceTerminating",
        &format!("namespace {namespace} is being terminated"),
        "metadata.namespace",
    )
}
