//! The audit policy: an ordered list of rules, whose first match determines the audit level of a request.

mod read;

use std::path::Path;

use binnacle_meta::read_error;
use binnacle_request::{AuditLevel, RequestInfo, User};

use crate::event::Stages;

/// An `audit.k8s.io/v1` Policy.
#[derive(Clone, Debug, Default)]
pub struct Policy {
    pub(crate) rules: Vec<Rule>,
    pub(crate) omit_stages: Stages,
    pub(crate) omit_managed_fields: bool,
}

/// The error of an invalid policy, with kube-apiserver's message.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct PolicyError(pub(crate) String);

/// How the policy audits a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RequestAuditConfig {
    pub level: AuditLevel,
    pub omit_stages: Stages,
    pub omit_managed_fields: bool,
}

/// A rule: conditions that must all match. An empty condition always matches.
#[derive(Clone, Debug)]
pub(crate) struct Rule {
    pub(crate) level: AuditLevel,
    pub(crate) users: Vec<String>,
    pub(crate) user_groups: Vec<String>,
    pub(crate) verbs: Vec<String>,
    pub(crate) resources: Vec<GroupResources>,
    /// The empty name matches requests without a namespace.
    pub(crate) namespaces: Vec<String>,
    pub(crate) non_resource_urls: Vec<String>,
    pub(crate) omit_stages: Stages,
    pub(crate) omit_managed_fields: Option<bool>,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct GroupResources {
    pub(crate) group: String,
    pub(crate) resources: Vec<String>,
    pub(crate) resource_names: Vec<String>,
}

impl Policy {
    /// Reads a policy file in YAML or JSON.
    pub fn load(path: &Path) -> Result<Self, PolicyError> {
        let shown = path.display();
        let text = std::fs::read(path).map_err(|error| {
            PolicyError(format!("failed to read file path \"{shown}\": {}", read_error(&shown.to_string(), &error)))
        })?;
        Self::parse(&text).map_err(|error| PolicyError(format!("{error}: from file {shown}")))
    }

    pub fn parse(text: &[u8]) -> Result<Self, PolicyError> {
        read::policy(text)
    }

    /// Evaluates the policy for a request. `user` is the authenticated user, even if they impersonate another one.
    pub fn evaluate(&self, info: &RequestInfo, user: Option<&User>) -> RequestAuditConfig {
        match self.rules.iter().find(|rule| rule.matches(info, user)) {
            Some(rule) => RequestAuditConfig {
                level: rule.level,
                omit_stages: self.omit_stages.union(rule.omit_stages),
                omit_managed_fields: rule.omit_managed_fields.unwrap_or(self.omit_managed_fields),
            },
            None => RequestAuditConfig {
                level: AuditLevel::None,
                omit_stages: self.omit_stages,
                omit_managed_fields: self.omit_managed_fields,
            },
        }
    }
}

impl Rule {
    fn matches(&self, info: &RequestInfo, user: Option<&User>) -> bool {
        if !self.users.is_empty() && !user.is_some_and(|user| has(&self.users, &user.name)) {
            return false;
        }
        let in_group = |user: &User| user.groups.iter().any(|group| has(&self.user_groups, group));
        if !self.user_groups.is_empty() && !user.is_some_and(in_group) {
            return false;
        }
        if !self.verbs.is_empty() && !has(&self.verbs, &info.verb) {
            return false;
        }
        if !self.namespaces.is_empty() || !self.resources.is_empty() {
            return self.matches_resource(info);
        }
        if !self.non_resource_urls.is_empty() {
            return !info.is_resource_request && self.non_resource_urls.iter().any(|url| url_matches(url, &info.path));
        }
        true
    }

