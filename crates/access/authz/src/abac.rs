//! Attribute-based access control: a file of policies, one JSON object per line.

use std::path::Path;

use binnacle_meta::{Text, read_error};
use binnacle_request::{BoxFuture, Decision, User};
use binnacle_work::charge;
use serde::Deserialize;

use crate::{Attributes, Authorizer, AuthzError, Rule, Rules};

/// The policies of a file.
#[derive(Debug)]
pub struct Abac {
    policies: Vec<Policy>,
}

/// The error of an invalid policy file.
#[derive(Debug, thiserror::Error)]
pub enum AbacError {
    #[error("{}", read_error(path, error))]
    Unreadable { path: String, error: std::io::Error },
    #[error("error reading policy file {path}, line {line}: {text}: {why}")]
    Line { path: String, line: usize, text: String, why: String },
}

/// A policy. An empty field matches only an empty attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
struct Policy {
    user: String,
    group: String,
    readonly: bool,
    api_group: String,
    resource: String,
    namespace: String,
    #[serde(rename = "nonResourcePath")]
    path: String,
}

impl Abac {
    pub fn load(path: &Path) -> Result<Self, AbacError> {
        let shown = path.display().to_string();
        let text =
            std::fs::read_to_string(path).map_err(|error| AbacError::Unreadable { path: shown.clone(), error })?;
        Self::parse(&shown, &text)
    }

    /// Parses policies; `path` is for errors.
    pub fn parse(path: &str, text: &str) -> Result<Self, AbacError> {
        let mut policies = Vec::new();
        let mut unversioned = false;
        for (at, text) in text.lines().enumerate() {
            let trimmed = text.trim();
            if trimmed.is_empty() || trimmed.starts_with('#') {
                continue;
            }
            let failed = |why| AbacError::Line { path: path.to_owned(), line: at + 1, text: text.to_owned(), why };
            let (policy, old) = parse_line(trimmed).map_err(failed)?;
            unversioned |= old;
            policies.push(policy);
        }
        if unversioned {
            tracing::warn!(path, "the policy file contains unversioned rules");
        }
        Ok(Self { policies })
    }

    /// Returns the cost of matching all policies with a user, in steps.
    fn steps(&self, user: &User) -> u64 {
        self.policies.len() as u64 * (1 + user.groups.len() as u64 / 8)
    }
}

const VERSION: &str = "abac.authorization.kubernetes.io/v1beta1";
const ANY: &str = "*";

/// A line with `apiVersion` and `kind`.
#[derive(Deserialize)]
struct VersionedPolicy {
    #[serde(default)]
    spec: Policy,
}

/// Parses a line. Returns true if it has the legacy format, which is unversioned and has no API groups and paths.
fn parse_line(line: &str) -> Result<(Policy, bool), String> {
    let value: serde_json::Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let member = |name: &str| value.get(name).and_then(serde_json::Value::as_str).unwrap_or_default();
    if (member("apiVersion"), member("kind")) == (VERSION, "Policy") {
        let VersionedPolicy { spec } = serde_json::from_value(value).map_err(|error| error.to_string())?;
        return Ok((spec.only_authenticated(), false));
    }
    let old: Policy = serde_json::from_value(value).map_err(|error| error.to_string())?;
    let Policy { user, group, readonly, resource, namespace, .. } = old;
    let everybody = user.is_empty() && group.is_empty();
    let or_any = |text: &String| if text.is_empty() { ANY.to_owned() } else { text.clone() };
    let policy = Policy {
        group: if everybody { ANY.to_owned() } else { group },
        readonly,
        api_group: ANY.to_owned(),
        resource: or_any(&resource),
        namespace: or_any(&namespace),
        path: if resource.is_empty() && namespace.is_empty() { ANY.to_owned() } else { String::new() },
        user,
    };
    Ok((policy.only_authenticated(), true))
}

impl Policy {
    /// Restricts `*` as the user or group to authenticated users, regardless of the other field.
    fn only_authenticated(mut self) -> Self {
        if self.user == ANY || self.group == ANY {
            self.group = User::AUTHENTICATED.to_owned();
            self.user = String::new();
        }
        self
    }

    fn applies_to(&self, user: &User) -> bool {
        let (by_user, by_group) = (!self.user.is_empty(), !self.group.is_empty());
        (by_user || by_group) && (!by_user || self.user == user.name.as_str()) && (!by_group || user.is_in(&self.group))
    }

    fn allows(&self, attributes: &Attributes<'_>) -> bool {
        let reads = matches!(attributes.verb, "get" | "list" | "watch");
        if !self.applies_to(attributes.user) || (self.readonly && !reads) {
            return false;
        }
        let is = |pattern: &str, value: &str| pattern == ANY || pattern == value;
        if attributes.is_resource_request {
            return is(&self.namespace, attributes.namespace)
                && is(&self.resource, attributes.resource)
                && is(&self.api_group, attributes.api_group);
        }
        self.path == attributes.path
            || (self.path.ends_with('*') && attributes.path.starts_with(self.path.trim_end_matches('*')))
    }

