//! Admission policies as a platform team uses them: limits with a custom kind for parameters, warnings before denials,
//! defaults for forgotten fields, and a status with the errors of a policy.

use binnacle_testkit::{Kubectl, Server, wait_until_blocking};
use serde_json::{Value, json};

/// Returns the rule for creates and updates of a resource.
fn rules(group: &str, resource: &str) -> Value {
    json!([{
        "apiGroups": [group], "apiVersions": ["v1"], "operations": ["CREATE", "UPDATE"], "resources": [resource]
    }])
}

fn object(kind: &str, name: &str, spec: Value) -> Value {
    let mut object = json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": name}
    });
    object["spec"] = spec;
    object
}

fn apply(kubectl: &Kubectl, object: &Value) {
    kubectl.ok_with(&["apply", "-f", "-"], &object.to_string());
}

/// Returns the definition of `limits`, the parameters with the maximum number of replicas of a namespace's deployments.
fn limit_definition() -> Value {
    let schema = json!({"type": "object", "properties": {"most": {"type": "integer", "default": 3}}});
    json!({
        "apiVersion": "apiextensions.k8s.io/v1", "kind": "CustomResourceDefinition",
        "metadata": {"name": "limits.rules.test"},
        "spec": {
            "group": "rules.test", "scope": "Namespaced", "names": {"plural": "limits", "kind": "Limit"},
            "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
        }
    })
}

fn limit_policy() -> Value {
    object(
        "ValidatingAdmissionPolicy",
        "replicas",
        json!({
            "paramKind": {"apiVersion": "rules.test/v1", "kind": "Limit"},
            "matchConstraints": {"resourceRules": rules("apps", "deployments")},
            "matchConditions": [{"name": "not-the-team", "expression": "request.userInfo.username != 'platform'"}],
            "variables": [{"name": "wanted", "expression": "object.spec.replicas"}],
            "validations": [{
                "expression": "variables.wanted <= params.most",
                "messageExpression": "'at most ' + string(params.most) + ' replicas, not ' + string(variables.wanted)",
                "reason": "Forbidden"
            }]
        }),
    )
}

fn limit_binding(actions: &[&str]) -> Value {
    object(
        "ValidatingAdmissionPolicyBinding",
        "replicas",
        json!({
            "policyName": "replicas", "validationActions": actions,
            "paramRef": {"name": "default", "parameterNotFoundAction": "Deny"}
        }),
    )
}

fn deployment(name: &str, replicas: i64) -> Value {
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"name": name},
        "spec": {
            "replicas": replicas, "selector": {"matchLabels": {"app": name}},
            "template": {
                "metadata": {"labels": {"app": name}}, "spec": {"containers": [{"name": "main", "image": "i"}]}
            }
        }
    })
}