    fn matches_resource(&self, info: &RequestInfo) -> bool {
        if !info.is_resource_request || (!self.namespaces.is_empty() && !has(&self.namespaces, &info.namespace)) {
            return false;
        }
        self.resources.is_empty() || self.resources.iter().any(|resources| resources.matches(info))
    }
}

impl GroupResources {
    fn matches(&self, info: &RequestInfo) -> bool {
        if self.group != "*" && info.api_group != self.group {
            return false;
        }
        if self.resources.is_empty() {
            return true;
        }
        if !self.resource_names.is_empty() && !has(&self.resource_names, &info.name) {
            return false;
        }
        let (resource, subresource) = (info.resource.as_str(), info.subresource.as_str());
        self.resources.iter().any(|pattern| match pattern.split_once('/') {
            _ if pattern == "*" => true,
            None => subresource.is_empty() && pattern == resource,
            // Also matches the resource itself, without a subresource.
            Some((of, "*")) if of == resource => true,
            Some(("*", part)) => !subresource.is_empty() && part == subresource,
            Some((of, part)) => !subresource.is_empty() && of == resource && part == subresource,
        })
    }
}

fn url_matches(pattern: &str, path: &str) -> bool {
    pattern == "*" || pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

fn has(list: &[String], text: &str) -> bool {
    list.iter().any(|each| each == text)
}

#[cfg(test)]
mod tests {
    use binnacle_request::Query;
    use http::Method;

    use super::*;
    use crate::event::Stage;

    fn level(rule: &str, request: &str, user: Option<&User>) -> AuditLevel {
        let policy = format!("apiVersion: audit.k8s.io/v1\nkind: Policy\nrules:\n- {{level: Request, {rule}}}\n");
        let policy = Policy::parse(policy.as_bytes()).unwrap_or_else(|error| panic!("{rule}: {error}"));
        let (method, path) = request.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let info = RequestInfo::parse(&method, path, &Query::default(), path).unwrap();
        policy.evaluate(&info, user).level
    }

    #[test]
    fn rules_match_by_all_their_conditions() {
        let jane = User::new("jane", &["dev"]);
        let pod = "GET /api/v1/namespaces/n/pods/p";
        let log = "GET /api/v1/namespaces/n/pods/p/log";
        let nodes = "GET /api/v1/nodes";
        let scale = "PUT /apis/apps/v1/namespaces/n/deployments/d/scale";
        for (rule, request, matches) in [
            ("", pod, true),
            ("users: [jane]", pod, true),
            ("users: [joe]", pod, false),
            ("userGroups: [ops, dev]", pod, true),
            ("userGroups: [ops]", pod, false),
            ("verbs: [get]", pod, true),
            ("verbs: [list]", pod, false),
            ("verbs: [list]", nodes, true),
            ("namespaces: ['n']", pod, true),
            ("namespaces: [m]", pod, false),
            ("namespaces: ['']", nodes, true),
            ("namespaces: ['']", pod, false),
            ("namespaces: ['']", "GET /version", false),
            ("resources: [{group: ''}]", pod, true),
            ("resources: [{group: ''}]", log, true),
            ("resources: [{group: apps}]", pod, false),
            ("resources: [{group: '*', resources: ['*']}]", log, true),
            ("resources: [{resources: [pods]}]", pod, true),
            ("resources: [{resources: [pods]}]", log, false),
            ("resources: [{resources: [pods/log]}]", log, true),
            ("resources: [{resources: [pods/log]}]", pod, false),
            ("resources: [{resources: ['pods/*']}]", log, true),
            ("resources: [{resources: ['pods/*']}]", pod, true),
            ("resources: [{resources: ['*/log']}]", log, true),
            ("resources: [{group: apps, resources: ['*/scale']}]", scale, true),
            ("resources: [{resources: ['*/scale']}]", scale, false),
            ("resources: [{resources: [pods], resourceNames: [p]}]", pod, true),
            ("resources: [{resources: [pods], resourceNames: [q]}]", pod, false),
            ("resources: [{resources: [pods]}], namespaces: [m]", pod, false),
            ("nonResourceURLs: [/version]", "GET /version", true),
            ("nonResourceURLs: ['/health*']", "GET /healthz/ping", true),
            ("nonResourceURLs: ['*']", "GET /metrics", true),
            ("nonResourceURLs: ['*']", pod, false),
            ("nonResourceURLs: [/version]", "GET /version/x", false),
        ] {
            let want = if matches { AuditLevel::Request } else { AuditLevel::None };
            assert_eq!(level(rule, request, Some(&jane)), want, "{rule} {request}");
        }
        assert_eq!(level("users: [jane]", pod, None), AuditLevel::None);
        assert_eq!(level("userGroups: [dev]", pod, None), AuditLevel::None);
    }

    #[test]
    fn first_matching_rule_sets_level_and_adds_omitted_stages() {
        let policy = Policy::parse(
            b"apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
omitManagedFields: true
rules:
- level: None
  verbs: [watch]
- level: Metadata
  verbs: [get]
  omitStages: [Panic]
  omitManagedFields: false
- level: RequestResponse
",
        )
        .unwrap();
        let evaluate = |path: &str, query: &str| {
            policy.evaluate(&RequestInfo::parse(&Method::GET, path, &Query::parse(query), path).unwrap(), None)
        };
        assert_eq!(evaluate("/api/v1/nodes", "watch=1").level, AuditLevel::None);
        let get = evaluate("/api/v1/nodes/n", "");
        assert_eq!((get.level, get.omit_managed_fields), (AuditLevel::Metadata, false));
        assert!(get.omit_stages.contains(Stage::RequestReceived) && get.omit_stages.contains(Stage::Panic));
        let list = evaluate("/api/v1/nodes", "");
        assert_eq!((list.level, list.omit_managed_fields), (AuditLevel::RequestResponse, true));
        assert!(!list.omit_stages.contains(Stage::Panic));
    }
}
