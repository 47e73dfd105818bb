//! Policies and webhooks in manifest files of the server, which cannot be removed through the API.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use binnacle_testkit::{Hook, Server, TempDir, wait_until};
use http::Response;
use serde_json::{Value, json};

const GATE: &str = "--feature-gates=ManifestBasedAdmissionControlConfig=true";
const GROUP: &str = "/apis/admissionregistration.k8s.io/v1";
const CONFIG_MAPS: &str = "/api/v1/namespaces/default/configmaps?dryRun=All";

async fn post(server: &Server, path: &str, object: &Value) -> (u16, String) {
    let headers = [("content-type", "application/json")];
    let answer = server.client().await.send("POST", path, &headers, object.to_string()).await.unwrap();
    let body: Value = serde_json::from_str(&answer.body).unwrap();
    (answer.status, body["message"].as_str().unwrap_or_default().to_owned())
}

/// Returns a policy for config maps and policies, with its binding.
fn policy(message: &str) -> String {
    let rules = json!([
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["validatingadmissionpolicies", "validatingwebhookconfigurations"]
        },
    ]);
    let spec = json!({
        "matchConstraints": {"resourceRules": rules},
        "validations": [{"expression": "!object.metadata.name.startsWith('bad')", "message": message}],
    });
    let binding = json!({"policyName": "p.static.k8s.io", "validationActions": ["Deny"]});
    let object = |kind: &str, spec: Value| {
        json!({
            "apiVersion": "admissionregistration.k8s.io/v1", "kind": kind, "metadata": {"name": "p.static.k8s.io"},
            "spec": spec,
        })
    };
    let (policy, binding) =
        (object("ValidatingAdmissionPolicy", spec), object("ValidatingAdmissionPolicyBinding", binding));
    format!("{policy}\n---\n{binding}\n")
}

fn webhooks(hook: &Hook) -> Value {
    let rules = json!([
        {"apiGroups": [""], "apiVersions": ["v1"], "operations": ["CREATE"], "resources": ["configmaps"]},
        {
            "apiGroups": ["admissionregistration.k8s.io"], "apiVersions": ["v1"], "operations": ["CREATE"],
            "resources": ["validatingwebhookconfigurations"]
        },
    ]);
    json!({
        "apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "w.static.k8s.io"},
        "webhooks": [{
            "name": "w.hooks.test", "rules": rules, "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": hook.url(), "caBundle": BASE64_STANDARD.encode(&hook.authority)},
        }],
    })
}

/// Starts a webhook that rejects objects with the name `never`.
async fn hook() -> Hook {
    Hook::start(|request: http::Request<Vec<u8>>| async move {
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let allowed = review["request"]["name"] != "never";
        let response = json!({"uid": review["request"]["uid"], "allowed": allowed, "status": {"message": "not that"}});
        let answer = json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
        Response::new(answer.to_string().into_bytes())
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn enforces_manifests_before_the_api_is_served() {
    let (files, hook) = (TempDir::new(), hook().await);
    for directory in ["policies", "webhooks"] {
        std::fs::create_dir(files.join(directory)).unwrap();
    }
    let policies = files.file("policies/p.yaml", &policy("bad name"));
    std::fs::write(files.join("webhooks/w.json"), webhooks(&hook).to_string()).unwrap();
    let told = |plugin: &str, kind: &str, directory: &str| {
        format!(
            "- name: {plugin}\n  configuration: {{apiVersion: apiserver.config.k8s.io/v1, kind: {kind}, \
             staticManifestsDir: {}}}\n",
            files.join(directory)
        )
    };
    let config = files.file(
        "admission.yaml",
        &format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins:\n{}{}",
            told("ValidatingAdmissionPolicy", "ValidatingAdmissionPolicyConfiguration", "policies"),
            told("ValidatingAdmissionWebhook", "WebhookAdmissionConfiguration", "webhooks"),
        ),
    );
    let server = Server::start(&["--ephemeral", GATE, &format!("--admission-control-config-file={config}")]);

    let named = |name: &str| json!({"metadata": {"name": name}});
    assert_eq!(post(&server, CONFIG_MAPS, &named("good")).await.0, 201);
    let denied = |resource: &str, name: &str, message: &str| {
        format!(
            "{resource} \"{name}\" is forbidden: ValidatingAdmissionPolicy 'p.static.k8s.io' with binding \
             'p.static.k8s.io' denied request: {message}"
        )
    };
    let (code, why) = post(&server, CONFIG_MAPS, &named("bad")).await;
    assert_eq!((code, why), (422, denied("configmaps", "bad", "bad name")));
    let (code, why) = post(&server, CONFIG_MAPS, &named("never")).await;
    assert_eq!((code, &*why), (400, "admission webhook \"w.hooks.test\" denied the request: not that"));

    // They also apply to admission configuration.
    let configurations = format!("{GROUP}/validatingwebhookconfigurations?dryRun=All");
    let (code, why) = post(&server, &configurations, &named("bad")).await;
    assert_eq!(code, 422);
    assert!(why.contains("denied request: bad name"), "{why}");
    assert_eq!(post(&server, &configurations, &named("never")).await.0, 400);
    // Their names are reserved.
    let (code, why) = post(&server, &configurations, &named("mine.static.k8s.io")).await;
    let want = "ValidatingWebhookConfiguration.admissionregistration.k8s.io \"mine.static.k8s.io\" is invalid: metadata.name: \
                Invalid value: \"mine.static.k8s.io\": names ending with \".static.k8s.io\" are reserved for static \
                manifest-based configurations and cannot be managed via the API";
    assert_eq!((code, &*why), (422, want));

    // A change takes effect. An invalid one leaves the previous configuration in force and is counted.
    std::fs::write(&policies, policy("another reason")).unwrap();
    wait_until("the change to be in force", async || {
        let (_, why) = post(&server, CONFIG_MAPS, &named("bad")).await;
        (why == denied("configmaps", "bad", "another reason")).then_some(())
    })
    .await;
    std::fs::write(&policies, "kind: Nothing").unwrap();
    let family = "apiserver_manifest_admission_config_controller_automatic_reloads_total{";
    let text = wait_until("the failure to be counted", async || {
        let text = server.client().await.get("/metrics").await.unwrap().body;
        let failed = |line: &str| {
            line.starts_with(family) && line.contains("\"ValidatingAdmissionPolicy\"") && line.contains("failure")
        };
        text.lines().any(failed).then(|| text.clone())
    })
    .await;
    assert!(text.contains("apiserver_manifest_admission_config_controller_last_config_info{"), "{text}");
    let (_, why) = post(&server, CONFIG_MAPS, &named("bad")).await;
    assert_eq!(why, denied("configmaps", "bad", "another reason"));
    // A policy whose file is removed is no longer in force.
    std::fs::remove_file(&policies).unwrap();
    wait_until("the policy to be gone", async || {
        (post(&server, CONFIG_MAPS, &named("bad")).await.0 == 201).then_some(())
    })
    .await;
}
