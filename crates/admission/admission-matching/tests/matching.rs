//! Matching of requests with the criteria of webhooks and policies, with the built-in resources.

use std::sync::Arc;

use binnacle_admission::{Freshness, Labels, Lookup, LookupKind, Mapping, NamespaceState};
use binnacle_admission_matching::{Criteria, Index, Subject};
use binnacle_builtin::Releases;
use binnacle_fields::FieldRef;
use binnacle_meta::{GroupVersionKind, GroupVersionResource, Status};
use binnacle_registry::Catalog;
use binnacle_registry::admission::{Attributes, Operation, OperationOptions};
use binnacle_request::{BoxFuture, User};
use binnacle_schema::{Value, value};

/// A lookup with one namespace, `a`, which has the label `team: x`.
struct OneNamespace;

impl Lookup for OneNamespace {
    fn namespace<'a>(&'a self, _: &'a str, _: Freshness) -> BoxFuture<'a, Result<NamespaceState, Status>> {
        Box::pin(async { Ok(NamespaceState::Active) })
    }

    fn get<'a>(
        &'a self,
        _: LookupKind,
        _: &'a str,
        _: &'a str,
        _: Freshness,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async { Ok(None) })
    }

    fn labels<'a>(
        &'a self,
        _: LookupKind,
        _: &'a str,
        name: &'a str,
        _: Freshness,
    ) -> BoxFuture<'a, Result<Option<Labels>, Status>> {
        Box::pin(async move { Ok((name == "a").then(|| vec![("team".into(), "x".into())])) })
    }

    fn list<'a>(&'a self, _: LookupKind, _: &'a str, _: Freshness) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>> {
        Box::pin(async { Ok(Vec::new()) })
    }

    fn charge<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    fn create_namespace<'a>(&'a self, _: &'a str) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    fn is_known(&self, _: &str, _: &str, _: &str) -> bool {
        false
    }

    fn mapping(&self, _: &str, _: &str, _: &str) -> Option<Mapping> {
        None
    }
}

/// Returns attributes; `resource` is `group/version/plural/subresource`.
fn attributes(operation: Operation, resource: &str, kind: &str, namespace: &str, name: &str) -> Attributes {
    let mut parts = resource.split('/');
    let mut part = || parts.next().unwrap_or_default();
    let (group, version, plural, subresource) = (part(), part(), part(), part());
    Attributes {
        operation,
        kind: GroupVersionKind::new(group, version, kind),
        resource: GroupVersionResource::new(group, version, plural),
        subresource: subresource.into(),
        namespace: namespace.into(),
        name: name.into(),
        user: User::default(),
        dry_run: false,
        options: OperationOptions::None,
        deadline: None,
        by_server: false,
    }
}

fn catalog() -> Catalog {
    let catalog = Catalog::new(binnacle_builtin::kinds(), Arc::default());
    let served = binnacle_builtin::served(Releases::default(), |_, _| true);
    catalog.change(|snapshot| snapshot.serve(|empty| *empty = served));
    catalog
}

fn rule(groups: &str, versions: &str, resources: &str) -> Value {
    let list = |text: &str| Value::List(text.split(',').map(Value::from).collect());
    value!({
        "operations": ["CREATE", "UPDATE"],
        "apiGroups": (list(groups)), "apiVersions": (list(versions)), "resources": (list(resources)),
    })
}

/// Returns the resource and kind that a request matches as, or the status code of the error.
async fn matched(criteria: &Criteria, attributes: &Attributes, object: &Value, old: Option<&Value>) -> String {
    let catalog = catalog();
    let subject = Subject::new(attributes, &catalog, &OneNamespace);
    match criteria.matches(&subject, object, old).await {
        Ok(None) => "no".to_owned(),
        Ok(Some(found)) => {
            let (resource, kind) = (found.resource, found.kind);
            format!(
                "{}/{}/{} {}/{}",
                resource.group,
                resource.version,
                resource.resource,
                kind.api_version(),
                kind.kind
            )
        }
        Err(status) => status.code().to_string(),
    }
}

