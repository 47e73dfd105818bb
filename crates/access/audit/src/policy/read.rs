//! Reading and validation of policy files. Unknown and duplicate fields cause warnings, as in kube-apiserver.

use binnacle_config::{Format, Types, check_type, list, text};
use binnacle_meta::{ErrorValue, FieldError, FieldErrors, FieldPath, GroupVersion, aggregate};
use binnacle_request::AuditLevel;
use binnacle_schema::{Field, Limits, Object, Ty, Value, json, yaml};
use binnacle_validation::names::dns1123_subdomain_name;

use super::{GroupResources, Policy, PolicyError, Rule};
use crate::event::{Stage, Stages};

const FORMAT: Format =
    Format { group: "audit.k8s.io", versions: &["v1"], kind: "Policy", scheme: "pkg/audit/scheme.go:30", fields };

pub(super) fn policy(file: &[u8]) -> Result<Policy, PolicyError> {
    let failed = |why: String| PolicyError(format!("failed decoding: {why}"));
    let (mut tree, duplicates) = yaml::parse(file, &Limits::default()).map_err(|error| failed(error.to_string()))?;
    if tree.is_null() {
        tree = Value::Object(Object::new());
    }
    check_type(&tree).map_err(|error| failed(error.0))?;
    check_kind(&tree)?;
    let (value, findings) = FORMAT.decode(tree, duplicates, "v1").map_err(|error| failed(with_go_types(error.0)))?;
    if let Some(strict) = findings.strict_error() {
        tracing::warn!("Audit policy contains errors, falling back to lenient decoding: {strict}");
    }
    let raw = RawPolicy::of(&value);
    let errors = validate(&raw);
    if !errors.is_empty() {
        return Err(PolicyError(aggregate(&errors)));
    }
    if raw.rules.is_empty() {
        return Err(PolicyError("loaded illegal policy with 0 rules".to_owned()));
    }
    let rules = raw.rules.into_iter().map(|raw| Rule {
        // Level and stages have been validated already.
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
        // A file without a kind is decoded as the internal version, which is not valid in files.
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
                 \"pkg/audit/scheme.go:30\""
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

impl RawPolicy {
    fn of(value: &Value) -> Self {
        Self {
            rules: value.list_at(&["rules"]).iter().map(RawRule::of).collect(),
            omit_stages: texts(value, "omitStages"),
            omit_managed_fields: value.get("omitManagedFields").and_then(Value::as_bool).unwrap_or(false),
        }
    }
}

impl RawRule {
    fn of(value: &Value) -> Self {
        let resources = value.list_at(&["resources"]).iter().map(|resources| GroupResources {
            group: resources.str_at(&["group"]).to_owned(),
            resources: texts(resources, "resources"),
            resource_names: texts(resources, "resourceNames"),
        });
        Self {
            level: value.str_at(&["level"]).to_owned(),
            users: texts(value, "users"),
            user_groups: texts(value, "userGroups"),
            verbs: texts(value, "verbs"),
            resources: resources.collect(),
            namespaces: texts(value, "namespaces"),
            non_resource_urls: texts(value, "nonResourceURLs"),
            omit_stages: texts(value, "omitStages"),
            omit_managed_fields: value.get("omitManagedFields").and_then(Value::as_bool),
        }
    }
}

fn texts(value: &Value, name: &str) -> Vec<String> {
    value.list_at(&[name]).iter().map(|text| text.as_str().unwrap_or_default().to_owned()).collect()
}

fn fields(types: Types) -> Vec<Field> {
    let texts = |name| list(name, Ty::String);
    let flag = |name: &'static str| Field::new(name, Ty::Bool);
    let resources = types.object("GroupResources", vec![text("group"), texts("resources"), texts("resourceNames")]);
    let rule = vec![
        text("level"),
        texts("users"),
        texts("userGroups"),
        texts("verbs"),
        list("resources", resources),
        texts("namespaces"),
        texts("nonResourceURLs"),
        texts("omitStages"),
        flag("omitManagedFields"),
    ];
    vec![
        Field::new("metadata", metadata(types)),
        list("rules", types.object("PolicyRule", rule)),
        texts("omitStages"),
        flag("omitManagedFields"),
    ]
}

/// Returns the type of a policy's metadata, which is ignored except that unknown fields are reported.
fn metadata(types: Types) -> Ty {
    let texts = |name: &'static str| Field::new(name, Ty::Map(Box::new(Ty::String)));
    let time = |name: &'static str| Field::new(name, Ty::Time);
    let number = |name: &'static str| Field::new(name, Ty::Int64);
    let flag = |name: &'static str| Field::new(name, Ty::Bool);
    let owner = ["apiVersion", "kind", "name", "uid"].map(text).into_iter();
    let owner = owner.chain(["controller", "blockOwnerDeletion"].map(flag)).collect();
    let manager = ["manager", "operation", "apiVersion", "fieldsType", "subresource"].map(text).into_iter();
    let manager = manager.chain([time("time"), Field::new("fieldsV1", Ty::FieldsV1)]).collect();
    let names = ["name", "generateName", "namespace", "selfLink", "uid", "resourceVersion"].map(text).into_iter();
    let others = [
        number("generation"),
        time("creationTimestamp"),
        time("deletionTimestamp"),
        number("deletionGracePeriodSeconds"),
        texts("labels"),
        texts("annotations"),
        list("ownerReferences", types.object("OwnerReference", owner)),
        list("finalizers", Ty::String),
        list("managedFields", types.object("ManagedFieldsEntry", manager)),
    ];
    types.object("ObjectMeta", names.chain(others).collect())
}

/// Replaces the types of some fields in an error with Go's named types, which the schema does not have.
fn with_go_types(error: String) -> String {
    let named = [
        (".level of type string", "v1.Level"),
        (".omitStages of type []string", "[]v1.Stage"),
        (".omitStages of type string", "v1.Stage"),
    ];
    let found = named.into_iter().find_map(|(end, name)| Some((error.strip_suffix(end)?, end, name)));
    match found {
        Some((start, end, name)) => {
            let field = end.split(' ').next().unwrap_or_default();
            format!("{start}{field} of type {name}")
        }
        None => error,
    }
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
                error_value(&resources.resource_names),
                why,
            ));
        }
    }
    check_stages(&rule.omit_stages, &path.child("omitStages"), errors);
    if !rule.non_resource_urls.is_empty() && (!rule.resources.is_empty() || !rule.namespaces.is_empty()) {
        let why = "rules cannot apply to both regular resources and non-resource URLs";
        errors.push(FieldError::invalid(&urls_path, error_value(&rule.non_resource_urls), why));
    }
}

