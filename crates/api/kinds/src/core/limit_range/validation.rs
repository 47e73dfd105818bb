//! Validation of limit ranges: the resources that each type of limit may name, and the order of its bounds.

use std::collections::{BTreeMap, BTreeSet};

use binnacle_meta::{FieldError, FieldErrors, FieldPath, Quantity};
use binnacle_schema::Value;
use binnacle_validation::{names, resource_names};

use binnacle_validation::pod_resources::quantity;

const STORAGE: &str = "storage";
const STANDARD_TYPES: [&str; 3] = ["Pod", "Container", "PersistentVolumeClaim"];

/// Amounts above this value do not fit 64 bits in thousandths: kube-apiserver then compares whole numbers.
const MILLI_MAX: i64 = i64::MAX / 1000;

pub(super) fn validate(object: &Value) -> FieldErrors {
    let mut errors = FieldErrors::new();
    let path = FieldPath::new("spec").child("limits");
    let mut types = BTreeSet::new();
    for (i, limit) in errors.while_room(object.list_at(&["spec", "limits"]).iter().enumerate()) {
        let (at, kind) = (path.index(i), limit.str_at(&["type"]));
        type_name(kind, &at.child("type"), &mut errors);
        if !types.insert(kind) {
            errors.push(FieldError::duplicate(&at.child("type"), kind));
        }
        limit_rules(limit, kind, &at, &mut errors);
    }
    errors
}

fn type_name(kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let messages = names::label_key(kind);
    errors.extend(messages.iter().map(|message| FieldError::invalid(path, kind, message)));
    if messages.is_empty() && !kind.contains('/') && !STANDARD_TYPES.contains(&kind) {
        errors.push(FieldError::invalid(path, kind, "must be a standard limit type or fully qualified"));
    }
}

fn limit_rules(limit: &Value, kind: &str, path: &FieldPath, errors: &mut FieldErrors) {
    let mut bounds = Bounds { limit, kind, path, errors, names: BTreeSet::new() };
    let max = bounds.list("max");
    let min = bounds.list("min");
    let (mut default, mut request) = (BTreeMap::new(), BTreeMap::new());
    if kind == "Pod" {
        bounds.forbidden_for_pods("default");
        bounds.forbidden_for_pods("defaultRequest");
    } else {
        default = bounds.list("default");
        request = bounds.list("defaultRequest");
    }
    if kind == "PersistentVolumeClaim" && !min.contains_key(STORAGE) && !max.contains_key(STORAGE) {
        let why = "either minimum or maximum storage value is required, but neither was provided";
        bounds.errors.push(FieldError::required(&path.child("limits"), why));
    }
    let ratio = bounds.list("maxLimitRequestRatio");
    let names = std::mem::take(&mut bounds.names);
    for name in bounds.errors.while_room(names) {
        let of = |list: &BTreeMap<&str, Quantity>| list.get(name).cloned();
        let own =
            Own { name, max: of(&max), min: of(&min), default: of(&default), request: of(&request), ratio: of(&ratio) };
        own.order(path, bounds.errors);
        own.ratio(path, bounds.errors);
        own.no_overcommit(path, bounds.errors);
    }
}

/// Reads the lists of one limit, and collects the resources that they name.
struct Bounds<'a, 'e> {
    limit: &'a Value,
    kind: &'a str,
    path: &'e FieldPath,
    errors: &'e mut FieldErrors,
    names: BTreeSet<&'a str>,
}

impl<'a> Bounds<'a, '_> {
    fn list(&mut self, list: &str) -> BTreeMap<&'a str, Quantity> {
        let members = self.limit.object_at(&[list]).into_iter().flat_map(|members| members.iter());
        let mut amounts = BTreeMap::new();
        for (name, value) in self.errors.while_room(members) {
            let at = self.path.child(list).key(name);
            match self.kind {
                "Pod" | "Container" => resource_names::of_containers(&at, name, self.errors),
                _ => resource_names::any(&at, name, self.errors),
            }
            self.names.insert(name);
            amounts.extend(quantity(value).map(|quantity| (name.as_str(), quantity)));
        }
        amounts
    }

    fn forbidden_for_pods(&mut self, list: &str) {
        if self.limit.object_at(&[list]).is_some_and(|members| !members.is_empty()) {
            let why = "may not be specified when `type` is 'Pod'";
            self.errors.push(FieldError::forbidden(&self.path.child(list), why));
        }
    }
}

