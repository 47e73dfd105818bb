//! PodGroupProtection and PodGroupWorkloadExists: a pod group cannot be deleted while it has pods, and its workload
//! template must exist (KEP-4671).

use std::sync::Arc;

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::scheduling::v1alpha2::{
    PodGroup, PodGroupSpec, PodGroupTemplate, PodGroupTemplateReference, Workload,
    WorkloadPodGroupTemplateReference as Reference, WorkloadSpec,
};
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, go_quote};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;

use crate::lookup::{Lookup, LookupKind, get_cached_or_stored};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_resource};

const FINALIZER: &str = "scheduling.k8s.io/podgroup-protection";

fn is_new_group(attributes: &Attributes) -> bool {
    attributes.operation == Operation::Create && is_resource(attributes, "scheduling.k8s.io", "podgroups")
}

/// Adds a finalizer, which a controller removes once no pod references the group.
pub(crate) struct PodGroupProtection {
    /// True if the feature gate `GenericWorkload` is enabled.
    enabled: bool,
}

impl PodGroupProtection {
    pub(crate) fn new(enabled: bool) -> Self {
        Self { enabled }
    }
}

impl Plugin for PodGroupProtection {
    fn name(&self) -> &'static str {
        "PodGroupProtection"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate && is_new_group(attributes) && self.enabled
    }

    fn mutate<'a>(&'a self, _: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let finalizers = metadata(object).at(ObjectMeta::FINALIZERS).detached();
        if !finalizers.contains(FINALIZER) {
            let all = [finalizers.list(), &[FINALIZER.into()]].concat();
            FieldMut::<PodGroup>::root(object).entry(PodGroup::METADATA).set(ObjectMeta::FINALIZERS, all);
        }
        Box::pin(async { Ok(()) })
    }
}

pub(crate) struct PodGroupWorkloadExists {
    lookup: Arc<dyn Lookup>,
    /// True if the feature gate `GenericWorkload` is enabled.
    enabled: bool,
}

impl PodGroupWorkloadExists {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, enabled: bool) -> Self {
        Self { lookup, enabled }
    }

    async fn check(&self, namespace: &str, group: &Value) -> Result<Result<(), String>, Status> {
        let spec = FieldRef::<PodGroup>::root(group).at(PodGroup::SPEC).detached();
        let reference = spec.at(PodGroupSpec::POD_GROUP_TEMPLATE_REF);
        let Some(reference) = reference.at(PodGroupTemplateReference::WORKLOAD).set() else { return Ok(Ok(())) };
        let name = reference.at(Reference::WORKLOAD_NAME).str();
        let template = reference.at(Reference::POD_GROUP_TEMPLATE_NAME).str();
        let quoted = go_quote(name);
        let workload = get_cached_or_stored(&*self.lookup, LookupKind::Workload, namespace, name).await;
        let workload = workload.map_err(|status| Status::internal(status.message()))?;
        let Some(workload) = workload else {
            return Ok(Err(format!("PodGroup rejected: Workload {quoted} not found")));
        };
        if metadata(&workload).at(ObjectMeta::DELETION_TIMESTAMP).is_set() {
            return Ok(Err(format!("PodGroup rejected: Workload {quoted} is being deleted")));
        }
        let spec = FieldRef::<Workload>::root(&workload).at(Workload::SPEC).detached();
        let mut templates = spec.at(WorkloadSpec::POD_GROUP_TEMPLATES).values();
        if templates.any(|known| known.at(PodGroupTemplate::NAME).str() == template) {
            return Ok(Ok(()));
        }
        let template = go_quote(template);
        Ok(Err(format!("PodGroup rejected: PodGroupTemplate {template} not found in Workload {quoted}")))
    }
}

impl Plugin for PodGroupWorkloadExists {
    fn name(&self) -> &'static str {
        "PodGroupWorkloadExists"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate && is_new_group(attributes) && self.enabled
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let outcome = self.check(&request.attributes.namespace, object).await?;
            outcome.map_err(|why| forbidden(request.attributes, object, why))
        })
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use binnacle_registry::RequestNotes;

    use super::*;
    use crate::testing::{FixedLookup, attributes};

    fn request() -> Attributes {
        attributes(Operation::Create, ["scheduling.k8s.io", "v1alpha2", "podgroups"], "PodGroup", "")
    }

    #[tokio::test]
    async fn adds_finalizer_once() {
        let attributes = request();
        assert!(!PodGroupProtection::new(false).handles(Stage::Mutate, &attributes), "the gate is off by default");
        let mut group = WriteObject::from(value!({"metadata": {"name": "x", "finalizers": ["a.test/b"]}}));
        for _ in 0..2 {
            PodGroupProtection::new(true)
                .mutate(Request::new(&attributes, None, &RequestNotes::default()), &mut group)
                .await
                .expect("admitted");
            assert_eq!(group.at(&["metadata", "finalizers"]), Some(&value!(["a.test/b", FINALIZER])));
        }
    }

    #[tokio::test]
    async fn requires_existing_workload_and_template() {
        let workload = |name: &str| value!({"metadata": {"name": name, "namespace": "ns"}, "spec": {"podGroupTemplates": [{"name": "t"}]}});
        let mut terminating = workload("going");
        terminating.make_at(&["metadata"]).insert("deletionTimestamp", "2026-01-01T00:00:00Z");
        let plugin = PodGroupWorkloadExists::new(
            FixedLookup::new(vec![(LookupKind::Workload, workload("w")), (LookupKind::Workload, terminating)]),
            true,
        );
        for (name, template, want) in [
            ("w", "t", None),
            ("w", "u", Some("PodGroupTemplate \"u\" not found in Workload \"w\"")),
            ("v", "t", Some("Workload \"v\" not found")),
            ("going", "t", Some("Workload \"going\" is being deleted")),
        ] {
            let reference = value!({"workloadName": name, "podGroupTemplateName": template});
            let group = value!({"metadata": {"name": "x"}, "spec": {"podGroupTemplateRef": {"workload": reference}}});
            let attributes = request();
            let refused =
                plugin.validate(Request::new(&attributes, None, &RequestNotes::default()), &group.into()).await.err();
            let want =
                want.map(|why| format!("podgroups.scheduling.k8s.io \"x\" is forbidden: PodGroup rejected: {why}"));
            assert_eq!(refused.map(|status| status.message().to_owned()), want);
        }
        let free = value!({"metadata": {"name": "x"}, "spec": {"podGroupTemplateRef": null}});
        let attributes = request();
        plugin
            .validate(Request::new(&attributes, None, &RequestNotes::default()), &free.into())
            .await
            .expect("admitted");
    }
}
