//! All policies and bindings of a server.

use std::sync::Arc;

use binnacle_admission::DecodedCache;
use binnacle_schema::Value;

use crate::evaluators::{Mutating, Validating};
use crate::index::PolicySet;
use crate::policy_resource::PolicyResource;

/// The policies of a server, which the informers of the four resources update.
#[derive(Debug)]
pub struct Policies {
    pub(crate) validating: PolicySet<Validating>,
    pub(crate) mutating: PolicySet<Mutating>,
    /// The decoded namespaces that policies have used.
    pub(crate) namespaces: DecodedCache,
}

impl Policies {
    /// Creates an empty set that is not ready.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { validating: PolicySet::new(), mutating: PolicySet::new(), namespaces: DecodedCache::default() })
    }

    /// Replaces the validating policies and bindings from manifests.
    pub fn put_validating_manifests(&self, policies: &[Value], bindings: &[Value]) {
        self.validating.put_manifests(policies, bindings);
    }

    /// Replaces the mutating policies and bindings from manifests.
    pub fn put_mutating_manifests(&self, policies: &[Value], bindings: &[Value]) {
        self.mutating.put_manifests(policies, bindings);
    }

    /// Adds or replaces an object. Compiles policies.
    pub fn put(&self, resource: PolicyResource, object: &Value) {
        match resource {
            PolicyResource::ValidatingPolicies => self.validating.put_policy(object),
            PolicyResource::ValidatingBindings => self.validating.put_binding(object),
            PolicyResource::MutatingPolicies => self.mutating.put_policy(object),
            PolicyResource::MutatingBindings => self.mutating.put_binding(object),
        }
    }

    pub fn remove(&self, resource: PolicyResource, name: &str) {
        self.retain(resource, &|other| other != name);
    }

    /// Removes the objects for whose name `exists` returns false.
    pub fn retain(&self, resource: PolicyResource, exists: &dyn Fn(&str) -> bool) {
        match resource {
            PolicyResource::ValidatingPolicies => self.validating.change(|cache| cache.retain_policies(exists)),
            PolicyResource::ValidatingBindings => self.validating.change(|cache| cache.retain_bindings(exists)),
            PolicyResource::MutatingPolicies => self.mutating.change(|cache| cache.retain_policies(exists)),
            PolicyResource::MutatingBindings => self.mutating.change(|cache| cache.retain_bindings(exists)),
        }
    }

    /// Returns true once all policies and bindings have been read.
    pub fn are_read(&self) -> bool {
        self.validating.ready.is_ready() && self.mutating.ready.is_ready()
    }

    /// Reports that all objects of a resource have been read, or that it is not served.
    pub fn read(&self, resource: PolicyResource) {
        match resource {
            PolicyResource::ValidatingPolicies | PolicyResource::ValidatingBindings => self.validating.ready.part(),
            PolicyResource::MutatingPolicies | PolicyResource::MutatingBindings => self.mutating.ready.part(),
        }
    }
}

#[cfg(test)]
mod tests {
    use binnacle_meta::GroupVersionResource;
    use binnacle_registry::admission::{Operation, OperationOptions};
    use binnacle_request::User;
    use binnacle_schema::value;

    use std::sync::atomic::Ordering;

    use binnacle_meta::GroupVersionKind;
    use binnacle_registry::admission::Attributes;

    use super::*;
    use crate::index::PolicyHook;

    fn policy(name: &str, resource: &str) -> Value {
        value!({
            "metadata": {"name": name},
            "spec": {
                "matchConstraints": {"resourceRules": [{
                    "apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": [resource],
                }]},
                "validations": [{"expression": "true"}],
            },
        })
    }

    fn binding(name: &str, policy: &str) -> Value {
        value!({"metadata": {"name": name}, "spec": {"policyName": policy, "validationActions": ["Deny"]}})
    }

    fn creation(resource: &str) -> Attributes {
        Attributes {
            operation: Operation::Create,
            kind: GroupVersionKind::new("", "v1", "X"),
            resource: GroupVersionResource::new("", "v1", resource),
            subresource: "".into(),
            namespace: "n".into(),
            name: "x".into(),
            user: User::new("u", &[]),
            dry_run: false,
            options: OperationOptions::None,
            deadline: None,
            by_server: false,
        }
    }

