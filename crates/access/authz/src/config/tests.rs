//! Valid and invalid configuration files.

use std::time::Duration;

use super::{AuthorizationConfig, AuthorizerMode};
use crate::ReviewVersion;

fn file(authorizers: &str) -> String {
    format!("apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n{authorizers}")
}

/// Returns a webhook; `other` are lines that replace the default lines of their keys.
fn webhook(kubeconfig: &str, other: &[&str]) -> String {
    let mut text = String::from("- type: Webhook\n  name: w\n  webhook:\n");
    let kubeconfig = format!("connectionInfo: {{type: KubeConfigFile, kubeConfigFile: {kubeconfig}}}");
    let lines = ["timeout: 3s", "subjectAccessReviewVersion: v1", "failurePolicy: Deny", &kubeconfig];
    let name = |line: &str| line.split(':').next().unwrap_or_default().to_owned();
    let ttl_if = lines.iter().filter(|line| !other.iter().any(|other| name(other) == name(line)));
    for line in ttl_if.chain(other) {
        text.push_str(&format!("    {line}\n"));
    }
    text
}

#[test]
fn accepts_valid_configurations() {
    let there = std::env::current_exe().unwrap();
    let there = there.to_str().unwrap();
    let text = file(&format!(
        "- {{type: Node, name: node}}\n- {{type: RBAC, name: rbac}}\n{}",
        webhook(there, &["unauthorizedTTL: 10s", "cacheAuthorizedRequests: false"])
    ));
    let config = AuthorizationConfig::parse(text.as_bytes(), &["RBAC", "Node"]).unwrap();
    assert_eq!(config.fixed_modes(), ["Node", "RBAC"]);
    let AuthorizerMode::Webhook(webhook) = &config.authorizers[2].mode else { panic!("{config:?}") };
    assert_eq!((webhook.version, webhook.deny_on_error), (ReviewVersion::V1, true));
    assert_eq!(
        (webhook.timeout, webhook.authorized_ttl, webhook.unauthorized_ttl),
        (Duration::from_secs(3), Duration::ZERO, Duration::from_secs(10))
    );
    for version in ["v1beta1", "v1alpha1"] {
        let text = text.replace("k8s.io/v1\n", &format!("k8s.io/{version}\n"));
        assert_eq!(AuthorizationConfig::parse(text.as_bytes(), &[]).unwrap(), config);
    }
}

