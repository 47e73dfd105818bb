//! The rules of roles, which allow verbs on resources or paths.

use std::fmt::Write;
use std::ops::Deref;
use std::sync::Arc;

use binnacle_meta::{Text, go_quote};
use binnacle_schema::{Object, Value};
use binnacle_work::pace;

use crate::Attributes;

/// A `PolicyRule`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rule {
    pub verbs: Vec<Text>,
    pub api_groups: Vec<Text>,
    pub resources: Vec<Text>,
    /// Empty for all names.
    pub resource_names: Vec<Text>,
    /// `nonResourceURLs`; a trailing `*` is a wildcard.
    pub paths: Vec<Text>,
}

pub(crate) const ANY: &str = "*";

/// The rules of a role.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct RoleRules {
    rules: Box<[Rule]>,
    steps: u64,
    bytes: usize,
}

impl RoleRules {
    pub fn new(rules: Vec<Rule>) -> Arc<Self> {
        let (mut texts, mut bytes) = (0, 0);
        for list in rules.iter().flat_map(Rule::lists) {
            texts += list.len();
            bytes += list.iter().map(|text| text.len()).sum::<usize>();
        }
        bytes += texts * size_of::<Value>() + rules.len() * size_of::<Rule>();
        // A step suffices to compare several strings.
        let steps = 1 + (rules.len() + texts) as u64 / 4;
        Arc::new(Self { rules: rules.into(), steps, bytes })
    }

    /// Reads the rules of a role.
    pub fn read(role: &Value) -> Arc<Self> {
        Self::new(Rule::read_all(role))
    }

    /// Returns the cost of matching a request with all rules, in steps.
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Returns the memory in bytes of the rules as values of an object.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Deref for RoleRules {
    type Target = [Rule];

    fn deref(&self) -> &[Rule] {
        &self.rules
    }
}

impl Rule {
    /// Reads a rule of a role object.
    pub fn read(rule: &Value) -> Self {
        let texts = |member: &str| {
            let list = rule.list_at(&[member]);
            pace(1 + 3 * list.len() as u64);
            list.iter().filter_map(text).collect()
        };
        Self {
            verbs: texts("verbs"),
            api_groups: texts("apiGroups"),
            resources: texts("resources"),
            resource_names: texts("resourceNames"),
            paths: texts("nonResourceURLs"),
        }
    }

    /// Reads the rules of a role.
    pub fn read_all(role: &Value) -> Vec<Self> {
        role.list_at(&["rules"]).iter().map(Self::read).collect()
    }

    fn lists(&self) -> [&[Text]; 5] {
        [&self.verbs, &self.api_groups, &self.resources, &self.resource_names, &self.paths]
    }

    /// Returns the rule as it is in role objects.
    pub fn write(&self) -> Value {
        let mut rule = Object::new();
        for (member, texts) in [
            ("verbs", &self.verbs),
            ("apiGroups", &self.api_groups),
            ("resources", &self.resources),
            ("resourceNames", &self.resource_names),
            ("nonResourceURLs", &self.paths),
        ] {
            if !texts.is_empty() {
                rule.insert(member, texts.clone());
            }
        }
        Value::Object(rule)
    }

    /// Returns the two rules that allow everything.
    pub fn everything() -> [Self; 2] {
        let any = || vec![Text::new_static(ANY)];
        [
            Self { verbs: any(), api_groups: any(), resources: any(), ..Self::default() },
            Self { verbs: any(), paths: any(), ..Self::default() },
        ]
    }

    /// Returns true if the rule allows a request.
    pub fn allows(&self, attributes: &Attributes<'_>) -> bool {
        if !has(&self.verbs, attributes.verb) {
            return false;
        }
        if !attributes.is_resource_request {
            return self.paths.iter().any(|pattern| path_matches(pattern, attributes.path));
        }
        has(&self.api_groups, attributes.api_group)
            && self.resources.iter().any(|resource| resource_matches(resource, attributes))
            && (self.resource_names.is_empty() || self.resource_names.iter().any(|name| name == attributes.name))
    }

