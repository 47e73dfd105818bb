//! Authorization by roles and bindings, nodes, webhooks and policies, through kubectl and plain HTTPS.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use binnacle_testkit::https::{Answer, Client, Handshake};
use binnacle_testkit::{Hook, Kubectl, Server, TempDir, wait_until};
use http::{Request, Response};
use serde_json::{Value, json};

const TOKENS: &str = "root,root,0,system:masters\nalice,alice,1,team\nbob,bob,2\n\
                      node,system:node:n1,3,system:nodes\nother,system:node:n2,4,system:nodes\n";

/// Starts a server with some tokens and additional arguments.
pub(crate) struct Rig {
    pub(crate) server: Server,
    _files: TempDir,
}

impl Rig {
    pub(crate) fn start(files: TempDir, more: &[String]) -> Self {
        std::fs::write(files.path().join("tokens"), TOKENS).unwrap();
        let mut arguments = vec!["--ephemeral".to_owned(), format!("--token-auth-file={}", files.join("tokens"))];
        arguments.extend_from_slice(more);
        let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
        Self { server: Server::start(&arguments), _files: files }
    }

    pub(crate) async fn client(&self) -> Client {
        self.server.connect(&Handshake::new(self.server.admin().authority)).await
    }

    pub(crate) async fn send(&self, token: &str, method: &str, path: &str, body: &Value) -> Answer {
        let bearer = format!("Bearer {token}");
        let headers = [("authorization", bearer.as_str()), ("content-type", "application/json")];
        let body = if body.is_null() { String::new() } else { body.to_string() };
        self.client().await.send(method, path, &headers, body).await.unwrap()
    }

    pub(crate) async fn code(&self, token: &str, method: &str, path: &str) -> u16 {
        self.send(token, method, path, &Value::Null).await.status
    }

    /// Creates an object as the administrator.
    pub(crate) async fn make(&self, path: &str, object: Value) {
        let made = self.send("root", "POST", path, &object).await;
        assert_eq!(made.status, 201, "{}", made.body);
    }

    pub(crate) async fn make_namespace(&self, name: &str) {
        self.make("/api/v1/namespaces", json!({"metadata": {"name": name}})).await;
    }

    /// Returns kubectl's arguments for the holder of a token.
    fn kubectl_as(&self, token: &str) -> Vec<String> {
        let file = self.server.temp().path().join(format!("{token}.kubeconfig"));
        let text = format!(
            "apiVersion: v1\nkind: Config\ncurrent-context: c\ncontexts: [{{name: c, context: {{cluster: c, user: u}}}}]\n\
             clusters: [{{name: c, cluster: {{server: '{}', insecure-skip-tls-verify: true}}}}]\n\
             users: [{{name: u, user: {{token: {token}}}}}]\n",
            self.server.url()
        );
        std::fs::write(&file, text).unwrap();
        vec!["--kubeconfig".to_owned(), file.display().to_string()]
    }
}

pub(crate) fn role(name: &str, verbs: &[&str], resources: &[&str]) -> Value {
    json!({"metadata": {"name": name}, "rules": [{"verbs": verbs, "apiGroups": [""], "resources": resources}]})
}

pub(crate) fn binding(name: &str, role: &str, kind: &str, subject: &str) -> Value {
    let group = "rbac.authorization.k8s.io";
    json!({
        "metadata": {"name": name}, "roleRef": {"apiGroup": group, "kind": "Role", "name": role},
        "subjects": [{"kind": kind, "apiGroup": group, "name": subject}]
    })
}

pub(crate) async fn until(what: &str, mut condition: impl AsyncFnMut() -> bool) {
    wait_until(what, async || condition().await.then_some(())).await;
}

