//! Reads and checks policy files. What the reference warns about (unknown fields, fields given twice) is warned about.

use binnacle_meta::{FieldError, FieldErrors, FieldPath, GroupVersion, Shown, aggregate};
use binnacle_request::AuditLevel;
use binnacle_schema::{Limits, Object, Value, json, yaml};
use binnacle_validation::names::dns1123_subdomain_name;

use super::{GroupResources, Policy, PolicyError, Rule};
use crate::event::{Stage, Stages};

pub(super) fn policy(text: &[u8]) -> Result<Policy, PolicyError> {
    let failed = |why: String| PolicyError(format!("failed decoding: {why}"));
    let (mut value, duplicate) = yaml::parse(text, &Limits::default()).map_err(|error| failed(error.to_string()))?;
    if value.is_null() {
        value = Value::Object(Object::new());
    }
    check_kind(&value)?;
    let mut reader = Reader { unknown: duplicate.map(|finding| finding.to_string()).into_iter().collect() };
    let raw = reader.policy(&value).map_err(|why| {
        PolicyError(format!(
            "failed decoding: json: cannot unmarshal {} into Go {} of type {}",
            why.found, why.place, why.wanted
        ))
    })?;
    if !reader.unknown.is_empty() {
        let list = reader.unknown.join(", ");
        tracing::warn!("Audit policy contains errors, falling back to lenient decoding: strict decoding error: {list}");
    }
    let errors = validate(&raw);
    if !errors.is_empty() {
        return Err(PolicyError(aggregate(&errors)));
    }
    if raw.rules.is_empty() {
        return Err(PolicyError("loaded illegal policy with 0 rules".to_owned()));
    }
    let rules = raw.rules.into_iter().map(|raw| Rule {
        // Both were checked above.
        level: level(&raw.level).unwrap_or(AuditLevel::None),
        omit_stages: stages(&raw.omit_stages),
        users: raw.users,
        user_groups: raw.user_groups,
        verbs: raw.verbs,
        resources: raw.resources,
        namespaces: raw.namespaces,
        non_resource_urls: raw.non_resource_urls,
        omit_managed_fields: raw.omit_managed_fields,
    });
    Ok(Policy {
        rules: rules.collect(),
        omit_stages: stages(&raw.omit_stages),
        omit_managed_fields: raw.omit_managed_fields,
    })
}

fn check_kind(value: &Value) -> Result<(), PolicyError> {
    let (api_version, kind) = (value.str_at(&["apiVersion"]), value.str_at(&["kind"]));
    let internal = || {
        // A file that does not say what it is, is taken for the internal version, which files cannot have.
        let kind = if kind.is_empty() { "Policy" } else { kind };
        let about = format!("audit.k8s.io/__internal, Kind={kind}");
        Err(PolicyError(format!("unknown group version field {about} in policy")))
    };
    match (api_version, kind) {
        ("audit.k8s.io/v1", "Policy" | "") => Ok(()),
        ("", "Policy" | "") => internal(),
        ("audit.k8s.io/v1", kind @ ("Event" | "EventList" | "PolicyList")) => {
            Err(PolicyError(format!("failed decoding: converting (v1.{kind}) to (audit.Policy): unknown conversion")))
        }
        _ => {
            let version =
                GroupVersion::parse(api_version).map_or(api_version.to_owned(), |version| version.to_string());
            let kind = if kind.is_empty() { "Policy" } else { kind };
            Err(PolicyError(format!(
                "failed decoding: no kind \"{kind}\" is registered for version \"{version}\" in scheme \
                 \"k8s.io/apiserver/pkg/audit/scheme.go:30\""
            )))
        }
    }
}

#[derive(Default)]
struct RawPolicy {
    rules: Vec<RawRule>,
    omit_stages: Vec<String>,
    omit_managed_fields: bool,
}

