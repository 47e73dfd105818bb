//! All policies and bindings, and an index of those that may match a request.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use binnacle_admission::Decoded;
use binnacle_admission_matching::Index;
use binnacle_authz::Ready;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_registry::admission::Attributes;
use binnacle_schema::Value;
use parking_lot::Mutex;

use crate::dispatch::{is_of_policies, is_review};
use crate::mutating::Mutating;
use crate::params::KnownParams;
use crate::policy::{Binding, Evaluator, Policy};
use crate::validating::Validating;

/// The policies of a server. The informers of the four resources report each change to it.
#[derive(Debug)]
pub struct Policies {
    pub(crate) validating: PolicySet<Validating>,
    pub(crate) mutating: PolicySet<Mutating>,
    /// The namespaces that policies have used, decoded.
    pub(crate) namespaces: Decoded,
}

/// The resources of policies and bindings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PolicyResource {
    ValidatingPolicies,
    ValidatingBindings,
    MutatingPolicies,
    MutatingBindings,
}

/// The policies of one type, validating or mutating.
pub(crate) struct PolicySet<E> {
    known: Mutex<Known<E>>,
    /// True if `bound` is out of date.
    stale: AtomicBool,
    bound: ArcSwap<Bound<E>>,
    /// Ready after two parts: policies and bindings.
    pub(crate) ready: Ready,
}

struct Known<E> {
    /// The policies from files, which come first.
    manifests: Vec<Hook<E>>,
    policies: BTreeMap<Text, Arc<Policy<E>>>,
    bindings: BTreeMap<Text, Arc<Binding>>,
    /// What is known of the parameters of policies, by kind.
    params: HashMap<GroupVersionKind, Weak<KnownParams>>,
}

/// The policies that have bindings, by name.
pub(crate) struct Bound<E> {
    hooks: Vec<Hook<E>>,
    /// The number of policies from files, which are the first ones.
    of_files: usize,
    index: Index,
}

/// A policy and its bindings, sorted by name.
pub(crate) struct Hook<E> {
    pub(crate) policy: Arc<Policy<E>>,
    pub(crate) bindings: Vec<Arc<Binding>>,
}

impl<E> Clone for Hook<E> {
    fn clone(&self) -> Self {
        Self { policy: self.policy.clone(), bindings: self.bindings.clone() }
    }
}

impl PolicyResource {
    pub const ALL: [Self; 4] =
        [Self::ValidatingPolicies, Self::ValidatingBindings, Self::MutatingPolicies, Self::MutatingBindings];

    pub fn kind(self) -> &'static str {
        match self {
            Self::ValidatingPolicies => "ValidatingAdmissionPolicy",
            Self::ValidatingBindings => "ValidatingAdmissionPolicyBinding",
            Self::MutatingPolicies => "MutatingAdmissionPolicy",
            Self::MutatingBindings => "MutatingAdmissionPolicyBinding",
        }
    }

    pub fn plural(self) -> &'static str {
        match self {
            Self::ValidatingPolicies => "validatingadmissionpolicies",
            Self::ValidatingBindings => "validatingadmissionpolicybindings",
            Self::MutatingPolicies => "mutatingadmissionpolicies",
            Self::MutatingBindings => "mutatingadmissionpolicybindings",
        }
    }
}

impl Policies {
    /// Returns an empty set that is not ready.
    pub fn new() -> Arc<Self> {
        Arc::new(Self { validating: PolicySet::new(), mutating: PolicySet::new(), namespaces: Decoded::default() })
    }

    /// Replaces the validating policies and bindings from files.
    pub fn put_validating_manifests(&self, policies: &[Value], bindings: &[Value]) {
        self.validating.put_manifests(policies, bindings);
    }

    /// Replaces the mutating policies and bindings from files.
    pub fn put_mutating_manifests(&self, policies: &[Value], bindings: &[Value]) {
        self.mutating.put_manifests(policies, bindings);
    }

    /// Adds or replaces an object. Policies are compiled here.
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

