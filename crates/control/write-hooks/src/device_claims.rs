//! Permissions for device claims: admin access needs a labelled namespace (KEP-5018), and each part of a claim's status
//! needs its own permission (KEP-4817).

use std::collections::BTreeSet;
use std::sync::Arc;

use binnacle_authz::{Attributes, Authorizer, forbidden};
use binnacle_fields::core::v1::{NodeSelector, NodeSelectorRequirement as Requirement, NodeSelectorTerm};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::resource::v1::{
    AllocatedDeviceStatus as Device, AllocationResult, DeviceAllocationResult, DeviceClaim, DeviceRequest,
    DeviceRequestAllocationResult as AllocationOfRequest, ExactDeviceRequest, ResourceClaim, ResourceClaimSpec,
    ResourceClaimStatus as ClaimStatus, ResourceClaimTemplate, ResourceClaimTemplateSpec,
};
use binnacle_fields::types::List;
use binnacle_fields::{FieldRef, metadata, route};
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_registry::hooks::{Hooks, Review};
use binnacle_registry::{Catalog, Context};
use binnacle_request::{BoxFuture, Decision, User};
use binnacle_schema::Value;

use binnacle_controllers::Objects;

const GROUP: &str = "resource.k8s.io";
/// The label that permits claims with admin access in a namespace, if it is `true`.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
/// The node in a service account token that is bound to a pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The checks for claims and for their templates.
pub struct DeviceClaimHooks {
    resources: Catalog,
    authorizer: Arc<dyn Authorizer>,
    /// Returns the spec of a claim or of a template's claims.
    spec: fn(&Value) -> FieldRef<'static, '_, ResourceClaimSpec>,
}

impl DeviceClaimHooks {
    /// Creates the checks of claims.
    pub fn new(resources: &Catalog, authorizer: &Arc<dyn Authorizer>) -> Self {
        Self {
            resources: resources.clone(),
            authorizer: authorizer.clone(),
            spec: |claim| FieldRef::<ResourceClaim>::root(claim).at(ResourceClaim::SPEC).detached(),
        }
    }

    /// Creates the checks of claim templates.
    pub fn templates(resources: &Catalog, authorizer: &Arc<dyn Authorizer>) -> Self {
        Self {
            spec: |template| {
                let template = FieldRef::<ResourceClaimTemplate>::root(template);
                template.at(ResourceClaimTemplate::SPEC).at(ResourceClaimTemplateSpec::SPEC).detached()
            },
            ..Self::new(resources, authorizer)
        }
    }
}

impl Hooks for DeviceClaimHooks {
    fn review<'a>(&'a self, review: Review<'a>, found: FieldErrors) -> BoxFuture<'a, FieldErrors> {
        Box::pin(async move {
            let mut errors = match (review.old, review.subresource) {
                (None, _) => self.admin_request(&review).await,
                (Some(old), "status") => self.status(&review, old).await,
                // The spec is immutable.
                _ => FieldErrors::new(),
            };
            errors.extend(found);
            errors
        })
    }
}

impl DeviceClaimHooks {
    async fn admin_request(&self, review: &Review<'_>) -> FieldErrors {
        // As in kube-apiserver, the path is that of claims, for templates as well, and leaves `exactly` out.
        let path = route![ResourceClaim::SPEC].path();
        let spec = FieldRef::<ResourceClaimSpec>::located((self.spec)(review.object).value(), &path);
        let requests_admin_access = |request: FieldRef<DeviceRequest>| {
            request.at(DeviceRequest::EXACTLY).at(ExactDeviceRequest::ADMIN_ACCESS).bool()
        };
        let devices = spec.at(ResourceClaimSpec::DEVICES);
        let requests = devices.at(DeviceClaim::REQUESTS);
        let Some(request) = requests.items().find(|request| requests_admin_access(*request)) else {
            return FieldErrors::new();
        };
        let path = request.cast::<ExactDeviceRequest>().at(ExactDeviceRequest::ADMIN_ACCESS).path();
        self.admin_namespace(review.context, &path).await
    }

