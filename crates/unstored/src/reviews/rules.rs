//! SelfSubjectRulesReview: the actions that the caller may do in a namespace, as far as they can be listed.

use std::sync::Arc;

use binnacle_authz::{Authorizer, PathRule, ResourceRule, Rules};
use binnacle_endpoints::{Answer, UnstoredCall, UnstoredHandler};
use binnacle_meta::{Status, Text};
use binnacle_registry::admission::Admission;
use binnacle_request::BoxFuture;
use binnacle_schema::{Object, Value, value};

use crate::posted::{ExpectedKind, PostedObject};

const KIND: ExpectedKind = ExpectedKind::new("authorization.k8s.io", "v1", "SelfSubjectRulesReview");

pub(crate) struct RulesReview {
    admission: Arc<dyn Admission>,
    authorizer: Arc<dyn Authorizer>,
}

impl RulesReview {
    pub(crate) fn new(admission: Arc<dyn Admission>, authorizer: Arc<dyn Authorizer>) -> Self {
        Self { admission, authorizer }
    }

    async fn review(&self, call: UnstoredCall) -> Answer {
        let posted = PostedObject::read(call, &KIND, &self.admission).await?;
        let namespace = posted.object.str_at(&["spec", "namespace"]);
        if namespace.is_empty() {
            return Err(Status::bad_request("no namespace on request"));
        }
        posted.validate(&self.admission).await?;
        let rules = self.authorizer.rules_for(&posted.context.user, namespace).await;
        posted.respond(value!({
            "kind": (KIND.kind), "apiVersion": "authorization.k8s.io/v1",
            "metadata": {}, "spec": {}, "status": (status(&rules))
        }))
    }
}

impl UnstoredHandler for RulesReview {
    fn handle(&self, call: UnstoredCall) -> BoxFuture<'_, Answer> {
        Box::pin(self.review(call))
    }
}

fn status(rules: &Rules) -> Object {
    let mut status = Object::new();
    status.insert("resourceRules", Value::List(rules.resources.iter().map(resource_rule).collect()));
    status.insert("nonResourceRules", Value::List(rules.paths.iter().map(path_rule).collect()));
    status.insert("incomplete", rules.incomplete);
    let error = rules.error();
    if !error.is_empty() {
        status.insert("evaluationError", error);
    }
    status
}

fn resource_rule(rule: &ResourceRule) -> Value {
    let mut shown = Object::new();
    put(&mut shown, "verbs", &rule.verbs);
    put(&mut shown, "apiGroups", &rule.api_groups);
    put(&mut shown, "resources", &rule.resources);
    put(&mut shown, "resourceNames", &rule.resource_names);
    Value::Object(shown)
}

fn path_rule(rule: &PathRule) -> Value {
    let mut shown = Object::new();
    put(&mut shown, "verbs", &rule.verbs);
    put(&mut shown, "nonResourceURLs", &rule.paths);
    Value::Object(shown)
}

fn put(rule: &mut Object, member: &str, texts: &[Text]) {
    if !texts.is_empty() {
        rule.insert(member, texts.to_vec());
    }
}
