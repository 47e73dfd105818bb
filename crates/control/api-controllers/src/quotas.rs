//! The quota controller: the status of each quota has its limits, and what the namespace uses.

mod receivers;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use binnacle_admission::{QuotaAmounts, QuotaState, QuotaUsage};
use binnacle_controllers::Objects;
use binnacle_fields::core::v1::{ResourceQuota, ResourceQuotaStatus};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, metadata};
use binnacle_meta::{Status, StatusReason, Text};
use binnacle_registry::{Context, ListOptions, Resource};
use binnacle_schema::{Object, Value};
use parking_lot::Mutex;

use crate::context::ClusterContext;
use crate::monitors::Monitors;
use crate::outcome::Outcome;
use crate::queue::Queue;
use crate::stored_resources::deletable;

pub(crate) const NAME: &str = "resourcequota-controller";
const WORKERS: usize = 5;
/// The time after a creation in which a quota is computed again, once for all creations of that time. Admission has
/// charged them already; an object that was charged, but not yet stored, may have been left out by a computation.
const AFTER_CREATION: Duration = Duration::from_secs(1);

struct Controller {
    context: ClusterContext,
    quotas: Objects,
    queue: Queue<(Text, Text)>,
    /// The names of the quotas by namespace.
    known: Mutex<HashMap<Text, HashSet<Text>>>,
    monitors: Monitors,
}

pub(crate) async fn run(context: ClusterContext) {
    let Ok(quotas) = context.objects("resourcequota-controller", ("", "v1", "resourcequotas")) else { return };
    let queue = Queue::new(context.queues.queue("resourcequota_primary"));
    let (known, monitors) = (Mutex::default(), Monitors::default());
    let controller = Arc::new(Controller { context: context.clone(), quotas, queue, known, monitors });
    tokio::join!(controller.monitors.run(&context, &controller), controller.work());
}

impl Controller {
    async fn work(&self) {
        let ClusterContext { leadership, shutdown, .. } = &self.context;
        self.queue
            .work(NAME, WORKERS, leadership, shutdown, |(namespace, name)| async move {
                self.sync(&namespace, &name).await.unwrap_or_else(Outcome::Failed)
            })
            .await;
    }

    /// Computes the status of a quota, and writes it if it differs.
    async fn sync(&self, namespace: &str, name: &str) -> Result<Outcome, Status> {
        let Some(quota) = self.quotas.get(namespace, name).await? else { return Ok(Outcome::Done) };
        let state = QuotaState::of(&quota);
        let mut used = state.used.clone();
        used.extend(self.usage(namespace, &state).await?);
        used.retain(|name, _| state.limits.contains_key(name));
        if state.enforced == state.limits && state.used == used {
            return Ok(Outcome::Done);
        }
        let read = metadata(&quota).at(ObjectMeta::RESOURCE_VERSION).str();
        let mut is_current = true;
        let written = self.quotas.update(namespace, name, "status", |quota| {
            // Admission has charged the quota meanwhile: what it charged may not be stored yet.
            is_current = metadata(quota).at(ObjectMeta::RESOURCE_VERSION).str() == read;
            if is_current {
                let mut status = FieldMut::<ResourceQuota>::root(quota).into_entry(ResourceQuota::STATUS);
                status.set(ResourceQuotaStatus::HARD, shown(&state.limits));
                status.set(ResourceQuotaStatus::USED, shown(&used));
            }
        });
        match written.await {
            Err(status) if status.is(StatusReason::NotFound) => Ok(Outcome::Done),
            Err(status) => Err(status),
            Ok(()) if is_current => Ok(Outcome::Done),
            Ok(()) => Ok(Outcome::Again(AFTER_CREATION)),
        }
    }

    /// Returns the usage of all objects in the namespace that a quota counts.
    async fn usage(&self, namespace: &str, quota: &QuotaState) -> Result<QuotaAmounts, Status> {
        let mut total = QuotaAmounts::new();
        let resources = deletable(&self.context.resources.snapshot());
        for resource in resources.iter().filter(|resource| resource.description.namespaced) {
            let Some(usage) = usage_of(resource) else { continue };
            let counted = usage.counted(quota);
            if counted.is_empty() {
                continue;
            }
            let mut sum = counted.clone();
            let mut page = resource.list(&Context::internal(namespace), &ListOptions::default()).await?;
            while let Some(chunk) = page.next_chunk() {
                for entry in chunk {
                    usage.add(&mut sum, quota, &resource.collection.decode_entry(&entry)?);
                }
            }
            sum.retain(|name, _| counted.contains_key(name));
            total.extend(sum);
        }
        Ok(total)
    }
}

/// Returns the usage of a resource's objects; `None` if quotas never count them.
fn usage_of(resource: &Resource) -> Option<QuotaUsage> {
    QuotaUsage::of(&resource.description.group, &resource.description.plural)
}

fn shown(amounts: &QuotaAmounts) -> Value {
    let shown = amounts.iter().map(|(name, amount)| (Text::from(name.as_str()), Value::from(amount.to_string())));
    Value::Object(shown.collect::<Object>())
}