    /// Returns the names of the policies that may match a request, and of their bindings.
    fn found(policies: &Policies, resource: &str) -> Vec<String> {
        let bound = policies.validating.bound_policies();
        let text = |hook: &PolicyHook<Validating>| {
            let bindings: Vec<&str> = hook.bindings.iter().map(|binding| binding.name.as_str()).collect();
            format!("{}: {}", hook.policy.name, bindings.join(" "))
        };
        bound.candidates(&creation(resource)).map(text).collect()
    }

    #[test]
    fn finds_policies_that_may_match() {
        use PolicyResource::{ValidatingBindings, ValidatingPolicies};
        let policies = Policies::new();
        let pods = creation("pods");
        // Before all objects have been read, policies may match any request.
        assert!(policies.validating.may_match(&pods));
        policies.put(ValidatingBindings, &binding("b2", "p"));
        policies.read(ValidatingPolicies);
        policies.read(ValidatingBindings);
        assert!(!policies.validating.may_match(&pods));
        policies.put(ValidatingPolicies, &policy("p", "pods"));
        policies.put(ValidatingPolicies, &policy("o", "*"));
        policies.put(ValidatingPolicies, &policy("alone", "pods"));
        policies.put(ValidatingBindings, &binding("b1", "p"));
        policies.put(ValidatingBindings, &binding("any", "o"));
        assert_eq!(found(&policies, "pods"), ["o: any", "p: b1 b2"]);
        assert_eq!(found(&policies, "secrets"), ["o: any"]);
        policies.put(ValidatingPolicies, &policy("o", "nodes"));
        assert!(!policies.validating.may_match(&creation("secrets")));
        policies.remove(ValidatingBindings, "b2");
        assert_eq!(found(&policies, "pods"), ["p: b1"]);
        policies.retain(ValidatingPolicies, &|name| name != "p");
        assert!(!policies.validating.may_match(&pods));
        assert_eq!(found(&policies, "nodes"), ["o: any"]);
    }

    #[test]
    fn ignores_changes_of_the_status() {
        use PolicyResource::ValidatingPolicies;
        let policies = Policies::new();
        let generation = |uid: &str, generation: i64, resource: &str| {
            let mut policy = policy("p", resource);
            let metadata = policy.make_object().get_mut("metadata").expect("it has metadata").make_object();
            metadata.insert("uid", uid);
            metadata.insert("generation", generation);
            policy
        };
        for (uid, number, resource, changes) in [
            ("u", 1, "pods", true),
            ("u", 1, "pods", false),
            ("u", 2, "secrets", true),
            ("v", 2, "pods", true),
            // Without a generation, the spec may have changed.
            ("v", 0, "pods", true),
            ("v", 0, "pods", true),
        ] {
            policies.validating.bound_policies();
            policies.put(ValidatingPolicies, &generation(uid, number, resource));
            let stale = policies.validating.stale.load(Ordering::Acquire);
            assert_eq!(stale, changes, "{uid} {number}");
        }
    }

    #[test]
    fn policies_from_files_come_first() {
        use PolicyResource::{ValidatingBindings, ValidatingPolicies};
        let policies = Policies::new();
        let manifests = |names: &[&str]| {
            let manifest_policies = names.iter().map(|name| policy(name, "*")).collect::<Vec<_>>();
            let bindings = names.iter().map(|name| binding("b", name)).collect::<Vec<_>>();
            policies.put_validating_manifests(&manifest_policies, &bindings);
        };
        manifests(&["x", "y"]);
        policies.put(ValidatingPolicies, &policy("a", "*"));
        policies.put(ValidatingBindings, &binding("a", "a"));
        // Unlike stored policies, those from manifests also apply to policies, and before the stored ones have been
        // read.
        let mut about_policies = creation("validatingadmissionpolicies");
        about_policies.resource.group = "admissionregistration.k8s.io".into();
        assert!(policies.validating.may_match(&about_policies));
        policies.read(ValidatingPolicies);
        policies.read(ValidatingBindings);
        assert_eq!(found(&policies, "pods"), ["x: b", "y: b", "a: a"]);
        manifests(&["z"]);
        assert_eq!(found(&policies, "pods"), ["z: b", "a: a"]);
        manifests(&[]);
        assert!(!policies.validating.may_match(&about_policies));
        let mut review = creation("tokenreviews");
        review.resource.group = "authentication.k8s.io".into();
        assert!(!policies.validating.may_match(&review) && policies.validating.may_match(&creation("pods")));
    }
}
