//! Admission plugins as an operator sets them: by flags and by the file that tells them more.

use binnacle_testkit::{Server, TempDir};
use serde_json::{Value, json};

const PODS: &str = "/api/v1/namespaces/default/pods";
const SETTINGS: &str = "
apiVersion: apiserver.config.k8s.io/v1
kind: AdmissionConfiguration
plugins:
- name: PodSecurity
  configuration:
    apiVersion: pod-security.admission.config.k8s.io/v1
    kind: PodSecurityConfiguration
    defaults: {enforce: baseline}
    exemptions: {namespaces: [trusted]}
- name: EventRateLimit
  configuration:
    apiVersion: eventratelimit.admission.k8s.io/v1alpha1
    kind: Configuration
    limits: [{type: Namespace, qps: 1, burst: 2}]
- name: PodNodeSelector
  path: selectors.yaml
";

async fn create(server: &Server, path: &str, object: &Value) -> (u16, Value) {
    let headers = [("content-type", "application/json")];
    let answer = server.client().await.send("POST", path, &headers, object.to_string()).await.unwrap();
    (answer.status, serde_json::from_str(&answer.body).unwrap())
}

fn pod(name: &str, host_network: bool) -> Value {
    json!({
        "metadata": {"name": name},
        "spec": {
            "hostNetwork": host_network, "automountServiceAccountToken": false,
            "containers": [{"name": "c", "image": "registry.test/app:1", "imagePullPolicy": "Never"}],
        },
    })
}

#[tokio::test(flavor = "multi_thread")]
async fn flags_and_file() {
    let files = TempDir::new();
    let file = files.file("admission.yaml", SETTINGS);
    let selectors = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: pool=common\n";
    std::fs::write(files.join("selectors.yaml"), selectors).unwrap();
    let server = Server::start(&[
        "--ephemeral",
        "--enable-admission-plugins=AlwaysPullImages,EventRateLimit,PodNodeSelector,DenyServiceExternalIPs",
        "--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds",
        &format!("--admission-control-config-file={file}"),
    ]);
    create(&server, "/api/v1/namespaces", &json!({"metadata": {"name": "trusted"}})).await;

    // Without ServiceAccount no account need be there; without DefaultTolerationSeconds nothing is tolerated.
    let (code, made) = create(&server, PODS, &pod("plain", false)).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["spec"]["containers"][0]["imagePullPolicy"], "Always");
    assert_eq!(
        (&made["spec"]["nodeSelector"], &made["spec"]["tolerations"]),
        (&json!({"pool": "common"}), &Value::Null)
    );
    let (code, refused) = create(&server, PODS, &pod("host", true)).await;
    assert_eq!(code, 403, "{refused}");
    assert!(refused["message"].as_str().unwrap().contains("violates PodSecurity \"baseline:latest\": host namespaces"));
    let (code, made) = create(&server, &PODS.replace("default", "trusted"), &pod("host", true)).await;
    assert_eq!(code, 201, "{made}");

    let service = json!({"metadata": {"name": "s"}, "spec": {"ports": [{"port": 80}], "externalIPs": ["192.0.2.1"]}});
    let (code, refused) = create(&server, "/api/v1/namespaces/default/services", &service).await;
    let why = "services \"s\" is forbidden: Use of external IPs is denied by admission control";
    assert_eq!((code, &refused["message"]), (403, &json!(why)));

    let mut limited = 0;
    for n in 0..6 {
        let event = json!({
            "metadata": {"name": format!("e{n}")}, "involvedObject": {"namespace": "default"}, "reason": "R"
        });
        let (code, answer) = create(&server, "/api/v1/namespaces/default/events", &event).await;
        if code == 429 {
            assert_eq!(answer["message"], "limit reached on type Namespace for key default");
            limited += 1;
        } else {
            assert_eq!(code, 201, "{answer}");
        }
    }
    assert!(limited > 0, "six events at once were not too many");
}
