//! `RuleWithOperations` and `NamedRuleWithOperations`.

use binnacle_fields::FieldRef;
use binnacle_fields::admissionregistration::v1::NamedRuleWithOperations as Fields;
use binnacle_meta::{GroupVersionResource, Text};
use binnacle_registry::admission::{Attributes, Operation};

/// All operations, in the order of their indices.
pub(crate) const OPERATIONS: [Operation; 4] =
    [Operation::Create, Operation::Update, Operation::Delete, Operation::Connect];

/// A compiled rule.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    /// True for the operations of the rule, by index.
    operations: [bool; OPERATIONS.len()],
    groups: Vec<Text>,
    versions: Vec<Text>,
    /// Plurals and subresources.
    resources: Vec<(Text, Text)>,
    scope: Scope,
    /// `resourceNames`; all if empty. The rules of webhooks have none.
    names: Vec<Text>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Scope {
    All,
    Namespaced,
    Cluster,
    /// An unknown scope, which never matches.
    Unknown,
}

const ANY: &str = "*";

pub(crate) fn operation_index(operation: Operation) -> usize {
    match operation {
        Operation::Create => 0,
        Operation::Update => 1,
        Operation::Delete => 2,
        Operation::Connect => 3,
    }
}

impl Rule {
    pub(crate) fn of(rule: FieldRef<Fields>) -> Self {
        let texts = |field| -> Vec<Text> { rule.at(field).strs().map(Text::from).collect() };
        let operations_in_rule = texts(Fields::OPERATIONS);
        let operations = OPERATIONS.map(|operation| {
            operations_in_rule.iter().any(|included| included == ANY || included == operation.as_str())
        });
        let parts = |resource: &Text| match resource.split_once('/') {
            Some((plural, subresource)) => (plural.into(), subresource.into()),
            None => (resource.clone(), Text::default()),
        };
        Self {
            operations,
            groups: texts(Fields::API_GROUPS),
            versions: texts(Fields::API_VERSIONS),
            resources: texts(Fields::RESOURCES).iter().map(parts).collect(),
            scope: match rule.at(Fields::SCOPE).str() {
                "" | ANY => Scope::All,
                "Namespaced" => Scope::Namespaced,
                "Cluster" => Scope::Cluster,
                _ => Scope::Unknown,
            },
            names: texts(Fields::RESOURCE_NAMES),
        }
    }

    /// Returns true if a request matches as a request for `resource`, which is its own or equivalent to it. Object
    /// names are not compared.
    pub(crate) fn matches(&self, attributes: &Attributes, resource: &GroupVersionResource) -> bool {
        let one_of = |listed: &[Text], actual: &Text| listed.iter().any(|listed| listed == ANY || listed == actual);
        let matches = |listed: &Text, actual: &Text| listed == ANY || listed == actual;
        self.has_scope(attributes, resource)
            && self.operations[operation_index(attributes.operation)]
            && one_of(&self.groups, &resource.group)
            && one_of(&self.versions, &resource.version)
            && self.resources.iter().any(|(plural, subresource)| {
                matches(plural, &resource.resource) && matches(subresource, &attributes.subresource)
            })
    }

    /// Returns true if the rule applies to objects with this name.
    pub(crate) fn has_name(&self, name: &str) -> bool {
        self.names.is_empty() || self.names.iter().any(|listed| listed == name)
    }

    /// Returns true if the request is in the rule's scope. Namespaces are cluster-scoped.
    fn has_scope(&self, attributes: &Attributes, resource: &GroupVersionResource) -> bool {
        let of_cluster = attributes.namespace.is_empty()
            || (resource.group.is_empty() && resource.version == "v1" && resource.resource == "namespaces");
        match self.scope {
            Scope::All => true,
            Scope::Namespaced => !of_cluster,
            Scope::Cluster => of_cluster,
            Scope::Unknown => false,
        }
    }

    /// Returns true if the rule includes an operation.
    pub(crate) fn includes(&self, operation: Operation) -> bool {
        self.operations[operation_index(operation)]
    }

    /// Returns the plurals of the rule; `None` if it applies to all resources.
    pub(crate) fn plurals(&self) -> Option<impl Iterator<Item = &Text>> {
        let all = self.resources.iter().any(|(plural, _)| plural == ANY);
        (!all).then(|| self.resources.iter().map(|(plural, _)| plural))
    }
}