fn check_stages(stages: &[String], path: &FieldPath, errors: &mut FieldErrors) {
    for (at, stage) in stages.iter().enumerate().filter(|(_, stage)| Stage::parse(stage).is_none()) {
        let allowed = Stage::ALL.map(Stage::as_str).join(",");
        errors.push(FieldError::invalid(&path.index(at), stage, format!("allowed stages are {allowed}")));
    }
}

/// Formats a list of strings for field errors.
fn error_value(texts: &[String]) -> ErrorValue {
    let items = texts.iter().map(|text| Value::Str(text.as_str().into())).collect();
    ErrorValue::raw(json::to_string(&Value::List(items)))
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
    fn rejects_invalid_files_with_messages_of_kube_apiserver() {
        let v1 = "apiVersion: audit.k8s.io/v1\nkind: Policy\n";
        for (text, want) in [
            ("", "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy"),
            ("rules: [{level: None}]", "unknown group version field audit.k8s.io/__internal, Kind=Policy in policy"),
            (
                "apiVersion: audit.k8s.io/v1beta1\nkind: Policy",
                "failed decoding: no kind \"Policy\" is registered for version \"audit.k8s.io/v1beta1\" in scheme \
                 \"pkg/audit/scheme.go:30\"",
            ),
            (
                "apiVersion: audit.k8s.io/v1\nkind: Event",
                "failed decoding: converting (v1.Event) to (audit.Policy): unknown conversion",
            ),
            (
                "'x'",
                "failed decoding: couldn't get version/kind; json parse error: json: cannot unmarshal string into Go value of \
                 type struct { APIVersion string \"json:\\\"apiVersion,omitempty\\\"\"; Kind string \
                 \"json:\\\"kind,omitempty\\\"\" }",
            ),
            (v1, "loaded illegal policy with 0 rules"),
            (&format!("{v1}rules: []"), "loaded illegal policy with 0 rules"),
            (
                &format!("{v1}rules: x"),
                "failed decoding: json: cannot unmarshal string into Go struct field Policy.rules of type []v1.PolicyRule",
            ),
            (
                &format!("{v1}omitStages: [5]"),
                "failed decoding: json: cannot unmarshal number into Go struct field Policy.omitStages of type v1.Stage",
            ),
            (
                &format!("{v1}rules: [{{omitStages: {{}}}}]"),
                "failed decoding: json: cannot unmarshal object into Go struct field PolicyRule.rules.omitStages of type \
                 []v1.Stage",
            ),
            (
                &format!("{v1}rules: [{{level: true}}]"),
                "failed decoding: json: cannot unmarshal bool into Go struct field PolicyRule.rules.level of type v1.Level",
            ),
            (
                &format!("{v1}metadata: 5"),
                "failed decoding: json: cannot unmarshal number into Go struct field Policy.metadata of type v1.ObjectMeta",
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
    fn warns_about_unknown_and_duplicate_fields() {
        let text = "apiVersion: audit.k8s.io/v1
kind: Policy
metadata: {name: a, creationTimestamp: null, lables: {}}
new: 1
rules: [{level: None, more: 2, resources: [{grupp: apps}]}]
omitManagedFields: true
omitManagedFields: true";
        assert_eq!(policy(text.as_bytes()).unwrap().rules.len(), 1);
        let (tree, duplicates) = yaml::parse(text.as_bytes(), &Limits::default()).unwrap();
        let (_, findings) = FORMAT.decode(tree, duplicates, "v1").unwrap();
        assert_eq!(
            findings.strict_error().unwrap(),
            "strict decoding error: yaml: unmarshal errors:\n  line 7: key \"omitManagedFields\" already set in map, \
             unknown field \"metadata.lables\", unknown field \"new\", unknown field \"rules[0].more\", unknown field \
             \"rules[0].resources[0].grupp\""
        );
    }
}
