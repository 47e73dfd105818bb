//! PriorityLevelConfiguration: limits on the requests of a level that run and wait.

use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_schema::{Value, value};

use crate::checks::{member, one_of, present, spec_path};
use crate::prepare::{default_to, default_zero_to, semantically_equal};
use crate::{MetadataChecks, Strategy, StrategyContext, internal};

/// The annotation by which v1beta3 distinguished zero from absent; the stored version does not need it.
const PRESERVED_ZERO: &str = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares";

const QUEUES_MAX: i64 = 10_000_000;

/// The number of bits of a hash that shuffle sharding can use.
const HASH_BITS: i64 = 60;

pub(crate) struct PriorityLevelConfiguration;

impl Strategy for PriorityLevelConfiguration {
    fn metadata_checks(&self, _: &StrategyContext<'_>) -> MetadataChecks {
        MetadataChecks::WHOLE
    }

    fn set_defaults(&self, _: &str, object: &mut Value) {
        if let Some(limited) = object.at_mut(&["spec", "limited"]).and_then(Value::as_object_mut) {
            default_to(limited, "nominalConcurrencyShares", 30i64);
            default_to(limited, "lendablePercent", 0i64);
        }
        if let Some(queuing) =
            object.at_mut(&["spec", "limited", "limitResponse", "queuing"]).and_then(Value::as_object_mut)
        {
            default_zero_to(queuing, "handSize", 8i64);
            default_zero_to(queuing, "queues", 64i64);
            default_zero_to(queuing, "queueLengthLimit", 50i64);
        }
        if let Some(exempt) = object.at_mut(&["spec", "exempt"]).and_then(Value::as_object_mut) {
            default_to(exempt, "nominalConcurrencyShares", 0i64);
            default_to(exempt, "lendablePercent", 0i64);
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        super::prepare_for_create(object);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_update(object, old);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_status(object, old);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let name = object.str_at(&["metadata", "name"]);
        if object.at(&["metadata", "annotations", PRESERVED_ZERO]).is_some() {
            let path = FieldPath::new("metadata").child("annotations");
            errors.push(FieldError::forbidden(&path, format!("annotation '{PRESERVED_ZERO}' is forbidden")));
        }
        let spec = member(object, "spec");
        validate_spec(spec, name, &mut errors);
        mandatory(spec, name, &mut errors);
        errors.extend(super::status_errors(object));
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        super::status_errors(object)
    }
}

/// Validates a mandatory level, which is immutable because the server could otherwise lock out all users.
fn mandatory(spec: &Value, name: &str, errors: &mut FieldErrors) {
    let detail = match name {
        "exempt" => {
            let mut rest = spec.clone();
            rest.make_object().remove("exempt");
            if semantically_equal(Some(&rest), Some(&value!({"type": "Exempt"}))) {
                return;
            }
            "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
        }
        "catch-all" => {
            let fixed = value!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": 5i64, "limitResponse": {"type": "Reject"}, "lendablePercent": 0i64
            }});
            if semantically_equal(Some(spec), Some(&fixed)) {
                return;
            }
            "spec of 'catch-all' must equal the fixed value"
        }
        _ => return,
    };
    let shown = internal::shown_as("io.k8s.api.flowcontrol.v1.PriorityLevelConfigurationSpec", Some(spec));
    errors.push(FieldError::invalid(&spec_path(), shown, detail));
}

fn validate_spec(spec: &Value, name: &str, errors: &mut FieldErrors) {
    let (kind, path) = (spec.str_at(&["type"]), spec_path());
    if (name == "exempt") != (kind == "Exempt") {
        let detail = "must be 'Exempt' if and only if `name` is 'exempt'";
        errors.push(FieldError::invalid(&path.child("type"), kind, detail));
    }
    let (limited, exempt) = (present(spec, "limited"), present(spec, "exempt"));
    match kind {
        "Exempt" => {
            if limited.is_some() {
                let detail = "must be nil if the type is not Limited";
                errors.push(FieldError::forbidden(&path.child("limited"), detail));
            }
            if let Some(exempt) = exempt {
                shares(exempt, &path.child("exempt"), errors);
                lendable(exempt, &path.child("exempt"), errors);
            }
        }
        "Limited" => {
            if exempt.is_some() {
                errors.push(FieldError::forbidden(&path.child("exempt"), "must be nil if the type is Limited"));
            }
            match limited {
                None => {
                    let detail = "must not be empty when type is Limited";
                    errors.push(FieldError::required(&path.child("limited"), detail));
                }
                Some(limited) => validate_limited(limited, &path.child("limited"), errors),
            }
        }
        _ => one_of(&path.child("type"), kind, &["Exempt", "Limited"], errors),
    }
}

fn validate_limited(limited: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    shares(limited, path, errors);
    limit_response(member(limited, "limitResponse"), &path.child("limitResponse"), errors);
    lendable(limited, path, errors);
    if let Some(percent) = limited.int_at(&["borrowingLimitPercent"]).filter(|percent| *percent < 0) {
        let detail = "if specified, must be a non-negative integer";
        errors.push(FieldError::invalid(&path.child("borrowingLimitPercent"), percent, detail));
    }
}

fn shares(level: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(shares) = level.int_at(&["nominalConcurrencyShares"]).filter(|shares| *shares < 0) {
        let at = path.child("nominalConcurrencyShares");
        errors.push(FieldError::invalid(&at, shares, "must be a non-negative integer"));
    }
}

fn lendable(level: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    if let Some(percent) = level.int_at(&["lendablePercent"]).filter(|percent| !(0..=100).contains(percent)) {
        let at = path.child("lendablePercent");
        errors.push(FieldError::invalid(&at, percent, "must be between 0 and 100, inclusive"));
    }
}

fn limit_response(response: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let at = path.child("queuing");
    match (response.str_at(&["type"]), present(response, "queuing")) {
        ("Reject", Some(_)) => {
            let detail = "must be nil if limited.limitResponse.type is not Limited";
            errors.push(FieldError::forbidden(&at, detail));
        }
        ("Queue", None) => {
            let detail = "must not be empty if limited.limitResponse.type is Limited";
            errors.push(FieldError::required(&at, detail));
        }
        ("Queue", Some(queuing)) => validate_queuing(queuing, &at, errors),
        ("Reject", None) => {}
        (kind, _) => one_of(&path.child("type"), kind, &["Queue", "Reject"], errors),
    }
}

fn validate_queuing(queuing: &Value, path: &FieldPath, errors: &mut FieldErrors) {
    let [length, queues, hand] =
        ["queueLengthLimit", "queues", "handSize"].map(|name| queuing.int_at(&[name]).unwrap_or(0));
    let mut refuse = |name, value: i64, detail: &str| {
        errors.push(FieldError::invalid(&path.child(name), value, detail));
    };
    if length <= 0 {
        refuse("queueLengthLimit", length, "must be positive");
    }
    if queues <= 0 {
        refuse("queues", queues, "must be positive");
    } else if queues > QUEUES_MAX {
        refuse("queues", queues, &format!("must not be greater than {QUEUES_MAX}"));
    }
    if hand <= 0 {
        refuse("handSize", hand, "must be positive");
    } else if hand > queues {
        refuse("handSize", hand, &format!("should not be greater than queues ({queues})"));
    } else if entropy_bits(queues, hand) > HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {queues} and handSize {hand} should not be greater than {HASH_BITS}"
        );
        refuse("handSize", hand, &detail);
    }
}

/// Returns the number of hash bits that dealing a hand of queues uses.
fn entropy_bits(queues: i64, hand: i64) -> i64 {
    ((queues as f64).log2() * hand as f64).ceil() as i64
}