#[derive(Default)]
struct RawRule {
    level: String,
    users: Vec<String>,
    user_groups: Vec<String>,
    verbs: Vec<String>,
    resources: Vec<GroupResources>,
    namespaces: Vec<String>,
    non_resource_urls: Vec<String>,
    omit_stages: Vec<String>,
    omit_managed_fields: Option<bool>,
}

/// A value of the wrong type, in Go's terms.
struct WrongType {
    found: &'static str,
    /// `struct field Policy.rules`.
    place: String,
    wanted: &'static str,
}

/// Walks the tree and notes what it does not know.
struct Reader {
    unknown: Vec<String>,
}

impl Reader {
    fn policy(&mut self, value: &Value) -> Result<RawPolicy, WrongType> {
        let mut policy = RawPolicy::default();
        for (name, value) in members(value, "value", "v1.Policy")?.iter() {
            let place = format!("struct field Policy.{name}");
            match name.as_str() {
                "apiVersion" | "kind" | "metadata" => {}
                "rules" => {
                    for (at, rule) in items(value, &place, "[]v1.PolicyRule")?.iter().enumerate() {
                        policy.rules.push(self.rule(rule, &place, &format!("rules[{at}]"))?);
                    }
                }
                "omitStages" => policy.omit_stages = texts(value, &place, "[]v1.Stage")?,
                "omitManagedFields" => policy.omit_managed_fields = flag(value, &place)?.unwrap_or(false),
                other => self.unknown.push(format!("unknown field \"{other}\"")),
            }
        }
        Ok(policy)
    }

    fn rule(&mut self, value: &Value, outer: &str, path: &str) -> Result<RawRule, WrongType> {
        let mut rule = RawRule::default();
        for (name, value) in members(value, outer, "v1.PolicyRule")?.iter() {
            let place = format!("struct field PolicyRule.rules.{name}");
            match name.as_str() {
                "level" => rule.level = text(value, &place, "v1.Level")?,
                "users" => rule.users = texts(value, &place, "[]string")?,
                "userGroups" => rule.user_groups = texts(value, &place, "[]string")?,
                "verbs" => rule.verbs = texts(value, &place, "[]string")?,
                "namespaces" => rule.namespaces = texts(value, &place, "[]string")?,
                "nonResourceURLs" => rule.non_resource_urls = texts(value, &place, "[]string")?,
                "omitStages" => rule.omit_stages = texts(value, &place, "[]v1.Stage")?,
                "omitManagedFields" => rule.omit_managed_fields = flag(value, &place)?,
                "resources" => {
                    for (at, resources) in items(value, &place, "[]v1.GroupResources")?.iter().enumerate() {
                        rule.resources.push(self.resources(resources, &place, &format!("{path}.resources[{at}]"))?);
                    }
                }
                other => self.unknown.push(format!("unknown field \"{path}.{other}\"")),
            }
        }
        Ok(rule)
    }

    fn resources(&mut self, value: &Value, outer: &str, path: &str) -> Result<GroupResources, WrongType> {
        let mut resources = GroupResources::default();
        for (name, value) in members(value, outer, "v1.GroupResources")?.iter() {
            let place = format!("struct field GroupResources.rules.resources.{name}");
            match name.as_str() {
                "group" => resources.group = text(value, &place, "string")?,
                "resources" => resources.resources = texts(value, &place, "[]string")?,
                "resourceNames" => resources.resource_names = texts(value, &place, "[]string")?,
                other => self.unknown.push(format!("unknown field \"{path}.{other}\"")),
            }
        }
        Ok(resources)
    }
}

static NOTHING: std::sync::LazyLock<Object> = std::sync::LazyLock::new(Object::new);

fn members<'a>(value: &'a Value, place: &str, wanted: &'static str) -> Result<&'a Object, WrongType> {
    match value {
        Value::Object(object) => Ok(object),
        Value::Null => Ok(&NOTHING),
        other => Err(wrong(other, place, wanted)),
    }
}

