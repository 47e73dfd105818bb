//! The policies and bindings of one type, and an index of those that may match a request.

use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

use arc_swap::ArcSwap;
use binnacle_admission_matching::Index;
use binnacle_authz::Ready;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{GroupVersionKind, Text};
use binnacle_registry::admission::Attributes;
use binnacle_schema::Value;
use parking_lot::Mutex;

use crate::params::KnownParams;
use crate::policy::{Binding, Evaluator, Policy};
use crate::policy_resource::{is_of_policies, is_review};

/// The policies of one type, validating or mutating.
pub(crate) struct PolicySet<E> {
    known: Mutex<Known<E>>,
    /// True if `bound` is out of date.
    pub(crate) stale: AtomicBool,
    bound: ArcSwap<Bound<E>>,
    /// Ready after two parts: policies and bindings.
    pub(crate) ready: Ready,
}

pub(crate) struct Known<E> {
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

impl<E: Evaluator> PolicySet<E> {
    pub(crate) fn new() -> Self {
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

    pub(crate) fn put_manifests(&self, policies: &[Value], bindings: &[Value]) {
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

    pub(crate) fn put_policy(&self, object: &Value) {
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

    pub(crate) fn put_binding(&self, object: &Value) {
        // Bindings have no status: each change is one.
        let binding = Arc::new(Binding::read(object));
        self.change(|known| {
            known.bindings.insert(binding.name.clone(), binding);
        });
    }

    pub(crate) fn change(&self, change: impl FnOnce(&mut Known<E>)) {
        let mut known = self.known.lock();
        change(&mut known);
        self.stale.store(true, Ordering::Release);
    }
}

impl<E> Known<E> {
    pub(crate) fn retain_policies(&mut self, there: &dyn Fn(&str) -> bool) {
        self.policies.retain(|name, _| there(name));
        self.params.retain(|_, known| known.strong_count() > 0);
    }

    pub(crate) fn retain_bindings(&mut self, there: &dyn Fn(&str) -> bool) {
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
