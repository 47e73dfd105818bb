//! The status of ValidatingAdmissionPolicies: type errors of their expressions for the kinds that they match.
//!
//! In Kubernetes, kube-controller-manager writes this status. Without it, clients would never see the warnings.
//! Therefore this server writes the status of a policy that still has none after a grace period, under the controller's
//! field manager. Policies that the controller has handled stay unchanged.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use binnacle_admission_policies::{ExpressionWarning, RemoteKinds, expression_warnings};
use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{
    ValidatingAdmissionPolicy as Policy, ValidatingAdmissionPolicyStatus as PolicyStatus,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_meta::{Status, Text};
use binnacle_registry::{Catalog, Resource};
use binnacle_schema::{Object, Value, value};
use tokio::time::Instant;

use binnacle_controllers::Objects;
use binnacle_controllers::{ChangeWatcher, Changes};

const GROUP: &str = "admissionregistration.k8s.io";
const PLURAL: &str = "validatingadmissionpolicies";
/// The field manager of the status.
const MANAGER: &str = "validatingadmissionpolicy-status";
/// The grace period for kube-controller-manager to write the status.
const PATIENCE: Duration = Duration::from_secs(10);

/// Watches the policies until the task is aborted.
pub(crate) async fn run(resources: Catalog, policies: Arc<Resource>, others: Arc<dyn RemoteKinds>) {
    let mut changes = ChangeWatcher::all(&policies);
    // Policies without a current status, and the time at which this server writes one.
    let mut due: HashMap<Text, Instant> = HashMap::new();
    loop {
        let next = due.values().min().copied();
        let wait = async {
            match next {
                Some(next) => tokio::time::sleep_until(next).await,
                None => std::future::pending().await,
            }
        };
        let outcome = tokio::select! {
            changed = changes.changed() => enqueue(&resources, changed, &mut due).await,
            () = wait => write_due(&resources, &*others, &mut due).await,
        };
        if let Err(status) = outcome {
            tracing::warn!(error = status.message(), "failed to sync status of admission policies, retrying");
            changes = ChangeWatcher::all(&policies);
            tokio::time::sleep(PATIENCE).await;
        }
    }
}

/// Records changed policies without a current status in `due`.
async fn enqueue(resources: &Catalog, changed: Changes, due: &mut HashMap<Text, Instant>) -> Result<(), Status> {
    let objects = Objects::new(resources, GROUP, "v1", PLURAL)?;
    let at = Instant::now() + PATIENCE;
    let found = match changed {
        Changes::Anything => objects.list("").await?,
        Changes::Named(names) => {
            let mut found = Vec::new();
            for name in names {
                match objects.get("", &name).await? {
                    Some(policy) => found.push(policy),
                    None => drop(due.remove(&name)),
                }
            }
            found
        }
    };
    for policy in found {
        let policy = FieldRef::<Policy>::root(&policy);
        let name = Text::from(policy.at(Policy::METADATA).at(ObjectMeta::NAME).str());
        if is_current(policy) {
            due.remove(&name);
        } else {
            due.entry(name).or_insert(at);
        }
    }
    Ok(())
}

/// Writes the status of policies that are due.
async fn write_due(
    resources: &Catalog,
    others: &dyn RemoteKinds,
    due: &mut HashMap<Text, Instant>,
) -> Result<(), Status> {
    let objects = Objects::new(resources, GROUP, "v1", PLURAL)?;
    let now = Instant::now();
    let names: Vec<Text> = due.iter().filter(|(_, at)| **at <= now).map(|(name, _)| name.clone()).collect();
    for name in names {
        due.remove(&name);
        let Some(policy) = objects.get("", &name).await?.filter(|policy| !is_current(FieldRef::root(policy))) else {
            continue;
        };
        let warnings = expression_warnings(&policy, &resources.snapshot(), others).await;
        let generation = generation(FieldRef::root(&policy));
        let applied = objects.apply_status(&name, MANAGER, configuration(&name, generation, &warnings)).await;
        if let Err(status) = applied {
            tracing::warn!(policy = %name, error = status.message(), "failed to update status of admission policy");
        }
    }
    Ok(())
}

/// Returns true if the status has been written for the current generation of the policy.
fn is_current(policy: FieldRef<Policy>) -> bool {
    generation(policy) <= policy.at(Policy::STATUS).at(PolicyStatus::OBSERVED_GENERATION).int_or_zero()
}

fn generation(policy: FieldRef<Policy>) -> i64 {
    policy.at(Policy::METADATA).at(ObjectMeta::GENERATION).int_or_zero()
}

fn configuration(name: &str, generation: i64, warnings: &[ExpressionWarning]) -> Value {
    let warning = |found: &ExpressionWarning| {
        let (field, warning) = (found.field.as_str(), found.warning.as_str());
        value!({"fieldRef": field, "warning": warning})
    };
    let mut checked = Object::new();
    if !warnings.is_empty() {
        checked.insert("expressionWarnings", Value::List(warnings.iter().map(warning).collect()));
    }
    let checked = Value::Object(checked);
    value!({"metadata": {"name": name}, "status": {"observedGeneration": generation, "typeChecking": checked}})
}
