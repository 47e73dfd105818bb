//! Type checking of a policy's expressions against the kinds that it matches. Policies are stored regardless of the
//! result, since their rules may also match kinds that do not exist yet.

mod openapi;
mod types;

use std::collections::BTreeSet;

use binnacle_cel::{DeclType, Shape};
use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{
    MatchResources, NamedRuleWithOperations as Rule, ParamKind, ValidatingAdmissionPolicy as Policy,
    ValidatingAdmissionPolicySpec as Spec, Validation, Variable,
};
use binnacle_kinds::expressions;
use binnacle_meta::{GroupVersion, GroupVersionKind, Text};
use binnacle_registry::Snapshot;
use binnacle_schema::Value;
use binnacle_work::WorkLimits;

use crate::remote::RemoteKinds;

/// A warning about an expression.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpressionWarning {
    /// The field path, e.g. `spec.validations[0].expression`.
    pub field: String,
    /// One paragraph for each kind.
    pub warning: String,
}

/// The maximum number of kinds that are checked per rule.
const MAX_KINDS: usize = 10;

/// Group, version and kind, in this order.
type KindName = (Text, Text, Text);

/// Checks the validations of a ValidatingAdmissionPolicy, like kube-controller-manager.
pub async fn expression_warnings(
    policy: &Value,
    snapshot: &Snapshot,
    remote: &dyn RemoteKinds,
) -> Vec<ExpressionWarning> {
    let policy = FieldRef::<Policy>::root(policy);
    let spec = policy.at(Policy::SPEC);
    let params = match spec.at(Spec::PARAM_KIND).detached().set() {
        Some(kind) => {
            let declared = param_type(kind, snapshot, remote).await;
            Some(declared.unwrap_or_else(|| DeclType::new(Shape::Dyn)))
        }
        None => None,
    };
    let mut objects = Vec::new();
    for name in kinds(spec, snapshot, remote) {
        if let Some(object) = declared(&name, snapshot, remote).await {
            objects.push((name, object));
        }
    }
    let check = || check_expressions(spec, objects, params.as_ref());
    // Warnings are optional, so none are returned if the limits are exceeded.
    binnacle_work::limited(WorkLimits::REQUEST, check).unwrap_or_default()
}

/// Compiles the expressions of a policy's spec for each kind.
fn check_expressions(
    spec: FieldRef<Spec>,
    objects: Vec<(KindName, DeclType)>,
    params: Option<&DeclType>,
) -> Vec<ExpressionWarning> {
    let environment = |(name, object): (KindName, DeclType)| {
        let mut variables: Vec<(Text, DeclType)> = Vec::new();
        for variable in spec.at(Spec::VARIABLES).values() {
            if binnacle_work::charge(200 + 10 * variables.len() as u64).is_err() {
                break;
            }
            let environment = expressions::type_checking(&object, params, &variables);
            let ty = match environment.compile(variable.at(Variable::EXPRESSION).str()) {
                Ok(ast) => expressions::data_type(ast.output_type()),
                Err(_) => DeclType::new(Shape::Dyn),
            };
            variables.push((variable.at(Variable::NAME).str().into(), ty));
        }
        (name, expressions::type_checking(&object, params, &variables))
    };
    let environments: Vec<_> = objects.into_iter().map(environment).collect();
    let mut warnings = Vec::new();
    let validations = spec.at(Spec::VALIDATIONS);
    for validation in validations.items() {
        for field in [Validation::EXPRESSION, Validation::MESSAGE_EXPRESSION] {
            let expression = validation.at(field);
            if expression.is_empty() && field.name() == Validation::MESSAGE_EXPRESSION.name() {
                continue;
            }
            let wrong = environments.iter().filter_map(|((group, version, kind), environment)| {
                let errors = environment.compile(expression.str()).err()?;
                let group = if group.is_empty() { String::new() } else { group.to_string() };
                Some(format!("{group}/{version}, Kind={kind}: {errors}\n"))
            });
            let wrong: Vec<String> = wrong.collect();
            if !wrong.is_empty() {
                let field = expression.path().to_string();
                warnings.push(ExpressionWarning { field, warning: wrong.join("\n") });
            }
        }
    }
    warnings
}

/// Returns the kinds of a policy's rules, except for rules with wildcards.
fn kinds(spec: FieldRef<Spec>, snapshot: &Snapshot, remote: &dyn RemoteKinds) -> Vec<KindName> {
    let mut found = BTreeSet::new();
    for rule in spec.at(Spec::MATCH_CONSTRAINTS).at(MatchResources::RESOURCE_RULES).values() {
        let texts = |field| rule.at(field).strs().collect::<BTreeSet<_>>();
        let (groups, versions) = (texts(Rule::API_GROUPS), texts(Rule::API_VERSIONS));
        if groups.iter().chain(&versions).any(|text| text.contains('*')) {
            continue;
        }
        let resources: Vec<_> = texts(Rule::RESOURCES).into_iter().filter(|name| !name.contains(['*', '/'])).collect();
        let mut count = 0;
        for group in &groups {
            for version in &versions {
                for resource in &resources {
                    for kind in kinds_of_resource(snapshot, remote, group, version, resource) {
                        found.insert(kind);
                        count += 1;
                        if count == MAX_KINDS {
                            return found.into_iter().collect();
                        }
                    }
                }
            }
        }
    }
    found.into_iter().collect()
}

/// Returns the kinds of a resource. As in kube-apiserver's RESTMapper, an empty group matches any group.
fn kinds_of_resource(
    snapshot: &Snapshot,
    remote: &dyn RemoteKinds,
    group: &str,
    version: &str,
    resource: &str,
) -> Vec<KindName> {
    let served = snapshot.served();
    let groups = if group.is_empty() {
        served.groups().into_iter().map(|group| group.name.clone()).collect()
    } else {
        vec![Text::from(group)]
    };
    let found = groups.iter().filter_map(|group| served.find(group, version, resource));
    let found = found.map(|found| (found.group.clone(), found.version.clone(), found.kind.clone()));
    let remote_kinds = remote.kinds(group, version, resource).into_iter();
    found.chain(remote_kinds.map(|kind| (kind.group, kind.version, kind.kind))).collect()
}

async fn declared(name: &KindName, snapshot: &Snapshot, remote: &dyn RemoteKinds) -> Option<DeclType> {
    let (group, version, kind) = name;
    if let Some(resource) = snapshot.find_kind(group, version, kind) {
        return Some(types::of_resource(kind, &resource.message));
    }
    if let Some(message) = snapshot.kinds().kind(group, version, kind) {
        return Some(types::of_resource(kind, message));
    }
    let kind = GroupVersionKind::new(group.clone(), version.clone(), kind.clone());
    openapi::of_kind(&remote.document(&kind).await?, &kind)
}

async fn param_type(
    kind: FieldRef<'_, '_, ParamKind>,
    snapshot: &Snapshot,
    remote: &dyn RemoteKinds,
) -> Option<DeclType> {
    let version = GroupVersion::parse(kind.at(ParamKind::API_VERSION).str())?;
    let name = (version.group, version.version, kind.at(ParamKind::KIND).str().into());
    declared(&name, snapshot, remote).await
}
