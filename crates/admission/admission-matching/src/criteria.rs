//! Match criteria: the rules and selectors of a webhook or policy.

use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::{MatchResources, MutatingWebhook, NamedRuleWithOperations};
use binnacle_fields::meta::v1::LabelSelector as SelectorFields;
use binnacle_fields::types::{List, Str};
use binnacle_meta::{LabelSelector, Status};
use binnacle_registry::admission::Operation;
use binnacle_schema::Value;
use binnacle_validation::selectors;

use crate::matched_resource::MatchedResource;
use crate::rules::Rule;
use crate::subject::Subject;

/// The compiled match criteria of a webhook or policy.
#[derive(Clone, Debug)]
pub struct Criteria {
    /// Without rules, all requests match if `empty_is_all` is true.
    rules: Vec<Rule>,
    empty_is_all: bool,
    exclude: Vec<Rule>,
    /// True for `matchPolicy: Equivalent`.
    equivalent: bool,
    /// An error with kube-apiserver's message if the selector is invalid.
    namespaces: Result<LabelSelector, String>,
    objects: Result<LabelSelector, String>,
}

impl Criteria {
    /// Compiles one of the `webhooks` of a configuration. A mutating one has all fields of a validating one.
    pub fn of_webhook(webhook: FieldRef<MutatingWebhook>) -> Self {
        Self {
            // The rules of webhooks are those of policies without `resourceNames`.
            rules: rules(webhook.at(MutatingWebhook::RULES).cast()),
            empty_is_all: false,
            exclude: Vec::new(),
            equivalent: is_equivalent(webhook.at(MutatingWebhook::MATCH_POLICY)),
            namespaces: selector(webhook.at(MutatingWebhook::NAMESPACE_SELECTOR)),
            objects: selector(webhook.at(MutatingWebhook::OBJECT_SELECTOR)),
        }
    }

    /// Compiles `matchConstraints` of a policy or `matchResources` of a binding, which may be absent.
    pub fn of_match_resources(resources: FieldRef<MatchResources>) -> Self {
        Self {
            rules: rules(resources.at(MatchResources::RESOURCE_RULES)),
            empty_is_all: true,
            exclude: rules(resources.at(MatchResources::EXCLUDE_RESOURCE_RULES)),
            equivalent: is_equivalent(resources.at(MatchResources::MATCH_POLICY)),
            namespaces: selector(resources.at(MatchResources::NAMESPACE_SELECTOR)),
            objects: selector(resources.at(MatchResources::OBJECT_SELECTOR)),
        }
    }

    /// Returns the resource and kind that a request matches as, if it matches. Absent objects are null.
    ///
    /// # Errors
    ///
    /// Returns 404 if the request's namespace, whose labels are matched, does not exist; 500 if it cannot be read or a
    /// selector is invalid.
    pub async fn matches(
        &self,
        subject: &Subject<'_>,
        object: &Value,
        old: Option<&Value>,
    ) -> Result<Option<MatchedResource>, Status> {
        // The cheapest check comes first. The order does not affect the result, since selector errors only count if
        // everything else matches.
        let Some(matched) = self.matches_rules(subject) else { return Ok(None) };
        if self.objects.as_ref().is_ok_and(|selector| !subject.has_labels(selector, object, old)) {
            return Ok(None);
        }
        if !subject.is_in(&self.namespaces, object).await? {
            return Ok(None);
        }
        match &self.objects {
            Ok(_) => Ok(Some(matched)),
            Err(why) => Err(Status::internal(why)),
        }
    }

    fn matches_rules(&self, subject: &Subject<'_>) -> Option<MatchedResource> {
        if self.first_match(&self.exclude, subject).is_some() {
            return None;
        }
        if self.rules.is_empty() && self.empty_is_all {
            return Some(subject.own_resource());
        }
        self.first_match(&self.rules, subject)
    }

    /// Matches the request's own resource with all rules first, and then equivalent resources.
    fn first_match(&self, rules: &[Rule], subject: &Subject<'_>) -> Option<MatchedResource> {
        let attributes = subject.attributes;
        let named = rules.iter().filter(|rule| rule.includes(attributes.operation) && rule.has_name(&attributes.name));
        if named.clone().any(|rule| rule.matches(attributes, &attributes.resource)) {
            return Some(subject.own_resource());
        }
        if !self.equivalent {
            return None;
        }
        let mut pairs = named.flat_map(|rule| subject.equivalents().iter().map(move |other| (rule, other)));
        pairs.find(|(rule, other)| rule.matches(attributes, &other.resource)).map(|(_, other)| other.clone())
    }

    /// Returns true if the rules may match any resource.
    pub(crate) fn is_for_all(&self, operation: Operation) -> bool {
        let all = self.rules_for(operation).any(|rule| rule.plurals().is_none());
        all || (self.rules.is_empty() && self.empty_is_all)
    }

    /// Returns the rules for an operation.
    pub(crate) fn rules_for(&self, operation: Operation) -> impl Iterator<Item = &Rule> {
        self.rules.iter().filter(move |rule| rule.includes(operation))
    }
}

fn rules(rules: FieldRef<List<NamedRuleWithOperations>>) -> Vec<Rule> {
    rules.values().map(Rule::of).collect()
}

fn is_equivalent(policy: FieldRef<Str>) -> bool {
    policy.str() == "Equivalent"
}

fn selector(selector: FieldRef<SelectorFields>) -> Result<LabelSelector, String> {
    selectors::parse(selector.get()).map_err(|error| error.to_string())
}
