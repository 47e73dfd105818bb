//! LimitRanger: limits and defaults for the resources of a namespace's containers, pods and claims.

mod constraints;

use std::sync::Arc;

use binnacle_fields::core::v1::{
    Container, LimitRange, LimitRangeItem, LimitRangeSpec, PersistentVolumeClaim, PersistentVolumeClaimSpec, Pod,
    PodSpec, VolumeResourceRequirements,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Quantity, Status, aggregate};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value};

use super::pod;
use super::pod_resources::{AmountsField, LIMITS, REQUESTS, Resources, amounts, of_container, of_pod};
use crate::lookup::{Freshness, Lookup, LookupKind};
use crate::plugin::{Plugin, Request, Stage, forbidden, is_any_of};
use constraints::Constraint;

const ANNOTATION: &str = "kubernetes.io/limit-ranger";

pub(crate) struct LimitRanger {
    lookup: Arc<dyn Lookup>,
}

impl LimitRanger {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }

    /// Returns the limit ranges for a request; none for objects that are being deleted.
    async fn ranges(&self, request: Request<'_>, object: &Value) -> Result<Vec<Arc<Value>>, Status> {
        let deleting = |old| metadata(old).at(ObjectMeta::DELETION_TIMESTAMP).is_set();
        if request.old.is_some_and(deleting) {
            return Ok(Vec::new());
        }
        let attributes = request.attributes;
        let listed = self.lookup.list(LookupKind::LimitRange, &attributes.namespace, Freshness::Cached).await;
        listed.map_err(|_| {
            let resource = &attributes.resource;
            let operation = if request.is_create() { "CREATE" } else { "UPDATE" };
            let why = format!(
                "unable to {operation} {}/{}, Resource={} at this time because there was an error enforcing limit ranges",
                resource.group, resource.version, resource.resource
            );
            forbidden(attributes, object, why)
        })
    }
}

impl Plugin for LimitRanger {
    fn name(&self) -> &'static str {
        "LimitRanger"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        let (operation, subresource) = (attributes.operation, attributes.subresource.as_str());
        if is_any_of(attributes, "", "pods") {
            return match subresource {
                "" => operation == Operation::Create,
                "resize" => operation == Operation::Update,
                _ => false,
            };
        }
        // There are no defaults for claims, so they are not mutated.
        stage == Stage::Validate
            && is_any_of(attributes, "", "persistentvolumeclaims")
            && subresource.is_empty()
            && matches!(operation, Operation::Create | Operation::Update)
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            for range in self.ranges(request, object).await? {
                set_defaults(object, &range);
            }
            Ok(())
        })
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let pods = is_any_of(request.attributes, "", "pods");
            for range in self.ranges(request, object).await? {
                let violations: Vec<String> = items(&range)
                    .flat_map(|limit| if pods { check_pod(limit, object) } else { check_claim(limit, object) })
                    .collect();
                if !violations.is_empty() {
                    return Err(forbidden(request.attributes, object, aggregate(violations)));
                }
            }
            Ok(())
        })
    }
}

fn items(range: &Value) -> impl Iterator<Item = FieldRef<'static, '_, LimitRangeItem>> {
    FieldRef::<LimitRange>::root(range).at(LimitRange::SPEC).at(LimitRangeSpec::LIMITS).values()
}

/// Sets the defaults of a limit range in containers, and records them in an annotation.
fn set_defaults(pod: &mut Value, range: &Value) {
    let (mut requests, mut limits) = (Object::new(), Object::new());
    for limit in items(range).filter(|limit| limit.at(LimitRangeItem::TYPE).str() == "Container") {
        for (field, into) in [(LimitRangeItem::DEFAULT_REQUEST, &mut requests), (LimitRangeItem::DEFAULT, &mut limits)]
        {
            for (name, amount) in limit.at(field).object().into_iter().flat_map(Object::iter) {
                into.insert(name.clone(), amount.clone());
            }
        }
    }
    if requests.is_empty() && limits.is_empty() {
        return;
    }
    let mut changes = Vec::new();
    let mut pod = FieldMut::<Pod>::root(pod);
    let Some(mut spec) = pod.structure(Pod::SPEC) else { return };
    for (list, kind) in [(PodSpec::CONTAINERS, "container"), (PodSpec::INIT_CONTAINERS, "init container")] {
        for mut container in spec.items(list) {
            let name = container.str(Container::NAME).to_owned();
            for (field, field_name, defaults) in [(REQUESTS, "request", &requests), (LIMITS, "limit", &limits)] {
                let set = set_missing(&mut container, field, defaults);
                if !set.is_empty() {
                    changes.push(format!("{} {field_name} for {kind} {name}", set.join(", ")));
                }
            }
        }
    }
    if !changes.is_empty() {
        // Defaults the pod-level resources again, as kube-apiserver does when it decodes the pod again.
        binnacle_validation::pod_resources::default_pod_resources(spec.object());
        let text = format!("LimitRanger plugin set: {}", changes.join("; "));
        pod.entry(Pod::METADATA).map_entry(ObjectMeta::ANNOTATIONS).insert(ANNOTATION, text);
    }
}

