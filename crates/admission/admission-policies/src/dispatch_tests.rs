//! Tests of both plugins: which policies are evaluated, in which order, with which parameters, and what their results do
//! to a request.

use std::sync::Arc;

use binnacle_admission::{Chain, Metrics, Plugin, Request, ResourceLookup, Stage};
use binnacle_admission_matching::expressions::MatchConditionMetrics;
use binnacle_authz::AlwaysAllow;
use binnacle_meta::{GroupVersionKind, GroupVersionResource, Status};
use binnacle_metrics::Registry;
use binnacle_registry::admission::{Admission, Attributes, Operation, OperationOptions};
use binnacle_registry::{Catalog, RequestNotes, WriteObject};
use binnacle_request::{BoxFuture, User};
use binnacle_schema::{Limits, Value, json};
use binnacle_test_cluster::{objects, resources};

use crate::{
    MutatingAdmissionPolicy, MutatingMetrics, PluginDependencies, Policies, PolicyResource, RemoteKinds, RemoteParams,
    ValidatingAdmissionPolicy, ValidatingMetrics,
};

struct NoRemoteKinds;

impl RemoteKinds for NoRemoteKinds {
    fn objects(&self, _: &GroupVersionKind) -> Option<Arc<dyn RemoteParams>> {
        None
    }

    fn kinds(&self, _: &str, _: &str, _: &str) -> Vec<GroupVersionKind> {
        Vec::new()
    }

    fn document<'a>(&'a self, _: &'a GroupVersionKind) -> BoxFuture<'a, Option<Value>> {
        Box::pin(async { None })
    }
}

/// Sets the annotation `pass` to the number of the pass. Only its name must be one of the chain's.
struct PassCounter;

impl Plugin for PassCounter {
    fn name(&self) -> &'static str {
        "AlwaysAdmit"
    }

    fn handles(&self, stage: Stage, _: &Attributes) -> bool {
        stage == Stage::Mutate
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        let is_second = request.reinvocation().is_some_and(|passes| passes.is_second());
        object.make_at(&["metadata", "annotations"]).insert("pass", if is_second { "2" } else { "1" });
        Box::pin(async { Ok(()) })
    }
}

/// Resources with the namespace `n` and config maps in it, which are parameters.
struct Cluster {
    catalog: Catalog,
}

fn parse(text: &str) -> Value {
    json::parse(text.as_bytes(), &Limits::default()).unwrap_or_else(|error| panic!("{error}: {text}"))
}

