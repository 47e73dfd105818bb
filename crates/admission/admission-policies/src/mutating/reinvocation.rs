//! Reinvocation of policies after later changes to the object.

use std::collections::HashSet;

use binnacle_admission::{Reinvocation, Request};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::Text;
use binnacle_schema::Value;

use super::{Mutating, NAME};
use crate::policy::{Binding, Policy};

/// The names of policy and binding, and the namespace and name of the parameter object.
pub(crate) type Key = (Text, Text, Option<(Text, Text)>);

pub(crate) fn key(policy: &Policy<Mutating>, binding: &Binding, param: Option<&Value>) -> Key {
    let param = param.map(|param| {
        let metadata = metadata(param);
        (metadata.at(ObjectMeta::NAMESPACE).str().into(), metadata.at(ObjectMeta::NAME).str().into())
    });
    (policy.name.clone(), binding.name.clone(), param)
}

/// The state that is passed from the first pass to the second.
#[derive(Default)]
struct State {
    /// The object after the last policy.
    last: Option<Value>,
    /// The reinvocable policies that were invoked since the last change of the object.
    invoked: HashSet<Key>,
    /// The policies to reinvoke.
    due: HashSet<Key>,
}

/// The policies that are invoked in a pass.
pub(crate) struct Invocations<'a> {
    /// `None` outside of passes.
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

    /// Begins a pass. Other plugins may have changed the object since the previous one.
    pub(crate) fn begin(&self, object: &Value) {
        self.with(|state| {
            if self.is_second() && state.last.as_ref() != Some(object) {
                state.changed();
            }
        });
    }

    /// Returns true if a policy is to be invoked in this pass.
    pub(crate) fn is_due(&self, key: &Key) -> bool {
        !self.is_second() || self.with(|state| state.due.contains(key))
    }

    /// Records the invocation of a reinvocable policy.
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

    fn with<R: Default>(&self, f: impl FnOnce(&mut State) -> R) -> R {
        self.reinvocation.map(|reinvocation| reinvocation.with_state(NAME, f)).unwrap_or_default()
    }
}
