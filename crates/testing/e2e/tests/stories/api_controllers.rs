//! The controllers that run inside the server (`--run-controllers`): namespaces are emptied, dependents collected,
//! service accounts and the root certificate created. Most stories run on both engines.

use std::time::Duration;

use binnacle_testkit::{Etcd, Server, wait_until};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{ConfigMap, Event, Namespace, Pod, ResourceQuota, Secret, ServiceAccount};
use k8s_openapi::api::rbac::v1::ClusterRole;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::{Api, ApiResource, DeleteParams, DynamicObject, ListParams, Patch, PatchParams, PostParams};
use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

fn embedded(flags: &[&str]) -> Server {
    tokio::task::block_in_place(|| Server::durable_with(flags))
}

fn beside(etcd: &Etcd, flags: &[&str]) -> Server {
    let etcd = etcd.servers();
    let flags = [&[etcd.as_str()], flags].concat();
    tokio::task::block_in_place(|| Server::durable_with(&flags))
}

const ALL: &[&str] = &["--run-controllers=*"];

fn object<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).unwrap()
}

fn maps(client: &Client, namespace: &str) -> Api<ConfigMap> {
    Api::namespaced(client.clone(), namespace)
}

async fn create(maps: &Api<ConfigMap>, name: &str, owners: Value) -> ConfigMap {
    let map = object(json!({"metadata": {"name": name, "ownerReferences": owners}}));
    maps.create(&PostParams::default(), &map).await.unwrap()
}

fn owner(map: &ConfigMap) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "name": map.name_any(), "uid": map.uid().unwrap(),
        "blockOwnerDeletion": true})
}

async fn until_gone<T>(api: &Api<T>, name: &str)
where
    T: Clone + DeserializeOwned + std::fmt::Debug,
{
    wait_until(&format!("{name} is gone"), async || api.get_opt(name).await.unwrap().is_none().then_some(())).await;
}

/// Waits until all that happens has happened: what is created now is collected after it.
async fn settle(maps: &Api<ConfigMap>) {
    let absent = json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "absent"}]);
    create(maps, "last", absent).await;
    until_gone(maps, "last").await;
}

async fn names(maps: &Api<ConfigMap>) -> Vec<String> {
    let list = maps.list(&ListParams::default()).await.unwrap();
    list.iter().map(ResourceExt::name_any).filter(|name| name != "kube-root-ca.crt").collect()
}

/// Defines a custom resource `widgets`, and returns its objects in a namespace.
async fn widgets(client: &Client, namespace: &str) -> Api<DynamicObject> {
    let schema = json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true});
    let definition = object(json!({"metadata": {"name": "widgets.collected.test"}, "spec": {
        "group": "collected.test", "scope": "Namespaced", "names": {"plural": "widgets", "kind": "Widget"},
        "versions": [{"name": "v1", "served": true, "storage": true, "schema": {"openAPIV3Schema": schema}}]
    }}));
    let definitions: Api<CustomResourceDefinition> = Api::all(client.clone());
    definitions.create(&PostParams::default(), &definition).await.unwrap();
    let resource = ApiResource {
        group: "collected.test".into(),
        version: "v1".into(),
        api_version: "collected.test/v1".into(),
        kind: "Widget".into(),
        plural: "widgets".into(),
    };
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    wait_until("widgets are served", async || api.list(&ListParams::default()).await.ok()).await;
    api
}

fn widget(name: &str, owners: Value) -> DynamicObject {
    object(json!({"apiVersion": "collected.test/v1", "kind": "Widget",
        "metadata": {"name": name, "ownerReferences": owners}}))
}

