//! Eviction: deletes a pod within the limits of its disruption budget (KEP-85).

use std::sync::Arc;
use std::time::Duration;

use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_fields::core::v1::{Pod, PodCondition, PodStatus};
use binnacle_fields::meta::v1;
use binnacle_fields::policy::v1::{
    self as policy, PodDisruptionBudget as Budget, PodDisruptionBudgetSpec as BudgetSpec,
    PodDisruptionBudgetStatus as BudgetStatus,
};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{GroupKind, GroupResource, Status, StatusReason, Text};
use binnacle_registry::admission::{Admission, AdmitAll};
use binnacle_registry::{Catalog, Context, DeleteOptions, Match, Resource, UpdateOptions, object, rfc3339};
use binnacle_request::BoxFuture;
use binnacle_schema::{Value, value};

use super::{budgets, conditions};
use crate::posted_object::{PostedKind, PostedObject};

const KIND: PostedKind = PostedKind { other_versions: &["v1beta1"], ..PostedKind::new("policy", "v1", "Eviction") };
/// The maximum number of attempts to delete after conflicts, and the delay between them.
const MAX_ATTEMPTS: u32 = 20;
const RETRY_INTERVAL: Duration = Duration::from_millis(500);

pub(crate) struct Eviction {
    resources: Catalog,
    admission: Arc<dyn Admission>,
}

impl Eviction {
    pub(crate) fn new(resources: Catalog, admission: Arc<dyn Admission>) -> Self {
        Self { resources, admission }
    }

    async fn evict(&self, call: SubresourceCall) -> HandlerResult {
        let posted = PostedObject::read(call, &KIND, &self.admission).await?;
        let name = posted.name();
        if object::name(&posted.object) != name {
            return Err(Status::bad_request("name in URL does not match name in Eviction object"));
        }
        let options = delete_options(&posted, name)?;
        posted.validate(&self.admission).await?;
        // Only the eviction is subject to admission.
        let pods = self.resources.require("", "v1", "pods")?.with_admission(Arc::new(AdmitAll));
        let dry_run = !options.dry_run.is_empty();
        let context = Context::new(posted.context.user.clone(), posted.context.namespace.clone(), dry_run);
        let eviction = PodEviction { pods, context, options };
        if let Some(pod) = eviction.delete_unguarded(name).await? {
            let budgets = self.resources.require("policy", "v1", "poddisruptionbudgets")?;
            eviction.delete_guarded(&budgets, &pod).await?;
        }
        Ok(posted.success_response())
    }
}

impl SubresourceHandler for Eviction {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.evict(call))
    }
}

/// Returns the options for deleting the pod; a dry run may be requested in the query or in the body.
fn delete_options(posted: &PostedObject, name: &str) -> Result<DeleteOptions, Status> {
    let eviction = FieldRef::<policy::Eviction>::root(&posted.object);
    let sent = eviction.at(policy::Eviction::DELETE_OPTIONS);
    let ignores_errors = sent.at(v1::DeleteOptions::IGNORE_STORE_READ_ERROR_WITH_CLUSTER_BREAKING_POTENTIAL);
    if ignores_errors.bool() {
        let errors = ignores_errors.invalid("can not be set for pod eviction, try after removing the option").into();
        return Err(Status::invalid(&GroupKind::new(KIND.group, KIND.kind), name, &errors));
    }
    let mut options = DeleteOptions::from_object(sent.value());
    if options.dry_run.is_empty() {
        options.dry_run.clone_from(&posted.dry_run);
    } else if !posted.dry_run.is_empty() && posted.dry_run != options.dry_run {
        let (request, content) = (posted.dry_run.join(" "), options.dry_run.join(" "));
        let why = format!("Non-matching dry-run options in request and content: [{request}] and [{content}]");
        return Err(Status::unknown(500, &why));
    }
    Ok(options)
}

/// An eviction in progress.
struct PodEviction {
    pods: Resource,
    context: Context,
    options: DeleteOptions,
}

impl PodEviction {
    /// Deletes a pod that no budget covers, because it has finished, has not started, or is being deleted. Returns any
    /// other pod.
    async fn delete_unguarded(&self, name: &str) -> Result<Option<Value>, Status> {
        let mut attempt = 1;
        loop {
            let pod = self.pods.get_object(&self.context, name, Match::Consistent).await?.object;
            let phase = FieldRef::<Pod>::root(&pod).at(Pod::STATUS).at(PodStatus::PHASE).str();
            let has_ended = matches!(phase, "Succeeded" | "Failed") || object::is_deleting(&pod);
            if !has_ended && phase != "Pending" {
                return Ok(Some(pod));
            }
            let mut options = self.options.clone();
            // The delete must fail if the pod has started in the meantime.
            if !has_ended && options.resource_version.is_none() {
                options.resource_version = Some(object::resource_version(&pod).into());
            }
            match self.delete(name, options).await {
                Err(status)
                    if status.is(StatusReason::Conflict)
                        && self.options.resource_version.is_none()
                        && attempt < MAX_ATTEMPTS =>
                {
                    attempt += 1;
                    tokio::time::sleep(RETRY_INTERVAL).await;
                }
                deleted => return deleted.map(|()| None),
            }
        }
    }

