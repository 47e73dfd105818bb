//! The protection of persistent volumes: a deleted volume goes when it is not bound to a claim.

use std::sync::Arc;

use binnacle_controllers::Objects;
use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{PersistentVolume, PersistentVolumeStatus};
use binnacle_meta::{Status, Text};
use binnacle_registry::ListOptions;
use binnacle_schema::Value;
use binnacle_watchcache::Entry;

use crate::changes::{Position, Receiver, follow};
use crate::context::ClusterContext;
use crate::protection::{Protection, change};
use crate::queue::Queue;

pub(crate) const NAME: &str = "persistentvolume-protection-controller";
const ACCOUNT: &str = "pv-protection-controller";
const FINALIZER: &str = "kubernetes.io/pv-protection";

struct Controller {
    volumes: Objects,
    queue: Queue<Text>,
}

pub(crate) async fn run(context: ClusterContext) {
    let Ok(volumes) = context.objects(ACCOUNT, ("", "v1", "persistentvolumes")) else { return };
    let controller = Controller { volumes, queue: Queue::new(context.queues.queue("pvprotection")) };
    let ClusterContext { leadership, shutdown, .. } = &context;
    let (position, all) = (Position::default(), ListOptions::default());
    tokio::join!(
        follow(controller.volumes.resource(), &all, &controller, &position, shutdown),
        controller.queue.work(NAME, 1, leadership, shutdown, |name| {
            let controller = &controller;
            async move { controller.sync(&name).await.into() }
        }),
    );
}

impl Receiver for Controller {
    fn changed(&self, _: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(entry) = new else { return };
        let Ok(volume) = self.volumes.decode(entry) else { return };
        if needed(&volume).is_some() {
            self.queue.add(entry.name().into());
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {}
}

impl Controller {
    async fn sync(&self, name: &str) -> Result<(), Status> {
        let Some(volume) = self.volumes.get("", name).await? else { return Ok(()) };
        let Some(needed) = needed(&volume) else { return Ok(()) };
        change(&self.volumes, ("", name), &volume, (needed, FINALIZER)).await
    }
}

/// Returns the change that a volume needs; none while it is in use, since the end of that is a change, too.
fn needed(volume: &Value) -> Option<Protection> {
    let volume_ref = FieldRef::<PersistentVolume>::root(volume);
    let is_bound = volume_ref.at(PersistentVolume::STATUS).at(PersistentVolumeStatus::PHASE).str() == "Bound";
    Protection::of(volume, FINALIZER).filter(|needed| !(is_bound && *needed == Protection::Waiting))
}
