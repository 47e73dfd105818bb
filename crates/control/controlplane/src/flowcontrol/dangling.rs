//! The `Dangling` condition of flow schemas: whether the priority level that a schema references is missing.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use binnacle_fields::flowcontrol::v1::{
    FlowSchema, FlowSchemaCondition as Condition, FlowSchemaSpec, FlowSchemaStatus, PriorityLevelConfigurationReference,
};
use binnacle_fields::meta::v1::{ObjectMeta, PartialObjectMetadata};
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{Status, StatusReason};
use binnacle_patch::apply::{Apply, Update, Versions, apply};
use binnacle_registry::{Catalog, Context, Match, Resource, UpdateOptions, rfc3339};
use binnacle_request::{BoxFuture, Shutdown};
use binnacle_schema::{Message, Value, decode, value};
use tokio::sync::watch;

use super::{GROUP, LEVELS, SCHEMAS, VERSION};
use crate::context::ControllerContext;
use binnacle_controllers::ChangeWatcher;
use binnacle_controllers::Objects;
use binnacle_controllers::{RETRY_FIRST, RETRY_LAST};

const MANAGER: &str = "api-priority-and-fairness-config-consumer-v1";

/// Checks all schemas whenever a schema or a level changes, since there are few of both.
pub(crate) fn maintain_conditions(
    ctx: Arc<ControllerContext>,
    done: watch::Sender<bool>,
    shutdown: Shutdown,
) -> BoxFuture<'static, ()> {
    Box::pin(async move {
        let find = |plural| ctx.resources.require(GROUP, VERSION, plural);
        let (Ok(schemas), Ok(levels)) = (find(SCHEMAS), find(LEVELS)) else { return };
        let (mut schemas, mut levels) = (ChangeWatcher::all(&schemas), ChangeWatcher::all(&levels));
        // Both are watched before the first check, which is one then.
        tokio::select! {
            _ = async { tokio::join!(schemas.changed(), levels.changed()) } => {}
            () = shutdown.fired() => return,
        }
        let mut retry: Option<Duration> = Some(Duration::ZERO);
        let queue = ctx.config.queues.queue("priority_and_fairness_config_queue");
        loop {
            tokio::select! {
                _ = schemas.changed() => {}
                _ = levels.changed() => {}
                () = tokio::time::sleep(retry.unwrap_or_default()), if retry.is_some() => {}
                () = shutdown.fired() => return,
            }
            let item = queue.add().begin();
            let outcome = update_conditions(&ctx.resources).await;
            drop(item);
            retry = match outcome {
                Ok(()) => {
                    done.send_replace(true);
                    None
                }
                Err(status) => {
                    tracing::warn!(error = status.message(), "failed to update conditions of flow schemas, retrying");
                    queue.retry(1);
                    Some(retry.map_or(RETRY_FIRST, |retry| (retry * 2).min(RETRY_LAST)))
                }
            };
        }
    })
}

async fn update_conditions(resources: &Catalog) -> Result<(), Status> {
    let schemas = Objects::new(resources, GROUP, VERSION, SCHEMAS)?;
    let levels = Objects::new(resources, GROUP, VERSION, LEVELS)?;
    let levels = levels.list_as("", Match::Any).await?;
    let levels: HashSet<&str> = levels.iter().map(|level| metadata(level).at(ObjectMeta::NAME).str()).collect();
    for schema in schemas.list_as("", Match::Any).await? {
        let schema = FieldRef::<FlowSchema>::root(&schema);
        let level = schema.at(FlowSchema::SPEC).at(FlowSchemaSpec::PRIORITY_LEVEL_CONFIGURATION).detached();
        let level = level.at(PriorityLevelConfigurationReference::NAME).str();
        let (status, reason, suffix) = if levels.contains(level) {
            ("False", "Found", "and it exists")
        } else {
            ("True", "NotFound", "but there is no such object")
        };
        let quoted = binnacle_meta::go_quote(level);
        let message =
            format!("This FlowSchema references the PriorityLevelConfiguration object named {quoted} {suffix}");
        let is_current = schema.at(FlowSchema::STATUS).at(FlowSchemaStatus::CONDITIONS).values().any(|condition| {
            let is = |field, text: &str| condition.at(field).str() == text;
            is(Condition::TYPE, "Dangling")
                && is(Condition::STATUS, status)
                && is(Condition::REASON, reason)
                && is(Condition::MESSAGE, &message)
        });
        if !is_current {
            let condition = value!({
                "type": "Dangling", "status": status, "lastTransitionTime": (rfc3339(SystemTime::now())),
                "reason": reason, "message": message
            });
            apply_condition(schemas.resource(), schema.at(FlowSchema::METADATA).at(ObjectMeta::NAME).str(), condition)
                .await?;
        }
    }
    Ok(())
}

/// Applies the condition, without those of other managers.
async fn apply_condition(resource: &Resource, name: &str, condition: Value) -> Result<(), Status> {
    let context = Context::internal("");
    let config = value!({
        "apiVersion": (resource.api_version()), "kind": (resource.description.kind.clone()),
        "metadata": {"name": name}, "status": {"conditions": [condition]}
    });
    let description = &resource.description;
    let reset = description.subresource("status").map_or(&description.resets, |status| &status.resets);
    let update = Update {
        message: &resource.message,
        api_version: resource.api_version(),
        manager: MANAGER,
        subresource: "status",
        now: context.now_seconds(),
        reset,
    };
    let options = UpdateOptions { subresource: "status".into(), ..UpdateOptions::default() };
    let mut change = |live: Option<&Value>| {
        let live = live.ok_or_else(|| Status::not_found(&resource.group_resource(), name))?;
        let request = Apply { update, force: true, versions: &SingleVersion(resource) };
        let applied = apply(&request, Some(live), &config).map_err(Status::internal)?;
        decode::value(applied.object, &resource.message).map(|decoded| decoded.value.into()).map_err(Status::internal)
    };
    match resource.update(&context, name, &options, &mut change).await {
        // The schema was deleted meanwhile.
        Err(status) if status.is(StatusReason::NotFound) => Ok(()),
        updated => updated.map(|_| ()),
    }
}

/// Conversions of flow schemas, which are served only in the storage version.
struct SingleVersion<'a>(&'a Resource);

impl Versions for SingleVersion<'_> {
    fn convert(&self, object: &Value, api_version: &str) -> Option<(Value, &Message)> {
        let (group, version) = api_version.split_once('/')?;
        let message = self.0.collection.kinds().kind(group, version, "FlowSchema")?;
        let object_version =
            FieldRef::<PartialObjectMetadata>::root(object).at(PartialObjectMetadata::API_VERSION).str();
        (object_version == api_version).then(|| (object.clone(), message))
    }
}
