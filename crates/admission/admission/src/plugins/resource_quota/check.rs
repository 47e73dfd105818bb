//! Charges requests to quotas and checks the limits.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use binnacle_fields::core::v1::{ResourceQuota, ResourceQuotaSpec, ResourceQuotaStatus, ScopeSelector};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{Format, Quantity, Status};
use binnacle_schema::{Object, Value, value};

use super::evaluator::Evaluator;
use super::limited::{self, LimitedResource};
use crate::plugin::{Request, forbidden};
use crate::plugins::pod_resources::{Resources, add, amounts};

/// Returns the quotas that a request is charged to, with their new usage. Rejects `limited` resources that no quota
/// covers.
pub(super) fn check(
    quotas: &[Arc<Value>],
    limited: &[LimitedResource],
    request: Request<'_>,
    object: &Value,
    evaluator: &dyn Evaluator,
) -> Result<Vec<Value>, Status> {
    let refused = |why: String| forbidden(request.attributes, object, why);
    let mut matching = Vec::new();
    let mut allowed: BTreeSet<String> = BTreeSet::new();
    let quotas = || quotas.iter().map(|quota| FieldRef::<ResourceQuota>::root(quota));
    for quota in quotas().filter(|quota| matches(*quota, object, evaluator)) {
        let (hard, used) = (hard(quota), used(quota));
        let counted: Vec<&str> = hard.keys().map(String::as_str).filter(|name| evaluator.counts(name)).collect();
        let name = name(quota);
        evaluator.constraints(&counted, object).map_err(|why| refused(format!("failed quota: {name}: {why}")))?;
        if counted.iter().any(|name| !used.contains_key(*name)) {
            return Err(refused(format!("status unknown for quota: {name}, resources: {}", counted.join(","))));
        }
        allowed.extend(counted.into_iter().map(str::to_owned));
        matching.push(quota);
    }
    let usage = evaluator.usage(object);
    let negative: Vec<&str> = usage.iter().filter(|(_, amount)| amount.sign() < 0).map(|(n, _)| n.as_str()).collect();
    if !negative.is_empty() {
        return Err(refused(format!("quota usage is negative for resource(s): {}", negative.join(","))));
    }
    // An update is charged for the difference, or for the whole usage if it moves the object into the quota's scope.
    let cost = |before: Option<&Value>| {
        let mut cost = match before {
            Some(before) => beyond(&usage, &evaluator.usage(before)),
            None => usage.clone(),
        };
        cost.retain(|_, amount| !amount.is_zero());
        cost
    };
    let of_quota = |quota: &FieldRef<_>| cost(request.old.filter(|old| matches(*quota, old, evaluator)));
    let costs: Vec<Resources> = matching.iter().map(of_quota).collect();
    let is_free =
        if matching.is_empty() { cost(request.old).is_empty() } else { costs.iter().all(Resources::is_empty) };
    if is_free {
        return Ok(Vec::new());
    }
    if !limited.is_empty() {
        let needed = limited::names(limited, request.attributes, &usage);
        let uncovered: Vec<_> = needed.difference(&allowed).map(String::as_str).collect();
        if !uncovered.is_empty() {
            return Err(refused(format!("insufficient quota to consume: {}", uncovered.join(","))));
        }
        let scopes = quotas().flat_map(scopes);
        let covered: Vec<Value> = scopes.filter(|scope| evaluator.in_scope(FieldRef::root(scope), object)).collect();
        let uncovered = limited::uncovered_scopes(limited, &covered, object, evaluator);
        if !uncovered.is_empty() {
            let why = format!("insufficient quota to match these scopes: [{}]", uncovered.join(" "));
            return Err(Status::unknown(500, &why));
        }
    }
    let mut charged = Vec::new();
    for (quota, mut cost) in matching.into_iter().zip(costs) {
        let (hard, used) = (hard(quota), used(quota));
        cost.retain(|name, _| hard.contains_key(name));
        if cost.is_empty() {
            continue;
        }
        let mut new_usage = used.clone();
        add(&mut new_usage, &cost);
        let exceeded =
            |name: &String| new_usage.get(name).zip(hard.get(name)).is_some_and(|(new_usage, hard)| new_usage > hard);
        if request.attributes.subresource != "status" && cost.keys().any(exceeded) {
            let shown = |amounts: &Resources| {
                let shown = cost.keys().filter(|name| exceeded(name)).filter_map(|name| amounts.get_key_value(name));
                shown.map(|(name, amount)| format!("{name}={amount}")).collect::<Vec<_>>().join(",")
            };
            return Err(refused(format!(
                "exceeded quota: {}, requested: {}, used: {}, limited: {}",
                name(quota),
                shown(&cost),
                shown(&used),
                shown(&hard)
            )));
        }
        let mut quota = quota.value().clone();
        let new_usage: Object = new_usage.into_iter().map(|(name, amount)| (name, amount.to_string())).collect();
        let mut status = FieldMut::<ResourceQuota>::root(&mut quota);
        status.entry(ResourceQuota::STATUS).set(ResourceQuotaStatus::USED, Value::Object(new_usage));
        charged.push(quota);
    }
    Ok(charged)
}

