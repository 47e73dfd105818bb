//! `PersistentVolume`: storage of the cluster that is bound to a claim.

mod validation;

pub(crate) use validation::validate_inline;

use binnacle_meta::{FieldErrors, FieldPath, Time};
use binnacle_schema::{Value, value};
use binnacle_validation::pod_resources as resources;

use crate::node::deprecated_labels_in_term;

use crate::pod_spec::set_remote_volume_defaults;
use crate::tree_names::{default_nil, default_zero, keep, struct_mut};
use crate::{MetadataCheck, MetadataChecks, Strategy, StrategyContext};

pub(super) struct PersistentVolume;

impl Strategy for PersistentVolume {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        default_zero(object.make_at(&["status"]), "phase", "Pending");
        let spec = object.make_at(&["spec"]);
        default_zero(spec, "persistentVolumeReclaimPolicy", "Retain");
        default_nil(spec, "volumeMode", "Filesystem");
        if let Some(capacity) = struct_mut(spec, "capacity") {
            resources::round_up(capacity);
        }
        if let Some(path) = struct_mut(spec, "hostPath") {
            default_nil(path, "type", "");
        }
        set_remote_volume_defaults(spec);
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        let status = value!({"phase": "Pending", "lastPhaseTransitionTime": (now(situation))});
        object.make_object().insert("status", status);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "status");
    }

    /// Sets the time of the last phase change if the client does not.
    fn prepare_for_subresource(&self, _: &str, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        keep(object, old, "spec");
        let time = |object: &Value| object.at(&["status", "lastPhaseTransitionTime"]).filter(|t| !t.is_null()).cloned();
        let (new_time, old_time) = (time(object), time(old));
        let same_phase = object.str_at(&["status", "phase"]) == old.str_at(&["status", "phase"]);
        let status = object.make_at(&["status"]);
        match (same_phase, new_time) {
            (true, None) => {
                if let Some(time) = old_time {
                    status.insert("lastPhaseTransitionTime", time);
                }
            }
            (false, time) if time.is_none() || time == old_time => {
                status.insert("lastPhaseTransitionTime", now(situation));
            }
            _ => {}
        }
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        validation::validate(object, None)
    }

    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        // The whole volume is validated twice.
        use MetadataCheck::{Change, Domains, Whole};
        MetadataChecks { main: &[Change, Domains, Whole, Domains, Whole, Domains], ..MetadataChecks::CHANGE }
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        validation::validate_update(situation.features, object, old)
    }

    fn warnings(&self, object: &Value, _: Option<&Value>) -> Vec<String> {
        warnings(object)
    }
}

/// Returns warnings about deprecated annotations, fields and plugins of a volume.
fn warnings(object: &Value) -> Vec<String> {
    let annotations = [
        (
            "volume.beta.kubernetes.io/storage-class",
            "deprecated since v1.8; use \"storageClassName\" attribute instead",
        ),
        ("volume.beta.kubernetes.io/mount-options", "deprecated since v1.31; use \"mountOptions\" attribute instead"),
    ];
    let given = annotations.iter().filter(|(name, _)| object.at(&["metadata", "annotations", name]).is_some());
    let mut warnings: Vec<String> =
        given.map(|(name, message)| format!("metadata.annotations[{name}]: {message}")).collect();
    if object.str_at(&["spec", "persistentVolumeReclaimPolicy"]) == "Recycle" {
        warnings.push("spec.persistentVolumeReclaimPolicy: The Recycle reclaim policy is deprecated. Instead, the recommended approach is to use dynamic provisioning.".to_owned());
    }
    for (i, term) in object.list_at(&["spec", "nodeAffinity", "required", "nodeSelectorTerms"]).iter().enumerate() {
        let path = FieldPath::new("spec.nodeAffinity.required.nodeSelectorTerms").index(i);
        warnings.extend(deprecated_labels_in_term(term, &path));
    }
    for (source, shown, deprecated, gone) in [
        ("cephfs", "cephfs", "v1.28", "v1.31+"),
        ("photonPersistentDisk", "photonPersistentDisk", "v1.11", "v1.16+"),
        ("scaleIO", "scaleIO", "v1.16", "v1.22+"),
        ("storageos", "storageOS", "v1.22", "v1.25+"),
        ("glusterfs", "glusterfs", "v1.25", "v1.26+"),
        ("rbd", "rbd", "v1.28", "v1.31+"),
    ] {
        if object.at(&["spec", source]).is_some_and(|source| !source.is_null()) {
            warnings.push(format!("spec.{shown}: deprecated in {deprecated}, non-functional in {gone}"));
        }
    }
    warnings
}

fn now(situation: &StrategyContext<'_>) -> String {
    Time::from_unix(situation.now, 0).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn phase_changes_are_dated() {
        let t = "2020-01-01T00:00:00Z";
        let status = |phase: &str, time: Option<&str>| {
            let mut status = value!({"phase": phase});
            if let Some(time) = time {
                status.make_object().insert("lastPhaseTransitionTime", time);
            }
            value!({"status": status, "spec": {}})
        };
        let situation = StrategyContext { now: 60, ..crate::testing::situation("") };
        for (old, new, want) in [
            (status("Pending", Some(t)), status("Pending", None), Some(t)),
            (status("Pending", None), status("Pending", None), None),
            (status("Pending", Some(t)), status("Bound", None), Some("1970-01-01T00:01:00Z")),
            (status("Pending", Some(t)), status("Bound", Some(t)), Some("1970-01-01T00:01:00Z")),
            (status("Pending", Some(t)), status("Bound", Some("2021-01-01T00:00:00Z")), Some("2021-01-01T00:00:00Z")),
        ] {
            let mut object = new;
            PersistentVolume.prepare_for_subresource("status", &situation, &mut object, &old);
            assert_eq!(object.at(&["status", "lastPhaseTransitionTime"]).and_then(Value::as_str), want);
        }
    }
}
