//! Identities: service account tokens, bound to objects that may be deleted, and impersonation.

use binnacle_testkit::{Kubectl, Server, wait_until_blocking};
use serde_json::{Value, json};

/// Returns the result of `kubectl auth whoami` for the holder of a token.
fn whoami(kubectl: &Kubectl, server: &Server, token: &str) -> Result<Value, String> {
    // Without the administrator's certificate, which would take precedence.
    let config = server.temp().join("nobody.kubeconfig");
    let authority = server.temp().join("ca.crt");
    if !std::path::Path::new(&config).exists() {
        let json = kubectl.json(&["config", "view", "--raw"]);
        let data = json["clusters"][0]["cluster"]["certificate-authority-data"].as_str().unwrap();
        let pem = base64::Engine::decode(&base64::prelude::BASE64_STANDARD, data).unwrap();
        std::fs::write(&authority, pem).unwrap();
        std::fs::write(&config, "{}").unwrap();
    }
    let mut command = std::process::Command::new(std::env::var_os("KUBECTL").unwrap_or_else(|| "kubectl".into()));
    command.args(["--kubeconfig", &config, "--server", &server.url(), "--certificate-authority", &authority]);
    command.args(["--token", token, "auth", "whoami", "--output=json"]).env_remove("KUBECONFIG");
    let outcome = command.env("HOME", server.temp().path()).output().unwrap();
    match outcome.status.success() {
        true => Ok(serde_json::from_slice::<Value>(&outcome.stdout).unwrap()["status"]["userInfo"].clone()),
        false => Err(String::from_utf8(outcome.stderr).unwrap()),
    }
}

#[test]
#[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
fn authenticates_service_account_tokens() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    for name in ["default", "robot"] {
        kubectl.ok(&["create", "serviceaccount", name]);
    }
    let token = kubectl.ok(&["create", "token", "robot", "--duration=10m"]);
    let user = whoami(&kubectl, &server, token.trim()).unwrap();
    assert_eq!(user["username"], "system:serviceaccount:default:robot");
    assert_eq!(
        user["groups"],
        json!(["system:serviceaccounts", "system:serviceaccounts:default", "system:authenticated"])
    );
    // This server rejects a token for another audience.
    let token = kubectl.ok(&["create", "token", "robot", "--audience=vault"]);
    assert!(whoami(&kubectl, &server, token.trim()).unwrap_err().contains("Unauthorized"));

    // A token that is bound to a pod becomes invalid with it.
    let pod = json!({
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "worker"},
        "spec": {"serviceAccountName": "robot", "containers": [{"name": "c", "image": "i"}]}
    });
    kubectl.ok_with(&["create", "-f", "-"], &pod.to_string());
    let bound = kubectl.ok(&["create", "token", "robot", "--bound-object-kind=Pod", "--bound-object-name=worker"]);
    let user = whoami(&kubectl, &server, bound.trim()).unwrap();
    assert_eq!(user["extra"]["authentication.kubernetes.io/pod-name"], json!(["worker"]));
    kubectl.ok(&["delete", "pod", "worker", "--grace-period=0", "--force"]);
    wait_until_blocking("the token to end with its pod", || whoami(&kubectl, &server, bound.trim()).err());

    // All tokens of an account become invalid with it, even if another one with the same name is created.
    let token = kubectl.ok(&["create", "token", "robot"]);
    kubectl.ok(&["delete", "serviceaccount", "robot"]);
    kubectl.ok(&["create", "serviceaccount", "robot"]);
    wait_until_blocking("the token to end with its account", || whoami(&kubectl, &server, token.trim()).err());
}

#[test]
#[cfg_attr(not(has_recent_kubectl), ignore = "needs kubectl 1.30 or later")]
fn impersonates_users() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let user = kubectl.json(&["auth", "whoami", "--as=jane", "--as-group=dev", "--as-uid=7"]);
    assert_eq!(
        user["status"]["userInfo"],
        json!({"username": "jane", "uid": "7", "groups": ["dev", "system:authenticated"]})
    );
    let refused = kubectl.fails(&["get", "secrets", "--as=jane"]);
    assert!(refused.contains("User \"jane\" cannot list resource \"secrets\""), "{refused}");
    // An impersonator has the other user's permissions instead of its own: jane may not impersonate users.
    kubectl.ok(&["create", "clusterrole", "actor", "--verb=impersonate", "--resource=users", "--resource-name=jane"]);
    kubectl.ok(&["create", "clusterrolebinding", "actor", "--clusterrole=actor", "--serviceaccount=default:robot"]);
    kubectl.ok(&["create", "serviceaccount", "robot"]);
    for (robot, allowed) in [("jane", "yes"), ("root", "no")] {
        let robot_may = "--as=system:serviceaccount:default:robot";
        let outcome = kubectl.run(&["auth", "can-i", "impersonate", &format!("users/{robot}"), robot_may]);
        assert_eq!(outcome.out.trim(), allowed, "{robot}: {outcome}");
    }
}
