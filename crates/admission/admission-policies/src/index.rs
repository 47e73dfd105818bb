//! The policies and bindings of a type, and an index of those that may match a request.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use binnacle_admission_matching::Index;
use binnacle_authz::Readiness;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_registry::admission::Attributes;
use binnacle_schema::Value;
use parking_lot::Mutex;

use crate::param_cache::ParamCache;
use crate::policy::{Binding, Evaluator, Policy};
use crate::policy_resource::{is_of_policies, is_review};

/// The policies of a type, validating or mutating.
pub(crate) struct PolicySet<E> {
    cache: Mutex<PolicyCache<E>>,
    /// True if `bound` is outdated.
    pub(crate) stale: AtomicBool,
    bound: ArcSwap<BoundPolicies<E>>,
    /// Ready once policies and bindings have been read.
    pub(crate) ready: Readiness,
}

pub(crate) struct PolicyCache<E> {
    /// The policies from manifests, which come first.
    manifests: Vec<PolicyHook<E>>,
    policies: BTreeMap<Text, Arc<Policy<E>>>,
    bindings: BTreeMap<Text, Arc<Binding>>,
    /// The shared parameter caches, by kind.
    params: HashMap<GroupVersionKind, Weak<ParamCache>>,
}

/// The policies with bindings, sorted by name.
pub(crate) struct BoundPolicies<E> {
    hooks: Vec<PolicyHook<E>>,
    /// The number of policies from manifests, which are the first ones.
    manifest_count: usize,
    index: Index,
}

/// A policy and its bindings, sorted by name.
pub(crate) struct PolicyHook<E> {
    pub(crate) policy: Arc<Policy<E>>,
    pub(crate) bindings: Vec<Arc<Binding>>,
}

impl<E> Clone for PolicyHook<E> {
    fn clone(&self) -> Self {
        Self { policy: self.policy.clone(), bindings: self.bindings.clone() }
    }
}

impl<E: Evaluator> PolicySet<E> {
    pub(crate) fn new() -> Self {
        let cache = PolicyCache {
            manifests: Vec::new(),
            policies: BTreeMap::new(),
            bindings: BTreeMap::new(),
            params: HashMap::new(),
        };
        let bound = ArcSwap::from_pointee(cache.bind());
        Self { cache: Mutex::new(cache), stale: AtomicBool::new(false), bound, ready: Readiness::new(2) }
    }

    /// Returns the current policies with bindings.
    pub(crate) fn bound_policies(&self) -> arc_swap::Guard<Arc<BoundPolicies<E>>> {
        if self.stale.load(Ordering::Acquire) {
            let cache = self.cache.lock();
            if self.stale.load(Ordering::Acquire) {
                self.bound.store(Arc::new(cache.bind()));
                self.stale.store(false, Ordering::Release);
            }
        }
        self.bound.load()
    }

    /// Returns false if no policy can match a request.
    pub(crate) fn may_match(&self, attributes: &Attributes) -> bool {
        if is_review(attributes) {
            return false;
        }
        let is_of_policies = is_of_policies(attributes);
        if is_of_policies && self.cache.lock().manifests.is_empty() {
            // If many policies are written in a row, they are not indexed again for each.
            return false;
        }
        let waits = !is_of_policies && !self.ready.is_ready();
        waits || self.bound_policies().candidates(attributes).next().is_some()
    }

    /// Waits until the policies for the request have been read, and returns the current policies; `None` on a timeout.
    pub(crate) async fn ready_policies(&self, attributes: &Attributes) -> Option<Arc<BoundPolicies<E>>> {
        let is_ready = is_of_policies(attributes) || self.ready.wait().await;
        is_ready.then(|| arc_swap::Guard::into_inner(self.bound_policies()))
    }

    pub(crate) fn put_manifests(&self, policies: &[Value], bindings: &[Value]) {
        let bindings: Vec<_> = bindings.iter().map(|binding| Arc::new(Binding::read(binding))).collect();
        let hook = |policy: &Value| {
            // Policies from manifests have no parameters.
            let policy = Arc::new(Policy::read(policy, |_| Arc::default()));
            let bindings = bindings.iter().filter(|binding| binding.policy == policy.name).cloned().collect();
            PolicyHook { policy, bindings }
        };
        let hooks: Vec<PolicyHook<E>> = policies.iter().map(hook).filter(|hook| !hook.bindings.is_empty()).collect();
        self.change(|cache| cache.manifests = hooks);
    }

    pub(crate) fn put_policy(&self, object: &Value) {
        let present = self.cache.lock().policies.get(metadata(object).at(ObjectMeta::NAME).str()).cloned();
        if present.is_some_and(|present| present.has_spec_of(object)) {
            return;
        }
        // Compile without holding the lock, so that requests do not wait.
        let policy = Arc::new(Policy::read(object, |kind| self.cache.lock().params_of(kind)));
        self.change(|cache| {
            cache.policies.insert(policy.name.clone(), policy);
        });
    }

    pub(crate) fn put_binding(&self, object: &Value) {
        // Bindings have no status, so each write may change the spec.
        let binding = Arc::new(Binding::read(object));
        self.change(|cache| {
            cache.bindings.insert(binding.name.clone(), binding);
        });
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut PolicyCache<E>)) {
        let mut cache = self.cache.lock();
        change(&mut cache);
        self.stale.store(true, Ordering::Release);
    }
}

impl<E> PolicyCache<E> {
    pub(crate) fn retain_policies(&mut self, exists: &dyn Fn(&str) -> bool) {
        self.policies.retain(|name, _| exists(name));
        self.params.retain(|_, cache| cache.strong_count() > 0);
    }

    pub(crate) fn retain_bindings(&mut self, exists: &dyn Fn(&str) -> bool) {
        self.bindings.retain(|name, _| exists(name));
    }

    fn params_of(&mut self, kind: &GroupVersionKind) -> Arc<ParamCache> {
        if let Some(cache) = self.params.get(kind).and_then(Weak::upgrade) {
            return cache;
        }
        let cache = Arc::default();
        self.params.insert(kind.clone(), Arc::downgrade(&cache));
        cache
    }

    fn bind(&self) -> BoundPolicies<E> {
        let mut by_policy: HashMap<&str, Vec<Arc<Binding>>> = HashMap::new();
        for binding in self.bindings.values() {
            by_policy.entry(&binding.policy).or_default().push(binding.clone());
        }
        let hook = |policy: &Arc<Policy<E>>| {
            let bindings = by_policy.remove(policy.name.as_str())?;
            Some(PolicyHook { policy: policy.clone(), bindings })
        };
        let hooks: Vec<_> = self.manifests.iter().cloned().chain(self.policies.values().filter_map(hook)).collect();
        let index = Index::new(hooks.iter().map(|hook| &hook.policy.criteria));
        BoundPolicies { hooks, manifest_count: self.manifests.len(), index }
    }
}

impl<E> BoundPolicies<E> {
    /// Returns the policies that may match a request, in order.
    pub(crate) fn candidates(&self, attributes: &Attributes) -> impl Iterator<Item = &PolicyHook<E>> {
        let range = if is_of_policies(attributes) { 0..self.manifest_count } else { 0..self.hooks.len() };
        let candidates = self.index.candidates(attributes).iter().filter(move |at| range.contains(at));
        candidates.map(|at| &self.hooks[*at])
    }
}

impl<E> std::fmt::Debug for PolicySet<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PolicySet").field("stale", &self.stale).finish_non_exhaustive()
    }
}
