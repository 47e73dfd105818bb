//! A policy or binding, read and compiled once for each change.

use std::sync::Arc;

use binnacle_admission_matching::Criteria;
use binnacle_admission_matching::expressions::FailurePolicy;
use binnacle_meta::{GroupVersion, GroupVersionKind, LabelSelector, Text};
use binnacle_schema::Value;
use binnacle_validation::selectors;
use binnacle_work::WorkLimits;

use crate::params::KnownParams;

/// The compiled spec of a policy.
pub(crate) trait Evaluator: Send + Sync + Sized + 'static {
    /// Compiles the spec of the policy of this name.
    fn compile(name: &str, spec: &Value) -> Self;
}

#[derive(Debug)]
pub(crate) struct Policy<E> {
    pub(crate) name: Text,
    uid: Text,
    /// The generation of the spec; 0 if it is unknown.
    generation: i64,
    pub(crate) criteria: Criteria,
    pub(crate) params: Option<ParamKind>,
    pub(crate) failure_policy: FailurePolicy,
    pub(crate) evaluator: E,
}

/// The kind of a policy's parameters.
#[derive(Clone, Debug)]
pub(crate) struct ParamKind {
    pub(crate) kind: GroupVersionKind,
    /// Shared by all policies with parameters of this kind.
    pub(crate) known: Arc<KnownParams>,
}

#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: Text,
    pub(crate) policy: Text,
    /// `None` if the binding is for all requests of the policy.
    pub(crate) criteria: Option<Criteria>,
    pub(crate) params: Option<ParamRef>,
    /// The actions of a validating policy's binding, in their written order.
    pub(crate) actions: Vec<Action>,
}

/// The action on a failed validation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Deny,
    Warn,
    Audit,
}

/// The reference to parameter objects.
#[derive(Debug)]
pub(crate) struct ParamRef {
    /// Empty for the request's namespace.
    pub(crate) namespace: Text,
    pub(crate) which: Which,
    /// True if a request without parameters is refused.
    pub(crate) deny_if_none: bool,
}

#[derive(Debug)]
pub(crate) enum Which {
    Named(Text),
    /// The error is for an invalid selector.
    Selected(Result<LabelSelector, String>),
    /// Neither name nor selector: validation rejects such references.
    Unknown,
}

impl<E: Evaluator> Policy<E> {
    /// Reads a policy. `known` returns what is known of the parameters of a kind.
    pub(crate) fn read(object: &Value, known: impl FnOnce(&GroupVersionKind) -> Arc<KnownParams>) -> Self {
        let name = object.str_at(&["metadata", "name"]);
        let nothing = Value::Null;
        let spec = object.get("spec").unwrap_or(&nothing);
        Self {
            name: name.into(),
            uid: object.str_at(&["metadata", "uid"]).into(),
            generation: generation(object),
            criteria: Criteria::of_match_resources(spec.get("matchConstraints").unwrap_or(&nothing)),
            params: spec.get("paramKind").and_then(param_kind).map(|kind| ParamKind { known: known(&kind), kind }),
            failure_policy: FailurePolicy::of(spec),
            evaluator: compile(name, spec),
        }
    }

    /// Returns true if the object is the same policy with the same spec: its status or metadata may have changed.
    pub(crate) fn has_spec_of(&self, object: &Value) -> bool {
        let known = self.generation > 0 && self.generation == generation(object);
        known && self.uid == object.str_at(&["metadata", "uid"])
    }
}

/// Compiles a policy within the limits of one request, whoever stored it. Expressions beyond the limits are left without
/// a program, which is an error of each evaluation.
fn compile<E: Evaluator>(name: &str, spec: &Value) -> E {
    let mut compiled = None;
    let _ = binnacle_work::limited(WorkLimits::REQUEST, || compiled = Some(E::compile(name, spec)));
    compiled.expect("the policy was compiled, with or without programs")
}

impl Binding {
    pub(crate) fn read(object: &Value) -> Self {
        let nothing = Value::Null;
        let spec = object.get("spec").unwrap_or(&nothing);
        let action = |action: &Value| match action.as_str() {
            Some("Warn") => Some(Action::Warn),
            Some("Audit") => Some(Action::Audit),
            Some("Deny") => Some(Action::Deny),
            _ => None,
        };
        Self {
            name: object.str_at(&["metadata", "name"]).into(),
            policy: spec.str_at(&["policyName"]).into(),
            criteria: spec.get("matchResources").filter(|m| !m.is_null()).map(Criteria::of_match_resources),
            params: spec.get("paramRef").filter(|reference| !reference.is_null()).map(ParamRef::read),
            actions: spec.list_at(&["validationActions"]).iter().filter_map(action).collect(),
        }
    }
}

impl ParamRef {
    fn read(reference: &Value) -> Self {
        let which = match (reference.str_at(&["name"]), reference.get("selector").filter(|s| !s.is_null())) {
            ("", None) => Which::Unknown,
            ("", selector) => Which::Selected(selectors::parse(selector).map_err(|error| error.to_string())),
            (name, _) => Which::Named(name.into()),
        };
        Self {
            namespace: reference.str_at(&["namespace"]).into(),
            which,
            deny_if_none: reference.str_at(&["parameterNotFoundAction"]) == "Deny",
        }
    }
}

impl Action {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Deny => "Deny",
            Self::Warn => "Warn",
            Self::Audit => "Audit",
        }
    }
}

fn generation(object: &Value) -> i64 {
    object.int_at(&["metadata", "generation"]).unwrap_or_default()
}

fn param_kind(kind: &Value) -> Option<GroupVersionKind> {
    // Validation rejects other versions.
    let version = GroupVersion::parse(kind.str_at(&["apiVersion"]))?;
    Some(version.with_kind(kind.str_at(&["kind"])))
}