#[tokio::test]
async fn rules_match_by_operation_resource_and_scope() {
    let pods = |operation| attributes(operation, "/v1/pods", "Pod", "a", "p");
    let status = attributes(Operation::Update, "/v1/pods/status", "Pod", "a", "p");
    let node = attributes(Operation::Create, "/v1/nodes", "Node", "", "n");
    let namespace = attributes(Operation::Update, "/v1/namespaces", "Namespace", "a", "a");
    let with = |mut rule: Value, member: &str, value: &str| {
        rule.make_object().insert(member, value);
        rule
    };
    for (rule, request, want) in [
        (rule("", "v1", "pods"), pods(Operation::Create), true),
        (rule("", "v1", "pods"), pods(Operation::Delete), false),
        (rule("", "v1", "pods"), status.clone(), false),
        (rule("", "v1", "pods/status"), status.clone(), true),
        (rule("", "v1", "pods/*"), status.clone(), true),
        (rule("", "v1", "pods/*"), pods(Operation::Create), true),
        (rule("*", "*", "*"), status.clone(), false),
        (rule("*", "*", "*/*"), status.clone(), true),
        (rule("*", "*", "*/status"), status, true),
        (rule("apps", "v1", "*"), pods(Operation::Create), false),
        (rule("", "v2,v1", "nodes,pods"), pods(Operation::Update), true),
        (with(rule("*", "*", "*"), "scope", "Namespaced"), pods(Operation::Create), true),
        (with(rule("*", "*", "*"), "scope", "Cluster"), pods(Operation::Create), false),
        (with(rule("*", "*", "*"), "scope", "Cluster"), node.clone(), true),
        (with(rule("*", "*", "*"), "scope", "Namespaced"), node, false),
        (with(rule("*", "*", "*"), "scope", "Cluster"), namespace.clone(), true),
        (with(rule("*", "*", "*"), "scope", "Namespaced"), namespace.clone(), false),
        (with(rule("*", "*", "*"), "scope", "*"), namespace, true),
    ] {
        let webhook = value!({"rules": [(rule.clone())], "namespaceSelector": {}, "objectSelector": {}});
        let criteria = Criteria::of_webhook(FieldRef::root(&webhook));
        let found = matched(&criteria, &request, &value!({"metadata": {}}), None).await;
        assert_eq!(found != "no", want, "{rule:?} {request:?}");
        let indexed = Index::new([&criteria]).candidates(&request).len() == 1;
        assert!(indexed || !want, "{rule:?} {request:?}");
    }
}

#[tokio::test]
async fn matches_equivalent_resources() {
    let event = attributes(Operation::Create, "/v1/events", "Event", "a", "e");
    let scaled =
        attributes(Operation::Update, "autoscaling/v1/horizontalpodautoscalers", "HorizontalPodAutoscaler", "a", "h");
    let scaled_status = Attributes { subresource: "status".into(), ..scaled.clone() };
    let deployment = attributes(Operation::Update, "apps/v1/deployments", "Deployment", "a", "d");
    for (policy, rule, request, want) in [
        ("Exact", rule("events.k8s.io", "*", "*"), &event, "no"),
        ("Equivalent", rule("events.k8s.io", "*", "*"), &event, "events.k8s.io/v1/events events.k8s.io/v1/Event"),
        ("Equivalent", rule("*", "*", "*"), &event, "/v1/events v1/Event"),
        (
            "Equivalent",
            rule("autoscaling", "v2", "*"),
            &scaled,
            "autoscaling/v2/horizontalpodautoscalers autoscaling/v2/HorizontalPodAutoscaler",
        ),
        (
            "Equivalent",
            rule("autoscaling", "v2", "*/status"),
            &scaled_status,
            "autoscaling/v2/horizontalpodautoscalers autoscaling/v2/HorizontalPodAutoscaler",
        ),
        ("Equivalent", rule("autoscaling", "v2", "*/scale"), &scaled_status, "no"),
        ("Equivalent", rule("extensions", "v1beta1", "deployments"), &deployment, "no"),
    ] {
        let criteria =
            value!({"matchPolicy": policy, "rules": [(rule.clone())], "namespaceSelector": {}, "objectSelector": {}});
        let found =
            matched(&Criteria::of_webhook(FieldRef::root(&criteria)), request, &value!({"metadata": {}}), None).await;
        assert_eq!(found, want, "{policy} {rule:?}");
    }
}

