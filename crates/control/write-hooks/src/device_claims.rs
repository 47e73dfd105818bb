//! Permissions for device claims: administrators' access needs a labelled namespace (KEP-5018), and each part of a
//! claim's status needs its own permission (KEP-4817).

use std::collections::BTreeSet;
use std::sync::Arc;

use binnacle_authz::{Attributes, Authorizer, forbidden};
use binnacle_meta::{FieldError, FieldErrors, FieldPath};
use binnacle_registry::hooks::{Hooks, Review};
use binnacle_registry::{Catalog, Context};
use binnacle_request::{BoxFuture, Decision, User};
use binnacle_schema::Value;

use binnacle_controllers::Objects;

const GROUP: &str = "resource.k8s.io";
/// The label that permits claims with administrators' access in a namespace, if it is `true`.
const ADMIN_LABEL: &str = "resource.kubernetes.io/admin-access";
/// The node in a service account token that is bound to a pod.
const NODE_NAME: &str = "authentication.kubernetes.io/node-name";

/// The checks for claims and for their templates.
pub struct DeviceClaims {
    resources: Catalog,
    authorizer: Arc<dyn Authorizer>,
    /// The path of the device requests: in the claim, or in the spec of a template.
    requests: &'static [&'static str],
}

impl DeviceClaims {
    /// Creates the checks of claims.
    pub fn new(resources: &Catalog, authorizer: &Arc<dyn Authorizer>) -> Self {
        let requests = &["spec", "devices", "requests"];
        Self { resources: resources.clone(), authorizer: authorizer.clone(), requests }
    }

    /// Creates the checks of claim templates.
    pub fn templates(resources: &Catalog, authorizer: &Arc<dyn Authorizer>) -> Self {
        let requests = &["spec", "spec", "devices", "requests"];
        Self { requests, ..Self::new(resources, authorizer) }
    }
}

impl Hooks for DeviceClaims {
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

impl DeviceClaims {
    async fn admin_request(&self, review: &Review<'_>) -> FieldErrors {
        let asks = |request: &Value| request.at(&["exactly", "adminAccess"]).and_then(Value::as_bool) == Some(true);
        let Some(index) = review.object.list_at(self.requests).iter().position(asks) else { return FieldErrors::new() };
        // kube-apiserver uses the path of claims for templates too, without the member in between.
        let path = FieldPath::new("spec").child("devices").child("requests").index(index).child("adminAccess");
        self.admin_namespace(review.context, &path).await
    }

    async fn status(&self, review: &Review<'_>, old: &Value) -> FieldErrors {
        const RESULTS: &[&str] = &["status", "allocation", "devices", "results"];
        let grants = |result: &Value| result.get("adminAccess").and_then(Value::as_bool) == Some(true);
        let granted = |object: &Value| object.list_at(RESULTS).iter().position(grants);
        let mut errors = match granted(review.object).filter(|_| granted(old).is_none()) {
            Some(index) => {
                let path = RESULTS[1..].iter().fold(FieldPath::new("status"), |path, name| path.child(name));
                self.admin_namespace(review.context, &path.index(index).child("adminAccess")).await
            }
            None => FieldErrors::new(),
        };
        // The server's own writes have no verb and need no permission.
        if !self.resources.features().enabled("DRAResourceClaimGranularStatusAuthorization")
            || review.context.verb.is_empty()
        {
            return errors;
        }
        self.binding(review, old, &mut errors).await;
        let allocated = review.object.at(&["status", "allocation"]).is_some_and(|allocation| !allocation.is_null());
        if allocated && self.resources.features().enabled("DRAResourceClaimDeviceStatus") {
            self.drivers(review, old, &mut errors).await;
        }
        errors
    }

