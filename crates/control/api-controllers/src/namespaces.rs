//! The namespace controller: a namespace in deletion is emptied, and then finalized.

mod conditions;
mod content;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_controllers::Objects;
use binnacle_fields::core::v1::{Namespace, NamespaceSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{FieldSelector, FieldTerm, Status, Text};
use binnacle_registry::ListOptions;
use binnacle_registry::object::is_deleting;
use binnacle_schema::Value;
use binnacle_watchcache::Entry;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::content::Content;
use crate::changes::{Position, Receiver, follow};
use crate::context::ClusterContext;
use crate::outcome::Outcome;
use crate::queue::Queue;

pub(crate) const NAME: &str = "namespace-controller";
/// The finalizer in the spec of namespaces.
const FINALIZER: &str = "kubernetes";
/// The number of namespaces that are emptied at the same time.
const WORKERS: usize = 10;
/// The minimum time between the first deletion of the content and the finalization, in which creations that were admitted
/// before the namespace was deleted arrive, from this server or from others.
const SETTLE: Duration = Duration::from_millis(500);

struct Controller {
    context: ClusterContext,
    namespaces: Objects,
    queue: Queue<Text>,
    /// The times at which the emptying of namespaces began, by UID.
    began: Mutex<HashMap<Text, Instant>>,
}

pub(crate) async fn run(context: ClusterContext) {
    let Ok(namespaces) = context.objects(NAME, ("", "v1", "namespaces")) else { return };
    let queue = Queue::new(context.queues.queue("namespace"));
    let controller = Controller { context, namespaces, queue, began: Mutex::default() };
    let ClusterContext { leadership, shutdown, .. } = &controller.context;
    let term = FieldTerm { field: "status.phase".into(), value: "Terminating".into(), negated: false };
    let terminating = ListOptions { fields: FieldSelector::new(vec![term]), ..ListOptions::default() };
    let resource = controller.namespaces.resource();
    let position = Position::default();
    tokio::join!(
        follow(resource, &terminating, &controller, &position, shutdown),
        controller.queue.work(NAME, WORKERS, leadership, shutdown, |name| controller.process(name)),
    );
}

impl Receiver for Controller {
    fn changed(&self, _: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        if let Some(namespace) = new {
            self.queue.add(namespace.name().into());
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}

impl Controller {
    async fn process(&self, name: Text) -> Outcome {
        self.sync(&name).await.unwrap_or_else(Outcome::Failed)
    }

    async fn sync(&self, name: &str) -> Result<Outcome, Status> {
        let Some(namespace) = self.namespaces.get("", name).await? else { return Ok(Outcome::Done) };
        let uid = Text::from(metadata(&namespace).at(ObjectMeta::UID).str());
        if !is_deleting(&namespace) || finalizers(&namespace).next().is_none() {
            self.began.lock().remove(&uid);
            return Ok(Outcome::Done);
        }
        let began = *self.began.lock().entry(uid.clone()).or_insert_with(Instant::now);
        let content = Content::delete(&self.context, &namespace).await;
        self.report(name, &uid, &content).await;
        if let Some(error) = content.error() {
            return Err(error);
        }
        if content.estimate > 0 {
            return Ok(Outcome::Again(Duration::from_secs(content.estimate / 2 + 1)));
        }
        let settled = began + SETTLE;
        if let Some(rest) = settled.checked_duration_since(Instant::now()).filter(|rest| !rest.is_zero()) {
            return Ok(Outcome::After(rest));
        }
        if content.deleted > 0 {
            return Ok(Outcome::After(Duration::ZERO));
        }
        self.began.lock().remove(&uid);
        self.finalize(name, &uid).await?;
        Ok(Outcome::Done)
    }

    /// Writes the conditions of a namespace. A failure is logged: the conditions are written again.
    async fn report(&self, name: &str, uid: &str, content: &Content) {
        let written = self.namespaces.update("", name, "status", |namespace| {
            if metadata(namespace).at(ObjectMeta::UID).str() == uid {
                conditions::set(namespace, content);
            }
        });
        if let Err(status) = written.await {
            tracing::warn!(
                namespace = name,
                error = status.message(),
                "Couldn't update status condition for namespace"
            );
        }
    }

    /// Removes the finalizer, which deletes the namespace unless others are left.
    async fn finalize(&self, name: &str, uid: &str) -> Result<(), Status> {
        let finalized = self.namespaces.update("", name, "finalize", |namespace| {
            if metadata(namespace).at(ObjectMeta::UID).str() != uid {
                return;
            }
            let left: Vec<Text> = finalizers(namespace).filter(|it| *it != FINALIZER).map(Text::from).collect();
            let mut spec = FieldMut::<Namespace>::root(namespace).into_entry(Namespace::SPEC);
            spec.set(NamespaceSpec::FINALIZERS, left);
        });
        match finalized.await {
            Err(status) if status.code() == 404 => Ok(()),
            finalized => finalized,
        }
    }
}

fn finalizers(namespace: &Value) -> impl Iterator<Item = &str> {
    FieldRef::<Namespace>::root(namespace).at(Namespace::SPEC).at(NamespaceSpec::FINALIZERS).detached().strs()
}
