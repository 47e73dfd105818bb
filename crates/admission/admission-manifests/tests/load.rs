//! Loads manifest directories, with kube-apiserver's result for each.

use binnacle_admission_manifests::{ManifestSet, ManifestType, StoredTypes, load};
use binnacle_builtin::Releases;
use tempfile::TempDir;

use ManifestType::{MutatingPolicies, MutatingWebhooks, ValidatingPolicies, ValidatingWebhooks};

const HEAD: &str = "apiVersion: admissionregistration.k8s.io/v1\nkind: ";

fn types() -> StoredTypes {
    let kinds = ManifestType::ALL
        .into_iter()
        .flat_map(|manifest_type| [Some(manifest_type.kind()), manifest_type.binding()])
        .flatten();
    let described = binnacle_builtin::groups().iter().flat_map(|group| &group.versions);
    let described: Vec<_> = described.flat_map(|version| &version.resources).collect();
    let types = kinds.filter_map(|kind| {
        let of_kind = |one: &&&std::sync::Arc<binnacle_scheme::ResourceDescription>| {
            one.kind == kind && one.version == "v1" && one.group == "admissionregistration.k8s.io"
        };
        binnacle_builtin::stored_type(described.iter().find(of_kind)?, Releases::default())
    });
    StoredTypes::new(types, Default::default())
}

/// Loads files and returns the objects, or the error with `DIR` for the directory.
fn read(manifest_type: ManifestType, files: &[(&str, &str)]) -> Result<ManifestSet, String> {
    let directory = TempDir::new().expect("a directory");
    for (name, text) in files {
        std::fs::write(directory.path().join(name), text).expect("a file");
    }
    let shown = directory.path().display().to_string();
    load(manifest_type, directory.path(), &types()).map_err(|why| why.replace(&shown, "DIR"))
}

fn webhooks(name: &str, client: &str, more: &str) -> String {
    format!(
        "{HEAD}ValidatingWebhookConfiguration\nmetadata: {{name: {name}}}\nwebhooks:\n- name: a.b.io\n  clientConfig: \
         {{{client}}}\n  sideEffects: None\n  admissionReviewVersions: [v1]\n{more}"
    )
}

fn policy(name: &str, more: &str) -> String {
    format!(
        "{HEAD}ValidatingAdmissionPolicy\nmetadata: {{name: {name}}}\nspec: {{{more}matchConstraints: {{resourceRules: \
         [{{apiGroups: [''], apiVersions: [v1], operations: [CREATE], resources: [configmaps]}}]}}, validations: \
         [{{expression: 'true'}}]}}\n"
    )
}

fn binding(spec: &str) -> String {
    format!("---\n{HEAD}ValidatingAdmissionPolicyBinding\nmetadata: {{name: b.static.k8s.io}}\nspec: {{{spec}}}\n")
}

const URL: &str = "url: 'https://x.io/a'";
const NAME: &str = "x.static.k8s.io";

#[test]
fn loads_manifests_sorted_by_name_with_defaults() {
    let second = webhooks("b.static.k8s.io", URL, "");
    let first = webhooks("a.static.k8s.io", URL, "");
    let list = "{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{\"apiVersion\": \"admissionregistration.k8s.io/v1\", \
         \"kind\": \"ValidatingWebhookConfigurationList\", \"items\": [{\"metadata\": {\"name\": \"c.static.k8s.io\"}}]}]}";
    let webhooks_read = read(ValidatingWebhooks, &[("1.yaml", &second), ("2.yml", &first), ("3.json", list)]).unwrap();
    let name = |object: &binnacle_schema::Value| object.str_at(&["metadata", "name"]).to_owned();
    let names: Vec<String> = webhooks_read.objects.iter().map(name).collect();
    assert_eq!(names, ["a.static.k8s.io", "b.static.k8s.io", "c.static.k8s.io"]);
    assert!(webhooks_read.hash.starts_with("sha256:"));
    // Defaults are set.
    let webhook = &webhooks_read.objects[0].list_at(&["webhooks"])[0];
    assert_eq!((webhook.str_at(&["failurePolicy"]), webhook.int_at(&["timeoutSeconds"])), ("Fail", Some(10)));

    let text = policy("p.static.k8s.io", "") + &binding("policyName: p.static.k8s.io, validationActions: [Deny]");
    let policies = read(ValidatingPolicies, &[("a.yaml", &text)]).unwrap();
    assert_eq!((policies.objects.len(), policies.bindings.len()), (1, 1));
    let mutating = "{apiVersion: admissionregistration.k8s.io/v1, kind: MutatingAdmissionPolicy, metadata: {name: \
                    m.static.k8s.io}, spec: {reinvocationPolicy: Never, matchConstraints: {resourceRules: [{apiGroups: [''], \
                    apiVersions: [v1], operations: [CREATE], resources: [configmaps]}]}, mutations: [{patchType: JSONPatch, \
                    jsonPatch: {expression: \"[JSONPatch{op: 'remove', path: '/data'}]\"}}]}}";
    // The document starts with a brace, so it is decoded as JSON.
    let why = read(MutatingPolicies, &[("a.yaml", mutating)]).unwrap_err();
    assert!(why.starts_with("error loading DIR/a.yaml: couldn't get version/kind; json parse error: "), "{why}");
    let policies = read(MutatingPolicies, &[("a.yaml", &format!("# yaml\n{mutating}"))]).unwrap();
    assert_eq!(policies.objects.len(), 1);
    assert_eq!(read(MutatingWebhooks, &[]).unwrap().hash, "");
}

