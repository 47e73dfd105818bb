//! Reinvocation of policies: those that want to see the changes that others have made after them.

use std::collections::HashSet;

use binnacle_admission::{Reinvocation, Request};
use binnacle_meta::Text;
use binnacle_schema::Value;

use super::{Mutating, NAME};
use crate::policy::{Binding, Policy};

/// Policy, binding, and namespace and name of the parameter object.
pub(crate) type Key = (Text, Text, Option<(Text, Text)>);

pub(crate) fn key(policy: &Policy<Mutating>, binding: &Binding, param: Option<&Value>) -> Key {
    let text = |param: &Value, member: &str| Text::from(param.str_at(&["metadata", member]));
    let param = param.map(|param| (text(param, "namespace"), text(param, "name")));
    (policy.name.clone(), binding.name.clone(), param)
}

/// The state that the first pass leaves to the second.
#[derive(Default)]
struct State {
    /// The object as policies left it.
    last: Option<Value>,
    /// Policies that may be asked again and have been asked since the object last changed.
    invoked: HashSet<Key>,
    /// Policies that are to be asked again.
    due: HashSet<Key>,
}

/// The policies that are asked in a pass.
pub(crate) struct Invocations<'a> {
    /// Absent outside of passes.
    reinvocation: Option<&'a Reinvocation>,
}

impl State {
    fn changed(&mut self) {
        self.due.extend(self.invoked.drain());
    }
}

impl<'a> Invocations<'a> {
    pub(crate) fn of(request: &Request<'a>) -> Self {
        Self { reinvocation: request.reinvocation() }
    }

    /// A pass begins, possibly with an object that others have changed.
    pub(crate) fn begin(&self, object: &Value) {
        self.with(|state| {
            if self.is_second() && state.last.as_ref() != Some(object) {
                state.changed();
            }
        });
    }

    /// True when a policy is to be asked in this pass.
    pub(crate) fn is_due(&self, key: &Key) -> bool {
        !self.is_second() || self.with(|state| state.due.contains(key))
    }

    /// A policy that may be asked again was asked.
    pub(crate) fn invoked(&self, key: Key) {
        self.with(|state| {
            state.invoked.insert(key);
        });
    }

    pub(crate) fn end(&self, object: &Value, changed: bool) {
        self.with(|state| {
            if changed {
                state.changed();
            }
            state.last = Some(object.clone());
        });
        if let Some(reinvocation) = self.reinvocation.filter(|_| changed) {
            reinvocation.request();
        }
    }

    fn is_second(&self) -> bool {
        self.reinvocation.is_some_and(Reinvocation::is_second)
    }

    fn with<R: Default>(&self, use_it: impl FnOnce(&mut State) -> R) -> R {
        self.reinvocation.map(|reinvocation| reinvocation.with_state(NAME, use_it)).unwrap_or_default()
    }
}