    /// Deletes a pod that a budget may cover, if the budget allows it.
    async fn delete_guarded(&self, budgets: &Resource, pod: &Value) -> Result<(), Status> {
        let name = object::name(pod);
        let mut found = budgets::for_pod(budgets, pod).await?;
        let budget = match found.len() {
            0 => return self.delete(name, self.options.clone()).await,
            1 => found.remove(0),
            _ => {
                let why =
                    "This pod has more than one PodDisruptionBudget, which the eviction subresource does not support.";
                return Err(Status::unknown(500, why));
            }
        };
        if !is_ready(pod) && exempts_unready(&budget) {
            // The delete must fail if the pod has become ready in the meantime.
            let mut options = self.options.clone();
            let is_version_added = options.resource_version.is_none();
            options.resource_version = Some(object::resource_version(pod).into());
            return match self.delete(name, options).await {
                Err(status) if status.is(StatusReason::Conflict) && is_version_added => {
                    Err(budgets::retry_later(object::name(&budget)))
                }
                deleted => deleted,
            };
        }
        // An eviction with invalid options fails, so it must not use the budget.
        let skips_budget = self.context.dry_run || self.options.validate().is_err();
        budgets::use_disruption(budgets, &budget, pod, skips_budget).await?;
        self.delete(name, self.options.clone()).await
    }

    /// Sets the condition with the reason, and deletes the pod.
    async fn delete(&self, name: &str, mut options: DeleteOptions) -> Result<(), Status> {
        if !self.context.dry_run {
            let update = UpdateOptions { subresource: "status".into(), ..UpdateOptions::default() };
            let mut change = |live: Option<&Value>| {
                let live = live.ok_or_else(|| Status::not_found(&self.pods.group_resource(), name))?;
                check_preconditions(live, &options)?;
                // kube-apiserver validates the options only after writing the condition.
                options.validate()?;
                let mut pod = live.clone();
                let condition = value!({
                    "type": "DisruptionTarget", "status": "True", "reason": "EvictionByEvictionAPI",
                    "message": "Eviction API: evicting"
                });
                let mut changed = FieldMut::<Pod>::root(&mut pod);
                conditions::set(changed.entry(Pod::STATUS), condition, &rfc3339(self.context.now));
                Ok(pod.into())
            };
            let updated = self.pods.update(&self.context, name, &update, &mut change).await?;
            // The precondition must match our own update of the status.
            if options.resource_version.is_some() {
                options.resource_version = Some(updated.stored.revision.0.to_string().into());
            }
        }
        self.pods.delete(&self.context, name, &options).await.map(|_| ())
    }
}

fn check_preconditions(pod: &Value, options: &DeleteOptions) -> Result<(), Status> {
    let conflict = |why: String| Status::conflict(&GroupResource::new("", "Pod"), object::name(pod), why);
    let precondition = |option: &Option<Text>| option.as_ref().filter(|text| !text.is_empty()).cloned();
    if let Some(uid) = precondition(&options.uid)
        && uid != object::uid(pod)
    {
        return Err(conflict(format!(
            "the UID in the precondition ({uid}) does not match the UID in record ({}). The object might have been deleted and then recreated",
            object::uid(pod)
        )));
    }
    if let Some(version) = precondition(&options.resource_version)
        && version != object::resource_version(pod)
    {
        return Err(conflict(format!(
            "the ResourceVersion in the precondition ({version}) does not match the ResourceVersion in record ({}). The object might have been modified",
            object::resource_version(pod)
        )));
    }
    Ok(())
}

fn is_ready(pod: &Value) -> bool {
    let pod = FieldRef::<Pod>::root(pod);
    let status = pod.at(Pod::STATUS);
    let conditions = status.at(PodStatus::CONDITIONS);
    let ready = conditions.items().find(|condition| condition.at(PodCondition::TYPE).str() == "Ready");
    ready.is_some_and(|ready| ready.at(PodCondition::STATUS).str() == "True")
}

/// Returns true if a pod that is not ready does not use the budget (KEP-3017): always, or while enough pods are
/// healthy.
fn exempts_unready(budget: &Value) -> bool {
    let budget = FieldRef::<Budget>::root(budget);
    let status = budget.at(Budget::STATUS);
    let desired = status.at(BudgetStatus::DESIRED_HEALTHY).int_or_zero();
    budget.at(Budget::SPEC).at(BudgetSpec::UNHEALTHY_POD_EVICTION_POLICY).str() == "AlwaysAllow"
        || (desired > 0 && status.at(BudgetStatus::CURRENT_HEALTHY).int_or_zero() >= desired)
}