fn items<'a>(value: &'a Value, place: &str, wanted: &'static str) -> Result<&'a [Value], WrongType> {
    match value {
        Value::List(items) => Ok(items),
        Value::Null => Ok(&[]),
        other => Err(wrong(other, place, wanted)),
    }
}

fn texts(value: &Value, place: &str, wanted: &'static str) -> Result<Vec<String>, WrongType> {
    let item = wanted.trim_start_matches("[]");
    items(value, place, wanted)?.iter().map(|value| text(value, place, item)).collect()
}

fn text(value: &Value, place: &str, wanted: &'static str) -> Result<String, WrongType> {
    match value {
        Value::Null => Ok(String::new()),
        other => other.as_str().map(str::to_owned).ok_or_else(|| wrong(other, place, wanted)),
    }
}

fn flag(value: &Value, place: &str) -> Result<Option<bool>, WrongType> {
    match value {
        Value::Null => Ok(None),
        Value::Bool(flag) => Ok(Some(*flag)),
        other => Err(wrong(other, place, "bool")),
    }
}

fn wrong(value: &Value, place: &str, wanted: &'static str) -> WrongType {
    let found = match value {
        Value::List(_) => "array",
        Value::Str(_) | Value::Raw(_) => "string",
        Value::Bool(_) => "bool",
        Value::Int(_) | Value::Float(_) => "number",
        Value::Null => "null",
        Value::Object(_) => "object",
    };
    WrongType { found, place: place.to_owned(), wanted }
}

fn validate(policy: &RawPolicy) -> FieldErrors {
    let mut errors = FieldErrors::new();
    check_stages(&policy.omit_stages, &FieldPath::new("omitStages"), &mut errors);
    for (at, rule) in policy.rules.iter().enumerate() {
        check_rule(rule, &FieldPath::new("rules").index(at), &mut errors);
    }
    errors
}

fn check_rule(rule: &RawRule, path: &FieldPath, errors: &mut FieldErrors) {
    let level_path = path.child("level");
    if rule.level.is_empty() {
        errors.push(FieldError::required(&level_path, ""));
    } else if level(&rule.level).is_none() {
        let valid = AuditLevel::ALL.map(AuditLevel::as_str);
        errors.push(FieldError::not_supported(&level_path, &rule.level, &valid));
    }
    let urls_path = path.child("nonResourceURLs");
    for (at, url) in rule.non_resource_urls.iter().enumerate().filter(|(_, url)| *url != "*") {
        let path = urls_path.index(at);
        if !url.starts_with('/') {
            errors.push(FieldError::invalid(&path, url, "non-resource URL rules must begin with a '/' character"));
        }
        if url.char_indices().any(|(at, c)| c == '*' && at + 1 < url.len()) {
            let why = "non-resource URL wildcards '*' must be the final character of the rule";
            errors.push(FieldError::invalid(&path, url, why));
        }
    }
    let resources_path = path.child("resources");
    for resources in &rule.resources {
        if !resources.group.is_empty() && resources.group != "*" {
            let why = dns1123_subdomain_name(&resources.group, false);
            if !why.is_empty() {
                errors.push(FieldError::invalid(&resources_path.child("group"), &resources.group, why.join(",")));
            }
        }
        if !resources.resource_names.is_empty() && resources.resources.is_empty() {
            let why = "using resourceNames requires at least one resource";
            errors.push(FieldError::invalid(
                &resources_path.child("resourceNames"),
                list(&resources.resource_names),
                why,
            ));
        }
    }
    check_stages(&rule.omit_stages, &path.child("omitStages"), errors);
    if !rule.non_resource_urls.is_empty() && (!rule.resources.is_empty() || !rule.namespaces.is_empty()) {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(&urls_path, list(&rule.non_resource_urls), why));
    }
}

