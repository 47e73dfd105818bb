//! Admission plugins, configured by flags and by a configuration file.

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
async fn configures_plugins_by_flags_and_file() {
    let files = TempDir::new();
    let file = files.file("admission.yaml", SETTINGS);
    let selectors = "podNodeSelectorPluginConfig:\n  clusterDefaultNodeSelector: pool=common\n";
    std::fs::write(files.join("selectors.yaml"), selectors).unwrap();
    let policy = "apiVersion: audit.k8s.io/v1\nkind: Policy\nomitStages: [RequestReceived]\nrules: [{level: Metadata}]";
    let (policy, log) = (files.file("policy.yaml", policy), files.join("audit.log"));
    let server = Server::start(&[
        "--ephemeral",
        &format!("--audit-policy-file={policy}"),
        &format!("--audit-log-path={log}"),
        "--audit-log-mode=blocking",
        "--enable-admission-plugins=AlwaysPullImages,EventRateLimit,PodNodeSelector,DenyServiceExternalIPs",
        "--disable-admission-plugins=ServiceAccount,DefaultTolerationSeconds",
        &format!("--admission-control-config-file={file}"),
    ]);
    create(&server, "/api/v1/namespaces", &json!({"metadata": {"name": "trusted"}})).await;

    // Without ServiceAccount no account is required; without DefaultTolerationSeconds no tolerations are added.
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
            assert_eq!(answer["message"], "Too many requests: limit reached on type Namespace for key default");
            limited += 1;
        } else {
            assert_eq!(code, 201, "{answer}");
        }
    }
    assert!(limited > 0, "six events at once were not too many");

    // Audit events contain the rules that admitted pods, and metrics count them.
    let text = std::fs::read_to_string(log).unwrap();
    let events = text.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let of_pods = events.filter(|event| event["objectRef"]["resource"] == "pods");
    let told = of_pods.map(|event| {
        let annotation = |name: &str| event["annotations"][format!("pod-security.kubernetes.io/{name}")].clone();
        (event["responseStatus"]["code"].clone(), annotation("enforce-policy"), annotation("exempt"))
    });
    let baseline = json!("baseline:latest");
    let want = [
        (json!(201), baseline.clone(), Value::Null),
        (json!(403), baseline, Value::Null),
        (json!(201), Value::Null, json!("namespace")),
    ];
    assert_eq!(told.collect::<Vec<_>>(), want);
    let metrics = server.client().await.get("/metrics").await.unwrap().body;
    let counted = |line: &str| assert!(metrics.lines().any(|found| found == line), "{line} is not in {metrics}");
    counted("pod_security_exemptions_total{request_operation=\"create\",resource=\"pod\",subresource=\"\"} 1");
    let labels = "name=\"PodSecurity\",operation=\"CREATE\",rejected=\"true\",type=\"validate\"";
    counted(&format!("apiserver_admission_controller_admission_duration_seconds_count{{{labels}}} 1"));
    let labels = "operation=\"CREATE\",rejected=\"true\",type=\"validate\"";
    // The pod, the service, and the events above the limit.
    let refused = limited + 2;
    counted(&format!("apiserver_admission_step_admission_duration_seconds_summary_count{{{labels}}} {refused}"));
}