    async fn status(&self, review: &Review<'_>, old: &Value) -> FieldErrors {
        let [claim, old_claim] = [review.object, old].map(FieldRef::<ResourceClaim>::root);
        let (new, old) = (claim.at(ResourceClaim::STATUS), old_claim.at(ResourceClaim::STATUS));
        let (allocation, old_allocation) = (new.at(ClaimStatus::ALLOCATION), old.at(ClaimStatus::ALLOCATION));
        let devices = allocation.at(AllocationResult::DEVICES);
        let results = devices.at(DeviceAllocationResult::RESULTS);
        let position_of_admin_access = |results: FieldRef<List<AllocationOfRequest>>| {
            results.values().position(|result| result.at(AllocationOfRequest::ADMIN_ACCESS).bool())
        };
        let was_granted = || {
            position_of_admin_access(old_allocation.at(AllocationResult::DEVICES).at(DeviceAllocationResult::RESULTS))
                .is_some()
        };
        let result = position_of_admin_access(results).filter(|_| !was_granted()).and_then(|index| results.item(index));
        let mut errors = match result {
            Some(result) => {
                let path = result.at(AllocationOfRequest::ADMIN_ACCESS).path();
                self.admin_namespace(review.context, &path).await
            }
            None => FieldErrors::new(),
        };
        // The server's own writes have no verb and need no permission.
        if !self.resources.features().enabled("DRAResourceClaimGranularStatusAuthorization")
            || review.context.verb.is_empty()
        {
            return errors;
        }
        self.check_binding(review, new, old, &mut errors).await;
        if allocation.is_set() && self.resources.features().enabled("DRAResourceClaimDeviceStatus") {
            self.check_drivers(review, new, old, &mut errors).await;
        }
        errors
    }

    /// Checks the permission to write `allocation` and `reservedFor`, as schedulers do.
    async fn check_binding(
        &self,
        review: &Review<'_>,
        new: FieldRef<'_, '_, ClaimStatus>,
        old: FieldRef<'_, '_, ClaimStatus>,
        errors: &mut FieldErrors,
    ) {
        let allocation = new.at(ClaimStatus::ALLOCATION);
        if allocation.value() == old.at(ClaimStatus::ALLOCATION).value()
            && new.at(ClaimStatus::RESERVED_FOR).value() == old.at(ClaimStatus::RESERVED_FOR).value()
        {
            return;
        }
        let verb = review.context.verb.as_str();
        if let Err(why) = self.authorize(&review.context.user, verb, "binding", "", "").await {
            let why = format!(
                "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {why}"
            );
            errors.push(allocation.forbidden(why));
        }
    }

    /// Checks the permission to write the status of devices, as drivers do.
    async fn check_drivers(
        &self,
        review: &Review<'_>,
        new: FieldRef<'_, '_, ClaimStatus>,
        old: FieldRef<'_, '_, ClaimStatus>,
        errors: &mut FieldErrors,
    ) {
        let (context, verb) = (review.context, review.context.verb.as_str());
        let mut verbs = vec![format!("arbitrary-node:{verb}")];
        if runs_on(&context.user, allocated_node(new.at(ClaimStatus::ALLOCATION))) {
            verbs.insert(0, format!("associated-node:{verb}"));
        }
        for driver in changed_drivers(new, old) {
            let mut refusal = None;
            for verb in &verbs {
                match self.authorize(&context.user, verb, "driver", &context.namespace, driver).await {
                    Ok(()) => {
                        refusal = None;
                        break;
                    }
                    Err(why) => drop(refusal.get_or_insert(why)),
                }
            }
            if let Some(why) = refusal {
                let why = format!(
                    "changing status.devices requires resource=\"resourceclaims/driver\", verb=\"[{}]\" permission: {why}",
                    verbs.join(" ")
                );
                errors.push(new.at(ClaimStatus::DEVICES).forbidden(why));
            }
        }
    }

    async fn authorize(
        &self,
        user: &User,
        verb: &str,
        subresource: &str,
        namespace: &str,
        name: &str,
    ) -> Result<(), String> {
        let attributes = Attributes {
            verb,
            is_resource_request: true,
            api_group: GROUP,
            api_version: "v1",
            resource: "resourceclaims",
            subresource,
            namespace,
            name,
            ..Attributes::nothing(user)
        };
        let reason = match self.authorizer.authorize(&attributes).await {
            Ok(Decision::Allow(_)) => return Ok(()),
            Ok(Decision::Deny(reason) | Decision::NoOpinion(reason)) => reason.to_string(),
            Err(error) if error.reason.is_empty() => error.message,
            Err(error) => format!("{}: {}", error.message, error.reason),
        };
        Err(forbidden(&attributes, &reason).message().to_owned())
    }

