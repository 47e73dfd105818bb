//! NamespaceLifecycle: objects are created only in namespaces that exist and are not terminating, and the system
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
const DOUBT: Duration = Duration::from_secs(30);
/// The maximum number of recent deletes that are recorded; the cache is never that far behind.
const DOUBTED_MAX: usize = 100;

pub(crate) struct NamespaceLifecycle {
    lookup: Arc<dyn Lookup>,
    /// Namespaces whose deletion was requested, with the time of the request.
    doubted: Mutex<HashMap<Text, Instant>>,
}

impl NamespaceLifecycle {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup, doubted: Mutex::new(HashMap::new()) }
    }

    async fn state(&self, name: &str) -> Result<NamespaceState, Status> {
        let cached = self.lookup.namespace(name, Freshness::Cached).await?;
        let sure = match cached {
            NamespaceState::Absent => false,
            NamespaceState::Active => !self.is_doubted(name),
            NamespaceState::Terminating => true,
        };
        if sure { Ok(cached) } else { self.lookup.namespace(name, Freshness::Consistent).await }
    }

    fn doubt(&self, name: &str) {
        let mut doubted = self.doubted.lock();
        if doubted.len() >= DOUBTED_MAX {
            doubted.retain(|_, at| at.elapsed() < DOUBT);
        }
        if doubted.len() >= DOUBTED_MAX
            && let Some(oldest) = doubted.iter().min_by_key(|(_, at)| **at).map(|(name, _)| name.clone())
        {
            doubted.remove(&oldest);
        }
        doubted.insert(name.into(), Instant::now());
    }

    fn is_doubted(&self, name: &str) -> bool {
        self.doubted.lock().get(name).is_some_and(|at| at.elapsed() < DOUBT)
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
            // LocalSubjectAccessReviews are answered for absent namespaces too.
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
                self.doubt(&attributes.name);
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