/// Waits until a dry run of a create prints the text, and returns its output.
fn until_told(kubectl: &Kubectl, object: &Value, part: &str) -> String {
    wait_until_blocking(part, || {
        let tried = kubectl.run_with(&["create", "--dry-run=server", "-o", "json", "-f", "-"], &object.to_string());
        let said = format!("{}{}", tried.out, tried.err);
        said.contains(part).then_some(said)
    })
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn enforces_limits_from_parameters() {
    let mut server = Server::durable();
    let kubectl = Kubectl::new(&server);
    let large = deployment("large", 5);
    // The policy is created before the kind of its parameters.
    apply(&kubectl, &limit_policy());
    apply(&kubectl, &limit_binding(&["Deny"]));
    let unknown = "failed to find resource referenced by paramKind: 'rules.test/v1, Kind=Limit'";
    until_told(&kubectl, &large, unknown);
    apply(&kubectl, &limit_definition());
    kubectl.ok(&["wait", "--for=condition=Established", "crd/limits.rules.test", "--timeout=30s"]);
    until_told(&kubectl, &large, "no params found for policy binding with `Deny` parameterNotFoundAction");

    // The default in the parameters' schema is applied.
    let limit = json!({"apiVersion": "rules.test/v1", "kind": "Limit", "metadata": {"name": "default"}});
    apply(&kubectl, &limit);
    let refused = until_told(&kubectl, &large, "at most 3 replicas, not 5");
    let sentence = "deployments.apps \"large\" is forbidden: ValidatingAdmissionPolicy 'replicas' with binding 'replicas' \
                    denied request: at most 3 replicas, not 5";
    assert!(refused.contains(sentence), "{refused}");
    kubectl.ok_with(&["create", "-f", "-"], &deployment("small", 3).to_string());
    let scaled = kubectl.fails(&["patch", "deployment", "small", "--type=merge", "-p", r#"{"spec":{"replicas":4}}"#]);
    assert!(scaled.contains("at most 3 replicas, not 4"), "{scaled}");
    // Match conditions exempt the team.
    let team = ["create", "--dry-run=server", "--as=platform", "--as-group=system:masters", "-f", "-"];
    kubectl.ok_with(&team, &large.to_string());

    // After a kill the policies are in force from the first request on.
    server.kill();
    server.restart();
    let refused = kubectl.run_with(&["create", "-f", "-"], &large.to_string());
    assert!(refused.err.contains("at most 3 replicas, not 5"), "{}", refused.err);

    // Changes take effect immediately: of the parameters, the validation actions, and the policy.
    kubectl.ok(&["patch", "limit", "default", "--type=merge", "-p", r#"{"most":4}"#]);
    until_told(&kubectl, &large, "at most 4 replicas, not 5");
    apply(&kubectl, &limit_binding(&["Warn"]));
    let warning =
        "Warning: Validation failed for ValidatingAdmissionPolicy 'replicas' with binding 'replicas': at most 4";
    until_told(&kubectl, &large, warning);
    kubectl.ok(&["delete", "validatingadmissionpolicy", "replicas"]);
    wait_until_blocking("nobody is warned any more", || {
        let tried = kubectl.run_with(&["create", "--dry-run=server", "-f", "-"], &large.to_string());
        (!tried.err.contains("Warning")).then_some(())
    });
    kubectl.ok_with(&["create", "-f", "-"], &large.to_string());
}

/// A policy reveals no objects that its author may not read.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn rejects_parameters_that_the_author_may_not_read() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let resources = "validatingadmissionpolicies,validatingadmissionpolicybindings";
    kubectl.ok(&["create", "clusterrole", "writer", "--verb=create,get,patch", &format!("--resource={resources}")]);
    kubectl.ok(&["create", "clusterrolebinding", "writer", "--clusterrole=writer", "--user=dev"]);
    let author = ["apply", "--as=dev", "-f", "-"];
    let mut policy = limit_policy();
    policy["spec"]["paramKind"] = json!({"apiVersion": "v1", "kind": "Secret"});
    policy["spec"]["validations"] = json!([{"expression": "false", "messageExpression": "string(params.data.key)"}]);
    let refused = kubectl.run_with(&author, &policy.to_string());
    let may_not = "spec.paramKind: Forbidden: user &{dev  [system:authenticated] map[]} must have \"get\" permission on all \
                   objects of the referenced paramKind (kind=Secret, apiVersion=v1)";
    assert!(refused.err.contains(may_not), "{}", refused.err);
    apply(&kubectl, &policy);
    let refused = kubectl.run_with(&author, &limit_binding(&["Warn"]).to_string());
    let may_not = "spec.paramRef: Forbidden: user &{dev  [system:authenticated] map[]} does not have \"get\" permission on \
                   the object referenced by paramRef";
    assert!(refused.err.contains(may_not), "{}", refused.err);
    kubectl.ok(&["create", "clusterrole", "reader", "--verb=get", "--resource=secrets"]);
    kubectl.ok(&["create", "clusterrolebinding", "reader", "--clusterrole=reader", "--user=dev"]);
    kubectl.ok_with(&author, &limit_binding(&["Warn"]).to_string());
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn mutating_policies_set_defaults() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let mutating = |name: &str, again: &str, mutation: Value| {
        let constraints = json!({"resourceRules": rules("apps", "deployments")});
        let spec = json!({
            "reinvocationPolicy": again, "matchConstraints": constraints, "mutations": [mutation]
        });
        apply(&kubectl, &object("MutatingAdmissionPolicy", name, spec));
        apply(&kubectl, &object("MutatingAdmissionPolicyBinding", name, json!({"policyName": name})));
    };
    // Evaluated first, and again because the other policy adds a container.
    let labels = "Object{spec: Object.spec{template: Object.spec.template{metadata: Object.spec.template.metadata{labels: \
                  {'containers': string(object.spec.template.spec.containers.size())}}}}}";
    mutating(
        "a-labels",
        "IfNeeded",
        json!({
            "patchType": "ApplyConfiguration", "applyConfiguration": {"expression": labels}
        }),
    );
    let sidecar = "object.spec.template.spec.containers.exists(c, c.name == 'proxy') ? [] : [JSONPatch{op: 'add', path: \
                   '/spec/template/spec/containers/-', value: Object.spec.template.spec.containers{name: 'proxy', image: \
                   'p'}}, JSONPatch{op: 'add', path: '/metadata/annotations', value: {}}, JSONPatch{op: 'add', path: \
                   '/metadata/annotations/' + jsonpatch.escapeKey('rules.test/proxy'), value: 'yes'}]";
    mutating("b-proxy", "Never", json!({"patchType": "JSONPatch", "jsonPatch": {"expression": sidecar}}));
    until_told(&kubectl, &deployment("probe", 1), "\"containers\": \"2\"");

    kubectl.ok_with(&["create", "-f", "-"], &deployment("web", 1).to_string());
    let web = kubectl.json(&["get", "deployment", "web"]);
    let template = &web["spec"]["template"];
    let names: Vec<&Value> = template["spec"]["containers"].as_array().unwrap().iter().map(|c| &c["name"]).collect();
    assert_eq!(names, ["main", "proxy"], "{web}");
    assert_eq!(template["metadata"]["labels"]["containers"], "2", "{web}");
    assert_eq!(web["metadata"]["annotations"]["rules.test/proxy"], "yes", "{web}");
    // Fields that policies add get the defaults of the kind.
    assert_eq!(template["spec"]["containers"][1]["terminationMessagePolicy"], "File", "{web}");

    // An atomic list cannot be replaced in part.
    let atomic = "Object{spec: Object.spec{template: Object.spec.template{spec: Object.spec.template.spec{containers: \
                  [Object.spec.template.spec.containers{name: 'main', args: ['x']}]}}}}";
    mutating(
        "c-atomic",
        "Never",
        json!({
            "patchType": "ApplyConfiguration", "applyConfiguration": {"expression": atomic}
        }),
    );
    let refused = "policy 'c-atomic' with binding 'c-atomic' denied request: error applying patch: invalid \
                   ApplyConfiguration: may not mutate atomic arrays, maps or structs: \
                   .spec.template.spec.containers[0].args";
    until_told(&kubectl, &deployment("other", 1), refused);
}

/// In kube-apiserver a job without labels shares the map of its template, to which the selector's labels are added,
/// until a policy changes the job.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn policies_change_only_the_labels_of_the_job() {
    const GENERATED: [&str; 4] =
        ["batch.kubernetes.io/controller-uid", "batch.kubernetes.io/job-name", "controller-uid", "job-name"];
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let job = |name: &str| {
        let spec = json!({"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]});
        let template = json!({"metadata": {"labels": {"app": name}}, "spec": spec});
        json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": name}, "spec": {"template": template}})
    };
    let mutating = |name: &str, expression: &str| {
        // Selectors match the labels that the job has from its template.
        let constraints = json!({
            "resourceRules": rules("batch", "jobs"), "objectSelector": {"matchLabels": {"app": name}}
        });
        let mutation = json!({"patchType": "JSONPatch", "jsonPatch": {"expression": expression}});
        let spec = json!({"reinvocationPolicy": "Never", "matchConstraints": constraints, "mutations": [mutation]});
        apply(&kubectl, &object("MutatingAdmissionPolicy", name, spec));
        apply(&kubectl, &object("MutatingAdmissionPolicyBinding", name, json!({"policyName": name})));
    };
    mutating("label", "[JSONPatch{op: 'add', path: '/metadata/labels/new', value: '1'}]");
    mutating(
        "unlabel",
        "[JSONPatch{op: 'remove', path: '/metadata/labels'}, JSONPatch{op: 'add', path: \
                         '/metadata/annotations', value: {'seen': 'yes'}}]",
    );
    until_told(&kubectl, &job("label"), "\"new\": \"1\"");
    until_told(&kubectl, &job("unlabel"), "\"seen\": \"yes\"");
    let labels = |labels: &Value| -> Vec<String> { labels.as_object().unwrap().keys().cloned().collect() };
    let with = |others: &[&str]| -> Vec<String> {
        let mut all: Vec<String> = others.iter().chain(&GENERATED).map(|name| (*name).to_owned()).collect();
        all.sort();
        all
    };
    for (name, own) in [
        ("plain", with(&["app"])),
        ("label", vec!["app".to_owned(), "new".to_owned()]),
        // Without labels it shares those of the template again.
        ("unlabel", with(&["app"])),
    ] {
        kubectl.ok_with(&["create", "-f", "-"], &job(name).to_string());
        let job = kubectl.json(&["get", "job", name]);
        assert_eq!(labels(&job["metadata"]["labels"]), own, "{job}");
        assert_eq!(labels(&job["spec"]["template"]["metadata"]["labels"]), with(&["app"]), "{job}");
    }
}

/// Without a controller manager the server itself reports a policy's type errors.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn reports_type_errors_in_the_policy_status() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let policy = object(
        "ValidatingAdmissionPolicy",
        "typos",
        json!({
            "matchConstraints": {"resourceRules": rules("apps", "deployments")},
            "validations": [
                {"expression": "object.spec.replicas > 1"},
                {"expression": "object.spec.replica > 1", "messageExpression": "'have ' + object.spec.replicas"}
            ]
        }),
    );
    apply(&kubectl, &policy);
    let status = wait_until_blocking("the policy has a status", || {
        let policy = kubectl.json(&["get", "validatingadmissionpolicy", "typos"]);
        (policy["status"]["observedGeneration"] == policy["metadata"]["generation"]).then(|| policy["status"].clone())
    });
    let warnings = status["typeChecking"]["expressionWarnings"].as_array().cloned().unwrap_or_default();
    let texts: Vec<_> =
        warnings.iter().map(|w| (w["fieldRef"].as_str().unwrap(), w["warning"].as_str().unwrap())).collect();
    let [(first, unknown), (second, mismatch)] = texts[..] else { panic!("{status}") };
    assert_eq!((first, second), ("spec.validations[1].expression", "spec.validations[1].messageExpression"));
    let text = "apps/v1, Kind=Deployment: ERROR: <input>:1:12: undefined field 'replica'\n";
    assert!(unknown.starts_with(text), "{unknown}");
    assert!(mismatch.contains("found no matching overload for '_+_' applied to '(string, int)'"), "{mismatch}");
}