/// Sets missing defaults. Returns their names, sorted.
fn set_missing(container: &mut FieldMut<Container>, field: AmountsField, defaults: &Object) -> Vec<String> {
    let mut set = Vec::new();
    for (name, amount) in defaults.iter() {
        if !container.read().at(Container::RESOURCES).at(field).key(name).is_set() {
            container.entry(Container::RESOURCES).map_entry(field).insert(name.clone(), amount.clone());
            set.push(name.to_string());
        }
    }
    set.sort();
    set
}

fn check_pod(limit: FieldRef<LimitRangeItem>, pod: &Value) -> Vec<String> {
    let spec = pod::spec(pod);
    match limit.at(LimitRangeItem::TYPE).str() {
        "Container" => [PodSpec::CONTAINERS, PodSpec::INIT_CONTAINERS]
            .into_iter()
            .flat_map(|list| spec.at(list).values())
            .flat_map(|container| {
                let [requests, limits] = [REQUESTS, LIMITS].map(|field| of_container(container, field));
                check(limit, Constraint::ALL, &requests, &limits)
            })
            .collect(),
        "Pod" => check(limit, Constraint::ALL, &of_pod(spec, REQUESTS), &of_pod(spec, LIMITS)),
        _ => Vec::new(),
    }
}

fn check_claim(limit: FieldRef<LimitRangeItem>, claim: &Value) -> Vec<String> {
    if limit.at(LimitRangeItem::TYPE).str() != "PersistentVolumeClaim" {
        return Vec::new();
    }
    let claim = FieldRef::<PersistentVolumeClaim>::root(claim);
    let spec = claim.at(PersistentVolumeClaim::SPEC);
    let requests = amounts(spec.at(PersistentVolumeClaimSpec::RESOURCES).at(VolumeResourceRequirements::REQUESTS));
    check(limit, Constraint::OF_CLAIMS, &requests, &Resources::new())
}

fn check(
    limit: FieldRef<LimitRangeItem>,
    constraints: &[Constraint],
    requests: &Resources,
    limits: &Resources,
) -> Vec<String> {
    let kind = limit.at(LimitRangeItem::TYPE).str();
    let mut violations = Vec::new();
    for constraint in constraints {
        for (name, enforced) in amounts(limit.at(constraint.field())) {
            let (request, limit) = (requests.get(&name), limits.get(&name));
            violations.extend(constraint.violation(kind, &name, &enforced, request, limit));
        }
    }
    violations
}

/// Converts the quantities to a common unit: thousandths if all of them fit, or else units.
fn comparable(amounts: [&Quantity; 3]) -> [i64; 3] {
    /// The largest value whose thousandths fit into an `i64`.
    const MAX_MILLI: i64 = i64::MAX / 1000;
    if amounts.iter().all(|amount| amount.value() <= MAX_MILLI) {
        amounts.map(Quantity::milli_value)
    } else {
        amounts.map(Quantity::value)
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn sets_defaults_and_annotation() {
        let range = value!({"spec": {"limits": [
            {"type": "Container", "defaultRequest": {"cpu": "100m"}, "default": {"cpu": "500m", "memory": "1Gi"}},
            {"type": "Pod", "default": {"cpu": "9"}}
        ]}});
        let pod = |of_pod: Value, of_container: Value| {
            let mut pod = value!({"spec": {"containers": [{"name": "c", "resources": of_container}]}});
            if !of_pod.is_null() {
                pod.make_at(&["spec"]).insert("resources", of_pod);
            }
            pod
        };
        let all = value!({"requests": {"cpu": "100m"}, "limits": {"cpu": "500m", "memory": "1Gi"}});
        let half = value!({"limits": {"memory": "1Mi"}});
        let half_filled = value!({"limits": {"memory": "1Mi", "cpu": "500m"}, "requests": {"cpu": "100m"}});
        let requests = value!({"limits": {"cpu": "2"}, "requests": {"cpu": "100m"}});
        for (object, want, changes) in [
            (
                pod(Value::Null, value!({})),
                pod(Value::Null, all.clone()),
                Some("cpu request for container c; cpu, memory limit for container c"),
            ),
            (pod(Value::Null, all.clone()), pod(Value::Null, all.clone()), None),
            (
                pod(Value::Null, half),
                pod(Value::Null, half_filled),
                Some("cpu request for container c; cpu limit for container c"),
            ),
            (
                pod(value!({"limits": {"cpu": "2"}}), value!({})),
                pod(requests, all),
                Some("cpu request for container c; cpu, memory limit for container c"),
            ),
        ] {
            let mut filled = object;
            set_defaults(&mut filled, &range);
            let annotation = filled.str_at(&["metadata", "annotations", ANNOTATION]).to_owned();
            assert_eq!(filled.at(&["spec"]), want.at(&["spec"]));
            assert_eq!(
                annotation,
                changes.map(|changes| format!("LimitRanger plugin set: {changes}")).unwrap_or_default()
            );
        }
    }
}