/// Returns true if a quota limits a resource of the object's kind and the object is in all its scopes.
fn matches(quota: FieldRef<ResourceQuota>, object: &Value, evaluator: &dyn Evaluator) -> bool {
    hard(quota).keys().any(|name| evaluator.counts(name))
        && scopes(quota).iter().all(|selector| evaluator.in_scope(FieldRef::root(selector), object))
}

fn name<'v>(quota: FieldRef<'_, 'v, ResourceQuota>) -> &'v str {
    quota.at(ResourceQuota::METADATA).at(ObjectMeta::NAME).str()
}

/// Returns `scopes` and `scopeSelector` of a quota as selectors.
pub(super) fn scopes(quota: FieldRef<ResourceQuota>) -> Vec<Value> {
    let spec = quota.at(ResourceQuota::SPEC);
    let plain = spec.at(ResourceQuotaSpec::SCOPES).strs();
    let plain = plain.map(|scope| value!({"scopeName": scope, "operator": "Exists"}));
    let selectors = spec.at(ResourceQuotaSpec::SCOPE_SELECTOR).at(ScopeSelector::MATCH_EXPRESSIONS).list();
    plain.chain(selectors.iter().cloned()).collect()
}

/// Returns the limits in the quota's status.
pub(super) fn hard(quota: FieldRef<ResourceQuota>) -> Resources {
    amounts(quota.at(ResourceQuota::STATUS).at(ResourceQuotaStatus::HARD))
}

pub(super) fn used(quota: FieldRef<ResourceQuota>) -> Resources {
    amounts(quota.at(ResourceQuota::STATUS).at(ResourceQuotaStatus::USED))
}

/// Returns the quantities by which `usage` exceeds `before`; zero for those that do not.
fn beyond(usage: &Resources, before: &Resources) -> Resources {
    let zero = Quantity::new(0, Format::DecimalSI);
    let more = |(name, amount): (&String, &Quantity)| {
        let mut more = amount.clone();
        if let Some(before) = before.get(name) {
            more.sub(before);
        }
        (name.clone(), if more.sign() > 0 { more } else { zero.clone() })
    };
    usage.iter().map(more).collect::<BTreeMap<_, _>>()
}

#[cfg(test)]
mod tests {
    use binnacle_registry::RequestNotes;
    use binnacle_registry::admission::{Attributes, Operation};
    use binnacle_request::User;

    use super::super::evaluators;
    use super::*;

    fn attributes(plural: &str, operation: Operation) -> Attributes {
        Attributes {
            name: "a".into(),
            user: User::default(),
            ..crate::testing::attributes(operation, ["", "v1", plural], "Any", "")
        }
    }

    fn quota(hard: Value, used: Value, scopes: Value) -> Value {
        value!({
            "metadata": {"name": "q"}, "spec": {"scopes": scopes}, "status": {"hard": hard, "used": used}
        })
    }

    fn pod(requests: Value, deadline: Option<i64>) -> Value {
        let mut pod = value!({"spec": {"containers": [{"name": "c", "resources": {"requests": requests}}]}});
        if let Some(seconds) = deadline {
            pod.make_at(&["spec"]).insert("activeDeadlineSeconds", seconds);
        }
        pod
    }