#[tokio::test]
async fn selectors_match_labels_of_object_and_namespace() {
    let labelled = value!({"metadata": {"labels": {"app": "web"}}});
    let plain = value!({"metadata": {}});
    let equal = |key: &str, value: &str| {
        let mut labels = binnacle_schema::Object::new();
        labels.insert(key, value);
        value!({"matchLabels": (Value::Object(labels))})
    };
    let without = value!({"matchExpressions": [{"key": "app", "operator": "DoesNotExist"}]});
    let broken = value!({"matchExpressions": [{"key": "app", "operator": "Like"}]});
    let all = || value!({});
    let pod = attributes(Operation::Update, "/v1/pods", "Pod", "a", "p");
    let in_missing_namespace = Attributes { namespace: "gone".into(), ..pod.clone() };
    let node = attributes(Operation::Update, "/v1/nodes", "Node", "", "n");
    let namespace = attributes(Operation::Update, "/v1/namespaces", "Namespace", "a", "a");
    let connect = attributes(Operation::Connect, "/v1/pods/exec", "PodExecOptions", "a", "p");
    for (namespaces, objects, request, object, old, want) in [
        (all(), all(), &pod, &plain, None, true),
        (all(), equal("app", "web"), &pod, &plain, None, false),
        (all(), equal("app", "web"), &pod, &labelled, None, true),
        // The labels of either object may match.
        (all(), equal("app", "web"), &pod, &plain, Some(&labelled), true),
        (all(), without.clone(), &pod, &labelled, Some(&plain), true),
        (all(), without.clone(), &pod, &Value::Null, Some(&labelled), false),
        // Options have no labels.
        (all(), without, &connect, &value!({"kind": "PodExecOptions"}), None, false),
        (equal("team", "x"), all(), &pod, &plain, None, true),
        (equal("team", "y"), all(), &pod, &plain, None, false),
        (equal("team", "y"), all(), &node, &plain, None, true),
        // A namespace is matched by its new labels.
        (equal("app", "web"), all(), &namespace, &labelled, None, true),
        (equal("team", "x"), all(), &namespace, &labelled, None, false),
        (Value::Null, all(), &pod, &plain, None, false),
        (all(), Value::Null, &pod, &plain, None, false),
    ] {
        let webhook = value!({
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
            "namespaceSelector": (namespaces.clone()),
            "objectSelector": (objects.clone()),
        });
        let found = matched(&Criteria::of_webhook(FieldRef::root(&webhook)), request, object, old).await;
        assert_eq!(found != "no", want, "{namespaces:?} {objects:?} {object:?}");
    }
    for (namespaces, objects, request, want) in [
        (equal("team", "x"), all(), &in_missing_namespace, "404"),
        (broken.clone(), all(), &pod, "500"),
        (all(), broken.clone(), &pod, "500"),
        // Errors count only if everything else matches.
        (equal("team", "x"), equal("app", "db"), &in_missing_namespace, "no"),
        (broken, all(), &node, "/v1/nodes v1/Node"),
    ] {
        let webhook = value!({
            "rules": [{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}],
            "namespaceSelector": (namespaces.clone()),
            "objectSelector": (objects.clone()),
        });
        assert_eq!(
            matched(&Criteria::of_webhook(FieldRef::root(&webhook)), request, &labelled, None).await,
            want,
            "{namespaces:?}"
        );
    }
}

#[tokio::test]
async fn match_resources_obey_names_and_exclusions() {
    let pod = attributes(Operation::Create, "/v1/pods", "Pod", "a", "p");
    let named = |names: &[&str]| {
        let mut rule = rule("", "v1", "pods");
        rule.make_object().insert("resourceNames", Value::List(names.iter().map(|name| Value::from(*name)).collect()));
        rule
    };
    for (resources, want) in [
        // A binding without criteria matches everything.
        (value!({"namespaceSelector": {}, "objectSelector": {}}), true),
        (value!({"resourceRules": [(named(&["p"]))], "namespaceSelector": {}, "objectSelector": {}}), true),
        (value!({"resourceRules": [(named(&["q"]))], "namespaceSelector": {}, "objectSelector": {}}), false),
        (
            value!({
                "resourceRules": [(named(&[]))], "excludeResourceRules": [(named(&["p"]))],
                "namespaceSelector": {}, "objectSelector": {},
            }),
            false,
        ),
    ] {
        let found =
            matched(&Criteria::of_match_resources(FieldRef::root(&resources)), &pod, &value!({"metadata": {}}), None)
                .await;
        assert_eq!(found != "no", want, "{resources:?}");
    }
}

#[test]
fn index_finds_candidates_by_operation_and_plural() {
    let of = |resources: &str| Criteria::of_webhook(FieldRef::root(&value!({"rules": [(rule("", "v1", resources))]})));
    let criteria =
        [of("pods"), of("nodes,pods"), of("*"), of("nodes"), Criteria::of_webhook(FieldRef::root(&value!({})))];
    let index = Index::new(&criteria);
    for (operation, plural, want) in [
        (Operation::Create, "/v1/pods", &[0, 1, 2][..]),
        (Operation::Create, "/v1/nodes", &[1, 2, 3]),
        (Operation::Create, "/v1/secrets", &[2]),
        (Operation::Delete, "/v1/pods", &[]),
    ] {
        assert_eq!(index.candidates(&attributes(operation, plural, "Any", "a", "x")), want, "{operation:?} {plural}");
    }
}