    async fn admin_namespace(&self, context: &Context, path: &FieldPath) -> FieldErrors {
        let namespace = match Objects::new(&self.resources, "", "v1", "namespaces") {
            Ok(namespaces) => namespaces.get("", &context.namespace).await,
            Err(status) => Err(status),
        };
        let problem = match namespace {
            Ok(Some(namespace)) if metadata(&namespace).at(ObjectMeta::LABELS).key(ADMIN_LABEL).str() == "true" => {
                return FieldErrors::new();
            }
            Ok(Some(_)) => {
                let why = format!(
                    "admin access to devices requires the `{ADMIN_LABEL}: true` label on the containing namespace"
                );
                FieldError::forbidden(path, why)
            }
            Ok(None) => unknown(path, format!("namespaces {:?} not found", context.namespace.as_str())),
            Err(status) => unknown(path, status.message()),
        };
        problem.into()
    }
}

fn unknown(path: &FieldPath, why: impl std::fmt::Display) -> FieldError {
    FieldError::internal(path, format!("could not retrieve namespace to verify admin access: {why}"))
}

/// Returns the drivers whose device statuses changed.
fn changed_drivers<'v>(new: FieldRef<'_, 'v, ClaimStatus>, old: FieldRef<'_, 'v, ClaimStatus>) -> BTreeSet<&'v str> {
    let (new, old) = (new.at(ClaimStatus::DEVICES), old.at(ClaimStatus::DEVICES));
    let id = |device: FieldRef<'static, 'v, Device>| {
        [Device::DRIVER, Device::POOL, Device::DEVICE, Device::SHARE_ID].map(|field| device.at(field).str())
    };
    let changed = new.values().filter(|device| !old.list().contains(device.value()));
    let gone = old.values().filter(|known| !new.values().any(|device| id(device) == id(*known)));
    changed.chain(gone).map(|device| device.at(Device::DRIVER).str()).collect()
}

/// Returns the node to which an allocation is bound; empty if it is not bound to a single node.
fn allocated_node<'v>(allocation: FieldRef<'_, 'v, AllocationResult>) -> &'v str {
    let terms = allocation.at(AllocationResult::NODE_SELECTOR).at(NodeSelector::NODE_SELECTOR_TERMS).values();
    let Some(term) = only(terms) else { return "" };
    let Some(field) = only(term.at(NodeSelectorTerm::MATCH_FIELDS).values()) else { return "" };
    let is_name = term.at(NodeSelectorTerm::MATCH_EXPRESSIONS).is_empty()
        && field.at(Requirement::KEY).str() == "metadata.name"
        && field.at(Requirement::OPERATOR).str() == "In";
    only(field.at(Requirement::VALUES).values()).filter(|_| is_name).map_or("", |node| node.str())
}

/// Returns the item if there is exactly one.
fn only<T>(mut items: impl ExactSizeIterator<Item = T>) -> Option<T> {
    if items.len() == 1 { items.next() } else { None }
}

/// Returns true if a user is a service account of a pod on a node.
fn runs_on(user: &User, node: &str) -> bool {
    let account = user.name.strip_prefix("system:serviceaccount:").is_some_and(|rest| rest.contains(':'));
    let mut extra = user.extra.iter().filter(|(key, _)| *key == NODE_NAME).map(|(_, values)| values);
    let on_node = extra.next().is_some_and(|values| matches!(&values[..], [only] if *only == node));
    !node.is_empty() && account && on_node
}

#[cfg(test)]
mod tests {
    use super::*;
    use binnacle_schema::value;

    #[test]
    fn finds_drivers_with_changed_device_status() {
        let device =
            |driver: &'static str, ready: bool| value!({"driver": driver, "device": "d", "data": {"ready": ready}});
        let status = |devices: Vec<Value>| value!({"devices": devices});
        let old = status(vec![device("a", true), device("b", true), device("c", true)]);
        let new = status(vec![device("a", true), device("b", false), device("d", true)]);
        assert_eq!(Vec::from_iter(changed_drivers(FieldRef::root(&new), FieldRef::root(&old))), ["b", "c", "d"]);
    }

    #[test]
    fn finds_node_of_allocation() {
        let on = |term: Value| value!({"nodeSelector": {"nodeSelectorTerms": [term]}});
        let field = value!({"key": "metadata.name", "operator": "In", "values": ["n"]});
        let same = field.clone();
        let also = value!({"key": "zone", "operator": "Exists"});
        for (allocation, want) in [
            (on(value!({"matchFields": [same]})), "n"),
            (on(value!({"matchFields": [field], "matchExpressions": [also]})), ""),
            (value!({}), ""),
        ] {
            assert_eq!(allocated_node(FieldRef::root(&allocation)), want, "{allocation:?}");
        }
    }
}
