//! Counters and audit annotations of PodSecurity, by namespace, configuration, user and object.

use binnacle_features::Version;
use binnacle_registry::{RequestNotes, Warnings};
use binnacle_request::{AuditLevel, Record};
use binnacle_schema::value;

use super::*;
use crate::testing::{FixedLookup, attributes, pods};

struct Outcome {
    refused: Option<String>,
    annotations: Vec<String>,
    warnings: Vec<String>,
    counted: Vec<String>,
}

fn settings() -> PodSecuritySettings {
    PodSecuritySettings::read(&value!({
        "exemptions": {"namespaces": ["free"], "usernames": ["root"], "runtimeClasses": ["kata"]}
    }))
    .expect("they are valid")
}

async fn validate(labels: Value, attributes: Attributes, object: &Value, old: Option<&Value>) -> Outcome {
    let namespace = value!({"metadata": {"name": "ns", "namespace": "", "labels": labels}});
    let metrics = PodSecurityMetrics::fresh();
    let plugin = PodSecurity::new(
        FixedLookup::new(vec![(LookupKind::Namespace, namespace)]),
        settings(),
        Version::BINARY,
        metrics.clone(),
    );
    assert!(plugin.handles(Stage::Validate, &attributes));
    let record = Record::open(http::Method::POST, "/".into(), None, None);
    record.begin_audit().decide(AuditLevel::Metadata, false);
    let warnings = Warnings::default();
    let notes = RequestNotes::new(warnings.clone(), record.clone());
    let verdict = plugin.validate(Request::new(&attributes, old, &notes), &object.clone().into()).await;
    let annotations = record.begin_audit().noted().annotations;
    let shown = annotations.iter().map(|(key, value)| {
        let key = key.strip_prefix("pod-security.kubernetes.io/").expect("the plugin's own prefix");
        format!("{key}={value}")
    });
    Outcome {
        refused: verdict.err().map(|status| status.message().to_owned()),
        annotations: shown.collect(),
        warnings: warnings.take(),
        counted: metrics.counted(),
    }
}

fn label(mode: &str, level: &str) -> Value {
    let mut labels = Value::Null;
    labels.make_object().insert(format!("pod-security.kubernetes.io/{mode}"), level);
    labels
}

fn pod(spec: Value) -> Value {
    value!({"metadata": {"name": "x"}, "spec": spec})
}

const HOST_NETWORK: &str = "PodSecurity \"baseline:latest\": host namespaces (hostNetwork=true)";
const UNREADABLE: &str = "error=Failed to parse policy: metadata.labels[pod-security.kubernetes.io/warn]: Invalid value: \"high\": must be one of privileged, baseline, restricted";

#[tokio::test]
async fn annotates_and_counts_evaluations_of_pods() {
    let host = || pod(value!({"hostNetwork": true}));
    let create = || pods(Operation::Create);
    let as_root = || Attributes { user: binnacle_request::User::new("root", &[]), ..create() };
    let in_free = || Attributes { namespace: "free".into(), ..create() };
    let violations = format!("audit-violations=would violate {HOST_NETWORK}");
    let plain = "evaluations: allow enforce privileged latest create pod";
    let exempted = "exemptions: create pod";
    for (name, labels, attributes, object, annotations, counted) in [
        ("privileged", value!({}), create(), host(), &["enforce-policy=privileged:latest"][..], &[plain][..]),
        (
            "allowed",
            label("enforce", "baseline"),
            create(),
            pod(value!({})),
            &["enforce-policy=baseline:latest"],
            &["evaluations: allow enforce baseline latest create pod"],
        ),
        (
            "audited",
            label("audit", "baseline"),
            create(),
            host(),
            &[violations.as_str(), "enforce-policy=privileged:latest"],
            &[plain, "evaluations: deny audit baseline latest create pod"],
        ),
        (
            "unreadable",
            label("warn", "high"),
            create(),
            host(),
            &["enforce-policy=privileged:latest", UNREADABLE],
            &["errors: false create pod", plain],
        ),
        ("user", label("enforce", "baseline"), as_root(), host(), &["exempt=user"], &[exempted]),
        ("namespace", label("enforce", "baseline"), in_free(), host(), &["exempt=namespace"], &[exempted]),
        (
            "class",
            label("enforce", "baseline"),
            create(),
            pod(value!({"hostNetwork": true, "runtimeClassName": "kata"})),
            &["exempt=runtimeClass"],
            &[exempted],
        ),
    ] {
        let outcome = validate(labels, attributes, &object, None).await;
        assert_eq!(outcome.refused, None, "{name}");
        assert_eq!(outcome.annotations, annotations, "{name}");
        assert_eq!(outcome.counted, counted, "{name}");
        assert!(outcome.warnings.is_empty(), "{name}");
    }
}

#[tokio::test]
async fn refuses_and_warns_with_annotations_and_counters() {
    let host = pod(value!({"hostNetwork": true}));
    let outcome = validate(label("enforce", "baseline"), pods(Operation::Create), &host, None).await;
    assert_eq!(outcome.refused, Some(format!("pods \"x\" is forbidden: violates {HOST_NETWORK}")));
    assert_eq!(outcome.annotations, ["enforce-policy=baseline:latest"]);
    assert_eq!(outcome.counted, ["evaluations: deny enforce baseline latest create pod"]);
    assert!(outcome.warnings.is_empty(), "a refusal is not announced as well");

    // No significant field has changed.
    let outcome = validate(label("enforce", "baseline"), pods(Operation::Update), &host, Some(&host)).await;
    assert!(outcome.refused.is_none() && outcome.annotations.is_empty() && outcome.counted.is_empty());

    let deployment = value!({"spec": {"template": {"spec": {"hostNetwork": true}}}});
    let deployments = || attributes(Operation::Create, ["apps", "v1", "deployments"], "Deployment", "");
    let outcome = validate(label("warn", "baseline"), deployments(), &deployment, None).await;
    assert_eq!(outcome.warnings, [format!("would violate {HOST_NETWORK}")]);
    assert_eq!(outcome.counted, ["evaluations: deny warn baseline latest create controller"]);

    // If the namespace does not exist, pods are rejected; for templates the error is only recorded.
    let missing = |attributes: Attributes| Attributes { namespace: "gone".into(), ..attributes };
    let outcome = validate(value!({}), missing(pods(Operation::Create)), &host, None).await;
    let refusal = "Internal error occurred: failed to lookup namespace \"gone\"";
    assert_eq!(outcome.refused.as_deref(), Some(refusal));
    assert_eq!(outcome.annotations, [format!("error={refusal}: namespaces \"gone\" not found")]);
    assert_eq!(outcome.counted, ["errors: true create pod"]);
    let outcome = validate(value!({}), missing(deployments()), &deployment, None).await;
    let annotation = "error=failed to lookup namespace \"gone\": namespaces \"gone\" not found";
    assert!(outcome.refused.is_none());
    assert_eq!(outcome.annotations, [annotation]);
}
