//! Validation of limit ranges: the resources that each type of limit may name, and the order of its bounds.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{LimitRange, LimitRangeItem as Limit, LimitRangeSpec};
use binnacle_fields::types::Str;
use binnacle_meta::{FieldError, FieldErrors, Quantity};
use binnacle_validation::pod_resources::quantity;
use binnacle_validation::{checks, names, resource_names};

use super::Amounts;

const STORAGE: &str = "storage";
const STANDARD_TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

/// Amounts above this value do not fit 64 bits in thousandths: kube-apiserver then compares whole numbers.
const MILLI_MAX: i64 = i64::MAX / 1000;

pub(super) fn validate(limit_range: FieldRef<LimitRange>) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let spec = limit_range.at(LimitRange::SPEC);
    let limits = spec.at(LimitRangeSpec::LIMITS);
    let mut types = BTreeSet::new();
    for limit in errors.while_room(limits.items()) {
        let kind = limit.at(Limit::TYPE);
        type_name(kind, &mut errors);
        if !types.insert(kind.str()) {
            errors.push(FieldError::duplicate(&kind, checks::of_named_type(kind.str())));
        }
        limit_rules(limit, &mut errors);
    }
    errors
}

fn type_name(kind: FieldRef<Str>, errors: &mut FieldErrors) {
    let name = kind.str();
    let messages = names::label_key(name);
    let shown = || checks::of_named_type(name);
    if messages.is_empty() && !name.contains('/') && !STANDARD_TYPES.contains(&name) {
        errors.push(kind.invalid_as(shown(), "must be a standard limit type or fully qualified"));
    }
    errors.extend(messages.iter().map(|message| kind.invalid_as(shown(), message)));
}

fn limit_rules(limit: FieldRef<Limit>, errors: &mut FieldErrors) {
    let kind = limit.at(Limit::TYPE).str();
    let mut bounds = Bounds { limit, kind, errors, names: BTreeSet::new() };
    let max = bounds.list(Limit::MAX);
    let min = bounds.list(Limit::MIN);
    let (mut default, mut request) = (BTreeMap::new(), BTreeMap::new());
    if kind == "Pod" {
        bounds.forbidden_for_pods(Limit::DEFAULT);
        bounds.forbidden_for_pods(Limit::DEFAULT_REQUEST);
    } else {
        default = bounds.list(Limit::DEFAULT);
        request = bounds.list(Limit::DEFAULT_REQUEST);
    }
    if kind == "PersistentVolumeClaim" && !min.contains_key(STORAGE) && !max.contains_key(STORAGE) {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        bounds.errors.push(FieldError::required(&limit.path().child("limits"), why));
    }
    let ratio = bounds.list(Limit::MAX_LIMIT_REQUEST_RATIO);
    let names = std::mem::take(&mut bounds.names);
    for name in bounds.errors.while_room(names) {
        let of = |list: &BTreeMap<&str, Quantity>| list.get(name).cloned();
        let constraints = ResourceConstraints {
            name,
            max: of(&max),
            min: of(&min),
            default: of(&default),
            request: of(&request),
            ratio: of(&ratio),
        };
        constraints.order(limit, bounds.errors);
        constraints.ratio(limit, bounds.errors);
        constraints.no_overcommit(limit, bounds.errors);
    }
}

/// Reads the lists of one limit, and collects the resources that they name.
struct Bounds<'p, 'v, 'e> {
    limit: FieldRef<'p, 'v, Limit>,
    kind: &'v str,
    errors: &'e mut FieldErrors,
    names: BTreeSet<&'v str>,
}

impl<'v> Bounds<'_, 'v, '_> {
    fn list(&mut self, list: Amounts) -> BTreeMap<&'v str, Quantity> {
        let mut amounts = BTreeMap::new();
        for (name, amount) in self.errors.while_room(self.limit.at(list).entries()) {
            match self.kind {
                "Pod" | "Container" => resource_names::of_containers(&amount, name, self.errors),
                _ => resource_names::any(&amount, name, self.errors),
            }
            self.names.insert(name);
            amounts.extend(quantity(amount.value()).map(|quantity| (name, quantity)));
        }
        amounts
    }

    fn forbidden_for_pods(&mut self, list: Amounts) {
        let list = self.limit.at(list);
        if !list.is_empty() {
            self.errors.push(list.forbidden("may not be specified when `type` is 'Pod'"));
        }
    }
}