pub(crate) const RBAC: &str = "/apis/rbac.authorization.k8s.io/v1";

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
async fn kubectl_grants_and_checks_permissions() {
    let rig = Rig::start(TempDir::new(), &[]);
    let kubectl = Kubectl::new(&rig.server);
    let as_alice = rig.kubectl_as("alice");
    let alice = |arguments: &[&str]| {
        let mut all: Vec<&str> = as_alice.iter().map(String::as_str).collect();
        all.extend_from_slice(arguments);
        kubectl.run(&all)
    };
    rig.make_namespace("team").await;
    kubectl.ok(&["create", "role", "reader", "-n", "team", "--verb=get,list", "--resource=pods,configmaps"]);
    kubectl.ok(&[
        "create",
        "role",
        "roles",
        "-n",
        "team",
        "--verb=create",
        "--resource=roles.rbac.authorization.k8s.io",
    ]);
    kubectl.ok(&["create", "rolebinding", "reader", "-n", "team", "--role=reader", "--group=team"]);
    kubectl.ok(&["create", "rolebinding", "roles", "-n", "team", "--role=roles", "--user=alice"]);
    until("the binding counts", async || alice(&["auth", "can-i", "create", "roles", "-n", "team"]).success).await;
    for (arguments, allowed) in [
        (&["list", "pods", "-n", "team"][..], true),
        (&["get", "configmaps/x", "-n", "team"], true),
        (&["delete", "pods", "-n", "team"], false),
        (&["list", "pods", "-n", "default"], false),
        (&["list", "pods", "--all-namespaces"], false),
        (&["get", "pods", "--subresource=log", "-n", "team"], false),
        (&["get", "/healthz"], true),
        (&["get", "/metrics"], false),
    ] {
        let outcome = alice(&[&["auth", "can-i"], arguments].concat());
        assert_eq!(outcome.success, allowed, "{outcome}");
        assert!(outcome.out.starts_with(if allowed { "yes" } else { "no" }), "{outcome}");
    }
    let listed = alice(&["auth", "can-i", "--list", "-n", "team"]);
    assert!(listed.success, "{listed}");
    let row = |start: &str| listed.out.lines().find(|line| line.starts_with(start)).unwrap_or_default().to_owned();
    assert!(row("configmaps ").ends_with("[get list]") && row("pods ").ends_with("[get list]"), "{listed}");
    assert!(row("roles.rbac.authorization.k8s.io ").ends_with("[create]"), "{listed}");
    assert!(listed.out.contains("[/healthz]") && row("selfsubjectreviews.").ends_with("[create]"), "{listed}");

    let refused = alice(&["get", "secrets", "-n", "team"]);
    assert_eq!(
        refused.err.trim(),
        "Error from server (Forbidden): secrets is forbidden: User \"alice\" cannot list resource \"secrets\" in API group \
         \"\" in the namespace \"team\""
    );
    let more = alice(&["create", "role", "more", "-n", "team", "--verb=get,delete", "--resource=pods"]);
    assert!(
        more.err.contains(
            "user \"alice\" (groups=[\"team\" \"system:authenticated\"]) is attempting to grant RBAC permissions not \
             currently held:\n{APIGroups:[\"\"], Resources:[\"pods\"], Verbs:[\"delete\"]}"
        ),
        "{more}"
    );
    let same = alice(&["create", "role", "same", "-n", "team", "--verb=get", "--resource=pods"]);
    assert!(same.success, "{same}");
    assert!(kubectl.ok(&["auth", "can-i", "--list"]).contains("*.*"));
}

/// The authorized path is the served path: no other spelling reaches objects that a user may not read.
#[tokio::test(flavor = "multi_thread")]
async fn authorizes_the_path_that_is_served() {
    let rig = Rig::start(TempDir::new(), &[]);
    rig.make_namespace("team").await;
    let secret = json!({"metadata": {"name": "s"}, "stringData": {"k": "hidden"}});
    rig.make("/api/v1/namespaces/team/secrets", secret).await;
    rig.make(&format!("{RBAC}/namespaces/team/roles"), role("pods", &["*"], &["pods", "pods/*"])).await;
    rig.make(&format!("{RBAC}/namespaces/team/rolebindings"), binding("pods", "pods", "User", "alice")).await;
    let pods = "/api/v1/namespaces/team/pods";
    until("the binding counts", async || rig.code("alice", "GET", pods).await == 200).await;
    assert_eq!(rig.code("root", "GET", "/api/v1/namespaces/team/secrets/s").await, 200);
    for path in [
        "/api/v1/namespaces/team/secrets/s",
        "/api/v1/namespaces/team/pods/../secrets/s",
        "/api/v1/namespaces/team/pods/%2e%2e/secrets/s",
        "/api/v1/namespaces/team/pods%2f..%2fsecrets/s",
        "/api/v1/namespaces/team/pods/..%2fsecrets%2fs",
        "/api/v1/namespaces/team//secrets/s",
        "//api/v1/namespaces/team/secrets/s",
        "/api//v1/namespaces/team/secrets/s",
        "/api/v1/namespaces/team/secrets/s/",
        "/api/v1/namespaces/team/secrets//s",
        "/api/v1/namespaces/team/secrets/s.",
        "/api/v1/namespaces/team/secrets/./s",
        "/api/v1/namespaces/team/%73ecrets/s",
        "/api/v1/namespaces/team/SECRETS/s",
        "/api/v1/namespaces/team/secrets;x=y/s",
        "/api/v1/namespaces/team/secrets/s?watch=pods",
        "/api/v1/namespaces/team/secrets%00/s",
        "/api/v1/watch/namespaces/team/secrets/s",
        "/api/v1/proxy/namespaces/team/secrets/s",
        "/api/v1/namespaces/team/../../../v1/namespaces/team/secrets/s",
        "/api/v1/secrets?fieldSelector=metadata.name%3Ds",
        "/healthz/../api/v1/namespaces/team/secrets/s",
        "/healthz%2f..%2fapi/v1/namespaces/team/secrets/s",
    ] {
        for token in ["alice", "bob", ""] {
            let answer = rig.send(token, "GET", path, &Value::Null).await;
            assert!(
                answer.status != 200 && !answer.body.contains("aGlkZGVu"),
                "{token} {path}: {} {}",
                answer.status,
                answer.body
            );
        }
    }
}

