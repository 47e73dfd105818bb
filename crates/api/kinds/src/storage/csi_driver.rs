//! CSIDriver: the capabilities and requirements of a volume driver.

use binnacle_fields::storage::v1::{CSIDriver, CSIDriverSpec as Spec, TokenRequest};
use binnacle_fields::types::List;
use binnacle_fields::{FieldMut, FieldRef, route};
use binnacle_meta::{FieldError, FieldErrors};
use binnacle_schema::Value;
use binnacle_validation::checks::one_of;
use binnacle_validation::repeated;

use crate::checks::immutable;
use crate::gated::{GatedFields, drop_disabled};
use crate::prepare::{count_generation, semantically_equal};
use crate::{Strategy, StrategyContext};

pub(crate) struct CsiDriver;

const GATED: &[GatedFields<CSIDriver>] = &[GatedFields {
    feature: "VolumeLimitScaling",
    fields: &[route![CSIDriver::SPEC, Spec::PREVENT_POD_SCHEDULING_IF_MISSING]],
}];

const TOKENS_IN_VOLUME_ATTRIBUTES: &str = "spec.serviceAccountTokenInSecrets is unset; if supported by this CSI driver, set to true to prevent possible logging of tokens in volume attributes";

impl Strategy for CsiDriver {
    fn set_defaults(&self, _: &str, object: &mut Value) {
        let mut driver = FieldMut::<CSIDriver>::root(object);
        let mut spec = driver.entry(CSIDriver::SPEC);
        spec.default_nil(Spec::ATTACH_REQUIRED, true);
        spec.default_nil(Spec::POD_INFO_ON_MOUNT, false);
        spec.default_nil(Spec::STORAGE_CAPACITY, false);
        spec.default_nil(Spec::FS_GROUP_POLICY, "ReadWriteOnceWithFSType");
        if spec.read().at(Spec::VOLUME_LIFECYCLE_MODES).is_empty() {
            spec.set(Spec::VOLUME_LIFECYCLE_MODES, vec![Value::from("Persistent")]);
        }
        spec.default_nil(Spec::REQUIRES_REPUBLISH, false);
        spec.default_nil(Spec::SE_LINUX_MOUNT, false);
    }

    fn prepare_for_create(&self, ctx: &StrategyContext<'_>, object: &mut Value) {
        drop_disabled(ctx.features, &mut FieldMut::root(object), None, GATED);
    }

    fn prepare_for_update(&self, ctx: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        let mut driver = FieldMut::root(object);
        let old = FieldRef::root(old);
        drop_disabled(ctx.features, &mut driver, Some(old), GATED);
        count_generation(&mut driver, old, CSIDriver::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let driver = FieldRef::<CSIDriver>::root(object);
        let spec = driver.at(CSIDriver::SPEC);
        // The message names the first field incorrectly, as in kube-apiserver.
        let attach = spec.at(Spec::ATTACH_REQUIRED).reported_as("attachedRequired");
        for field in [attach, spec.at(Spec::POD_INFO_ON_MOUNT), spec.at(Spec::STORAGE_CAPACITY)] {
            if !field.is_set() {
                errors.push(field.required(""));
            }
        }
        let policy = spec.at(Spec::FS_GROUP_POLICY);
        if let Some(text) = policy.get_str() {
            one_of(&policy, text, &["File", "None", "ReadWriteOnceWithFSType"], &mut errors);
        }
        token_requests(spec.at(Spec::TOKEN_REQUESTS), &mut errors);
        let modes = spec.at(Spec::VOLUME_LIFECYCLE_MODES);
        for mode in errors.while_room(modes.strs()) {
            one_of(&modes, mode, &["Persistent", "Ephemeral"], &mut errors);
        }
        let mount = spec.at(Spec::SE_LINUX_MOUNT);
        if !mount.is_set() {
            errors.push(mount.required(""));
        }
        let period = spec.at(Spec::NODE_ALLOCATABLE_UPDATE_PERIOD_SECONDS);
        if period.int().is_some_and(|seconds| seconds < 10) {
            errors.push(period.invalid("must be greater than or equal to 10 seconds"));
        }
        let in_secrets = spec.at(Spec::SERVICE_ACCOUNT_TOKEN_IN_SECRETS);
        if in_secrets.is_set() && spec.at(Spec::TOKEN_REQUESTS).is_empty() {
            let detail = "serviceAccountTokenInSecrets is set but no tokenRequests are specified";
            errors.push(in_secrets.invalid(detail));
        }
        errors
    }

    fn validate_update(&self, ctx: &StrategyContext<'_>, object: &Value, old: &Value) -> FieldErrors {
        let mut errors = self.validate(ctx, object);
        let (new, old) = (FieldRef::<CSIDriver>::root(object), FieldRef::<CSIDriver>::root(old));
        let (new, old) = (new.at(CSIDriver::SPEC), old.at(CSIDriver::SPEC));
        let attach = new.at(Spec::ATTACH_REQUIRED).reported_as("attachedRequired");
        immutable(attach, old.at(Spec::ATTACH_REQUIRED), &mut errors);
        immutable(new.at(Spec::VOLUME_LIFECYCLE_MODES), old.at(Spec::VOLUME_LIFECYCLE_MODES), &mut errors);
        errors
    }

    fn warnings(&self, object: &Value, old: Option<&Value>) -> Vec<String> {
        let driver = FieldRef::<CSIDriver>::root(object);
        let spec = driver.at(CSIDriver::SPEC);
        let requests = spec.at(Spec::TOKEN_REQUESTS);
        let has_changed = old.map(FieldRef::<CSIDriver>::root).is_none_or(|old| {
            !semantically_equal(requests.get(), old.at(CSIDriver::SPEC).at(Spec::TOKEN_REQUESTS).get())
        });
        let is_exposed = !requests.is_empty() && !spec.at(Spec::SERVICE_ACCOUNT_TOKEN_IN_SECRETS).is_set();
        if has_changed && is_exposed { vec![TOKENS_IN_VOLUME_ATTRIBUTES.to_owned()] } else { Vec::new() }
    }
}

fn token_requests(requests: FieldRef<List<TokenRequest>>, errors: &mut FieldErrors) {
    const MIN: i64 = 600;
    const MAX: i64 = 1 << 32;
    let requests: Vec<FieldRef<TokenRequest>> = requests.items().collect();
    let repeated = repeated(&requests, |request| request.at(TokenRequest::AUDIENCE).str());
    for (request, is_repeated) in errors.while_room(requests.iter().zip(repeated)) {
        let audience = request.at(TokenRequest::AUDIENCE);
        if is_repeated {
            errors.push(FieldError::duplicate(&audience, audience.str()));
            continue;
        }
        let expiration = request.at(TokenRequest::EXPIRATION_SECONDS);
        let Some(seconds) = expiration.int() else { continue };
        if seconds < MIN {
            errors.push(expiration.invalid("may not specify a duration less than 10 minutes"));
        }
        if seconds > MAX {
            errors.push(expiration.invalid("may not specify a duration larger than 2^32 seconds"));
        }
    }
}