    /// Returns the quota with the usage after the request, or the reason why the request is rejected.
    fn outcome(plural: &str, quota: Value, object: &Value, old: Option<&Value>) -> Result<Value, String> {
        limited_outcome(&[], plural, quota, object, old)
    }

    fn limited_outcome(
        limited: &[LimitedResource],
        plural: &str,
        quota: Value,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Value, String> {
        let operation = if old.is_some() { Operation::Update } else { Operation::Create };
        let attributes = attributes(plural, operation);
        let notes = RequestNotes::default();
        let request = Request::new(&attributes, old, &notes);
        let charged = check(&[Arc::new(quota)], limited, request, object, &*evaluators::of(&attributes));
        let charged = charged.map_err(|status| status.message().to_owned())?;
        Ok(charged.first().and_then(|quota| quota.at(&["status", "used"])).cloned().unwrap_or_default())
    }

    #[test]
    fn charges_usage_or_rejects() {
        let map = value!({});
        let none = || value!([]);
        for (plural, quota, object, want) in [
            (
                "configmaps",
                quota(value!({"configmaps": "2", "pods": "1"}), value!({"configmaps": "1", "pods": "0"}), none()),
                map.clone(),
                Ok(value!({"configmaps": "2", "pods": "0"})),
            ),
            (
                "configmaps",
                quota(value!({"count/configmaps": "1"}), value!({"count/configmaps": "1"}), none()),
                map.clone(),
                Err(
                    "configmaps \"a\" is forbidden: exceeded quota: q, requested: count/configmaps=1, used: count/configmaps=1, limited: count/configmaps=1",
                ),
            ),
            (
                "configmaps",
                quota(value!({"configmaps": "5"}), value!({}), none()),
                map.clone(),
                Err("configmaps \"a\" is forbidden: status unknown for quota: q, resources: configmaps"),
            ),
            ("secrets", quota(value!({"configmaps": "0"}), value!({}), none()), map, Ok(Value::Null)),
            (
                "pods",
                quota(
                    value!({"requests.cpu": "1", "limits.memory": "1Gi"}),
                    value!({"requests.cpu": "0", "limits.memory": "0"}),
                    none(),
                ),
                pod(value!({}), None),
                Err("pods \"a\" is forbidden: failed quota: q: must specify limits.memory for: c; requests.cpu for: c"),
            ),
            (
                "pods",
                quota(value!({"requests.cpu": "1"}), value!({"requests.cpu": "600m"}), none()),
                pod(value!({"cpu": "600m"}), None),
                Err(
                    "pods \"a\" is forbidden: exceeded quota: q, requested: requests.cpu=600m, used: requests.cpu=600m, limited: requests.cpu=1",
                ),
            ),
            (
                "pods",
                quota(value!({"pods": "1"}), value!({"pods": "1"}), value!(["BestEffort"])),
                pod(value!({"cpu": "1"}), None),
                Ok(Value::Null),
            ),
            (
                "pods",
                quota(value!({"pods": "3"}), value!({"pods": "1"}), value!(["Terminating"])),
                pod(value!({}), Some(1)),
                Ok(value!({"pods": "2"})),
            ),
            (
                "services",
                quota(value!({"services.nodeports": "2"}), value!({"services.nodeports": "1"}), none()),
                value!({"spec": {"type": "NodePort", "ports": [{"port": 1i64}, {"port": 2i64}]}}),
                Err(
                    "services \"a\" is forbidden: exceeded quota: q, requested: services.nodeports=2, used: services.nodeports=1, limited: services.nodeports=2",
                ),
            ),
            (
                "persistentvolumeclaims",
                quota(
                    value!({"fast.storageclass.storage.k8s.io/requests.storage": "2Gi"}),
                    value!({"fast.storageclass.storage.k8s.io/requests.storage": "1Gi"}),
                    none(),
                ),
                value!({"spec": {"storageClassName": "fast", "resources": {"requests": {"storage": "1Gi"}}}}),
                Ok(value!({"fast.storageclass.storage.k8s.io/requests.storage": "2Gi"})),
            ),
        ] {
            assert_eq!(outcome(plural, quota, &object, None), want.map_err(str::to_owned));
        }
    }

    #[test]
    fn charges_only_the_increase_of_an_update() {
        let claim = |size: &str| value!({"spec": {"resources": {"requests": {"storage": size}}}});
        let storage = |used: &str| {
            quota(
                value!({"requests.storage": "5Gi", "persistentvolumeclaims": "1"}),
                value!({"requests.storage": used, "persistentvolumeclaims": "1"}),
                value!([]),
            )
        };
        let used = |used: &str| Ok(value!({"requests.storage": used, "persistentvolumeclaims": "1"}));
        assert_eq!(outcome("persistentvolumeclaims", storage("2Gi"), &claim("3Gi"), Some(&claim("1Gi"))), used("4Gi"));
        assert_eq!(
            outcome("persistentvolumeclaims", storage("2Gi"), &claim("1Gi"), Some(&claim("3Gi"))),
            Ok(Value::Null)
        );
        // The pod moves into the scope, so its whole usage is charged.
        let scoped = quota(value!({"pods": "3"}), value!({"pods": "1"}), value!(["Terminating"]));
        let (pod, old) = (pod(value!({}), Some(1)), pod(value!({}), None));
        assert_eq!(outcome("pods", scoped, &pod, Some(&old)), Ok(value!({"pods": "2"})));
    }

    #[test]
    fn requires_a_quota_for_limited_resources() {
        let limited = LimitedResource::read(&value!({"limitedResources": [
            {"resource": "persistentvolumeclaims", "matchContains": ["gold.storageclass.storage.k8s.io/requests.storage"]},
            {"resource": "pods", "matchScopes": [
                {"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services", "more"]}
            ]}
        ]}));
        let limited = limited.expect("it is valid");
        let none = || quota(value!({"configmaps": "1"}), value!({"configmaps": "0"}), value!([]));
        let claim = |class: &str, size: &str| value!({"spec": {"storageClassName": class, "resources": {"requests": {"storage": size}}}});
        let pod = |class: &str| value!({"spec": {"priorityClassName": class, "containers": []}});
        let storage = "gold.storageclass.storage.k8s.io/requests.storage";
        let mut amounts = [Value::Null, Value::Null];
        for (amount, text) in amounts.iter_mut().zip(["2Gi", "0"]) {
            amount.make_object().insert(storage, text);
        }
        let [hard, used] = amounts;
        let gold = || quota(hard.clone(), used.clone(), value!([]));
        let mut for_services = quota(value!({"pods": "1"}), value!({"pods": "0"}), value!([]));
        let scope = value!({"scopeName": "PriorityClass", "operator": "In", "values": ["cluster-services"]});
        for_services.make_at(&["spec", "scopeSelector"]).insert("matchExpressions", vec![scope]);
        let refused = "persistentvolumeclaims \"a\" is forbidden: insufficient quota to consume: gold.storageclass.storage.k8s.io/requests.storage";
        let scopes = "insufficient quota to match these scopes: [{PriorityClass In [cluster-services more]}]";
        let (small, large) = (claim("gold", "1Gi"), claim("gold", "2Gi"));
        for (name, plural, quota, object, old, want) in [
            ("not of the class", "persistentvolumeclaims", none(), claim("dirt", "1Gi"), None, Ok(())),
            ("uncovered", "persistentvolumeclaims", none(), small.clone(), None, Err(refused)),
            ("covered", "persistentvolumeclaims", gold(), small.clone(), None, Ok(())),
            ("no more than before", "persistentvolumeclaims", none(), small.clone(), Some(&small), Ok(())),
            ("more than before", "persistentvolumeclaims", none(), large, Some(&small), Err(refused)),
            ("not in the scope", "pods", none(), pod("other"), None, Ok(())),
            ("in the scope", "pods", none(), pod("cluster-services"), None, Err(scopes)),
            ("covered scope", "pods", for_services, pod("cluster-services"), None, Ok(())),
        ] {
            let outcome = limited_outcome(&limited, plural, quota, &object, old).map(|_| ());
            assert_eq!(outcome, want.map_err(str::to_owned), "{name}");
        }
    }
}
