//! Defaults of workloads in `extensions/v1beta1` and `apps/v1beta1` that differ from those of `apps/v1`. The other
//! defaults are those of `apps/v1`, which are set after the conversion.

use binnacle_fields::core::v1::PodTemplateSpec;
use binnacle_fields::extensions::v1beta1::{self as extensions, DeploymentStrategy, RollingUpdateDeployment};
use binnacle_fields::meta::v1::{LabelSelector, ObjectMeta};
use binnacle_fields::types::Kind;
use binnacle_fields::{Field, FieldMut, FieldRef, Message, apps};
use binnacle_schema::Value;

use crate::workload::validation::labels;

/// A workload in an old version.
pub(super) trait OldWorkload: Kind {
    type Spec: Message;
    const SPEC: Field<Self, Self::Spec>;
    const SELECTOR: Field<Self::Spec, LabelSelector>;
    const TEMPLATE: Field<Self::Spec, PodTemplateSpec>;
}

macro_rules! old_workloads {
    ($($kind:ty: $spec:ty;)*) => {$(
        impl OldWorkload for $kind {
            type Spec = $spec;
            const SPEC: Field<Self, $spec> = Self::SPEC;
            const SELECTOR: Field<$spec, LabelSelector> = <$spec>::SELECTOR;
            const TEMPLATE: Field<$spec, PodTemplateSpec> = <$spec>::TEMPLATE;
        }
    )*};
}

old_workloads! {
    extensions::DaemonSet: extensions::DaemonSetSpec;
    extensions::Deployment: extensions::DeploymentSpec;
    extensions::ReplicaSet: extensions::ReplicaSetSpec;
    apps::v1beta1::Deployment: apps::v1beta1::DeploymentSpec;
    apps::v1beta1::StatefulSet: apps::v1beta1::StatefulSetSpec;
}

/// Sets the defaults of a Deployment of `extensions/v1beta1`.
pub(super) fn deployment_of_extensions(object: &mut Value) {
    use extensions::{Deployment, DeploymentSpec as Spec};
    labels_and_selector::<Deployment>(object);
    let mut deployment = FieldMut::<Deployment>::root(object);
    let mut spec = deployment.entry(Deployment::SPEC);
    spec.default_nil(Spec::PROGRESS_DEADLINE_SECONDS, i64::from(i32::MAX));
    spec.default_nil(Spec::REVISION_HISTORY_LIMIT, i64::from(i32::MAX));
    let mut strategy = spec.entry(Spec::STRATEGY);
    strategy.default_zero(DeploymentStrategy::TYPE, "RollingUpdate");
    let is_rolling = strategy.str(DeploymentStrategy::TYPE) == "RollingUpdate";
    if is_rolling || !strategy.is_nil(DeploymentStrategy::ROLLING_UPDATE) {
        let mut update = strategy.entry(DeploymentStrategy::ROLLING_UPDATE);
        update.default_nil(RollingUpdateDeployment::MAX_SURGE, 1i64);
        update.default_nil(RollingUpdateDeployment::MAX_UNAVAILABLE, 1i64);
    }
}

/// Sets the defaults of a Deployment of `apps/v1beta1`.
pub(super) fn deployment(object: &mut Value) {
    use apps::v1beta1::{Deployment, DeploymentSpec};
    labels_and_selector::<Deployment>(object);
    let mut deployment = FieldMut::root(object);
    deployment.entry(Deployment::SPEC).default_nil(DeploymentSpec::REVISION_HISTORY_LIMIT, 2i64);
}

/// Sets the defaults of a DaemonSet of `extensions/v1beta1`.
pub(super) fn daemon_set(object: &mut Value) {
    use extensions::{DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy};
    labels_and_selector::<DaemonSet>(object);
    let mut set = FieldMut::root(object);
    let mut spec = set.entry(DaemonSet::SPEC);
    spec.entry(DaemonSetSpec::UPDATE_STRATEGY).default_zero(DaemonSetUpdateStrategy::TYPE, "OnDelete");
}

/// Sets the defaults of a StatefulSet of `apps/v1beta1`.
pub(super) fn stateful_set(object: &mut Value) {
    use apps::v1beta1::{StatefulSet, StatefulSetSpec, StatefulSetUpdateStrategy};
    labels_and_selector::<StatefulSet>(object);
    let mut set = FieldMut::root(object);
    let mut spec = set.entry(StatefulSet::SPEC);
    spec.entry(StatefulSetSpec::UPDATE_STRATEGY).default_zero(StatefulSetUpdateStrategy::TYPE, "OnDelete");
}

/// Copies the labels of the template to the selector and the labels of a workload that has none.
pub(super) fn labels_and_selector<W: OldWorkload>(object: &mut Value) {
    let Some(labels) = labels(FieldRef::<W>::root(object).at(W::SPEC).at(W::TEMPLATE)).cloned() else { return };
    let mut workload = FieldMut::<W>::root(object);
    let selector =
        FieldMut::build(|mut selector| selector.set(LabelSelector::MATCH_LABELS, Value::from(labels.clone())));
    workload.entry(W::SPEC).default_nil(W::SELECTOR, selector);
    let mut metadata = workload.entry(W::METADATA);
    if metadata.read().at(ObjectMeta::LABELS).is_empty() {
        metadata.set(ObjectMeta::LABELS, Value::from(labels));
    }
}
