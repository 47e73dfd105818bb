//! Rules for all kinds that create pods from a template.

pub(crate) mod validation;

use binnacle_fields::apps::v1::{
    DaemonSet, DaemonSetSpec, DaemonSetStatus, Deployment, DeploymentSpec, DeploymentStatus, ReplicaSet,
    ReplicaSetSpec, ReplicaSetStatus, StatefulSet, StatefulSetSpec, StatefulSetStatus,
};
use binnacle_fields::batch::v1::{Job, JobSpec, JobStatus};
use binnacle_fields::core::v1::{
    PodTemplateSpec, ReplicationController, ReplicationControllerSpec, ReplicationControllerStatus,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::{Int, Kind};
use binnacle_fields::{Field, FieldMut, FieldRef, Message, route};
use binnacle_meta::FieldErrors;
use binnacle_schema::Value;
use binnacle_validation::names;

use crate::equality::equal;
use crate::gated::GatedFields;
use crate::pod_spec::{drop_disabled_spec_fields, warnings};
use crate::prepare::count_generation_if;
use crate::{Features, Strategy, StrategyContext};

/// A kind with a status and a spec that has a pod template.
pub(crate) trait Workload: Kind {
    type Spec: Message;
    type Status: Message;
    const SPEC: Field<Self, Self::Spec>;
    const STATUS: Field<Self, Self::Status>;
    const TEMPLATE: Field<Self::Spec, PodTemplateSpec>;
}

/// A workload with a number of replicas that the `scale` subresource changes.
pub(crate) trait Scalable: Workload {
    const REPLICAS: Field<Self::Spec, Int>;
}

macro_rules! workloads {
    ($($kind:ident: $spec:ident, $status:ident;)*) => {$(
        impl Workload for $kind {
            type Spec = $spec;
            type Status = $status;
            const SPEC: Field<Self, $spec> = Self::SPEC;
            const STATUS: Field<Self, $status> = Self::STATUS;
            const TEMPLATE: Field<$spec, PodTemplateSpec> = $spec::TEMPLATE;
        }
    )*};
}

macro_rules! scalable {
    ($($kind:ident: $spec:ident;)*) => {$(
        impl Scalable for $kind {
            const REPLICAS: Field<$spec, Int> = $spec::REPLICAS;
        }
    )*};
}

workloads! {
    DaemonSet: DaemonSetSpec, DaemonSetStatus;
    Deployment: DeploymentSpec, DeploymentStatus;
    Job: JobSpec, JobStatus;
    ReplicaSet: ReplicaSetSpec, ReplicaSetStatus;
    ReplicationController: ReplicationControllerSpec, ReplicationControllerStatus;
    StatefulSet: StatefulSetSpec, StatefulSetStatus;
}

scalable! {
    Deployment: DeploymentSpec;
    ReplicaSet: ReplicaSetSpec;
    ReplicationController: ReplicationControllerSpec;
    StatefulSet: StatefulSetSpec;
}

/// The gated counts in the status of deployments.
pub(crate) const DEPLOYMENT_GATED: &[GatedFields<Deployment>] = &[GatedFields {
    feature: "DeploymentReplicaSetTerminatingReplicas",
    fields: &[route![Deployment::STATUS, DeploymentStatus::TERMINATING_REPLICAS]],
}];

/// The gated counts in the status of replica sets.
pub(crate) const REPLICA_SET_GATED: &[GatedFields<ReplicaSet>] = &[GatedFields {
    feature: "DeploymentReplicaSetTerminatingReplicas",
    fields: &[route![ReplicaSet::STATUS, ReplicaSetStatus::TERMINATING_REPLICAS]],
}];

/// Prepares the usual create: no status, the first generation, a template without disabled fields.
pub(crate) fn prepare_create<W: Workload>(features: &Features, object: &mut FieldMut<W>) {
    object.remove(W::STATUS);
    object.entry(W::METADATA).set(ObjectMeta::GENERATION, 1i64);
    drop_disabled_template_fields(features, object, None);
}

/// Prepares the usual update: keeps the status, and increases the generation if the spec changed.
pub(crate) fn prepare_update<W: Workload>(features: &Features, object: &mut FieldMut<W>, old: FieldRef<W>) {
    object.keep(old, W::STATUS);
    drop_disabled_template_fields(features, object, Some(old));
    count_generation(object, old);
}

/// Increases the generation if the spec changed.
pub(crate) fn count_generation<W: Workload>(object: &mut FieldMut<W>, old: FieldRef<W>) {
    count_generation_if(!equal(object.read().at(W::SPEC), old.at(W::SPEC)), object, old);
}

/// Prepares an update through a subresource of a workload: `scale` changes only the replicas, `status` keeps the spec.
/// Returns true for `scale`, which needs no further preparation.
pub(crate) fn prepare_subresource<W: Scalable>(
    workload: &dyn Strategy,
    subresource: &str,
    ctx: &StrategyContext<'_>,
    object: &mut Value,
    old_object: &Value,
) -> bool {
    let old = FieldRef::<W>::root(old_object);
    let mut scaled = FieldMut::<W>::root(object);
    let replicas = scaled.read().at(W::SPEC).at(W::REPLICAS).value().clone();
    scaled.keep(old, W::SPEC);
    if subresource != "scale" {
        return false;
    }
    scaled.keep(old, W::STATUS);
    if !replicas.is_null() {
        scaled.entry(W::SPEC).set(W::REPLICAS, replicas);
    }
    workload.prepare_for_update(ctx, object, old_object);
    true
}

/// Validates an update through a subresource of a workload: as any update for `scale`, by the rules of the status
/// otherwise.
pub(crate) fn validate_subresource<W: Workload>(
    workload: &dyn Strategy,
    subresource: &str,
    ctx: &StrategyContext<'_>,
    (object, old): (&Value, &Value),
    status: impl FnOnce(FieldRef<W>, FieldRef<W>) -> FieldErrors,
) -> FieldErrors {
    match subresource {
        "scale" => workload.validate_update(ctx, object, old),
        _ => status(FieldRef::root(object), FieldRef::root(old)),
    }
}

/// Drops disabled fields from the template.
pub(crate) fn drop_disabled_template_fields<W: Workload>(
    features: &Features,
    object: &mut FieldMut<W>,
    old: Option<FieldRef<W>>,
) {
    let Some(mut spec) = object.structure(W::SPEC) else { return };
    let old = old.map(|old| old.at(W::SPEC).at(W::TEMPLATE).value());
    drop_disabled_fields(features, spec.structure(W::TEMPLATE), old.map(FieldRef::root));
}

/// Drops disabled fields from a template, wherever it is in an object.
pub(crate) fn drop_disabled_fields(
    features: &Features,
    template: Option<FieldMut<PodTemplateSpec>>,
    old: Option<FieldRef<PodTemplateSpec>>,
) {
    let Some(mut template) = template else { return };
    let Some(mut spec) = template.structure(PodTemplateSpec::SPEC) else { return };
    drop_disabled_spec_fields(features, spec.value(), old.map(|old| old.at(PodTemplateSpec::SPEC).value()));
}

/// Returns warnings about the pod template, for writes that increase the generation of the object.
pub(crate) fn template_warnings<W: Workload>(object: FieldRef<W>, old: Option<FieldRef<W>>) -> Vec<String> {
    if old.is_some_and(|old| has_same_generation(object, old)) {
        return Vec::new();
    }
    warnings_about(object.at(W::SPEC).at(W::TEMPLATE))
}

fn warnings_about(template: FieldRef<PodTemplateSpec>) -> Vec<String> {
    template.set().map_or_else(Vec::new, warnings::of_template)
}

/// Returns the same warnings for the spec of a job, and one for jobs with more indexes than can be tracked.
pub(crate) fn job_warnings<K: Kind>(
    object: FieldRef<K>,
    old: Option<FieldRef<K>>,
    spec: FieldRef<JobSpec>,
) -> Vec<String> {
    const COMPLETIONS: i64 = 100_000;
    const PARALLELISM: i64 = 10_000;
    if old.is_some_and(|old| has_same_generation(object, old)) {
        return Vec::new();
    }
    let mut warnings = Vec::new();
    let is_wide = spec.at(JobSpec::COMPLETIONS).int_or_zero() > COMPLETIONS
        && spec.at(JobSpec::PARALLELISM).int_or_zero() > PARALLELISM;
    if spec.at(JobSpec::COMPLETION_MODE).str() == "Indexed" && is_wide {
        warnings.push(format!(
            "{}: In Indexed Jobs with a number of completions higher than 10^5 and a parallelism higher than 10^4, Kubernetes might not be able to track completedIndexes when a big number of indexes fail",
            spec.path()
        ));
    }
    warnings.extend(warnings_about(spec.at(JobSpec::TEMPLATE)));
    warnings
}

pub(crate) fn has_same_generation<K: Kind>(object: FieldRef<K>, old: FieldRef<K>) -> bool {
    let generation = |object: FieldRef<K>| object.at(K::METADATA).at(ObjectMeta::GENERATION).int();
    generation(object) == generation(old)
}

/// Warns about a name that is not a host name, as pods are named after it.
pub(crate) fn dns_label_recommended<K: Kind>(object: FieldRef<K>) -> Vec<String> {
    let problems = names::dns1123_label(object.at(K::METADATA).at(ObjectMeta::NAME).str());
    if problems.is_empty() {
        return Vec::new();
    }
    vec![format!(
        "metadata.name: this is used in Pod names and hostnames, which can result in surprising behavior; a DNS label is recommended: [{}]",
        problems.join(" ")
    )]
}