    /// Formats the rule as in escalation errors: `{APIGroups:["apps"], Resources:["x"], Verbs:["get" "list"]}`.
    pub fn compact(&self) -> String {
        let mut shown = String::from("{");
        for (name, texts) in [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("NonResourceURLs", &self.paths),
            ("ResourceNames", &self.resource_names),
            ("Verbs", &self.verbs),
        ] {
            if texts.is_empty() {
                continue;
            }
            let separator = if shown.len() > 1 { ", " } else { "" };
            let _ = write!(shown, "{separator}{name}:{}", quoted(texts));
        }
        shown.push('}');
        shown
    }
}

/// Formats a list of strings like Go's `%q`.
pub fn quoted(texts: &[Text]) -> String {
    format!("[{}]", texts.iter().map(|text| go_quote(text)).collect::<Vec<_>>().join(" "))
}

/// Returns a string, which is shared with the object if it is long.
pub(crate) fn text(value: &Value) -> Option<Text> {
    if let Value::Str(text) = value { Some(text.clone()) } else { None }
}

fn has(list: &[Text], wanted: &str) -> bool {
    list.iter().any(|text| text == ANY || text == wanted)
}

fn resource_matches(rule: &str, attributes: &Attributes<'_>) -> bool {
    if rule == ANY {
        return true;
    }
    let subresource = attributes.subresource;
    if subresource.is_empty() {
        return rule == attributes.resource;
    }
    // Resource and subresource are compared separately, since a resource with a slash could match another resource's
    // subresource otherwise.
    let rest = rule.strip_suffix(subresource).and_then(|rest| rest.strip_suffix('/'));
    rest.is_some_and(|resource| resource == ANY || resource == attributes.resource)
}

pub(crate) fn path_matches(pattern: &str, path: &str) -> bool {
    // Several trailing stars count as one.
    pattern == path || (pattern.ends_with('*') && path.starts_with(pattern.trim_end_matches('*')))
}

#[cfg(test)]
mod tests {
    use binnacle_request::User;
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn matches_resource_requests() {
        let user = User::default();
        let rule = |rule: Value| Rule::read(&rule);
        let pods = rule(value!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods", "pods/log"]}));
        let scale = rule(value!({"verbs": ["update"], "apiGroups": ["apps", "x"], "resources": ["*/scale"]}));
        let named =
            rule(value!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["secrets"], "resourceNames": ["a"]}));
        let all = rule(value!({"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}));
        let paths = rule(value!({"verbs": ["get"], "nonResourceURLs": ["*"]}));
        for (rule, verb, group, resource, subresource, name, want) in [
            (&pods, "get", "", "pods", "", "p", true),
            (&pods, "get", "", "pods", "log", "p", true),
            (&pods, "get", "", "pods", "exec", "p", false),
            (&pods, "watch", "", "pods", "", "", false),
            (&pods, "get", "apps", "pods", "", "p", false),
            (&pods, "GET", "", "pods", "", "p", false),
            (&scale, "update", "apps", "deployments", "scale", "d", true),
            (&scale, "update", "x", "anything", "scale", "d", true),
            (&scale, "update", "apps", "deployments", "", "d", false),
            (&scale, "update", "apps", "deployments", "ascale", "d", false),
            (&scale, "update", "apps", "*", "", "d", false),
            (&named, "delete", "", "secrets", "", "a", true),
            (&named, "delete", "", "secrets", "", "b", false),
            (&named, "list", "", "secrets", "", "", false),
            (&all, "list", "", "secrets", "", "", true),
            (&all, "create", "g", "x", "y", "z", true),
            (&paths, "get", "", "pods", "", "", false),
        ] {
            let attributes = Attributes {
                verb,
                is_resource_request: true,
                api_group: group,
                resource,
                subresource,
                name,
                ..Attributes::nothing(&user)
            };
            assert_eq!(rule.allows(&attributes), want, "{rule:?} {verb} {group} {resource}/{subresource} {name}");
        }
    }

    #[test]
    fn matches_non_resource_requests() {
        let user = User::default();
        for (pattern, path, want) in [
            ("/healthz", "/healthz", true),
            ("/healthz", "/healthz/", false),
            ("/healthz/*", "/healthz/ping", true),
            ("/healthz/*", "/healthz", false),
            ("/api*", "/apis/apps", true),
            ("/api**", "/apis", true),
            ("*", "/anything", true),
            ("/*/x", "/a/x", false),
            ("", "/", false),
        ] {
            let rule = Rule::read(&value!({"verbs": ["get"], "nonResourceURLs": [pattern]}));
            let get = Attributes { verb: "get", path, ..Attributes::nothing(&user) };
            assert_eq!(rule.allows(&get), want, "{pattern} {path}");
            assert!(!rule.allows(&Attributes { verb: "post", ..get }));
            assert!(!rule.allows(&Attributes { is_resource_request: true, resource: "x", ..get }));
        }
    }

    #[test]
    fn formats_as_compact_string() {
        for (rule, want) in [
            (value!({}), "{}"),
            (
                value!({"verbs": ["get", "list"], "apiGroups": [""], "resources": ["pods"], "resourceNames": ["a\"b"]}),
                r#"{APIGroups:[""], Resources:["pods"], ResourceNames:["a\"b"], Verbs:["get" "list"]}"#,
            ),
            (value!({"verbs": ["*"], "nonResourceURLs": ["/a"]}), r#"{NonResourceURLs:["/a"], Verbs:["*"]}"#),
        ] {
            assert_eq!(Rule::read(&rule).compact(), want);
        }
    }
}
