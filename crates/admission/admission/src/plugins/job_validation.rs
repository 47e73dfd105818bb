//! JobValidation: the parallelism of a job with gang-scheduled pods cannot change (KEP-4671).

use std::sync::Arc;

use binnacle_fields::batch::v1::{Job, JobSpec};
use binnacle_fields::core::v1::{PodSchedulingGroup, PodSpec, PodTemplateSpec};
use binnacle_fields::meta::v1::{ObjectMeta, OwnerReference};
use binnacle_fields::scheduling::v1alpha2::{PodGroup, PodGroupSchedulingPolicy, PodGroupSpec};
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::{Status, go_quote};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::lookup::{Freshness, Lookup, LookupKind};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

pub(crate) struct JobValidation {
    lookup: Arc<dyn Lookup>,
    /// True if the feature gate `GenericWorkload` is enabled.
    enabled: bool,
}

impl JobValidation {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, enabled: bool) -> Self {
        Self { lookup, enabled }
    }

    /// Returns the name of the pod group that gang-schedules the job's pods: that of the pod template, or else one that
    /// the job controls; `None` if it cannot be read.
    async fn gang(&self, namespace: &str, job: &Value) -> Option<String> {
        let template = FieldRef::<Job>::root(job).at(Job::SPEC).at(JobSpec::TEMPLATE).detached();
        let group = template.at(PodTemplateSpec::SPEC).at(PodSpec::SCHEDULING_GROUP).detached();
        let named = group.at(PodSchedulingGroup::POD_GROUP_NAME).str();
        let groups = if named.is_empty() {
            let mut groups = self.lookup.list(LookupKind::PodGroup, namespace, Freshness::Cached).await.ok()?;
            groups.retain(|group| is_controlled_by(group, job));
            groups
        } else {
            vec![self.lookup.get(LookupKind::PodGroup, namespace, named, Freshness::Cached).await.ok()??]
        };
        let is_gang = |group: &FieldRef<PodGroup>| {
            let policy = group.at(PodGroup::SPEC).at(PodGroupSpec::SCHEDULING_POLICY).detached();
            policy.at(PodGroupSchedulingPolicy::GANG).is_set()
        };
        let gang = groups.iter().map(|group| FieldRef::root(group)).find(is_gang)?;
        Some(gang.at(PodGroup::METADATA).at(ObjectMeta::NAME).str().to_owned())
    }
}

impl Plugin for JobValidation {
    fn name(&self) -> &'static str {
        "JobValidation"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate
            && attributes.operation == Operation::Update
            && is_resource(attributes, "batch", "jobs")
            && self.enabled
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let Some(old) = request.old else { return Ok(()) };
            let parallelism = |job| FieldRef::<Job>::root(job).at(Job::SPEC).at(JobSpec::PARALLELISM).int();
            if parallelism(old) == parallelism(object) {
                return Ok(());
            }
            let Some(group) = self.gang(&request.attributes.namespace, old).await else { return Ok(()) };
            let why =
                format!("cannot change parallelism for a Job referencing gang-scheduled PodGroup {}", go_quote(&group));
            Err(forbidden(request.attributes, object, why))
        })
    }
}

fn is_controlled_by(group: &Value, job: &Value) -> bool {
    let uid = metadata(job).at(ObjectMeta::UID).str();
    let mut owners = metadata(group).at(ObjectMeta::OWNER_REFERENCES).values();
    owners.any(|owner| owner.at(OwnerReference::CONTROLLER).bool() && owner.at(OwnerReference::UID).str() == uid)
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use binnacle_registry::RequestNotes;

    use super::*;
    use crate::testing::{FixedLookup, attributes};

    #[tokio::test]
    async fn rejects_changed_parallelism_of_gang_jobs() {
        let group = |name: &str, owner: &str, policy: Value| {
            let owners = value!([{"uid": owner, "controller": true}]);
            let metadata = value!({"name": name, "namespace": "ns", "ownerReferences": owners});
            (LookupKind::PodGroup, value!({"metadata": metadata, "spec": {"schedulingPolicy": policy}}))
        };
        let plugin = JobValidation::new(
            FixedLookup::new(vec![
                group("basic", "1", value!({"basic": {}})),
                group("gang", "2", value!({"gang": {"minCount": 2i64}})),
            ]),
            true,
        );
        for (uid, named, parallelism, want) in [
            ("1", "", 2, None),
            ("2", "", 1, None),
            ("2", "", 2, Some("gang")),
            ("1", "gang", 2, Some("gang")),
            ("2", "basic", 2, None),
            ("2", "absent", 2, None),
        ] {
            let job = |parallelism: i64| {
                let mut job = value!({"metadata": {"name": "x", "uid": uid}, "spec": {"parallelism": parallelism}});
                if !named.is_empty() {
                    job.make_at(&["spec", "template", "spec", "schedulingGroup"]).insert("podGroupName", named);
                }
                job
            };
            let attributes = attributes(Operation::Update, ["batch", "v1", "jobs"], "Job", "");
            let (old, new) = (job(1), job(parallelism));
            let refused = plugin
                .validate(Request::new(&attributes, Some(&old), &RequestNotes::default()), &new.into())
                .await
                .err();
            let want = want.map(|name| format!("jobs.batch \"x\" is forbidden: cannot change parallelism for a Job referencing gang-scheduled PodGroup \"{name}\""));
            assert_eq!(refused.map(|status| status.message().to_owned()), want, "{uid} {named} {parallelism}");
        }
    }
}