impl Cluster {
    async fn new() -> Self {
        let catalog = resources();
        objects(&catalog, "", "namespaces").create("", parse(r#"{"metadata": {"name": "n"}}"#)).await.unwrap();
        for (name, label, limit) in [("p1", "a", "1"), ("p2", "a", "2"), ("p3", "b", "3")] {
            let param = format!(
                r#"{{"metadata": {{"name": "{name}", "namespace": "n", "labels": {{"l": "{label}"}}}}, "data": {{"limit": "{limit}"}}}}"#
            );
            objects(&catalog, "", "configmaps").create("n", parse(&param)).await.unwrap();
        }
        Self { catalog }
    }

    fn dependencies(&self, registry: &Registry, policies: Arc<Policies>) -> PluginDependencies {
        PluginDependencies {
            policies,
            catalog: self.catalog.clone(),
            lookup: Arc::new(ResourceLookup::new(self.catalog.clone())),
            authorizer: Arc::new(AlwaysAllow),
            match_conditions: MatchConditionMetrics::register(registry).unwrap(),
            remote: Arc::new(NoRemoteKinds),
        }
    }

    /// Returns the result of a creation: the annotations of the object or the code and message of the error, with
    /// warnings in brackets.
    async fn outcome(&self, policies: Arc<Policies>, stage: Stage) -> String {
        let registry = Registry::new();
        let dependencies = self.dependencies(&registry, policies);
        let plugins: Vec<Arc<dyn Plugin>> = vec![
            Arc::new(PassCounter),
            Arc::new(ValidatingAdmissionPolicy::new(
                dependencies.clone(),
                ValidatingMetrics::register(&registry).unwrap(),
            )),
            Arc::new(MutatingAdmissionPolicy::new(dependencies, MutatingMetrics::register(&registry).unwrap())),
        ];
        let chain = Chain::new(plugins, &Metrics::register(&registry).unwrap()).unwrap();
        let (attributes, notes) = (creation(), RequestNotes::default());
        let mut object = WriteObject::from(parse(OBJECT));
        let result = match stage {
            Stage::Mutate => chain.mutate(&attributes, &mut object, None, &notes).await,
            Stage::Validate => chain.validate(&attributes, &object, None, &notes).await,
        };
        let warnings = notes.warnings().take();
        let warnings = if warnings.is_empty() { String::new() } else { format!("{warnings:?}") };
        let shown = match result {
            Ok(()) => {
                let annotations = object.object_at(&["metadata", "annotations"]).into_iter();
                let annotations = annotations.flat_map(|annotations| annotations.iter());
                let texts = annotations.map(|(key, value)| format!("{key}={}", value.as_str().unwrap_or("?")));
                let mut texts: Vec<String> = texts.collect();
                texts.sort();
                texts.join(" ")
            }
            // Denials by validating policies begin like those of plugins.
            Err(status) => {
                format!("{} {}", status.code(), status.message().replace("configmaps \"x\" is forbidden: ", ""))
            }
        };
        format!("{shown}{warnings}")
    }

    /// Checks the outcome with validating policies and bindings, each from its name and its spec without braces. A
    /// binding `p.b` is of the policy `p`.
    async fn validate(&self, specs: &[(&str, &str)], want: &str) {
        let policies = Policies::new();
        add(&policies, specs, [PolicyResource::ValidatingPolicies, PolicyResource::ValidatingBindings]);
        assert_eq!(self.outcome(policies, Stage::Validate).await, want, "{specs:?}");
    }

    async fn mutate(&self, specs: &[(&str, &str)], want: &str) {
        let policies = Policies::new();
        add(&policies, specs, [PolicyResource::MutatingPolicies, PolicyResource::MutatingBindings]);
        assert_eq!(self.outcome(policies, Stage::Mutate).await, want, "{specs:?}");
    }
}

const OBJECT: &str = r#"{"apiVersion": "v1", "kind": "ConfigMap",
    "metadata": {"name": "x", "namespace": "n", "annotations": {}}, "data": {"size": "2"}}"#;

fn creation() -> Attributes {
    Attributes {
        operation: Operation::Create,
        kind: GroupVersionKind::new("", "v1", "ConfigMap"),
        resource: GroupVersionResource::new("", "v1", "configmaps"),
        subresource: "".into(),
        namespace: "n".into(),
        name: "x".into(),
        user: User::new("u", &[]),
        dry_run: false,
        options: OperationOptions::None,
        deadline: None,
        by_server: false,
    }
}

fn add(policies: &Policies, specs: &[(&str, &str)], [of_policies, of_bindings]: [PolicyResource; 2]) {
    let all = r#""matchConstraints": {"namespaceSelector": {}, "objectSelector": {}, "resourceRules": [{"apiGroups": [""],
        "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]}]}"#;
    for (name, spec) in specs {
        let (resource, spec) = match name.split_once('.') {
            Some((policy, _)) => (of_bindings, format!(r#""policyName": "{policy}", {spec}"#)),
            None => (of_policies, format!("{all}, {spec}")),
        };
        policies.put(resource, &parse(&format!(r#"{{"metadata": {{"name": "{name}"}}, "spec": {{{spec}}}}}"#)));
    }
    for resource in [
        PolicyResource::ValidatingPolicies,
        PolicyResource::ValidatingBindings,
        PolicyResource::MutatingPolicies,
        PolicyResource::MutatingBindings,
    ] {
        policies.read(resource);
    }
}

/// Returns validations of a policy.
macro_rules! validations {
    ($expression:literal $(, $more:literal)*) => {
        concat!(r#""validations": [{"expression": ""#, $expression, r#"", "message": "no"}]"# $(, ", ", $more)*)
    };
}

const DENY: &str = r#""validationActions": ["Deny"]"#;
const FALSE: &str = validations!("false");
const CONFIG_MAPS: &str = r#""paramKind": {"apiVersion": "v1", "kind": "ConfigMap"}"#;

#[tokio::test(flavor = "multi_thread")]
async fn actions_of_the_binding_apply_to_failed_validations() {
    let cluster = Cluster::new().await;
    let warning = r#"["Validation failed for ValidatingAdmissionPolicy 'p' with binding 'p.b': no"]"#;
    let denied = "422 ValidatingAdmissionPolicy 'p' with binding 'p.b' denied request: no";
    for (actions, want) in [
        (r#""validationActions": ["Deny"]"#, denied.to_owned()),
        (r#""validationActions": ["Warn"]"#, warning.to_owned()),
        (r#""validationActions": ["Audit"]"#, String::new()),
        (r#""validationActions": ["Deny", "Warn"]"#, format!("{denied}{warning}")),
    ] {
        cluster.validate(&[("p", FALSE), ("p.b", actions)], &want).await;
    }
    cluster.validate(&[("p", validations!("true")), ("p.b", DENY)], "").await;
    // Without a binding, a policy has no effect.
    cluster.validate(&[("p", FALSE)], "").await;
    cluster.validate(&[("p", FALSE), ("q.b", DENY)], "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn first_denial_is_reported_and_all_policies_are_evaluated() {
    let cluster = Cluster::new().await;
    let warn = r#""validationActions": ["Warn"]"#;
    let denied =
        |policy: &str| format!("422 ValidatingAdmissionPolicy '{policy}' with binding '{policy}.b' denied request: no");
    let warning = r#"["Validation failed for ValidatingAdmissionPolicy 'r' with binding 'r.b': no"]"#;
    let policies = [("q", FALSE), ("q.b", DENY), ("p", FALSE), ("p.b", DENY), ("r", FALSE), ("r.b", warn)];
    cluster.validate(&policies, &format!("{}{warning}", denied("p"))).await;
    // Two bindings of one policy, and two validations.
    let first = "422 ValidatingAdmissionPolicy 'p' with binding 'p.a' denied request: no";
    cluster.validate(&[("p", FALSE), ("p.b", DENY), ("p.a", DENY)], first).await;
    let two = r#""validations": [{"expression": "true"}, {"expression": "object.data.size == '1'"}, {"expression": "false"}]"#;
    let second = "422 ValidatingAdmissionPolicy 'p' with binding 'p.b' denied request: failed expression: object.data.size == '1'";
    cluster.validate(&[("p", two), ("p.b", DENY)], second).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn errors_deny_unless_the_failure_policy_is_ignore() {
    let cluster = Cluster::new().await;
    let denied = |why: &str| format!("422 ValidatingAdmissionPolicy 'p' with binding 'p.b' denied request: {why}");
    let no_key = "expression 'object.data.absent == '1'' resulted in error: no such key: absent";
    let no_kind = "422 ValidatingAdmissionPolicy 'p' denied request: failed to configure policy: failed to find resource \
                   referenced by paramKind: 'g.test/v1, Kind=Absent'";
    for (policy, ignoring, want) in [
        (
            validations!("object.data.absent == '1'"),
            validations!("object.data.absent == '1'", r#""failurePolicy": "Ignore""#),
            denied(no_key),
        ),
        (
            validations!("true", r#""matchConditions": [{"name": "c", "expression": "object.data.absent == '1'"}]"#),
            validations!(
                "false",
                r#""matchConditions": [{"name": "c", "expression": "object.data.absent == '1'"}], "failurePolicy": "Ignore""#
            ),
            denied(no_key),
        ),
        (
            validations!("true", r#""paramKind": {"apiVersion": "g.test/v1", "kind": "Absent"}"#),
            validations!(
                "true",
                r#""paramKind": {"apiVersion": "g.test/v1", "kind": "Absent"}, "failurePolicy": "Ignore""#
            ),
            no_kind.to_owned(),
        ),
    ] {
        cluster.validate(&[("p", policy), ("p.b", DENY)], &want).await;
        cluster.validate(&[("p", ignoring), ("p.b", DENY)], "").await;
    }
    // A condition that is false excludes the request, even if another one fails.
    let excluded = validations!(
        "false",
        r#""matchConditions": [{"name": "c", "expression": "object.data.absent == '1'"}, {"name": "d", "expression": "false"}]"#
    );
    cluster.validate(&[("p", excluded), ("p.b", DENY)], "").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn policy_is_evaluated_for_each_parameter() {
    let cluster = Cluster::new().await;
    let policy = format!(
        r#"{CONFIG_MAPS}, "validations": [{{"expression": "object.data.size == params.data.limit", "messageExpression": "string(params.metadata.name)"}}]"#
    );
    let binding = |reference: &str| format!(r#"{DENY}, "paramRef": {{{reference}}}"#);
    let denied = |why: &str| format!("422 ValidatingAdmissionPolicy 'p' with binding 'p.b' denied request: {why}");
    let none = "failed to configure binding: no params found for policy binding with `Deny` parameterNotFoundAction";
    for (reference, want) in [
        (r#""name": "p2", "parameterNotFoundAction": "Deny""#, String::new()),
        (r#""name": "p1", "parameterNotFoundAction": "Deny""#, denied("p1")),
        (r#""name": "p2", "namespace": "n", "parameterNotFoundAction": "Deny""#, String::new()),
        (r#""name": "p2", "namespace": "other", "parameterNotFoundAction": "Allow""#, String::new()),
        (r#""name": "p2", "namespace": "other", "parameterNotFoundAction": "Deny""#, denied(none)),
        (r#""selector": {"matchLabels": {"l": "a"}}, "parameterNotFoundAction": "Deny""#, denied("p1")),
        (r#""selector": {"matchLabels": {"l": "b"}}, "parameterNotFoundAction": "Deny""#, denied("p3")),
        (r#""selector": {"matchLabels": {"l": "c"}}, "parameterNotFoundAction": "Allow""#, String::new()),
        (r#""selector": {"matchLabels": {"l": "c"}}, "parameterNotFoundAction": "Deny""#, denied(none)),
        (r#""selector": {}, "parameterNotFoundAction": "Deny""#, denied("p1")),
    ] {
        cluster.validate(&[("p", &policy), ("p.b", &binding(reference))], &want).await;
    }
    // Without a reference, `params` is null.
    let null = format!(r#"{CONFIG_MAPS}, {}"#, validations!("params == null"));
    cluster.validate(&[("p", &null), ("p.b", DENY)], "").await;
    // Without a kind, the reference is ignored.
    cluster.validate(&[("p", validations!("true")), ("p.b", &binding(r#""name": "absent""#))], "").await;
    let cluster_scoped =
        format!(r#""paramKind": {{"apiVersion": "v1", "kind": "Namespace"}}, {}"#, validations!("true"));
    let refused =
        denied("failed to configure binding: paramRef.namespace must not be provided for a cluster-scoped `paramKind`");
    cluster.validate(&[("p", &cluster_scoped), ("p.b", &binding(r#""name": "n", "namespace": "n""#))], &refused).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn bindings_narrow_the_requests_of_their_policy() {
    let cluster = Cluster::new().await;
    let denied = "422 ValidatingAdmissionPolicy 'p' with binding 'p.b' denied request: no";
    for (rules, selector, want) in [
        (r#"{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}"#, "{}", denied),
        (r#"{"apiGroups": [""], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": ["*"]}"#, "{}", ""),
        (r#"{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["pods"]}"#, "{}", ""),
        (
            r#"{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"], "resourceNames": ["y"]}"#,
            "{}",
            "",
        ),
        (
            r#"{"apiGroups": [""], "apiVersions": ["*"], "operations": ["*"], "resources": ["*"]}"#,
            r#"{"matchLabels": {"kubernetes.io/metadata.name": "other"}}"#,
            "",
        ),
    ] {
        let binding = format!(
            r#"{DENY}, "matchResources": {{"namespaceSelector": {selector}, "objectSelector": {{}}, "resourceRules": [{rules}]}}"#
        );
        cluster.validate(&[("p", FALSE), ("p.b", &binding)], want).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn reason_of_a_validation_decides_the_code() {
    let cluster = Cluster::new().await;
    for (reason, code) in [("Invalid", 422), ("Forbidden", 403), ("Unauthorized", 401), ("RequestEntityTooLarge", 413)]
    {
        let policy = format!(r#""validations": [{{"expression": "false", "message": "no", "reason": "{reason}"}}]"#);
        let want = format!("{code} ValidatingAdmissionPolicy 'p' with binding 'p.b' denied request: no");
        cluster.validate(&[("p", &policy), ("p.b", DENY)], &want).await;
    }
}

/// Returns a mutating policy that sets an annotation to the value of an expression, once for each time it is invoked.
fn annotates(annotation: &str, expression: &str, more: &str) -> String {
    format!(
        r#"{more} "mutations": [{{"patchType": "JSONPatch", "jsonPatch": {{"expression":
            "[JSONPatch{{op: 'add', path: '/metadata/annotations/{annotation}', value: {expression}}}]"}}}}]"#
    )
}

const REINVOKED: &str = r#""reinvocationPolicy": "IfNeeded","#;
/// Appends to the annotation, so that each invocation can be seen.
const COUNT_A: &str = "object.metadata.annotations[?'a'].orValue('') + '+'";
/// A binding without parameters.
const NOTHING_ELSE: &str = r#""matchResources": null"#;

#[tokio::test(flavor = "multi_thread")]
async fn mutating_policies_see_the_changes_of_those_before() {
    let cluster = Cluster::new().await;
    let first = annotates("a", "'1'", "");
    let second = annotates("b", "object.metadata.annotations.a + '2'", "");
    let binding = NOTHING_ELSE;
    cluster.mutate(&[("p", &first), ("q", &second), ("p.b", binding), ("q.b", binding)], "a=1 b=12 pass=2").await;
    // They are evaluated in the order of their names, so that the annotation is missing.
    let missing = "403 policy 'p' with binding 'p.b' denied request: expression '[JSONPatch{op: 'add', path: \
                   '/metadata/annotations/b', value: object.metadata.annotations.a + '2'}]' resulted in error: no such key: a";
    let outcome = [("p", second.as_str()), ("q", &first), ("p.b", binding), ("q.b", binding)];
    cluster.mutate(&outcome, missing).await;
    let ignored = annotates("b", "object.metadata.annotations.a + '2'", r#""failurePolicy": "Ignore","#);
    cluster.mutate(&[("p", &ignored), ("q", &first), ("p.b", binding), ("q.b", binding)], "a=1 pass=2").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mutating_policies_are_reinvoked_after_changes() {
    let cluster = Cluster::new().await;
    let binding = NOTHING_ELSE;
    let (once, again) = (annotates("a", COUNT_A, ""), annotates("a", COUNT_A, REINVOKED));
    cluster.mutate(&[("p", &once), ("p.b", binding)], "a=+ pass=2").await;
    cluster.mutate(&[("p", &again), ("p.b", binding)], "a=++ pass=2").await;
    // A condition that excludes the request in the first pass excludes it from the second one as well.
    let condition = r#""reinvocationPolicy": "IfNeeded", "matchConditions": [{"name": "c", "expression":
        "object.metadata.annotations.pass == '2'"}],"#;
    let later = annotates("a", COUNT_A, condition);
    let other = annotates("b", "'1'", "");
    cluster.mutate(&[("p", &later), ("p.b", binding), ("q", &other), ("q.b", binding)], "b=1 pass=2").await;
    // No policy applies, so that there is no second pass.
    cluster.mutate(&[("p", &later), ("p.b", binding)], "pass=1").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn mutating_policy_is_invoked_for_each_parameter_and_all_failures_are_reported() {
    let cluster = Cluster::new().await;
    let more = format!("{CONFIG_MAPS},");
    let append = annotates("a", "object.metadata.annotations[?'a'].orValue('') + params.data.limit", &more);
    let binding = |label: &str| {
        format!(
            r#""paramRef": {{"selector": {{"matchLabels": {{"l": "{label}"}}}}, "parameterNotFoundAction": "Deny"}}"#
        )
    };
    cluster.mutate(&[("p", &append), ("p.b", &binding("a"))], "a=12 pass=2").await;
    let none = "403 policy 'p' with binding 'p.b' denied request: failed to configure binding: no params found for policy \
                binding with `Deny` parameterNotFoundAction";
    cluster.mutate(&[("p", &append), ("p.b", &binding("c"))], none).await;
}