#[tokio::test(flavor = "multi_thread")]
async fn namespaces_have_what_pods_need() {
    have_what_pods_need(&embedded(ALL)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn namespaces_have_what_pods_need_with_etcd() {
    let etcd = Etcd::single();
    have_what_pods_need(&beside(&etcd, ALL)).await;
}

async fn have_what_pods_need(server: &Server) {
    let client = server.kube().await;
    crate::namespace(&client, "new").await;
    let bundle = std::fs::read_to_string(server.temp().path().join("data/pki/ca-bundle.crt")).unwrap();
    for namespace in ["default", "kube-system", "new"] {
        let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), namespace);
        wait_until("the account", async || accounts.get_opt("default").await.unwrap()).await;
        let map = wait_until("the map", async || maps(&client, namespace).get_opt("kube-root-ca.crt").await.unwrap());
        assert_eq!(map.await.data.unwrap()["ca.crt"], bundle);
    }
    // What is deleted or changed comes back.
    let accounts: Api<ServiceAccount> = Api::namespaced(client.clone(), "new");
    let before = accounts.get("default").await.unwrap().uid();
    accounts.delete("default", &DeleteParams::default()).await.unwrap();
    let other = async || accounts.get_opt("default").await.unwrap().filter(|account| account.uid() != before);
    wait_until("another account", other).await;
    let of_new = maps(&client, "new");
    let change = Patch::Merge(json!({"data": {"ca.crt": "other"}}));
    of_new.patch("kube-root-ca.crt", &PatchParams::default(), &change).await.unwrap();
    let restored = async || {
        let map = of_new.get("kube-root-ca.crt").await.unwrap();
        (map.data?["ca.crt"] == bundle).then_some(())
    };
    wait_until("the map is as before", restored).await;
    // A pod needs no more.
    let pods: Api<Pod> = Api::namespaced(client, "new");
    let pod = object(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
    let pod = pods.create(&PostParams::default(), &pod).await.unwrap();
    assert_eq!(pod.spec.unwrap().service_account_name.as_deref(), Some("default"));
    pods.delete("p", &DeleteParams::default()).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn deleted_namespace_is_emptied_and_removed() {
    is_emptied_and_removed(&embedded(ALL)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn deleted_namespace_is_emptied_and_removed_with_etcd() {
    let etcd = Etcd::single();
    is_emptied_and_removed(&beside(&etcd, ALL)).await;
}

async fn is_emptied_and_removed(server: &Server) {
    let client = server.kube().await;
    let namespaces: Api<Namespace> = Api::all(client.clone());
    for name in ["gone", "kept"] {
        crate::namespace(&client, name).await;
        for n in 0..50 {
            create(&maps(&client, name), &format!("m{n}"), json!([])).await;
        }
    }
    let widgets = widgets(&client, "gone").await;
    widgets.create(&PostParams::default(), &widget("w", json!([]))).await.unwrap();
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "gone");
    let held = object(json!({"metadata": {"name": "held", "finalizers": ["collected.test/hold"]}}));
    secrets.create(&PostParams::default(), &held).await.unwrap();
    namespaces.delete("gone", &DeleteParams::default()).await.unwrap();
    // Everything goes but what a finalizer holds, and the conditions tell so.
    let told = wait_until("the conditions", async || {
        let status = namespaces.get("gone").await.unwrap().status.unwrap();
        let conditions = status.conditions.unwrap_or_default();
        let reasons = conditions.iter().map(|it| (it.type_.clone(), it.status.clone(), it.message.clone()));
        let reasons: Vec<_> = reasons.map(|(kind, status, message)| (kind, status, message.unwrap())).collect();
        reasons
            .iter()
            .any(|(kind, status, _)| kind == "NamespaceContentRemaining" && status == "True")
            .then_some(reasons)
    })
    .await;
    let want = [
        ("NamespaceDeletionDiscoveryFailure", "False", "All resources successfully discovered"),
        ("NamespaceDeletionGroupVersionParsingFailure", "False", "All legacy kube types successfully parsed"),
        (
            "NamespaceDeletionContentFailure",
            "False",
            "All content successfully deleted, may be waiting on finalization",
        ),
        ("NamespaceContentRemaining", "True", "Some resources are remaining: secrets. has 1 resource instances"),
        (
            "NamespaceFinalizersRemaining",
            "True",
            "Some content in the namespace has finalizers remaining: collected.test/hold in 1 resource instances",
        ),
    ];
    let want = want.map(|(kind, status, message)| (kind.to_owned(), status.to_owned(), message.to_owned()));
    assert_eq!(told, want);
    assert!(widgets.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert!(maps(&client, "gone").list(&ListParams::default()).await.unwrap().items.is_empty());
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    secrets.patch("held", &PatchParams::default(), &release).await.unwrap();
    until_gone(&namespaces, "gone").await;
    assert_eq!(names(&maps(&client, "kept")).await.len(), 50);
    // The namespace can be created again, and is empty.
    crate::namespace(&client, "gone").await;
    assert!(names(&maps(&client, "gone")).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn dependents_follow_their_owners() {
    follow_their_owners(&embedded(ALL)).await;
}

#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn dependents_follow_their_owners_with_etcd() {
    let etcd = Etcd::single();
    follow_their_owners(&beside(&etcd, ALL)).await;
}

async fn follow_their_owners(server: &Server) {
    let client = server.kube().await;
    crate::namespace(&client, "owned").await;
    let maps = maps(&client, "owned");
    let widgets = widgets(&client, "owned").await;

    // Background: the owner is gone first; a dependent with another owner only loses the reference.
    let (one, two) = (create(&maps, "one", json!([])).await, create(&maps, "two", json!([])).await);
    create(&maps, "of-one", json!([owner(&one)])).await;
    create(&maps, "of-both", json!([owner(&one), owner(&two)])).await;
    widgets.create(&PostParams::default(), &widget("of-one", json!([owner(&one)]))).await.unwrap();
    settle(&maps).await;
    assert_eq!(names(&maps).await, ["of-both", "of-one", "one", "two"]);
    maps.delete("one", &DeleteParams::background()).await.unwrap();
    until_gone(&maps, "of-one").await;
    until_gone(&widgets, "of-one").await;
    wait_until("one owner remains", async || {
        let owners = maps.get("of-both").await.unwrap().metadata.owner_references.unwrap();
        (owners.len() == 1 && Some(&owners[0].uid) == two.metadata.uid.as_ref()).then_some(())
    })
    .await;

    // Orphan: the dependents stay without a reference.
    maps.delete("two", &DeleteParams::orphan()).await.unwrap();
    until_gone(&maps, "two").await;
    settle(&maps).await;
    let orphan = maps.get("of-both").await.unwrap();
    assert_eq!(orphan.metadata.owner_references, None);

    // Foreground: the owner waits for what blocks it, through all generations.
    let grandparent = create(&maps, "grandparent", json!([])).await;
    let parent = create(&maps, "parent", json!([owner(&grandparent)])).await;
    let child = json!({"metadata": {"name": "child", "ownerReferences": [owner(&parent)],
        "finalizers": ["collected.test/hold"]}});
    maps.create(&PostParams::default(), &object(child)).await.unwrap();
    maps.delete("grandparent", &DeleteParams::foreground()).await.unwrap();
    wait_until("the child is in deletion", async || maps.get("child").await.unwrap().metadata.deletion_timestamp).await;
    settle(&maps).await;
    assert_eq!(names(&maps).await, ["child", "grandparent", "of-both", "parent"]);
    let release = Patch::Merge(json!({"metadata": {"finalizers": null}}));
    maps.patch("child", &PatchParams::default(), &release).await.unwrap();
    until_gone(&maps, "grandparent").await;
    assert_eq!(names(&maps).await, ["of-both"]);

    // An owner with the same name and another UID, or in another namespace, is none.
    let stranger = create(&self::maps(&client, "default"), "stranger", json!([])).await;
    let mut wrong = owner(&orphan);
    wrong["uid"] = json!("other");
    create(&maps, "wrong-uid", json!([wrong])).await;
    create(&maps, "wrong-namespace", json!([owner(&stranger)])).await;
    until_gone(&maps, "wrong-uid").await;
    until_gone(&maps, "wrong-namespace").await;
    let events: Api<Event> = Api::namespaced(client.clone(), "owned");
    let events = events.list(&ListParams::default()).await.unwrap();
    let [event] = events.items.as_slice() else { panic!("{events:?}") };
    let uid = stranger.uid().unwrap();
    assert_eq!(event.reason.as_deref(), Some("OwnerRefInvalidNamespace"));
    let message = format!(
        "ownerRef [v1/ConfigMap, namespace: owned, name: stranger, uid: {uid}] does not exist in namespace \"owned\""
    );
    assert_eq!(event.message.as_deref(), Some(message.as_str()));

    // A cycle of owners in a foreground deletion goes as a whole.
    let a = create(&maps, "a", json!([])).await;
    let b = create(&maps, "b", json!([owner(&a)])).await;
    let circle = Patch::Merge(json!({"metadata": {"ownerReferences": [owner(&b)]}}));
    maps.patch("a", &PatchParams::default(), &circle).await.unwrap();
    maps.delete("a", &DeleteParams::foreground()).await.unwrap();
    until_gone(&maps, "a").await;
    until_gone(&maps, "b").await;
}

/// What is deleted while no server runs is collected after the start.
#[tokio::test(flavor = "multi_thread")]
#[cfg_attr(not(has_etcd), ignore = "needs etcd")]
async fn one_of_several_servers_acts() {
    let etcd = Etcd::single();
    let plain = beside(&etcd, &[]);
    let client = plain.kube().await;
    let maps = maps(&client, "default");
    let one = create(&maps, "one", json!([])).await;
    create(&maps, "of-one", json!([owner(&one)])).await;
    maps.delete("one", &DeleteParams::background()).await.unwrap();
    maps.get("of-one").await.unwrap();
    // Another program holds the lease of the controllers: nothing happens as long as it does.
    let leases: Api<Lease> = Api::namespaced(client.clone(), "kube-system");
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let held = object(json!({"metadata": {"name": "kube-controller-manager"}, "spec": {"holderIdentity": "other",
        "leaseDurationSeconds": 6, "acquireTime": now, "renewTime": now, "leaseTransitions": 0}}));
    leases.create(&PostParams::default(), &held).await.unwrap();
    let began = std::time::Instant::now();
    let servers = [beside(&etcd, ALL), beside(&etcd, ALL)];
    until_gone(&maps, "of-one").await;
    assert!(began.elapsed() > Duration::from_secs(5), "{:?}", began.elapsed());
    let held = leases.get("kube-controller-manager").await.unwrap().spec.unwrap();
    assert_ne!(held.holder_identity.as_deref(), Some("other"));
    assert_eq!(held.lease_transitions, Some(1));
    drop(servers);
}

#[tokio::test(flavor = "multi_thread")]
async fn nothing_runs_without_the_flag() {
    let server = embedded(&[]);
    let client = server.kube().await;
    let accounts: Api<ServiceAccount> = Api::all(client.clone());
    let maps = maps(&client, "default");
    create(&maps, "m", json!([{"apiVersion": "v1", "kind": "ConfigMap", "name": "absent", "uid": "absent"}])).await;
    assert!(accounts.list(&ListParams::default()).await.unwrap().items.is_empty());
    assert_eq!(names(&maps).await, ["m"]);
    let leases: Api<Lease> = Api::namespaced(client, "kube-system");
    assert!(leases.get_opt("kube-controller-manager").await.unwrap().is_none());
}

#[tokio::test(flavor = "multi_thread")]
async fn quotas_have_their_usage_and_limit_it() {
    let server = embedded(ALL);
    let client = server.kube().await;
    crate::namespace(&client, "limited").await;
    let maps = maps(&client, "limited");
    wait_until("the map", async || maps.get_opt("kube-root-ca.crt").await.unwrap()).await;
    let widgets = widgets(&client, "limited").await;
    create(&maps, "before", json!([])).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "limited");
    let quota = object(json!({"metadata": {"name": "q"}, "spec": {"hard": {"configmaps": "3",
        "count/widgets.collected.test": "1", "pods": "1", "requests.cpu": "1", "secrets": "5"}}}));
    quotas.create(&PostParams::default(), &quota).await.unwrap();
    let used = async |want: Value| {
        let used = async || {
            let status = quotas.get("q").await.unwrap().status.unwrap_or_default();
            (json!(status.used.unwrap_or_default()) == want).then(|| status.hard.unwrap())
        };
        wait_until(&format!("the usage {want}"), used).await
    };
    let hard = used(json!({"configmaps": "2", "count/widgets.collected.test": "0", "pods": "0", "requests.cpu": "0",
        "secrets": "0"}));
    assert_eq!(hard.await["configmaps"].0, "3");
    create(&maps, "third", json!([])).await;
    let fourth = object(json!({"metadata": {"name": "fourth"}}));
    let kube::Error::Api(refused) = maps.create(&PostParams::default(), &fourth).await.unwrap_err() else { panic!() };
    assert!(refused.message.contains("exceeded quota: q, requested: configmaps=1, used: configmaps=3"), "{refused:?}");
    widgets.create(&PostParams::default(), &widget("w", json!([]))).await.unwrap();
    let pods: Api<Pod> = Api::namespaced(client.clone(), "limited");
    let pod = object(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i",
        "resources": {"requests": {"cpu": "250m"}}}]}}));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    used(json!({"configmaps": "3", "count/widgets.collected.test": "1", "pods": "1", "requests.cpu": "250m",
        "secrets": "0"}))
    .await;
    // What is deleted is given back, and a finished pod uses nothing.
    maps.delete("third", &DeleteParams::default()).await.unwrap();
    widgets.delete("w", &DeleteParams::default()).await.unwrap();
    let finished = Patch::Merge(json!({"status": {"phase": "Succeeded"}}));
    pods.patch_status("p", &PatchParams::default(), &finished).await.unwrap();
    used(json!({"configmaps": "2", "count/widgets.collected.test": "0", "pods": "0", "requests.cpu": "0",
        "secrets": "0"}))
    .await;
}