/// The constraints of a limit for one resource.
struct Own<'a> {
    name: &'a str,
    max: Option<Quantity>,
    min: Option<Quantity>,
    default: Option<Quantity>,
    request: Option<Quantity>,
    ratio: Option<Quantity>,
}

impl Own<'_> {
    /// Requires min <= default request <= default <= max.
    fn order(&self, path: &FieldPath, errors: &mut FieldErrors) {
        // Each item: the list of the error, the two amounts, and true if the message shows the lower one.
        let min = ("min value", &self.min);
        let max = ("max value", &self.max);
        let default = ("default value", &self.default);
        let limit = ("default limit value", &self.default);
        let request = ("default request value", &self.request);
        let (low, high) = (true, false);
        let pairs = [
            ("min", min, max, low),
            ("defaultRequest", min, request, high),
            ("defaultRequest", request, max, low),
            ("defaultRequest", request, limit, low),
            ("default", min, default, low),
            ("default", default, max, high),
        ];
        for (list, (lower, a), (upper, b), shows_lower) in pairs {
            let (Some(a), Some(b)) = (a, b) else { continue };
            if a > b {
                let shown = if shows_lower { a } else { b }.to_string();
                let why = format!("{lower} {a} is greater than {upper} {b}");
                errors.push(FieldError::invalid(&path.child(list).key(self.name), shown.as_str(), why));
            }
        }
    }

    fn ratio(&self, path: &FieldPath, errors: &mut FieldErrors) {
        let Some(ratio) = &self.ratio else { return };
        let at = path.child("maxLimitRequestRatio").key(self.name);
        let shown = ratio.to_string();
        if *ratio < Quantity::new(1, ratio.format()) {
            errors.push(FieldError::invalid(&at, shown.as_str(), format!("ratio {ratio} is less than 1")));
        }
        let (Some(min), Some(max)) = (&self.min, &self.max) else { return };
        let small = [ratio, min, max].iter().all(|quantity| quantity.value() < MILLI_MAX);
        let (value, bound) = if small {
            (ratio.milli_value() as f64 / 1000.0, max.milli_value() as f64 / min.milli_value() as f64)
        } else {
            (ratio.value() as f64, max.value() as f64 / min.value() as f64)
        };
        if value > bound {
            let why = format!("ratio {ratio} is greater than max/min = {bound:.6}");
            errors.push(FieldError::invalid(&at, shown.as_str(), why));
        }
    }

    /// Requires the default and the default request to be equal for a resource that cannot be overcommitted.
    fn no_overcommit(&self, path: &FieldPath, errors: &mut FieldErrors) {
        let overcommit = resource_names::is_native(self.name) && !resource_names::is_huge_pages(self.name);
        let (Some(default), Some(request)) = (&self.default, &self.request) else { return };
        if !overcommit && default != request {
            let why = format!("default value {default} must equal to defaultRequest value {request} in {}", self.name);
            let at = path.child("defaultRequest").key(self.name);
            errors.push(FieldError::invalid(&at, request.to_string().as_str(), why));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn rules() {
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
            let got: Vec<String> = validate(&object).iter().map(ToString::to_string).collect();
            assert_eq!(got, want, "{object:?}");
        }
        let twice = value!({"spec": {"limits": [{"type": "Pod"}, {"type": "Pod"}]}});
        let got: Vec<String> = validate(&twice).iter().map(ToString::to_string).collect();
        assert_eq!(got, ["spec.limits[1].type: Duplicate value: \"Pod\""]);
    }
}