    /// Removes the objects for which `there` is false.
    pub fn retain(&self, resource: PolicyResource, there: &dyn Fn(&str) -> bool) {
        match resource {
            PolicyResource::ValidatingPolicies => self.validating.change(|known| known.retain_policies(there)),
            PolicyResource::ValidatingBindings => self.validating.change(|known| known.retain_bindings(there)),
            PolicyResource::MutatingPolicies => self.mutating.change(|known| known.retain_policies(there)),
            PolicyResource::MutatingBindings => self.mutating.change(|known| known.retain_bindings(there)),
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

impl<E: Evaluator> PolicySet<E> {
    fn new() -> Self {
        let known = Known {
            manifests: Vec::new(),
            policies: BTreeMap::new(),
            bindings: BTreeMap::new(),
            params: HashMap::new(),
        };
        let bound = ArcSwap::from_pointee(known.bind());
        Self { known: Mutex::new(known), stale: AtomicBool::new(false), bound, ready: Ready::new(2) }
    }

    /// Returns the present policies with bindings.
    pub(crate) fn bound(&self) -> arc_swap::Guard<Arc<Bound<E>>> {
        if self.stale.load(Ordering::Acquire) {
            let known = self.known.lock();
            if self.stale.load(Ordering::Acquire) {
                self.bound.store(Arc::new(known.bind()));
                self.stale.store(false, Ordering::Release);
            }
        }
        self.bound.load()
    }

    /// Returns false if no policy can match a request.
    pub(crate) fn may_concern(&self, attributes: &Attributes) -> bool {
        if is_review(attributes) {
            return false;
        }
        let is_of_policies = is_of_policies(attributes);
        if is_of_policies && self.known.lock().manifests.is_empty() {
            // Many policies written one after the other are not bound anew for each.
            return false;
        }
        let waits = !is_of_policies && !self.ready.is_ready();
        waits || self.bound().candidates(attributes).next().is_some()
    }

    /// Returns the policies, after waiting until those for the request have been read; `None` if that takes too long.
    pub(crate) async fn complete(&self, attributes: &Attributes) -> Option<Arc<Bound<E>>> {
        let complete = is_of_policies(attributes) || self.ready.wait().await;
        complete.then(|| arc_swap::Guard::into_inner(self.bound()))
    }

    fn put_manifests(&self, policies: &[Value], bindings: &[Value]) {
        let bindings: Vec<_> = bindings.iter().map(|binding| Arc::new(Binding::read(binding))).collect();
        let hook = |policy: &Value| {
            // Policies from files have no parameters.
            let policy = Arc::new(Policy::read(policy, |_| Arc::default()));
            let bindings = bindings.iter().filter(|binding| binding.policy == policy.name).cloned().collect();
            Hook { policy, bindings }
        };
        let hooks: Vec<Hook<E>> = policies.iter().map(hook).filter(|hook| !hook.bindings.is_empty()).collect();
        self.change(|known| known.manifests = hooks);
    }

    fn put_policy(&self, object: &Value) {
        let present = self.known.lock().policies.get(metadata(object).at(ObjectMeta::NAME).str()).cloned();
        if present.is_some_and(|present| present.has_spec_of(object)) {
            return;
        }
        // Compiled without the lock, so that requests do not wait.
        let policy = Arc::new(Policy::read(object, |kind| self.known.lock().params_of(kind)));
        self.change(|known| {
            known.policies.insert(policy.name.clone(), policy);
        });
    }

    fn put_binding(&self, object: &Value) {
        // Bindings have no status: each change is one.
        let binding = Arc::new(Binding::read(object));
        self.change(|known| {
            known.bindings.insert(binding.name.clone(), binding);
        });
    }

    fn change(&self, change: impl FnOnce(&mut Known<E>)) {
        let mut known = self.known.lock();
        change(&mut known);
        self.stale.store(true, Ordering::Release);
    }
}

impl<E> Known<E> {
    fn retain_policies(&mut self, there: &dyn Fn(&str) -> bool) {
        self.policies.retain(|name, _| there(name));
        self.params.retain(|_, known| known.strong_count() > 0);
    }

    fn retain_bindings(&mut self, there: &dyn Fn(&str) -> bool) {
        self.bindings.retain(|name, _| there(name));
    }

    fn params_of(&mut self, kind: &GroupVersionKind) -> Arc<KnownParams> {
        if let Some(known) = self.params.get(kind).and_then(Weak::upgrade) {
            return known;
        }
        let known = Arc::default();
        self.params.insert(kind.clone(), Arc::downgrade(&known));
        known
    }

    fn bind(&self) -> Bound<E> {
        let mut by_policy: HashMap<&str, Vec<Arc<Binding>>> = HashMap::new();
        for binding in self.bindings.values() {
            by_policy.entry(&binding.policy).or_default().push(binding.clone());
        }
        let hook = |policy: &Arc<Policy<E>>| {
            let bindings = by_policy.remove(policy.name.as_str())?;
            Some(Hook { policy: policy.clone(), bindings })
        };
        let hooks: Vec<_> = self.manifests.iter().cloned().chain(self.policies.values().filter_map(hook)).collect();
        let index = Index::new(hooks.iter().map(|hook| &hook.policy.criteria));
        Bound { hooks, of_files: self.manifests.len(), index }
    }
}

impl<E> Bound<E> {
    /// Returns the policies that may match a request, in their order.
    pub(crate) fn candidates(&self, attributes: &Attributes) -> impl Iterator<Item = &Hook<E>> {
        let places = if is_of_policies(attributes) { 0..self.of_files } else { 0..self.hooks.len() };
        let candidates = self.index.candidates(attributes).iter().filter(move |at| places.contains(at));
        candidates.map(|at| &self.hooks[*at])
    }
}

impl<E> std::fmt::Debug for PolicySet<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicySet").field("stale", &self.stale).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use binnacle_meta::GroupVersionResource;
    use binnacle_registry::admission::{Operation, OperationOptions};
    use binnacle_request::User;
    use binnacle_schema::value;

    use super::*;

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

    /// Returns the names of the policies that may match a request, with those of their bindings.
    fn found(policies: &Policies, resource: &str) -> Vec<String> {
        let bound = policies.validating.bound();
        let text = |hook: &Hook<Validating>| {
            let bindings: Vec<&str> = hook.bindings.iter().map(|binding| binding.name.as_str()).collect();
            format!("{}: {}", hook.policy.name, bindings.join(" "))
        };
        bound.candidates(&creation(resource)).map(text).collect()
    }

    #[test]
    fn policies_are_found() {
        use PolicyResource::{ValidatingBindings, ValidatingPolicies};
        let policies = Policies::new();
        let pods = creation("pods");
        // Until everything has been read, policies may match any request.
        assert!(policies.validating.may_concern(&pods));
        policies.put(ValidatingBindings, &binding("b2", "p"));
        policies.read(ValidatingPolicies);
        policies.read(ValidatingBindings);
        assert!(!policies.validating.may_concern(&pods));
        policies.put(ValidatingPolicies, &policy("p", "pods"));
        policies.put(ValidatingPolicies, &policy("o", "*"));
        policies.put(ValidatingPolicies, &policy("alone", "pods"));
        policies.put(ValidatingBindings, &binding("b1", "p"));
        policies.put(ValidatingBindings, &binding("any", "o"));
        assert_eq!(found(&policies, "pods"), ["o: any", "p: b1 b2"]);
        assert_eq!(found(&policies, "secrets"), ["o: any"]);
        policies.put(ValidatingPolicies, &policy("o", "nodes"));
        assert!(!policies.validating.may_concern(&creation("secrets")));
        policies.remove(ValidatingBindings, "b2");
        assert_eq!(found(&policies, "pods"), ["p: b1"]);
        policies.retain(ValidatingPolicies, &|name| name != "p");
        assert!(!policies.validating.may_concern(&pods));
        assert_eq!(found(&policies, "nodes"), ["o: any"]);
    }

    #[test]
    fn a_status_changes_nothing() {
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
            // Without a generation nothing is known.
            ("v", 0, "pods", true),
            ("v", 0, "pods", true),
        ] {
            policies.validating.bound();
            policies.put(ValidatingPolicies, &generation(uid, number, resource));
            let stale = policies.validating.stale.load(Ordering::Acquire);
            assert_eq!(stale, changes, "{uid} {number}");
        }
    }

    #[test]
    fn those_of_files_come_first() {
        use PolicyResource::{ValidatingBindings, ValidatingPolicies};
        let policies = Policies::new();
        let manifests = |names: &[&str]| {
            let those = names.iter().map(|name| policy(name, "*")).collect::<Vec<_>>();
            let bindings = names.iter().map(|name| binding("b", name)).collect::<Vec<_>>();
            policies.put_validating_manifests(&those, &bindings);
        };
        manifests(&["x", "y"]);
        policies.put(ValidatingPolicies, &policy("a", "*"));
        policies.put(ValidatingBindings, &binding("a", "a"));
        // Policies from files apply to policies, which others do not, and before the others have been read.
        let mut about_policies = creation("validatingadmissionpolicies");
        about_policies.resource.group = "admissionregistration.k8s.io".into();
        assert!(policies.validating.may_concern(&about_policies));
        policies.read(ValidatingPolicies);
        policies.read(ValidatingBindings);
        assert_eq!(found(&policies, "pods"), ["x: b", "y: b", "a: a"]);
        manifests(&["z"]);
        assert_eq!(found(&policies, "pods"), ["z: b", "a: a"]);
        manifests(&[]);
        assert!(!policies.validating.may_concern(&about_policies));
        let mut review = creation("tokenreviews");
        review.resource.group = "authentication.k8s.io".into();
        assert!(!policies.validating.may_concern(&review) && policies.validating.may_concern(&creation("pods")));
    }
}
