//! CSIDriver: what a volume driver can do and wants done for it.

use binnacle_schema::Value;

use crate::prepare::{default_to, default_zero_to, is_set, next_generation, remove_at, semantically_equal};
use crate::{Situation, Strategy};

pub(crate) struct CsiDriver;

/// Belongs to the feature `VolumeLimitScaling`, which is off.
const DISABLED: &str = "preventPodSchedulingIfMissing";

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

    fn prepare_for_create(&self, _: &Situation<'_>, object: &mut Value) {
        remove_at(object, &["spec"], DISABLED);
    }

    fn prepare_for_update(&self, _: &Situation<'_>, object: &mut Value, old: &Value) {
        if !is_set(old, &["spec", DISABLED]) {
            remove_at(object, &["spec"], DISABLED);
        }
        next_generation(object, old, &["spec"]);
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        const REQUESTS: &[&str] = &["spec", "tokenRequests"];
        let changed = old.is_none_or(|old| !semantically_equal(object.at(REQUESTS), old.at(REQUESTS)));
        let exposed =
            !object.list_at(REQUESTS).is_empty() && !is_set(object, &["spec", "serviceAccountTokenInSecrets"]);
        if changed && exposed { vec![TOKENS_IN_VOLUME_ATTRIBUTES.to_owned()] } else { Vec::new() }
    }
}
