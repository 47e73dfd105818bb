//! Compiled policies and bindings.

use std::sync::Arc;

use binnacle_admission_matching::Criteria;
use binnacle_admission_matching::expressions::FailurePolicy;
use binnacle_fields::admissionregistration::v1::{
    ParamKind as ParamKindFields, ParamRef as ParamRefFields, ValidatingAdmissionPolicy,
    ValidatingAdmissionPolicyBinding as BindingFields, ValidatingAdmissionPolicyBindingSpec as BindingSpec,
    ValidatingAdmissionPolicySpec as PolicySpec,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, Message, metadata};
use binnacle_meta::{GroupVersion, GroupVersionKind, LabelSelector, Text};
use binnacle_schema::Value;
use binnacle_validation::selectors;
use binnacle_work::WorkLimits;

use crate::param_cache::ParamCache;

/// A compiled policy spec.
pub(crate) trait Evaluator: Send + Sync + Sized + 'static {
    type Spec: Message;

    /// Compiles the spec of the policy with this name.
    fn compile(name: &str, spec: FieldRef<Self::Spec>) -> Self;
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
    /// Shared by all policies with parameters of the kind.
    pub(crate) param_cache: Arc<ParamCache>,
}

#[derive(Debug)]
pub(crate) struct Binding {
    pub(crate) name: Text,
    pub(crate) policy: Text,
    /// `None` if the binding applies to all requests that match the policy.
    pub(crate) criteria: Option<Criteria>,
    pub(crate) params: Option<ParamRef>,
    /// The `validationActions` of a validating policy's binding, in order.
    pub(crate) actions: Vec<Action>,
}

/// A validation action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Action {
    Deny,
    Warn,
    Audit,
}

/// A reference to parameter objects.
#[derive(Debug)]
pub(crate) struct ParamRef {
    /// Empty for the request's namespace.
    pub(crate) namespace: Text,
    pub(crate) selection: ParamSelection,
    /// True if a request is denied if there are no parameters.
    pub(crate) deny_if_none: bool,
}

#[derive(Debug)]
pub(crate) enum ParamSelection {
    Name(Text),
    /// An error if the selector is invalid.
    Selector(Result<LabelSelector, String>),
    /// Neither name nor selector, which validation rejects.
    Missing,
}

impl<E: Evaluator> Policy<E> {
    /// Compiles a policy. `param_cache` returns the shared cache for a parameter kind.
    pub(crate) fn read(object: &Value, param_cache: impl FnOnce(&GroupVersionKind) -> Arc<ParamCache>) -> Self {
        let metadata = metadata(object);
        let name = metadata.at(ObjectMeta::NAME).str();
        // The spec of a mutating policy has the same fields.
        let spec = FieldRef::<ValidatingAdmissionPolicy>::root(object).at(ValidatingAdmissionPolicy::SPEC).detached();
        let params = spec.at(PolicySpec::PARAM_KIND).set().and_then(param_kind);
        Self {
            name: name.into(),
            uid: metadata.at(ObjectMeta::UID).str().into(),
            generation: generation(object),
            criteria: Criteria::of_match_resources(spec.at(PolicySpec::MATCH_CONSTRAINTS)),
            params: params.map(|kind| ParamKind { param_cache: param_cache(&kind), kind }),
            failure_policy: FailurePolicy::of(spec.at(PolicySpec::FAILURE_POLICY)),
            evaluator: compile(name, spec.cast()),
        }
    }

    /// Returns true if the object is the same policy with the same spec, i.e. only its status or metadata may have
    /// changed.
    pub(crate) fn has_spec_of(&self, object: &Value) -> bool {
        let is_same_generation = self.generation > 0 && self.generation == generation(object);
        is_same_generation && self.uid == metadata(object).at(ObjectMeta::UID).str()
    }
}

/// Compiles a policy within the work limits of a request. Expressions beyond the limits have no program, so that each
/// evaluation fails.
fn compile<E: Evaluator>(name: &str, spec: FieldRef<E::Spec>) -> E {
    let mut compiled = None;
    let _ = binnacle_work::limited(WorkLimits::REQUEST, || compiled = Some(E::compile(name, spec)));
    compiled.expect("the policy was compiled, with or without programs")
}

impl Binding {
    pub(crate) fn read(object: &Value) -> Self {
        // The binding of a mutating policy has the same fields except for the actions.
        let binding = FieldRef::<BindingFields>::root(object);
        let spec = binding.at(BindingFields::SPEC);
        let action = |action: &str| match action {
            "Warn" => Some(Action::Warn),
            "Audit" => Some(Action::Audit),
            "Deny" => Some(Action::Deny),
            _ => None,
        };
        Self {
            name: binding.at(BindingFields::METADATA).at(ObjectMeta::NAME).str().into(),
            policy: spec.at(BindingSpec::POLICY_NAME).str().into(),
            criteria: spec.at(BindingSpec::MATCH_RESOURCES).set().map(Criteria::of_match_resources),
            params: spec.at(BindingSpec::PARAM_REF).set().map(ParamRef::read),
            actions: spec.at(BindingSpec::VALIDATION_ACTIONS).strs().filter_map(action).collect(),
        }
    }
}

impl ParamRef {
    fn read(reference: FieldRef<ParamRefFields>) -> Self {
        let selector = reference.at(ParamRefFields::SELECTOR).get();
        let selection = match (reference.at(ParamRefFields::NAME).str(), selector) {
            ("", None) => ParamSelection::Missing,
            ("", selector) => ParamSelection::Selector(selectors::parse(selector).map_err(|error| error.to_string())),
            (name, _) => ParamSelection::Name(name.into()),
        };
        Self {
            namespace: reference.at(ParamRefFields::NAMESPACE).str().into(),
            selection,
            deny_if_none: reference.at(ParamRefFields::PARAMETER_NOT_FOUND_ACTION).str() == "Deny",
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
    metadata(object).at(ObjectMeta::GENERATION).int_or_zero()
}

fn param_kind(kind: FieldRef<ParamKindFields>) -> Option<GroupVersionKind> {
    // Validation rejects other versions.
    let version = GroupVersion::parse(kind.at(ParamKindFields::API_VERSION).str())?;
    Some(version.with_kind(kind.at(ParamKindFields::KIND).str()))
}
