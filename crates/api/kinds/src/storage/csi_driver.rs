//! CSIDriver: the capabilities and requirements of a volume driver.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::Value;
use binnacle_validation::repeated;

use crate::checks::{immutable_value, items, member, one_of, present, spec_path, texts};
use crate::gated_names::{Gated, drop_disabled};
use crate::prepare::{default_to, default_zero_to, is_set, next_generation, semantically_equal};
use crate::{Strategy, StrategyContext};

pub(crate) struct CsiDriver;

const GATED: &[Gated] =
    &[Gated { feature: "VolumeLimitScaling", fields: &[&["spec", "preventPodSchedulingIfMissing"]] }];

const TOKENS_IN_VOLUME_ATTRIBUTES: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

impl Strategy for CsiDriver {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let spec = object.make_at(&["spec"]);
        default_to(spec, "attachRequired", true);
        default_to(spec, "podInfoOnMount", false);
        default_to(spec, "storageCapacity", false);
        default_to(spec, "fsGroupPolicy", "ReadWriteOnceWithFSType");
        default_zero_to(spec, "volumeLifecycleModes", vec!["Persistent"]);
        default_to(spec, "requiresRepublish", false);
        default_to(spec, "seLinuxMount", false);
    }

    fn prepare_for_create(&self, situation: &StrategyContext<'_>, object: &mut Value) {
        drop_disabled(situation.features, object, None, GATED);
    }

    fn prepare_for_update(&self, situation: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        drop_disabled(situation.features, object, Some(old), GATED);
        next_generation(object, old, &["spec"]);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let (spec, path) = (member(object, "spec"), spec_path());
        // The message has this wrong name for the first field, as in kube-apiserver.
        let required = [
            ("attachRequired", "attachedRequired"),
            ("podInfoOnMount", "podInfoOnMount"),
            ("storageCapacity", "storageCapacity"),
        ];
        for (name, shown) in required {
            if present(spec, name).is_none() {
                errors.push(FieldError::required(&path.child(shown), ""));
            }
        }
        if let Some(policy) = present(spec, "fsGroupPolicy").and_then(Value::as_str) {
            let supported = ["File", "None", "ReadWriteOnceWithFSType"];
            one_of(&path.child("fsGroupPolicy"), policy, &supported, &mut errors);
        }
        token_requests(spec, &path, &mut errors);
        for mode in errors.while_room(texts(spec, "volumeLifecycleModes")) {
            one_of(&path.child("volumeLifecycleModes"), mode, &["Persistent", "Ephemeral"], &mut errors);
        }
        if present(spec, "seLinuxMount").is_none() {
            errors.push(FieldError::required(&path.child("seLinuxMount"), ""));
        }
        if let Some(period) = spec.int_at(&["nodeAllocatableUpdatePeriodSeconds"]).filter(|period| *period < 10) {
            let at = path.child("nodeAllocatableUpdatePeriodSeconds");
            errors.push(FieldError::invalid(&at, period, "must be greater than or equal to 10 seconds"));
        }
        if let Some(in_secrets) = present(spec, "serviceAccountTokenInSecrets").and_then(Value::as_bool)
            && spec.list_at(&["tokenRequests"]).is_empty()
        {
            let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.push(FieldError::invalid(&path.child("serviceAccountTokenInSecrets"), in_secrets, detail));
        }
        errors
    }

    fn validate_update(&self, situation: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(situation, object);
        for (name, shown) in [("attachRequired", "attachedRequired"), ("volumeLifecycleModes", "volumeLifecycleModes")]
        {
            let (new, old) = (object.at(&["spec", name]), old.at(&["spec", name]));
            immutable_value(&spec_path().child(shown), new, old, &mut errors);
        }
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        const REQUESTS: &[&str] = &["spec", "tokenRequests"];
        let changed = old.is_none_or(|old| !semantically_equal(object.at(REQUESTS), old.at(REQUESTS)));
        let exposed =
            !object.list_at(REQUESTS).is_empty() && !is_set(object, &["spec", "serviceAccountTokenInSecrets"]);
        if changed && exposed { vec![TOKENS_IN_VOLUME_ATTRIBUTES.to_owned()] } else { Vec::new() }
    }
}

fn token_requests(spec: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    const MIN: i64 = 600;
    const MAX: i64 = 1 << 32;
    let requests = spec.list_at(&["tokenRequests"]);
    let repeated = repeated(requests, |request| request.str_at(&["audience"]));
    for (i, (at, request)) in errors.while_room(items(spec, "tokenRequests", path).enumerate()) {
        let audience = request.str_at(&["audience"]);
        if repeated[i] {
            errors.push(FieldError::duplicate(&at.child("audience"), audience));
            continue;
        }
        let Some(seconds) = request.int_at(&["expirationSeconds"]) else { continue };
        let at = at.child("expirationSeconds");
        if seconds < MIN {
            errors.push(FieldError::invalid(&at, seconds, "may not specify a duration less than 10 minutes"));
        }
        if seconds > MAX {
            errors.push(FieldError::invalid(&at, seconds, "may not specify a duration larger than 2^32 seconds"));
        }
    }
}