#[test]
fn rejects_invalid_configurations_with_messages_of_kube_apiserver() {
    let there = std::env::current_exe().unwrap();
    let there = there.to_str().unwrap();
    let hook = |other: &[&str]| file(&webhook(there, other));
    let load = |why: &str| format!("failed to load AuthorizationConfiguration from file: {why}");
    for (text, want) in [
        (String::new(), "authorizers: Required value: at least one authorization mode must be defined".to_owned()),
        ("a: b".to_owned(), load("Object 'Kind' is missing in 'a: b'")),
        (
            "apiVersion: v1\nkind: Pod".to_owned(),
            load(
                "no kind \"Pod\" is registered for version \"v1\" in scheme \
                 \"pkg/apis/apiserver/load/load.go:32\"",
            ),
        ),
        (
            file("- {type: RBAC, name: rbac, webhok: {}, nam: x}"),
            load("strict decoding error: unknown field \"authorizers[0].nam\", unknown field \"authorizers[0].webhok\""),
        ),
        (hook(&["timeout: 3"]), load("json: cannot unmarshal number into Go struct field WebhookConfiguration.authorizers.webhook.timeout of type string")),
        (file("- {name: x}"), "authorizers[0].type: Required value".to_owned()),
        (
            file("- {type: Magic, name: x}"),
            "authorizers[0].type: Unsupported value: \"Magic\": supported values: \"ABAC\", \"AlwaysAllow\", \"AlwaysDeny\", \
             \"Node\", \"RBAC\", \"Webhook\""
                .to_owned(),
        ),
        (
            file("- {type: RBAC, name: rbac}\n- {type: RBAC, name: r2}"),
            "authorizers[1].type: Duplicate value: \"RBAC\"".to_owned(),
        ),
        (file("- {type: RBAC}"), "authorizers[0].name: Required value".to_owned()),
        (file("- {type: RBAC, name: r}"), "expected name rbac for authorizer RBAC instead of r".to_owned()),
        (
            file("- {type: AlwaysAllow, name: A_b}"),
            "authorizers[0].name: Invalid value: \"A_b\": authorizer name is invalid: a lowercase RFC 1123 subdomain must \
             consist of lower case alphanumeric characters, '-' or '.', and must start and end with an alphanumeric character \
             (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
                .to_owned(),
        ),
        (file("- {type: Webhook, name: w}"), "authorizers[0].webhook: Required value: required when type=Webhook".to_owned()),
        (
            file("- {type: RBAC, name: rbac, webhook: {timeout: 1s}}"),
            "authorizers[0].webhook: Invalid value: \"non-null\": may only be specified when type=Webhook".to_owned(),
        ),
        (
            hook(&["timeout: 31s"]),
            "authorizers[0].timeout: Invalid value: \"31s\": must be > 0s and <= 30s".to_owned(),
        ),
        (hook(&["timeout: 0s"]), "authorizers[0].timeout: Required value".to_owned()),
        (hook(&["authorizedTTL: -1s"]), "authorizers[0].authorizedTTL: Invalid value: \"-1s\": must be > 0s".to_owned()),
        (
            hook(&["subjectAccessReviewVersion: v2", "failurePolicy: Maybe"]),
            "[authorizers[0].subjectAccessReviewVersion: Unsupported value: \"v2\": supported values: \"v1\", \"v1beta1\", \
             authorizers[0].failurePolicy: Unsupported value: \"Maybe\": supported values: \"NoOpinion\", \"Deny\"]"
                .to_owned(),
        ),
        (
            hook(&["connectionInfo: {type: KubeConfigFile}"]),
            "authorizers[0].connectionInfo.kubeConfigFile: Required value".to_owned(),
        ),
        (
            hook(&["connectionInfo: {type: KubeConfigFile, kubeConfigFile: a/b}"]),
            "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"a/b\": must be an absolute path".to_owned(),
        ),
        (
            hook(&["connectionInfo: {type: KubeConfigFile, kubeConfigFile: /no/such}"]),
            "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"/no/such\": error loading file: stat /no/such: no \
             such file or directory"
                .to_owned(),
        ),
        (
            hook(&["connectionInfo: {type: KubeConfigFile, kubeConfigFile: /}"]),
            "authorizers[0].connectionInfo.kubeConfigFile: Invalid value: \"/\": must be a regular file".to_owned(),
        ),
        (
            hook(&["connectionInfo: {type: Other}"]),
            "authorizers[0].connectionInfo.type: Unsupported value: {\"Type\":\"Other\",\"KubeConfigFile\":null}: supported \
             values: \"InClusterConfig\", \"KubeConfigFile\""
                .to_owned(),
        ),
        (
            hook(&["matchConditions: [{expression: ' '}]"]),
            "[authorizers[0].matchConditionSubjectAccessReviewVersion: Required value: required if match conditions are \
             specified, authorizers[0].matchConditions[0].expression: Required value]"
                .to_owned(),
        ),
    ] {
        let error = AuthorizationConfig::parse(text.as_bytes(), &[]).unwrap_err();
        assert_eq!(error.to_string(), want, "{text}");
    }
    let text = file("- {type: AlwaysAllow, name: alwaysallow}");
    let error = AuthorizationConfig::parse(text.as_bytes(), &["RBAC", "Node"]).unwrap_err();
    assert_eq!(error.to_string(), "missing required types: [Node RBAC]");
}