    fn verbs(&self) -> Vec<Text> {
        let verbs: &[&'static str] = if self.readonly { &["get", "list", "watch"] } else { &[ANY] };
        verbs.iter().map(|verb| Text::new_static(verb)).collect()
    }
}

impl Authorizer for Abac {
    fn authorize<'a>(&'a self, attributes: &'a Attributes<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        Box::pin(async move {
            // An exhausted budget fails the request, whatever the decision.
            let may_compare = charge(self.steps(attributes.user)).is_ok();
            Ok(if may_compare && self.policies.iter().any(|policy| policy.allows(attributes)) {
                Decision::Allow(Text::default())
            } else {
                Decision::NoOpinion(Text::new_static("No policy matched."))
            })
        })
    }

    fn rules_for<'a>(&'a self, user: &'a User, namespace: &'a str) -> BoxFuture<'a, Rules> {
        Box::pin(async move {
            let mut rules = Vec::new();
            if let Err(exceeded) = charge(self.steps(user)) {
                return Rules::unknown(exceeded.to_string());
            }
            for policy in &self.policies {
                if !policy.applies_to(user) || (policy.namespace != ANY && policy.namespace != namespace) {
                    continue;
                }
                let one = |text: &str| vec![Text::from(text)];
                if !policy.resource.is_empty() {
                    let (api_groups, resources) = (one(&policy.api_group), one(&policy.resource));
                    rules.push(Rule { verbs: policy.verbs(), api_groups, resources, ..Rule::default() });
                }
                if !policy.path.is_empty() {
                    rules.push(Rule { verbs: policy.verbs(), paths: one(&policy.path), ..Rule::default() });
                }
            }
            Rules::of(rules)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
# Comments and blank lines are fine.
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"admin","namespace":"*","resource":"*","apiGroup":"*","nonResourcePath":"*"}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"*","nonResourcePath":"/public/*","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"team","namespace":"a","resource":"pods","readonly":true}}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"user":"x","group":"team","namespace":"b","resource":"pods"}}
{"user":"old","resource":"pods"}
{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"namespace":"*","resource":"*","apiGroup":"*"}}
"#;

    async fn allowed(abac: &Abac, attributes: Attributes<'_>) -> bool {
        let decision = abac.authorize(&attributes).await.unwrap();
        assert!(decision.is_allow() || decision.reason() == "No policy matched.");
        decision.is_allow()
    }

    #[tokio::test]
    async fn allows_resource_requests_by_policy() {
        let abac = Abac::parse("f", FILE).unwrap();
        let admin = User::new("admin", &[]);
        let member = User::new("m", &["team", "system:authenticated"]);
        let both = User::new("x", &["team"]);
        let other = User::new("x", &[]);
        let old = User::new("old", &[]);
        for (user, verb, group, resource, namespace, want) in [
            (&admin, "delete", "apps", "deployments", "q", true),
            (&admin, "delete", "", "nodes", "", true),
            (&member, "list", "", "pods", "a", true),
            (&member, "delete", "", "pods", "a", false),
            (&member, "list", "apps", "pods", "a", false),
            (&member, "list", "", "pods", "b", false),
            (&member, "list", "", "secrets", "a", false),
            (&both, "delete", "", "pods", "b", true),
            (&other, "delete", "", "pods", "b", false),
            (&old, "delete", "any", "pods", "any", true),
            (&old, "delete", "", "secrets", "any", false),
        ] {
            let attributes = Attributes {
                verb,
                is_resource_request: true,
                api_group: group,
                resource,
                namespace,
                ..Attributes::nothing(user)
            };
            assert_eq!(allowed(&abac, attributes).await, want, "{user:?} {verb} {group} {resource} {namespace}");
        }
    }

    #[tokio::test]
    async fn allows_paths_and_lists_rules() {
        let abac = Abac::parse("f", FILE).unwrap();
        let admin = User::new("admin", &[]);
        let somebody = User::new("s", &["system:authenticated"]);
        let anonymous = User::new("system:anonymous", &["system:unauthenticated"]);
        for (user, verb, path, want) in [
            (&admin, "post", "/x", true),
            (&somebody, "get", "/public/x", true),
            (&somebody, "get", "/public", false),
            (&somebody, "post", "/public/x", false),
            (&somebody, "get", "/private", false),
            (&anonymous, "get", "/public/x", false),
        ] {
            let got = allowed(&abac, Attributes { verb, path, ..Attributes::nothing(user) }).await;
            assert_eq!(got, want, "{user:?} {verb} {path}");
        }
        let rules = abac.rules_for(&User::new("m", &["team"]), "a").await;
        assert_eq!((rules.resources().count(), rules.paths().count(), rules.incomplete), (1, 0, false));
        assert_eq!(rules.resources().next().unwrap().verbs, ["get", "list", "watch"]);
        assert_eq!(abac.rules_for(&User::new("old", &[]), "z").await.resources().next().unwrap().verbs, ["*"]);
    }

    #[test]
    fn rejects_invalid_files() {
        let error = Abac::parse("f", "{\"user\":\"a\"}\n{\"user\":1}\n").unwrap_err().to_string();
        assert!(error.starts_with("error reading policy file f, line 2: {\"user\":1}: "), "{error}");
        let error = Abac::parse("f", "\nx").unwrap_err().to_string();
        assert!(error.starts_with("error reading policy file f, line 2: x: "), "{error}");
        assert!(
            Abac::load(Path::new("/nowhere/at/all")).unwrap_err().to_string().starts_with("open /nowhere/at/all: ")
        );
        assert!(Abac::parse("f", "").unwrap().policies.is_empty());
    }
}
