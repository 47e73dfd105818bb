//! Controllers that maintain one object in each active namespace.

use std::sync::Arc;

use binnacle_controllers::Objects;
use binnacle_meta::{FieldSelector, FieldTerm, Status, Text};
use binnacle_registry::{Catalog, Context, ListOptions, Match};
use binnacle_request::BoxFuture;
use binnacle_watchcache::Entry;

use crate::changes::{Position, Receiver, follow};
use crate::context::ClusterContext;
use crate::outcome::Outcome;
use crate::queue::Queue;

/// A controller of one object in each active namespace.
pub(crate) struct PerNamespace<'a> {
    pub(crate) name: &'static str,
    /// The name of its queue in metrics.
    pub(crate) queue: &'static str,
    /// The objects that it maintains, and their name.
    pub(crate) objects: &'a Objects,
    pub(crate) object: &'static str,
    /// Creates or updates the object of a namespace.
    pub(crate) ensure: &'a (dyn Fn(Text) -> BoxFuture<'a, Result<(), Status>> + Sync),
}

/// The number of namespaces that are processed at the same time.
const WORKERS: usize = 16;

impl PerNamespace<'_> {
    pub(crate) async fn run(&self, context: &ClusterContext) {
        let Ok(namespaces) = context.resources.require("", "v1", "namespaces") else { return };
        let ClusterContext { leadership, shutdown, queues, .. } = context;
        let queue = Queue::new(queues.queue(self.queue));
        let term = |field: &'static str, value: &'static str| {
            let term = FieldTerm { field: field.into(), value: value.into(), negated: false };
            ListOptions { fields: FieldSelector::new(vec![term]), ..ListOptions::default() }
        };
        let (active, named) = (term("status.phase", "Active"), term("metadata.name", self.object));
        let positions = [Position::default(), Position::default()];
        let (of_namespaces, of_objects) = (NewNamespaces(&queue), ChangedObjects(&queue));
        tokio::join!(
            follow(&namespaces, &active, &of_namespaces, &positions[0], shutdown),
            follow(self.objects.resource(), &named, &of_objects, &positions[1], shutdown),
            queue.work(self.name, WORKERS, leadership, shutdown, |name: Text| async {
                if !is_active(&context.resources, &name).await {
                    return Outcome::Done;
                }
                match (self.ensure)(name).await {
                    Err(status) if is_ended(&status) => Outcome::Done,
                    ensured => ensured.into(),
                }
            }),
        );
    }
}

/// Returns true for a write that was refused because its namespace is gone or about to be.
fn is_ended(status: &Status) -> bool {
    let causes = status.details().map(|details| details.causes.as_slice()).unwrap_or_default();
    status.code() == 404 || causes.iter().any(|cause| cause.reason == "NamespaceTerminating")
}

async fn is_active(resources: &Catalog, name: &str) -> bool {
    let Ok(namespaces) = resources.require("", "v1", "namespaces") else { return false };
    let Ok(found) = namespaces.get(&Context::internal(""), name, Match::Any).await else { return false };
    namespaces.collection.decode_entry(&found).is_ok_and(|it| it.str_at(&["status", "phase"]) == "Active")
}

struct NewNamespaces<'a>(&'a Queue<Text>);

impl Receiver for NewNamespaces<'_> {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        if let (None, Some(namespace)) = (old, new) {
            self.0.add(namespace.name().into());
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}

struct ChangedObjects<'a>(&'a Queue<Text>);

impl Receiver for ChangedObjects<'_> {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        if let Some(before) = old {
            self.0.add(new.unwrap_or(before).namespace().into());
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}