    /// Checks the permission to write `allocation` and `reservedFor`, which schedulers do.
    async fn binding(&self, review: &Review<'_>, old: &Value, errors: &mut FieldErrors) {
        let part = |object: &Value, name: &str| object.at(&["status", name]).cloned().unwrap_or_default();
        let same = |name: &str| part(review.object, name) == part(old, name);
        if same("allocation") && same("reservedFor") {
            return;
        }
        let verb = review.context.verb.as_str();
        if let Err(why) = self.check(&review.context.user, verb, "binding", "", "").await {
            let why = format!(
                "changing status.allocation or status.reservedFor requires resource=\"resourceclaims/binding\", verb=\"{verb}\" permission: {why}"
            );
            errors.push(FieldError::forbidden(&FieldPath::new("status").child("allocation"), why));
        }
    }

    /// Checks the permission to write the state of devices, which drivers do.
    async fn drivers(&self, review: &Review<'_>, old: &Value, errors: &mut FieldErrors) {
        let (context, verb) = (review.context, review.context.verb.as_str());
        let mut verbs = vec![format!("arbitrary-node:{verb}")];
        if runs_on(&context.user, allocated_node(review.object)) {
            verbs.insert(0, format!("associated-node:{verb}"));
        }
        for driver in changed_drivers(review.object, old) {
            let mut refusal = None;
            for verb in &verbs {
                match self.check(&context.user, verb, "driver", &context.namespace, driver).await {
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
                errors.push(FieldError::forbidden(&FieldPath::new("status").child("devices"), why));
            }
        }
    }

    async fn check(
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
            Ok(Some(namespace)) if namespace.str_at(&["metadata", "labels", ADMIN_LABEL]) == "true" => {
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

/// Returns the drivers whose device reports changed.
fn changed_drivers<'a>(object: &'a Value, old: &'a Value) -> BTreeSet<&'a str> {
    const DEVICES: &[&str] = &["status", "devices"];
    let id = |device: &'a Value| ["driver", "pool", "device", "shareID"].map(|name| device.str_at(&[name]));
    let (new, old) = (object.list_at(DEVICES), old.list_at(DEVICES));
    let changed = new.iter().filter(|device| !old.iter().any(|known| known == *device));
    let gone = old.iter().filter(|known| !new.iter().any(|device| id(device) == id(known)));
    changed.chain(gone).map(|device| device.str_at(&["driver"])).collect()
}

/// Returns the node to which an allocation is bound, if it is one.
fn allocated_node(claim: &Value) -> &str {
    let [term] = claim.list_at(&["status", "allocation", "nodeSelector", "nodeSelectorTerms"]) else { return "" };
    let ([], [field]) = (term.list_at(&["matchExpressions"]), term.list_at(&["matchFields"])) else { return "" };
    match field.list_at(&["values"]) {
        [node] if field.str_at(&["key"]) == "metadata.name" && field.str_at(&["operator"]) == "In" => {
            node.as_str().unwrap_or("")
        }
        _ => "",
    }
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
    fn drivers_whose_reports_changed() {
        let device =
            |driver: &'static str, ready: bool| value!({"driver": driver, "device": "d", "data": {"ready": ready}});
        let claim = |devices: Vec<Value>| value!({"status": {"devices": devices}});
        let old = claim(vec![device("a", true), device("b", true), device("c", true)]);
        let new = claim(vec![device("a", true), device("b", false), device("d", true)]);
        assert_eq!(Vec::from_iter(changed_drivers(&new, &old)), ["b", "c", "d"]);
    }

    #[test]
    fn nodes_of_allocations() {
        let on = |term: Value| value!({"status": {"allocation": {"nodeSelector": {"nodeSelectorTerms": [term]}}}});
        let field = value!({"key": "metadata.name", "operator": "In", "values": ["n"]});
        let same = field.clone();
        assert_eq!(allocated_node(&on(value!({"matchFields": [same]}))), "n");
        let also = value!({"key": "zone", "operator": "Exists"});
        assert_eq!(allocated_node(&on(value!({"matchFields": [field], "matchExpressions": [also]}))), "");
        assert_eq!(allocated_node(&value!({})), "");
    }
}
