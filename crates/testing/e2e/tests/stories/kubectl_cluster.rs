//! Explores a cluster with kubectl: its resources and the descriptions of their fields.

use binnacle_testkit::{Kubectl, Server};

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_lists_served_resources() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let version = kubectl.json(&["version"]);
    assert_eq!((&version["serverVersion"]["major"], &version["serverVersion"]["minor"]), (&"1".into(), &"36".into()));

    let versions = kubectl.ok(&["api-versions"]);
    for version in ["v1", "apps/v1", "batch/v1", "networking.k8s.io/v1", "autoscaling/v2", "events.k8s.io/v1"] {
        assert!(versions.lines().any(|line| line == version), "{version}: {versions}");
    }
    let resources = crate::manifests::squeezed(&kubectl.ok(&["api-resources"]));
    for line in [
        "configmaps cm v1 true ConfigMap",
        "deployments deploy apps/v1 true Deployment",
        "cronjobs cj batch/v1 true CronJob",
        "namespaces ns v1 false Namespace",
        "ingresses ing networking.k8s.io/v1 true Ingress",
        "leases coordination.k8s.io/v1 true Lease",
    ] {
        assert!(resources.lines().any(|found| found == line), "{line}: {resources}");
    }
    let names = kubectl.ok(&["api-resources", "--namespaced=false", "--verbs=list,create", "--output=name"]);
    assert!(names.lines().any(|name| name == "clusterroles.rbac.authorization.k8s.io"), "{names}");
    assert!(!names.lines().any(|name| name == "pods"), "{names}");
    let apps = kubectl.ok(&["api-resources", "--api-group=apps", "--output=name", "--sort-by=name"]);
    assert_eq!(
        apps,
        "controllerrevisions.apps\ndaemonsets.apps\ndeployments.apps\nreplicasets.apps\nstatefulsets.apps\n"
    );

    assert_eq!(kubectl.ok(&["get", "--raw", "/readyz"]), "ok");
    let unknown = kubectl.fails(&["get", "nonsense"]);
    assert!(unknown.contains("the server doesn't have a resource type \"nonsense\""), "{unknown}");
}

/// Every listable resource is listed, in every namespace and every output format.
#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_lists_every_resource_in_every_format() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    let names = kubectl.ok(&["api-resources", "--verbs=list", "--output=name"]);
    let names: Vec<&str> = names.lines().collect();
    assert!(names.len() > 50, "{names:?}");
    // One command for all: the error contains the resource that fails.
    for form in ["name", "wide", "json"] {
        kubectl.ok(&["get", "-A", &names.join(","), "--ignore-not-found", "--output", form]);
    }
    let namespaces = kubectl.ok(&["get", "namespaces", "--output=name"]);
    assert_eq!(
        namespaces.lines().collect::<Vec<_>>(),
        ["namespace/default", "namespace/kube-node-lease", "namespace/kube-public", "namespace/kube-system"]
    );
}

#[test]
#[cfg_attr(not(has_kubectl), ignore = "needs kubectl")]
fn kubectl_explains_fields() {
    let server = Server::ephemeral();
    let kubectl = Kubectl::new(&server);
    for (field, kind, part) in [
        ("deployment", "Deployment", "Specification of the desired behavior of the Deployment"),
        ("deployment.spec.strategy.rollingUpdate.maxSurge", "Deployment", "maximum number of pods"),
        ("pods.spec.containers.livenessProbe.httpGet", "Pod", "HTTPGet"),
        ("cronjob.spec.schedule", "CronJob", "Cron format"),
    ] {
        let text = kubectl.ok(&["explain", field]);
        assert!(text.contains(kind), "{field}: {text}");
        assert!(crate::manifests::squeezed(&text).replace('\n', " ").contains(part), "{field}: {text}");
    }
    let tree = kubectl.ok(&["explain", "ingress.spec", "--recursive"]);
    assert!(tree.contains("defaultBackend") && tree.contains("resource"), "{tree}");
    let unknown = kubectl.fails(&["explain", "pod.spec.nothing"]);
    assert!(unknown.contains("field \"nothing\" does not exist"), "{unknown}");
}
