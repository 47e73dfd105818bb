//! `PersistentVolume`: storage of the cluster that is bound to a claim.

mod sources;
mod validation;

pub(crate) use validation::validate_inline;

use binnacle_fields::core::v1::{
    HostPathVolumeSource, NodeSelector, PersistentVolume as Volume, PersistentVolumeSpec as Spec,
    PersistentVolumeStatus as Status, VolumeNodeAffinity,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::{FieldErrors, Time};
use binnacle_schema::{Object, Value};
use binnacle_validation::pod_resources as resources;

use crate::gated::in_use;
use crate::node::deprecated_labels_in_term;
use crate::pod_spec::set_remote_volume_defaults;
use crate::{MetadataChecks, Strategy, StrategyContext};

pub(super) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut volume = FieldMut::<Volume>::root(object);
        volume.entry(Volume::STATUS).default_zero(Status::PHASE, "Pending");
        let mut spec = volume.entry(Volume::SPEC);
        spec.default_zero(Spec::PERSISTENT_VOLUME_RECLAIM_POLICY, "Retain");
        spec.default_nil(Spec::VOLUME_MODE, "Filesystem");
        if let Some(capacity) = spec.map(Spec::CAPACITY) {
            resources::round_up(capacity);
        }
        if let Some(mut path) = spec.structure(Spec::HOST_PATH) {
            path.default_nil(HostPathVolumeSource::TYPE, "");
        }
        set_remote_volume_defaults(spec.object());
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        let mut volume = FieldMut::<Volume>::root(object);
        volume.set(Volume::STATUS, Value::from(Object::new()));
        let mut status = volume.entry(Volume::STATUS);
        status.set(Status::PHASE, "Pending");
        status.set(Status::LAST_PHASE_TRANSITION_TIME, now(ctx));
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        FieldMut::<Volume>::root(object).keep(FieldRef::root(old), Volume::STATUS);
    }

    /// Sets the time of the last phase change if the client does not.
    fn prepare_for_subresource(&self, _: &str, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut volume = FieldMut::<Volume>::root(object);
        let old = FieldRef::root(old);
        volume.keep(old, Volume::SPEC);
        let (mut status, old) = (volume.entry(Volume::STATUS), old.at(Volume::STATUS));
        let time = Status::LAST_PHASE_TRANSITION_TIME;
        if status.str(Status::PHASE) != old.at(Status::PHASE).str() {
            if status.is_nil(time) || status.get(time) == old.at(time).value() {
                status.set(time, now(ctx));
            }
        } else if status.is_nil(time) {
            status.keep(old, time);
        }
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(FieldRef::root(object), None)
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        // The rules of updates validate the metadata once more, between the other fields.
        MetadataChecks { main: MetadataChecks::WHOLE.main, ..MetadataChecks::CHANGE }
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(ctx.features, FieldRef::root(object), FieldRef::root(old))
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        warnings(FieldRef::root(object))
    }
}

/// Returns warnings about deprecated annotations, fields and plugins of a volume.
fn warnings(volume: FieldRef<Volume>) -> Vec<String> {
    let mut warnings = Vec::new();
    let metadata = volume.at(Volume::METADATA);
    let annotations = metadata.at(ObjectMeta::ANNOTATIONS);
    for (name, message) in [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ] {
        if annotations.value().get(name).is_some() {
            warnings.push(format!("{}: {message}", annotations.key(name).path()));
        }
    }
    let spec = volume.at(Volume::SPEC);
    if spec.at(Spec::PERSISTENT_VOLUME_RECLAIM_POLICY).str() == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    let affinity = spec.at(Spec::NODE_AFFINITY);
    let selector = affinity.at(VolumeNodeAffinity::REQUIRED);
    for term in selector.at(NodeSelector::NODE_SELECTOR_TERMS).items() {
        warnings.extend(deprecated_labels_in_term(term.value(), &term.path()));
    }
    for (source, shown, deprecated, gone) in [
        (route![Spec::CEPHFS], "cephfs", "v1.28", "v1.31+"),
        (route![Spec::PHOTON_PERSISTENT_DISK], "photonPersistentDisk", "v1.11", "v1.16+"),
        (route![Spec::SCALE_IO], "scaleIO", "v1.16", "v1.22+"),
        (route![Spec::STORAGEOS], "storageOS", "v1.22", "v1.25+"),
        (route![Spec::GLUSTERFS], "glusterfs", "v1.25", "v1.26+"),
        (route![Spec::RBD], "rbd", "v1.28", "v1.31+"),
    ] {
        if in_use(spec, source) {
            warnings.push(format!("spec.{shown}: deprecated in {deprecated}, non-functional in {gone}"));
        }
    }
    warnings
}

fn now(ctx: &StrategyContext<'_>) -> String {
    Time::from_unix(ctx.now, 0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn sets_time_of_phase_transitions() {
        let t = "2020-01-01T00:00:00Z";
        let status = |phase: &str, time: Option<&str>| {
            let mut status = value!({"phase": phase});
            if let Some(time) = time {
                status.make_object().insert("lastPhaseTransitionTime", time);
            }
            value!({"status": status, "spec": {}})
        };
        let ctx = StrategyContext { now: 60, ..crate::testing::ctx("") };
        for (old, new, want) in [
            (status("Pending", Some(t)), status("Pending", None), Some(t)),
            (status("Pending", None), status("Pending", None), None),
            (status("Pending", Some(t)), status("Bound", None), Some("1970-01-01T00:01:00Z")),
            (status("Pending", Some(t)), status("Bound", Some(t)), Some("1970-01-01T00:01:00Z")),
            (status("Pending", Some(t)), status("Bound", Some("2021-01-01T00:00:00Z")), Some("2021-01-01T00:00:00Z")),
        ] {
            let mut object = new;
            PersistentVolume.prepare_for_subresource("status", &ctx, &mut object, &old);
            assert_eq!(object.at(&["status", "lastPhaseTransitionTime"]).and_then(Value::as_str), want);
        }
    }
}