/// A pod that gets a deadline moves from the quota of pods without one to that of pods with one.
#[tokio::test(flavor = "multi_thread")]
async fn usage_follows_the_scopes_of_a_pod() {
    let server = embedded(ALL);
    let client = server.kube().await;
    crate::namespace(&client, "scoped").await;
    let maps = maps(&client, "scoped");
    wait_until("the map", async || maps.get_opt("kube-root-ca.crt").await.unwrap()).await;
    let quotas: Api<ResourceQuota> = Api::namespaced(client.clone(), "scoped");
    let used = async |name: &str, pods: &str| {
        wait_until(&format!("{name} uses {pods}"), async || {
            let used = quotas.get(name).await.unwrap().status.unwrap_or_default().used.unwrap_or_default();
            used.get("pods").is_some_and(|used| used.0 == pods).then_some(())
        })
        .await;
    };
    for (name, scope) in [("ending", "Terminating"), ("lasting", "NotTerminating")] {
        let quota = object(json!({"metadata": {"name": name}, "spec": {"hard": {"pods": "2"}, "scopes": [scope]}}));
        quotas.create(&PostParams::default(), &quota).await.unwrap();
        used(name, "0").await;
    }
    let pods: Api<Pod> = Api::namespaced(client.clone(), "scoped");
    let pod = object(json!({"metadata": {"name": "p"}, "spec": {"containers": [{"name": "c", "image": "i"}]}}));
    pods.create(&PostParams::default(), &pod).await.unwrap();
    used("lasting", "1").await;
    let deadline = Patch::Merge(json!({"spec": {"activeDeadlineSeconds": 3600}}));
    pods.patch("p", &PatchParams::default(), &deadline).await.unwrap();
    used("ending", "1").await;
    used("lasting", "0").await;
}

