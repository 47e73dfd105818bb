//! The configuration of ResourceQuota: resources that must not be used unless a quota covers them.

use std::collections::BTreeSet;

use binnacle_fields::FieldRef;
use binnacle_meta::FieldErrors;
use binnacle_registry::admission::Attributes;
use binnacle_schema::Value;

use super::evaluator::{Evaluator, Selector};
use crate::config_formats::{QuotaConfiguration, QuotaLimit};
use crate::plugins::pod_resources::Resources;

/// A resource whose usage must be covered by a quota.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct LimitedResource {
    group: String,
    resource: String,
    /// Substrings of the names of limited resources, e.g. `.storageclass.storage.k8s.io/requests.storage`.
    contains: Vec<String>,
    /// Scopes in which objects require a quota with that scope.
    scopes: Vec<Value>,
}

impl LimitedResource {
    /// Reads the configuration object.
    pub fn read(file: &Value) -> Result<Vec<Self>, FieldErrors> {
        let mut errors = FieldErrors::new();
        let file = FieldRef::<QuotaConfiguration>::root(file);
        let limits = file.at(QuotaConfiguration::LIMITED_RESOURCES);
        let limited = limits.items().map(|limit| {
            let resource = limit.at(QuotaLimit::RESOURCE);
            if resource.is_empty() {
                errors.push(resource.required(""));
            }
            Self {
                group: limit.at(QuotaLimit::API_GROUP).str().to_owned(),
                resource: resource.str().to_owned(),
                contains: limit.at(QuotaLimit::MATCH_CONTAINS).strs().map(str::to_owned).collect(),
                scopes: limit.at(QuotaLimit::MATCH_SCOPES).list().to_vec(),
            }
        });
        let limited = limited.collect();
        if errors.is_empty() { Ok(limited) } else { Err(errors) }
    }

    fn matches(&self, attributes: &Attributes) -> bool {
        self.resource == attributes.resource.resource && self.group == attributes.resource.group
    }
}

/// Returns the resource names in an object's usage that a quota must limit.
pub(super) fn names(limited: &[LimitedResource], attributes: &Attributes, usage: &Resources) -> BTreeSet<String> {
    let matching = limited.iter().filter(|limited| limited.matches(attributes));
    let used = usage.iter().filter(|(_, amount)| amount.sign() > 0).map(|(name, _)| name);
    matching
        .flat_map(|limited| {
            let limits = |name: &&String| limited.contains.iter().any(|part| name.contains(part.as_str()));
            used.clone().filter(limits).cloned()
        })
        .collect()
}

/// Returns the limited scopes of an object that no quota covers, formatted as in Go.
pub(super) fn uncovered_scopes(
    limited: &[LimitedResource],
    covered: &[Value],
    object: &Value,
    evaluator: &dyn Evaluator,
) -> Vec<String> {
    // As in kube-apiserver, scopes apply to all resources, not only to that of their entry.
    let scopes = limited.iter().flat_map(|limited| &limited.scopes).map(FieldRef::<Selector>::root);
    let within = scopes.filter(|scope| evaluator.in_scope(*scope, object));
    let is_covered = |scope| covered.iter().any(|covered| name(FieldRef::root(covered)) == name(scope));
    let uncovered = within.filter(|scope| !is_covered(*scope));
    uncovered
        .map(|scope| {
            let values = scope.at(Selector::VALUES).strs().collect::<Vec<_>>().join(" ");
            format!("{{{} {} [{values}]}}", name(scope), scope.at(Selector::OPERATOR).str())
        })
        .collect()
}

fn name<'v>(scope: FieldRef<'_, 'v, Selector>) -> &'v str {
    scope.at(Selector::SCOPE_NAME).str()
}