/// Returns a policy and a binding.
fn bound(binding_spec: &str) -> String {
    policy("p.static.k8s.io", "") + &binding(binding_spec)
}

/// Loads each text as the only file, and compares the error with kube-apiserver's.
fn check_errors(manifest_type: ManifestType, cases: &[(String, &str)]) {
    for (text, want) in cases {
        let why = read(manifest_type, &[("a.yaml", text)]).err();
        assert_eq!(why, Some(format!("error loading DIR/a.yaml: {want}")), "{text}");
    }
}

#[test]
fn rejects_invalid_webhooks() {
    let cases = [
        (webhooks("x", URL, ""), "\"x\" in file \"DIR/a.yaml\" must have a name ending with \".static.k8s.io\""),
        (
            webhooks("''", URL, ""),
            "ValidatingWebhookConfiguration \"\": metadata.name: Required value: name or generateName is required",
        ),
        (
            webhooks(NAME, "service: {name: a, namespace: b}", ""),
            "webhook \"a.b.io\" in \"x.static.k8s.io\" (file \"DIR/a.yaml\"): clientConfig.service is not supported for static manifests; use clientConfig.url instead",
        ),
        (
            webhooks(NAME, "", ""),
            "ValidatingWebhookConfiguration \"x.static.k8s.io\": webhooks[0].clientConfig: Required value: exactly one of url or service is required",
        ),
        (webhooks(NAME, URL, "  unknown: 1"), "strict decoding error: unknown field \"webhooks[0].unknown\""),
        (
            webhooks(NAME, URL, "  failurePolicy: Some\n  timeoutSeconds: 99"),
            "ValidatingWebhookConfiguration \"x.static.k8s.io\": [webhooks[0].failurePolicy: Unsupported value: \"Some\": supported values: \"Fail\", \"Ignore\", webhooks[0].timeoutSeconds: Invalid value: 99: the timeout value must be between 1 and 30 seconds]",
        ),
    ];
    check_errors(ValidatingWebhooks, &cases);
}

#[test]
fn rejects_malformed_documents_and_other_types() {
    let cases = [
        (
            webhooks(NAME, URL, "").replace("ValidatingWebhook", "MutatingWebhook"),
            "unsupported resource type *v1.MutatingWebhookConfiguration",
        ),
        (
            webhooks(NAME, URL, "").replace("k8s.io/v1\n", "k8s.io/v1beta1\n"),
            "unsupported resource type *v1beta1.ValidatingWebhookConfiguration",
        ),
        ("a: b".to_owned(), "Object 'Kind' is missing in 'a: b'"),
        ("# only\n---\n# words".to_owned(), "Object 'Kind' is missing in '# only'"),
        ("{\"a\":".to_owned(), "couldn't get version/kind; json parse error: unexpected end of JSON input"),
        (
            "apiVersion: v1\nkind: ConfigMap".to_owned(),
            "no kind \"ConfigMap\" is registered for version \"v1\" in scheme \"pkg/admission/plugin/webhook/manifest/loader/loader.go:41\"",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: [{kind: Pod}]".to_owned(),
            "failed to decode list item: Object 'apiVersion' is missing in '{\"kind\":\"Pod\"}'",
        ),
        (
            "apiVersion: v1\nkind: List\nitems: 3".to_owned(),
            "json: cannot unmarshal number into Go struct field List.items of type []runtime.RawExtension",
        ),
        ("apiVersion: v1\nkind: Status".to_owned(), "unsupported resource type *v1.Status"),
    ];
    check_errors(ValidatingWebhooks, &cases);
}

#[test]
fn rejects_invalid_policies_and_bindings() {
    let cases = [
        (
            bound("policyName: q, validationActions: [Deny]"),
            "binding \"b.static.k8s.io\": spec.policyName \"q\" must end with \".static.k8s.io\"",
        ),
        (
            bound(
                "policyName: p.static.k8s.io, validationActions: [Deny], paramRef: {name: a, parameterNotFoundAction: Deny}",
            ),
            "binding \"b.static.k8s.io\": spec.paramRef is not supported for static manifests",
        ),
        (
            bound("validationActions: [Deny]"),
            "ValidatingAdmissionPolicyBinding \"b.static.k8s.io\": spec.policyName: Required value",
        ),
        (
            policy("p.static.k8s.io", "paramKind: {apiVersion: v1, kind: ConfigMap}, "),
            "ValidatingAdmissionPolicy \"p.static.k8s.io\": spec.paramKind is not supported for static manifests",
        ),
        (webhooks(NAME, URL, ""), "unsupported resource type *v1.ValidatingWebhookConfiguration"),
    ];
    check_errors(ValidatingPolicies, &cases);
}

#[test]
fn rejects_duplicate_names() {
    let duplicate = webhooks(NAME, URL, "");
    let why = read(ValidatingWebhooks, &[("a.yaml", &duplicate), ("b.yml", &duplicate)]).map(drop).unwrap_err();
    let want = "duplicate name \"x.static.k8s.io\" found in file \"DIR/b.yml\" (previously seen in \"DIR/a.yaml\")";
    assert_eq!(why, format!("error loading DIR/b.yml: {want}"));
}

#[test]
fn rejects_bindings_of_unknown_policies() {
    let unbound = bound("policyName: q.static.k8s.io, validationActions: [Deny]");
    let why = read(ValidatingPolicies, &[("a.yaml", &unbound)]).map(drop).unwrap_err();
    let want = "binding \"b.static.k8s.io\" references policy \"q.static.k8s.io\" which does not exist in the manifest directory";
    assert_eq!(why, want);
}