#[tokio::test(flavor = "multi_thread")]
async fn aggregated_roles_have_the_rules_of_those_they_select() {
    let server = embedded(ALL);
    let client = server.kube().await;
    let roles: Api<ClusterRole> = Api::all(client);
    let rule = |verb: &str| json!({"apiGroups": [""], "resources": ["configmaps"], "verbs": [verb]});
    let part = |name: &str, verb: &str| {
        object::<ClusterRole>(json!({"metadata": {"name": name, "labels": {"part": "yes"}}, "rules": [rule(verb)]}))
    };
    let whole = object(json!({"metadata": {"name": "whole"}, "rules": [],
        "aggregationRule": {"clusterRoleSelectors": [{"matchLabels": {"part": "yes"}}]}}));
    roles.create(&PostParams::default(), &part("b", "list")).await.unwrap();
    roles.create(&PostParams::default(), &whole).await.unwrap();
    roles.create(&PostParams::default(), &part("a", "get")).await.unwrap();
    roles.create(&PostParams::default(), &part("c", "get")).await.unwrap();
    let rules = async |want: Value| {
        let rules = async || (json!(roles.get("whole").await.unwrap().rules.unwrap_or_default()) == want).then_some(());
        wait_until(&format!("the rules {want}"), rules).await;
    };
    rules(json!([rule("get"), rule("list")])).await;
    roles.delete("b", &DeleteParams::default()).await.unwrap();
    rules(json!([rule("get")])).await;
    // The built-in roles select others by their labels.
    let view = json!({"metadata": {"name": "more", "labels": {"rbac.authorization.k8s.io/aggregate-to-view": "true"}},
        "rules": [{"apiGroups": ["collected.test"], "resources": ["widgets"], "verbs": ["get"]}]});
    roles.create(&PostParams::default(), &object(view)).await.unwrap();
    wait_until("the role view", async || {
        let rules = roles.get("view").await.unwrap().rules.unwrap_or_default();
        rules.iter().any(|rule| rule.api_groups == Some(vec!["collected.test".to_owned()])).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn finished_jobs_expire_with_their_pods() {
    let server = embedded(ALL);
    let client = server.kube().await;
    let jobs: Api<Job> = Api::default_namespaced(client.clone());
    let template = json!({"spec": {"restartPolicy": "Never", "containers": [{"name": "c", "image": "i"}]}});
    let job = |name: &str, ttl: Option<i32>| {
        object::<Job>(
            json!({"metadata": {"name": name}, "spec": {"ttlSecondsAfterFinished": ttl, "template": template}}),
        )
    };
    for (name, ttl) in [("expires", Some(1)), ("unfinished", Some(1)), ("kept", None)] {
        jobs.create(&PostParams::default(), &job(name, ttl)).await.unwrap();
    }
    let of_job = jobs.get("expires").await.unwrap();
    let owner = json!({"apiVersion": "batch/v1", "kind": "Job", "name": "expires", "uid": of_job.uid().unwrap()});
    let maps = maps(&client, "default");
    create(&maps, "of-job", json!([owner])).await;
    let now = k8s_openapi::jiff::Timestamp::now().to_string();
    let conditions: Vec<Value> = ["SuccessCriteriaMet", "Complete"]
        .map(|kind| json!({"type": kind, "status": "True", "lastTransitionTime": now, "lastProbeTime": now}))
        .to_vec();
    let finished = Patch::Merge(json!({"status": {"startTime": now, "completionTime": now, "succeeded": 1,
        "conditions": conditions}}));
    for name in ["expires", "kept"] {
        jobs.patch_status(name, &PatchParams::default(), &finished).await.unwrap();
    }
    until_gone(&jobs, "expires").await;
    until_gone(&maps, "of-job").await;
    jobs.get("unfinished").await.unwrap();
    jobs.get("kept").await.unwrap();
}
