//! SelfSubjectRulesReview: the actions that the caller is allowed to perform in a namespace, as far as they can be
//! listed.

use std::sync::Arc;

use binnacle_authz::{Authorizer, Rule, Rules};
use binnacle_endpoints::{HandlerResult, SubresourceCall, SubresourceHandler};
use binnacle_fields::authorization::v1::{
    NonResourceRule, ResourceRule, SelfSubjectRulesReview as Review, SelfSubjectRulesReviewSpec as Spec,
    SubjectRulesReviewStatus as ReviewStatus,
};
use binnacle_fields::types::{Field, List, Str};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{Status, Text};
use binnacle_registry::admission::Admission;
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value, value};
use binnacle_work::{BudgetError, allocate, charge, pace};

use crate::posted_object::{PostedKind, PostedObject};

const KIND: PostedKind = PostedKind::new("authorization.k8s.io", "v1", "SelfSubjectRulesReview");

pub(crate) struct RulesReview {
    admission: Arc<dyn Admission>,
    authorizer: Arc<dyn Authorizer>,
}

impl RulesReview {
    pub(crate) fn new(admission: Arc<dyn Admission>, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { admission, authorizer }
    }

    async fn review(&self, call: SubresourceCall) -> HandlerResult {
        let posted = PostedObject::read(call, &KIND, &self.admission).await?;
        let namespace = FieldRef::<Review>::root(&posted.object).at(Review::SPEC).at(Spec::NAMESPACE).str();
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        posted.validate(&self.admission).await?;
        let rules = self.authorizer.rules_for(&posted.context.user, namespace).await;
        posted.respond(value!({
            "kind": (KIND.kind), "apiVersion": "authorization.k8s.io/v1",
            "metadata": {}, "spec": {}, "status": (status(&rules)?)
        }))
    }
}

impl SubresourceHandler for RulesReview {
    fn handle(&self, call: SubresourceCall) -> BoxFuture<'_, HandlerResult> {
        Box::pin(self.review(call))
    }
}

/// Each role is limited, but a user may have any number of roles, so the work budget limits the result.
fn status(rules: &Rules) -> Result<Value, BudgetError> {
    for role in &rules.roles {
        // The values and their encoding.
        charge(role.steps())?;
        allocate(2 * role.bytes())?;
    }
    let mut object = Value::Object(Object::new());
    let mut status = FieldMut::<ReviewStatus>::root(&mut object);
    status.set(ReviewStatus::RESOURCE_RULES, rules.resources().map(resource_rule).collect::<Vec<_>>());
    status.set(ReviewStatus::NON_RESOURCE_RULES, rules.paths().map(path_rule).collect::<Vec<_>>());
    status.set(ReviewStatus::INCOMPLETE, rules.incomplete);
    let error = rules.error();
    if !error.is_empty() {
        status.set(ReviewStatus::EVALUATION_ERROR, error);
    }
    Ok(object)
}

fn resource_rule(rule: &Rule) -> Value {
    let mut object = Value::Object(Object::new());
    let mut built = FieldMut::<ResourceRule>::root(&mut object);
    set_texts(&mut built, ResourceRule::VERBS, &rule.verbs);
    set_texts(&mut built, ResourceRule::API_GROUPS, &rule.api_groups);
    set_texts(&mut built, ResourceRule::RESOURCES, &rule.resources);
    set_texts(&mut built, ResourceRule::RESOURCE_NAMES, &rule.resource_names);
    object
}

fn path_rule(rule: &Rule) -> Value {
    let mut object = Value::Object(Object::new());
    let mut built = FieldMut::<NonResourceRule>::root(&mut object);
    set_texts(&mut built, NonResourceRule::VERBS, &rule.verbs);
    set_texts(&mut built, NonResourceRule::NON_RESOURCE_URLS, &rule.paths);
    object
}

fn set_texts<M>(rule: &mut FieldMut<M>, field: Field<M, List<Str>>, texts: &[Text]) {
    if !texts.is_empty() {
        pace(texts.len() as u64);
        rule.set(field, texts.to_vec());
    }
}

#[cfg(test)]
mod tests {
    use binnacle_authz::RoleRules;
    use binnacle_work::{WorkBudget, WorkLimits};

    use super::*;

    fn role(texts: usize) -> Arc<RoleRules> {
        let list = |prefix: &str| (0..texts).map(|number| format!("{prefix}{number}").into()).collect();
        let (verbs, resources) = (list("verb"), list("resource"));
        RoleRules::new(vec![Rule { verbs, resources, ..Rule::default() }])
    }

    #[test]
    fn lists_rules_of_resources_and_paths() {
        let rule = |rule: Value| Rule::read(&rule);
        let all = vec![
            rule(value!({"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]})),
            rule(value!({"verbs": ["get"], "nonResourceURLs": ["/x"]})),
        ];
        let rules = Rules { roles: vec![RoleRules::new(all)], incomplete: true, errors: vec!["why".to_owned()] };
        let want = value!({
            "resourceRules": [{"verbs": ["get"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a"]}],
            "nonResourceRules": [{"verbs": ["get"], "nonResourceURLs": ["/x"]}],
            "incomplete": true, "evaluationError": "why"
        });
        assert_eq!(status(&rules).unwrap(), want);
    }

    /// Each role has about 1.4 MB as JSON. The same role may be bound many times; here all roles differ.
    #[test]
    fn rejects_oversized_rules_before_building_them() {
        let (usual, large) = (role(50), role(50_000));
        for (roles, fits) in
            [(vec![usual.clone(); 200], true), (vec![large.clone(); 3], true), (vec![large; 90], false)]
        {
            let budget = WorkBudget::new(WorkLimits::REQUEST);
            let rules = Rules { roles, ..Rules::default() };
            let built = budget.enter(|| status(&rules));
            assert_eq!(built.is_ok(), fits, "{built:?}");
            if let Err(exceeded) = built {
                assert_eq!(Status::from(exceeded).code(), 413);
                assert!(budget.steps() < 20_000_000, "{}", budget.steps());
            }
        }
    }
}