/// The constraints of a limit for one resource.
struct ResourceConstraints<'a> {
    name: &'a str,
    max: Option<Quantity>,
    min: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl ResourceConstraints<'_> {
    /// Requires min <= default request <= default <= max.
    fn order(&self, limit: FieldRef<Limit>, errors: &mut FieldErrors) {
        // Each item: the list of the error, the two amounts, and true if the message shows the lower one.
        let min = ("min value", &self.min);
        let max = ("max value", &self.max);
        let default = ("default value", &self.default);
        let default_limit = ("default limit value", &self.default);
        let request = ("default request value", &self.request);
        let (low, high) = (true, false);
        let pairs = [
            (Limit::MIN, min, max, low),
            (Limit::DEFAULT_REQUEST, min, request, high),
            (Limit::DEFAULT_REQUEST, request, max, low),
            (Limit::DEFAULT_REQUEST, request, default_limit, low),
            (Limit::DEFAULT, min, default, low),
            (Limit::DEFAULT, default, max, high),
        ];
        for (list, (lower, a), (upper, b), shows_lower) in pairs {
            let (Some(a), Some(b)) = (a, b) else { continue };
            if a > b {
                let shown = if shows_lower { a } else { b }.to_string();
                let why = format!("{lower} {a} is greater than {upper} {b}");
                errors.push(limit.at(list).key(self.name).invalid_as(&shown, why));
            }
        }
    }

    fn ratio(&self, limit: FieldRef<Limit>, errors: &mut FieldErrors) {
        let Some(ratio) = &self.ratio else { return };
        let list = limit.at(Limit::MAX_LIMIT_REQUEST_RATIO);
        let (field, shown) = (list.key(self.name), ratio.to_string());
        if *ratio < Quantity::new(1, ratio.format()) {
            errors.push(field.invalid_as(&shown, format!("ratio {ratio} is less than 1")));
        }
        let (Some(min), Some(max)) = (&self.min, &self.max) else { return };
        let small = [ratio, min, max].iter().all(|quantity| quantity.value() < MILLI_MAX);
        let (value, bound) = if small {
            (ratio.milli_value() as f64 / 1000.0, max.milli_value() as f64 / min.milli_value() as f64)
        } else {
            (ratio.value() as f64, max.value() as f64 / min.value() as f64)
        };
        if value > bound {
            errors.push(field.invalid_as(&shown, format!("ratio {ratio} is greater than max/min = {bound:.6}")));
        }
    }

    /// Requires the default and the default request to be equal for a resource that cannot be overcommitted.
    fn no_overcommit(&self, limit: FieldRef<Limit>, errors: &mut FieldErrors) {
        let overcommit = resource_names::is_native(self.name) && !resource_names::is_huge_pages(self.name);
        let (Some(default), Some(request)) = (&self.default, &self.request) else { return };
        if !overcommit && default != request {
            let why = format!("default value {default} must equal to defaultRequest value {request} in {}", self.name);
            let field = limit.at(Limit::DEFAULT_REQUEST);
            errors.push(field.key(self.name).invalid_as(&request.to_string(), why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn validates_limit_ranges() {
        for (limit, want) in [
            (value!({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "1"}}), vec![]),
            (value!({"type": "example.com/Thing"}), vec![]),
            (
                value!({"type": "Thing"}),
                vec!["spec.limits[0].type: Invalid value: \"Thing\": must be a standard limit type or fully qualified"],
            ),
            (
                value!({"type": "Pod", "max": {"storage": "1"}}),
                vec![
                    "spec.limits[0].max[storage]: Invalid value: \"storage\": must be a standard resource for containers",
                ],
            ),
            (value!({"type": "PersistentVolumeClaim", "max": {"storage": "1"}}), vec![]),
            (
                value!({"type": "Container", "min": {"cpu": "2"}, "defaultRequest": {"cpu": "1"}}),
                vec![
                    "spec.limits[0].defaultRequest[cpu]: Invalid value: \"1\": min value 2 is greater than default request value 1",
                ],
            ),
            (
                value!({"type": "Container", "min": {"cpu": "2"}, "default": {"cpu": "1"}}),
                vec!["spec.limits[0].default[cpu]: Invalid value: \"2\": min value 2 is greater than default value 1"],
            ),
            (
                value!({"type": "Container", "maxLimitRequestRatio": {"cpu": "500m"}}),
                vec!["spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"500m\": ratio 500m is less than 1"],
            ),
            (
                value!({"type": "Container", "min": {"cpu": "1"}, "max": {"cpu": "2"}, "maxLimitRequestRatio": {"cpu": "3"}}),
                vec![
                    "spec.limits[0].maxLimitRequestRatio[cpu]: Invalid value: \"3\": ratio 3 is greater than max/min = 2.000000",
                ],
            ),
            (
                value!({"type": "Container", "default": {"example.com/gpu": "2"}, "defaultRequest": {"example.com/gpu": "1"}}),
                vec![
                    "spec.limits[0].defaultRequest[example.com/gpu]: Invalid value: \"1\": default value 2 must equal to defaultRequest value 1 in example.com/gpu",
                ],
            ),
        ] {
            let object = value!({"spec": {"limits": [limit]}});
            let got: Vec<String> = validate(FieldRef::root(&object)).iter().map(ToString::to_string).collect();
            assert_eq!(got, want, "{object:?}");
        }
        let twice = value!({"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}});
        let got: Vec<String> = validate(FieldRef::root(&twice)).iter().map(ToString::to_string).collect();
        assert_eq!(got, ["spec.limits[1].type: Duplicate value: \"Pod\""]);
    }
}
