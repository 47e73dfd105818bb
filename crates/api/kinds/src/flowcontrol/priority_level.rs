//! PriorityLevelConfiguration: limits on the requests of a level that run and wait.

use binnacle_fields::flowcontrol::v1::{
    ExemptPriorityLevelConfiguration as Exempt, LimitResponse, LimitedPriorityLevelConfiguration as Limited,
    PriorityLevelConfiguration as Level, PriorityLevelConfigurationSpec as Spec, QueuingConfiguration as Queuing,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::types::Int;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::FieldErrors;
use binnacle_schema::{Value, value};
use binnacle_validation::checks;

use crate::prepare::semantically_equal;
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
        let mut level = FieldMut::root(object);
        let Some(mut spec) = level.structure(Level::SPEC) else { return };
        if let Some(mut limited) = spec.structure(Spec::LIMITED) {
            limited.default_nil(Limited::NOMINAL_CONCURRENCY_SHARES, 30i64);
            limited.default_nil(Limited::LENDABLE_PERCENT, 0i64);
            if let Some(mut response) = limited.structure(Limited::LIMIT_RESPONSE)
                && let Some(mut queuing) = response.structure(LimitResponse::QUEUING)
            {
                queuing.default_zero(Queuing::HAND_SIZE, 8i64);
                queuing.default_zero(Queuing::QUEUES, 64i64);
                queuing.default_zero(Queuing::QUEUE_LENGTH_LIMIT, 50i64);
            }
        }
        if let Some(mut exempt) = spec.structure(Spec::EXEMPT) {
            exempt.default_nil(Exempt::NOMINAL_CONCURRENCY_SHARES, 0i64);
            exempt.default_nil(Exempt::LENDABLE_PERCENT, 0i64);
        }
    }

    fn prepare_for_create(&self, _: &StrategyContext<'_>, object: &mut Value) {
        super::prepare_for_create(FieldMut::root(object), Level::STATUS);
    }

    fn prepare_for_update(&self, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_update(FieldMut::root(object), FieldRef::root(old), Level::SPEC, Level::STATUS);
    }

    fn prepare_for_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &mut Value, old: &Value) {
        super::prepare_for_status(FieldMut::root(object), FieldRef::root(old), Level::SPEC);
    }

    fn validate(&self, _: &StrategyContext<'_>, object: &Value) -> FieldErrors {
        let mut errors = FieldErrors::new();
        let level = FieldRef::root(object);
        let metadata = level.at(Level::METADATA);
        let (name, annotations) = (metadata.at(ObjectMeta::NAME).str(), metadata.at(ObjectMeta::ANNOTATIONS));
        if annotations.object().is_some_and(|annotations| annotations.contains(PRESERVED_ZERO)) {
            errors.push(annotations.forbidden(format!("annotation '{PRESERVED_ZERO}' is forbidden")));
        }
        let spec = level.at(Level::SPEC);
        validate_spec(spec, name, &mut errors);
        mandatory(spec, name, &mut errors);
        errors.extend(super::status_errors(level.at(Level::STATUS).cast()));
        errors
    }

    fn validate_subresource(&self, _: &str, _: &StrategyContext<'_>, object: &Value, _: &Value) -> FieldErrors {
        super::status_errors(FieldRef::root(object).at(Level::STATUS).cast())
    }
}

/// Validates a mandatory level, which is immutable because the server could otherwise lock out all users.
fn mandatory(spec: FieldRef<Spec>, name: &str, errors: &mut FieldErrors) {
    let detail = match name {
        "exempt" => {
            let mut rest = spec.value().clone();
            FieldMut::<Spec>::root(&mut rest).remove(Spec::EXEMPT);
            if semantically_equal(Some(&rest), Some(&value!({"type": "Exempt"}))) {
                return;
            }
            "spec of 'exempt' except the 'spec.exempt' field must equal the fixed value"
        }
        "catch-all" => {
            let fixed = value!({"type": "Limited", "limited": {
                "nominalConcurrencyShares": 5i64, "limitResponse": {"type": "Reject"}, "lendablePercent": 0i64
            }});
            if semantically_equal(spec.get(), Some(&fixed)) {
                return;
            }
            "spec of 'catch-all' must equal the fixed value"
        }
        _ => return,
    };
    errors.push(spec.invalid_as(internal::shown(spec), detail));
}