/// Unknown paths result in 404 even for administrators, and invalid names and keys are reported.
#[tokio::test(flavor = "multi_thread")]
async fn answers_unknown_paths_with_404() {
    let rig = Rig::start(TempDir::new(), &[]);
    for (path, code, said) in [
        ("//api/v1/pods", 404, "404 page not found"),
        ("/apis//apps/v1/deployments", 404, "404 page not found"),
        ("/apis//", 404, "404 page not found"),
        ("/api/v1/proxy/namespaces/default", 404, "the server could not find the requested resource"),
        ("/api/v1/namespaces/default/configmaps/..", 400, "Name parameter invalid: \\\"..\\\": may not be '..'"),
        ("/api/v1/namespaces/default/configmaps/%2e", 400, "Name parameter invalid: \\\".\\\": may not be '.'"),
        ("/api/v1/namespaces/%2e%2e/pods", 500, "invalid key: \\\"/pods/..\\\""),
        ("/api/v1/namespaces/./configmaps/x", 500, "invalid key: \\\"/configmaps/./x\\\""),
        ("/api/v1//", 200, "APIResourceList"),
        ("/apis/apps//", 200, "APIGroup"),
    ] {
        let answer = rig.send("root", "GET", path, &Value::Null).await;
        assert!(answer.status == code && answer.body.contains(said), "{path}: {} {}", answer.status, answer.body);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nodes_read_only_objects_of_their_pods() {
    let rig = Rig::start(TempDir::new(), &[]);
    rig.make_namespace("team").await;
    for name in ["mine", "other"] {
        rig.make("/api/v1/namespaces/team/secrets", json!({"metadata": {"name": name}})).await;
    }
    rig.make("/api/v1/namespaces/team/serviceaccounts", json!({"metadata": {"name": "default"}})).await;
    let volume = json!([{"name": "v", "secret": {"secretName": "mine"}}]);
    let containers = json!([{"name": "c", "image": "registry.test/app:1"}]);
    let pod =
        json!({"metadata": {"name": "p"}, "spec": {"nodeName": "n1", "containers": containers, "volumes": volume}});
    let secret = |name: &str| format!("/api/v1/namespaces/team/secrets/{name}");
    // The first request of a node is decided from the existing objects, later ones also from events.
    assert_eq!(rig.code("node", "GET", &secret("mine")).await, 403);
    rig.make("/api/v1/namespaces/team/pods", pod).await;
    until("the pod counts", async || rig.code("node", "GET", &secret("mine")).await == 200).await;
    for (token, method, path, code) in [
        ("node", "GET", secret("other"), 403),
        ("node", "GET", "/api/v1/namespaces/team/secrets".to_owned(), 403),
        ("node", "GET", "/api/v1/namespaces/team/secrets?fieldSelector=metadata.name%3Dmine".to_owned(), 200),
        ("node", "DELETE", secret("mine"), 403),
        ("node", "GET", "/api/v1/pods?fieldSelector=spec.nodeName%3Dn1".to_owned(), 200),
        ("node", "GET", "/api/v1/pods".to_owned(), 403),
        ("node", "GET", "/api/v1/services".to_owned(), 200),
        ("other", "GET", secret("mine"), 403),
        ("other", "GET", "/api/v1/namespaces/team/pods/p".to_owned(), 403),
    ] {
        assert_eq!(rig.code(token, method, &path).await, code, "{token} {method} {path}");
    }
    let refused = rig.send("other", "GET", &secret("mine"), &Value::Null).await;
    let refused: Value = serde_json::from_str(&refused.body).unwrap();
    assert_eq!(
        refused["message"],
        "secrets \"mine\" is forbidden: User \"system:node:n2\" cannot get resource \"secrets\" in API group \"\" in the \
         namespace \"team\": no relationship found between node 'n2' and this object"
    );
    rig.send("root", "DELETE", "/api/v1/namespaces/team/pods/p?gracePeriodSeconds=0", &Value::Null).await;
    until("the pod is gone", async || rig.code("node", "GET", &secret("mine")).await == 403).await;
}

/// Starts a webhook that allows one user.
async fn hook(user: &'static str, calls: Arc<AtomicU32>) -> Hook {
    Hook::start(move |request: Request<Vec<u8>>| {
        calls.fetch_add(1, Ordering::Relaxed);
        let review: Value = serde_json::from_slice(request.body()).unwrap();
        let allowed = review["spec"]["user"] == user;
        let answer = json!({"status": {"allowed": allowed, "reason": format!("only {user}")}});
        async move { Response::new(answer.to_string().into_bytes()) }
    })
    .await
}

#[tokio::test(flavor = "multi_thread")]
async fn reloads_the_authorization_configuration() {
    let files = TempDir::new();
    let asked = Arc::new(AtomicU32::new(0));
    let (first, second) = (hook("alice", asked.clone()).await, hook("bob", Arc::default()).await);
    let config = |hook: &Hook, name: &str, rest: &str| {
        let kubeconfig = files.join(&format!("{name}.kubeconfig"));
        std::fs::write(&kubeconfig, hook.kubeconfig("/", "t")).unwrap();
        format!(
            "apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers:\n\
             - type: Webhook\n  name: {name}\n  webhook:\n    timeout: 3s\n    subjectAccessReviewVersion: v1\n    \
             failurePolicy: NoOpinion\n    connectionInfo: {{type: KubeConfigFile, kubeConfigFile: '{kubeconfig}'}}\n    \
             matchConditionSubjectAccessReviewVersion: v1\n    matchConditions:\n    \
             - expression: has(request.resourceAttributes) && !('system:nodes' in request.groups)\n\
             - {{type: Node, name: node}}\n{rest}"
        )
    };
    let path = files.join("authorization.yaml");
    let write = |text: String| {
        // Replaces the file, as the kubelet does with mounted config maps.
        std::fs::write(format!("{path}.new"), text).unwrap();
        std::fs::rename(format!("{path}.new"), &path).unwrap();
    };
    let rbac = "- {type: RBAC, name: rbac}\n";
    write(config(&first, "first", rbac));
    let text_of = |hook: &Hook, name: &str| config(hook, name, rbac);
    let (second_text, broken) = (text_of(&second, "second"), config(&second, "second", ""));
    let argument = format!("--authorization-config={path}");
    let rig = Rig::start(TempDir::new(), &[argument]);
    let may = async |token: &str| rig.code(token, "GET", "/api/v1/nodes").await == 200;
    assert!(may("alice").await && !may("bob").await && may("root").await);
    let refused = rig.send("bob", "GET", "/api/v1/nodes", &Value::Null).await;
    assert!(refused.body.contains("at the cluster scope: only alice"), "{}", refused.body);
    // Requests that do not meet the match conditions are not sent to the webhook.
    let before = asked.load(Ordering::Relaxed);
    assert_eq!(rig.code("bob", "GET", "/version").await, 200);
    assert_eq!(rig.code("node", "GET", "/api/v1/nodes/n1").await, 404);
    assert_eq!(asked.load(Ordering::Relaxed), before);
    // Without RBAC the file is invalid, and the previous configuration stays in force.
    write(broken);
    let metrics = async || rig.send("root", "GET", "/metrics", &Value::Null).await.body;
    let counted = async |status: &str| {
        let start = "apiserver_authorization_config_controller_automatic_reloads_total{";
        let metrics = metrics().await;
        metrics.lines().any(|line| line.starts_with(start) && line.contains(status))
    };
    until("the bad file is noticed", async || counted("status=\"failure\"").await).await;
    assert!(may("alice").await && !may("bob").await);
    write(second_text);
    until("the new file is in force", async || may("bob").await).await;
    assert!(!may("alice").await && counted("status=\"success\"").await);
    let metrics = metrics().await;
    assert!(
        metrics
            .contains("apiserver_authorization_decisions_total{decision=\"allowed\",name=\"second\",type=\"Webhook\"}")
    );
    assert!(metrics.contains("apiserver_authorization_webhook_evaluations_total{name=\"first\",result=\"success\"}"));
}

#[tokio::test(flavor = "multi_thread")]
async fn configures_webhook_and_abac_by_flags() {
    let files = TempDir::new();
    let calls = Arc::new(AtomicU32::new(0));
    let hook = hook("bob", calls.clone()).await;
    std::fs::write(files.path().join("hook"), hook.kubeconfig("/", "t")).unwrap();
    let policy = r#"{"apiVersion":"abac.authorization.kubernetes.io/v1beta1","kind":"Policy","spec":{"group":"team","namespace":"*","resource":"nodes","readonly":true}}"#;
    std::fs::write(files.path().join("policy"), policy).unwrap();
    let arguments = [
        "--authorization-mode=ABAC,Webhook".to_owned(),
        format!("--authorization-policy-file={}", files.join("policy")),
        format!("--authorization-webhook-config-file={}", files.join("hook")),
        "--authorization-webhook-version=v1".to_owned(),
        "--authorization-always-allow-paths=/livez,/readyz*".to_owned(),
    ];
    let rig = Rig::start(files, &arguments);
    for (token, method, path, code) in [
        ("alice", "GET", "/api/v1/nodes", 200),
        ("alice", "DELETE", "/api/v1/nodes", 403),
        ("alice", "GET", "/api/v1/pods", 403),
        ("bob", "GET", "/api/v1/pods", 200),
        ("bob", "GET", "/api/v1/pods", 200),
        ("root", "GET", "/api/v1/pods", 200),
        ("", "GET", "/livez", 200),
        ("", "GET", "/readyz/ping", 200),
        ("", "GET", "/version", 403),
        ("alice", "GET", "/apis", 403),
    ] {
        assert_eq!(rig.code(token, method, path).await, code, "{token} {method} {path}");
    }
    // No webhook is called for requests that ABAC allows or for public paths, and no decision is requested twice.
    assert_eq!(calls.load(Ordering::Relaxed), 5);
    let refused = rig.send("alice", "GET", "/api/v1/pods", &Value::Null).await;
    assert!(refused.body.contains("at the cluster scope: No policy matched.\\nonly bob"), "{}", refused.body);
}

/// Requests that wait for a webhook's decision do not occupy the seats of their priority level.
#[tokio::test(flavor = "multi_thread")]
async fn hanging_webhook_does_not_delay_other_users() {
    let files = TempDir::new();
    let hook = Hook::start(|_: Request<Vec<u8>>| std::future::pending::<Response<Vec<u8>>>()).await;
    std::fs::write(files.path().join("hook"), hook.kubeconfig("/", "t")).unwrap();
    let arguments = [
        "--authorization-mode=RBAC,Webhook".to_owned(),
        format!("--authorization-webhook-config-file={}", files.join("hook")),
        "--authorization-webhook-version=v1".to_owned(),
        "--max-requests-inflight=2".to_owned(),
        "--max-mutating-requests-inflight=1".to_owned(),
    ];
    let rig = Rig::start(files, &arguments);
    let rules = json!([{"verbs": ["list"], "apiGroups": [""], "resources": ["nodes"]}]);
    rig.make(&format!("{RBAC}/clusterroles"), json!({"metadata": {"name": "reader"}, "rules": rules})).await;
    let group = "rbac.authorization.k8s.io";
    let binding = json!({
        "metadata": {"name": "reader"},
        "roleRef": {"apiGroup": group, "kind": "ClusterRole", "name": "reader"},
        "subjects": [{"apiGroup": group, "kind": "User", "name": "bob"}]});
    rig.make(&format!("{RBAC}/clusterrolebindings"), binding).await;

    let waiting = (0..20).map(|number| {
        let path = format!("/api/v1/namespaces/n{number}/secrets");
        let rig = &rig;
        async move { rig.code("alice", "GET", &path).await }
    });
    let mut waiting = std::pin::pin!(futures::future::join_all(waiting));
    // Far less than the webhook's time-out, after which the requests of alice end.
    let answered = async {
        tokio::time::sleep(Duration::from_millis(500)).await;
        for _ in 0..10 {
            assert_eq!(rig.code("bob", "GET", "/api/v1/nodes").await, 200);
        }
    };
    tokio::select! {
        codes = &mut waiting => panic!("the webhook did not hang: {codes:?}"),
        answered = tokio::time::timeout(Duration::from_secs(20), answered) => answered.expect("bob waits for alice"),
    }
}