fn check_stages(stages: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    for (at, stage) in stages.iter().enumerate().filter(|(_, stage)| Stage::parse(stage).is_none()) {
        let allowed = Stage::ALL.map(Stage::as_str).join(",");
        errors.push(FieldError::invalid(&path.index(at), stage, format!("allowed stages are {allowed}")));
    }
}

/// A list of texts as field errors show it.
fn list(texts: &[String]) -> Shown {
    let items = texts.iter().map(|text| Value::Str(text.as_str().into())).collect();
    Shown::raw(json::to_string(&Value::List(items)))
}

fn level(text: &str) -> Option<AuditLevel> {
    AuditLevel::ALL.into_iter().find(|level| level.as_str() == text)
}

fn stages(names: &[String]) -> Stages {
    names.iter().filter_map(|name| Stage::parse(name)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_are_refused() {
        let v1 = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        for (text, want) in [
            ("", "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy"),
            ("rules: [{level: None}]", "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy"),
            (
                "apiVersion: audit.k8s.io/v1beta1\nkind: Policy",
                "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\" in scheme \
                 \"k8s.io/apiserver/pkg/audit/scheme.go:30\"",
            ),
            (
                "apiVersion: audit.k8s.io/v1\nkind: Event",
                "failed decoding: converting (v1.Event) to (audit.Policy): unknown conversion",
            ),
            (v1, "loaded illegal policy with 0 rules"),
            (&format!("{v1}rules: []"), "loaded illegal policy with 0 rules"),
            (
                &format!("{v1}rules: x"),
                "failed decoding: json: cannot unmarshal string into Go struct field Policy.rules of type []v1.PolicyRule",
            ),
            (&format!("{v1}rules: [{{}}]"), "rules[0].level: Required value"),
            (
                &format!("{v1}rules: [{{level: All}}]"),
                "rules[0].level: Unsupported value: \"All\": supported values: \"None\", \"Metadata\", \"Request\", \
                 \"RequestResponse\"",
            ),
            (
                &format!("{v1}rules: [{{level: None, nonResourceURLs: [x, '/a*b', '*', '/c*']}}]"),
                "[rules[0].nonResourceURLs[0]: Invalid value: \"x\": non-resource URL rules must begin with a '/' character, \
                 rules[0].nonResourceURLs[1]: Invalid value: \"/a*b\": non-resource URL wildcards '*' must be the final \
                 character of the rule]",
            ),
            (
                &format!("{v1}rules: [{{level: None, nonResourceURLs: [/a], namespaces: ['n']}}]"),
                "rules[0].nonResourceURLs: Invalid value: [\"/a\"]: rules cannot apply to both regular resources and \
                 non-resource URLs",
            ),
            (
                &format!("{v1}rules: [{{level: None, resources: [{{resourceNames: [a]}}]}}]"),
                "rules[0].resources.resourceNames: Invalid value: [\"a\"]: using resourceNames requires at least one resource",
            ),
            (
                &format!("{v1}rules: [{{level: None, omitStages: [Never]}}]"),
                "rules[0].omitStages[0]: Invalid value: \"Never\": allowed stages are \
                 RequestReceived,ResponseStarted,ResponseComplete,Panic",
            ),
            (
                &format!("{v1}rules: [{{level: None, resources: [{{group: a/v1}}]}}]"),
                "rules[0].resources.group: Invalid value: \"a/v1\": a lowercase RFC 1123 subdomain must consist of lower case \
                 alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character (e.g. \
                 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')",
            ),
        ] {
            match policy(text.as_bytes()) {
                Err(error) => assert_eq!(error.to_string(), want, "{text}"),
                Ok(_) => panic!("{text}: accepted"),
            }
        }
    }

    #[test]
    fn unknown_fields_are_only_warned_about() {
        let text = b"apiVersion: audit.k8s.io/v1\nkind: Policy\nnew: 1\nrules: [{level: None, more: 2}]";
        assert_eq!(policy(text).unwrap().rules.len(), 1);
    }
}