fn validate_spec(spec: FieldRef<Spec>, name: &str, errors: &mut FieldErrors) {
    let (kind, limited, exempt) = (spec.at(Spec::TYPE), spec.at(Spec::LIMITED), spec.at(Spec::EXEMPT));
    if (name == "exempt") != (kind.str() == "Exempt") {
        errors.push(
            kind.invalid_as(checks::of_named_type(kind.str()), "must be 'Exempt' if and only if `name` is 'exempt'"),
        );
    }
    match kind.str() {
        "Exempt" => {
            if limited.is_set() {
                errors.push(limited.forbidden("must be nil if the type is not Limited"));
            }
            shares(exempt.at(Exempt::NOMINAL_CONCURRENCY_SHARES), errors);
            lendable(exempt.at(Exempt::LENDABLE_PERCENT), errors);
        }
        "Limited" => {
            if exempt.is_set() {
                errors.push(exempt.forbidden("must be nil if the type is Limited"));
            }
            if limited.is_set() {
                validate_limited(limited, errors);
            } else {
                errors.push(limited.required("must not be empty when type is Limited"));
            }
        }
        other => checks::one_of(&kind, other, &["Exempt", "Limited"], errors),
    }
}

fn validate_limited(limited: FieldRef<Limited>, errors: &mut FieldErrors) {
    shares(limited.at(Limited::NOMINAL_CONCURRENCY_SHARES), errors);
    limit_response(limited.at(Limited::LIMIT_RESPONSE), errors);
    lendable(limited.at(Limited::LENDABLE_PERCENT), errors);
    let borrowing = limited.at(Limited::BORROWING_LIMIT_PERCENT);
    if borrowing.int_or_zero() < 0 {
        errors.push(borrowing.invalid("if specified, must be a non-negative integer"));
    }
}

fn shares(shares: FieldRef<Int>, errors: &mut FieldErrors) {
    if shares.int_or_zero() < 0 {
        errors.push(shares.invalid("must be a non-negative integer"));
    }
}

fn lendable(percent: FieldRef<Int>, errors: &mut FieldErrors) {
    if !(0..=100).contains(&percent.int_or_zero()) {
        errors.push(percent.invalid("must be between 0 and 100, inclusive"));
    }
}

fn limit_response(response: FieldRef<LimitResponse>, errors: &mut FieldErrors) {
    let (kind, queuing) = (response.at(LimitResponse::TYPE), response.at(LimitResponse::QUEUING));
    match (kind.str(), queuing.is_set()) {
        ("Reject", true) => {
            errors.push(queuing.forbidden("must be nil if limited.limitResponse.type is not Limited"));
        }
        ("Queue", false) => {
            errors.push(queuing.required("must not be empty if limited.limitResponse.type is Limited"));
        }
        ("Queue", true) => validate_queuing(queuing, errors),
        ("Reject", false) => {}
        (other, _) => checks::one_of(&kind, other, &["Queue", "Reject"], errors),
    }
}

fn validate_queuing(queuing: FieldRef<Queuing>, errors: &mut FieldErrors) {
    let (queues, hand) = (queuing.at(Queuing::QUEUES), queuing.at(Queuing::HAND_SIZE));
    let (deck_size, hand_size) = (queues.int_or_zero(), hand.int_or_zero());
    positive(queuing.at(Queuing::QUEUE_LENGTH_LIMIT), errors);
    positive(queues, errors);
    if deck_size > QUEUES_MAX {
        errors.push(queues.invalid(format!("must not be greater than {QUEUES_MAX}")));
    }
    positive(hand, errors);
    if hand_size <= 0 {
        return;
    }
    if hand_size > deck_size {
        errors.push(hand.invalid(format!("should not be greater than queues ({deck_size})")));
    } else if entropy_bits(deck_size, hand_size) > HASH_BITS {
        let detail = format!(
            "required entropy bits of deckSize {deck_size} and handSize {hand_size} should not be greater than {HASH_BITS}"
        );
        errors.push(hand.invalid(detail));
    }
}

fn positive(field: FieldRef<Int>, errors: &mut FieldErrors) {
    if field.int_or_zero() <= 0 {
        errors.push(field.invalid_as(field.int_or_zero(), "must be positive"));
    }
}

/// Returns the number of hash bits that dealing a hand of queues uses.
fn entropy_bits(queues: i64, hand: i64) -> i64 {
    ((queues as f64).log2() * hand as f64).ceil() as i64
}
