//! Matching of requests with flow schemas.

use binnacle_meta::Text;
use binnacle_request::{RequestInfo, User};

use crate::spec::{Distinguisher, FlowSchema, PathRule, ResourceRule, Rule, Subject};

const SERVICE_ACCOUNT: &str = "system:serviceaccount:";

impl FlowSchema {
    pub(crate) fn matches(&self, info: &RequestInfo, user: &User) -> bool {
        self.rules.iter().any(|rule| rule.matches(info, user))
    }

    /// Returns the flow distinguisher of the request.
    pub(crate) fn flow(&self, info: &RequestInfo, user: &User) -> Text {
        match self.distinguisher {
            None => Text::default(),
            Some(Distinguisher::ByUser) => user.name.clone(),
            Some(Distinguisher::ByNamespace) => info.namespace.clone(),
        }
    }
}

impl Rule {
    fn matches(&self, info: &RequestInfo, user: &User) -> bool {
        self.subjects.iter().any(|subject| subject.matches(user))
            && if info.is_resource_request {
                self.resources.iter().any(|rule| rule.matches(info))
            } else {
                self.paths.iter().any(|rule| rule.matches(info))
            }
    }
}

impl Subject {
    fn matches(&self, user: &User) -> bool {
        match self {
            Self::User(name) => name == "*" || *name == user.name,
            Self::Group(name) => name == "*" || user.is_in(name),
            Self::ServiceAccount { namespace, name } => {
                let account = user.name.strip_prefix(SERVICE_ACCOUNT).and_then(|rest| rest.split_once(':'));
                account
                    .is_some_and(|(of, account)| of == namespace.as_str() && (name == "*" || account == name.as_str()))
            }
        }
    }
}

impl ResourceRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        if !has(&self.verbs, &info.verb) || !has(&self.groups, &info.api_group) || !self.has_resource(info) {
            return false;
        }
        if info.namespace.is_empty() { self.cluster } else { has(&self.namespaces, &info.namespace) }
    }

    fn has_resource(&self, info: &RequestInfo) -> bool {
        if info.subresource.is_empty() {
            return has(&self.resources, &info.resource);
        }
        is_any(&self.resources)
            || self.resources.iter().any(|resource| {
                resource.split_once('/').is_some_and(|(of, part)| of == info.resource && part == info.subresource)
            })
    }
}

impl PathRule {
    fn matches(&self, info: &RequestInfo) -> bool {
        let path = info.path.as_str();
        has(&self.verbs, &info.verb)
            && self.paths.iter().any(|rule| {
                // `/a` also matches the paths below it.
                let prefix = rule.trim_end_matches('*').trim_end_matches('/');
                rule == "*" || rule == path || path.strip_prefix(prefix).is_some_and(|rest| rest.starts_with('/'))
            })
    }
}

/// Returns true if the list matches everything: `*` does so only as the single item.
fn is_any(list: &[Text]) -> bool {
    matches!(list, [one] if one == "*")
}

fn has(list: &[Text], text: &str) -> bool {
    is_any(list) || list.iter().any(|each| each == text)
}

#[cfg(test)]
mod tests {
    use binnacle_request::Query;
    use binnacle_schema::{Limits, yaml};
    use http::Method;

    use super::*;

    fn is_matched(rule: &str, request: &str, user: &str) -> bool {
        let text = format!("{{metadata: {{name: a}}, spec: {{rules: [{{{rule}}}]}}}}");
        let schema = FlowSchema::read(&yaml::parse(text.as_bytes(), &Limits::default()).unwrap().0);
        let (method, path) = request.split_once(' ').unwrap();
        let method: Method = method.parse().unwrap();
        let info = RequestInfo::parse(&method, path, &Query::default(), path).unwrap();
        schema.matches(&info, &User::new(user, &["dev"]))
    }

    #[test]
    fn matches_subjects_and_rules() {
        let everything = "resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*'], clusterScope: true}]";
        let pod = "GET /api/v1/namespaces/ns/pods/p";
        for (subject, user, want) in [
            ("{kind: User, user: {name: jane}}", "jane", true),
            ("{kind: User, user: {name: '*'}}", "jane", true),
            ("{kind: User, user: {name: joe}}", "jane", false),
            ("{kind: Group, group: {name: dev}}", "jane", true),
            ("{kind: Group, group: {name: '*'}}", "jane", true),
            ("{kind: Group, group: {name: ops}}", "jane", false),
            ("{kind: ServiceAccount, serviceAccount: {namespace: a, name: b}}", "system:serviceaccount:a:b", true),
            ("{kind: ServiceAccount, serviceAccount: {namespace: a, name: '*'}}", "system:serviceaccount:a:c", true),
            ("{kind: ServiceAccount, serviceAccount: {namespace: a, name: '*'}}", "system:serviceaccount:ab:c", false),
        ] {
            assert_eq!(is_matched(&format!("subjects: [{subject}], {everything}"), pod, user), want, "{subject}");
        }
        for (rule, request, want) in [
            ("resourceRules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [ns]}]", pod, true),
            ("resourceRules: [{verbs: [list], apiGroups: [''], resources: [pods], namespaces: [ns]}]", pod, false),
            ("resourceRules: [{verbs: [get], apiGroups: [apps], resources: [pods], namespaces: [ns]}]", pod, false),
            ("resourceRules: [{verbs: [get], apiGroups: [''], resources: [pods/log], namespaces: [ns]}]", pod, false),
            ("resourceRules: [{verbs: [get], apiGroups: [''], resources: [pods], namespaces: [other]}]", pod, false),
            (
                "resourceRules: [{verbs: [get], apiGroups: [''], resources: [pods/log], namespaces: ['*']}]",
                "GET /api/v1/namespaces/ns/pods/p/log",
                true,
            ),
            (
                "resourceRules: [{verbs: ['*'], apiGroups: ['*'], resources: ['*'], namespaces: ['*']}]",
                "GET /api/v1/nodes",
                false,
            ),
            ("nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['/healthz']}]", "GET /healthz", true),
            ("nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['/healthz']}]", "GET /healthz/ping", true),
            ("nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['/healthz']}]", "GET /healthzz", false),
            ("nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['/debug/*']}]", "GET /debug/a", true),
            ("nonResourceRules: [{verbs: ['*'], nonResourceURLs: ['*']}]", "GET /x", true),
            ("nonResourceRules: [{verbs: [post], nonResourceURLs: ['*']}]", "GET /x", false),
        ] {
            let rule = format!("subjects: [{{kind: User, user: {{name: '*'}}}}], {rule}");
            assert_eq!(is_matched(&rule, request, "jane"), want, "{rule} {request}");
        }
    }
}
