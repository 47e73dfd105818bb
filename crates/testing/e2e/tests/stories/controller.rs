//! A controller in the style of operators: a child for each parent, the parent's status, and a finalizer for cleanup.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use binnacle_testkit::{Server, TIMEOUT, wait_until};
use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, ResourceQuota};
use kube::api::{Api, DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::finalizer::{Event, finalizer};
use kube::runtime::watcher;
use kube::{Client, Resource, ResourceExt};
use serde_json::json;

const FINALIZER: &str = "example.com/cleanup";
const PARENTS: usize = 30;

struct Context {
    client: Client,
    cleaned: AtomicUsize,
}

type Failure = kube::runtime::finalizer::Error<kube::Error>;

/// Quotas serve as parents: a kind with a spec and a status that nothing else here writes.
#[tokio::test(flavor = "multi_thread")]
async fn controller_manages_children_status_and_finalizers() {
    let server = Server::ephemeral();
    let client = server.kube().await;
    crate::namespace(&client, "work").await;
    let parents: Api<ResourceQuota> = Api::namespaced(client.clone(), "work");
    let children: Api<ConfigMap> = Api::namespaced(client.clone(), "work");
    let context = Arc::new(Context { client: client.clone(), cleaned: AtomicUsize::new(0) });
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let controller = Controller::new(parents.clone(), watcher::Config::default())
        .owns(children.clone(), watcher::Config::default().labels("child=yes"))
        .graceful_shutdown_on(async { drop(stopped.await) })
        .run(reconcile, retry, context.clone())
        .for_each(async |_| {});
    let controller = tokio::spawn(controller);

    for n in 0..PARENTS {
        parents.create(&PostParams::default(), &parent(n)).await.unwrap();
    }
    let settled = async || {
        let parents = parents.list(&ListParams::default()).await.unwrap().items;
        let children = children.list(&ListParams::default().labels("child=yes")).await.unwrap().items;
        let done = parents.iter().all(|parent| {
            let hard = parent.spec.as_ref().and_then(|spec| spec.hard.clone());
            parent.status.as_ref().is_some_and(|status| status.hard == hard && status.used.is_some())
                && parent.finalizers() == [FINALIZER]
        });
        (done && parents.len() == PARENTS && children.len() == PARENTS).then_some((parents, children))
    };
    let (found, made) = wait_until("every parent has a child and a status", settled).await;
    for (parent, child) in found.iter().zip(&made) {
        assert_eq!(child.owner_references(), [parent.controller_owner_ref(&()).unwrap()]);
        assert_eq!(
            child.data.as_ref().unwrap()["pods"],
            parent.spec.as_ref().unwrap().hard.as_ref().unwrap()["pods"].0
        );
    }

    // A child that is deleted or changed by another client is restored.
    children.delete("child-of-parent-3", &DeleteParams::default()).await.unwrap();
    let spoilt = Patch::Merge(json!({"data": {"pods": "spoilt"}}));
    children.patch("child-of-parent-4", &PatchParams::default(), &spoilt).await.unwrap();
    wait_until("the children are repaired", async || {
        let gone = children.get_opt("child-of-parent-3").await.unwrap()?;
        let child = children.get("child-of-parent-4").await.unwrap();
        (gone.uid() != made[3].uid() && child.data.unwrap()["pods"] == "4").then_some(())
    })
    .await;
    // A new spec is applied to child and status.
    let more = Patch::Merge(json!({"spec": {"hard": {"pods": "99"}}}));
    parents.patch("parent-5", &PatchParams::default(), &more).await.unwrap();
    wait_until("the status follows the spec", async || {
        let parent = parents.get("parent-5").await.unwrap();
        (parent.status?.hard?["pods"].0 == "99").then_some(())
    })
    .await;

    // Deletion waits for the controller.
    for n in 0..PARENTS {
        parents.delete(&format!("parent-{n}"), &DeleteParams::default()).await.unwrap();
    }
    wait_until("parents and children are gone", async || {
        let parents = parents.list(&ListParams::default()).await.unwrap().items;
        let children = children.list(&ListParams::default().labels("child=yes")).await.unwrap().items;
        (parents.is_empty() && children.is_empty()).then_some(())
    })
    .await;
    assert_eq!(context.cleaned.load(Ordering::Relaxed), PARENTS);
    stop.send(()).unwrap();
    tokio::time::timeout(TIMEOUT, controller).await.unwrap().unwrap();
}

fn parent(n: usize) -> ResourceQuota {
    let object = json!({"metadata": {"name": format!("parent-{n}")}, "spec": {"hard": {"pods": n.to_string()}}});
    serde_json::from_value(object).unwrap()
}

async fn reconcile(parent: Arc<ResourceQuota>, context: Arc<Context>) -> Result<Action, Failure> {
    let parents: Api<ResourceQuota> = Api::namespaced(context.client.clone(), "work");
    finalizer(&parents, FINALIZER, parent, async |event| match event {
        Event::Apply(parent) => apply(&parents, &parent, &context).await,
        Event::Cleanup(parent) => cleanup(&parent, &context).await,
    })
    .await
}

async fn apply(parents: &Api<ResourceQuota>, parent: &ResourceQuota, context: &Context) -> Result<Action, kube::Error> {
    let children: Api<ConfigMap> = Api::namespaced(context.client.clone(), "work");
    let hard = parent.spec.as_ref().unwrap().hard.as_ref().unwrap();
    let name = format!("child-of-{}", parent.name_any());
    let mut child =
        ConfigMap { data: Some(BTreeMap::from([("pods".to_owned(), hard["pods"].0.clone())])), ..Default::default() };
    child.metadata.name = Some(name.clone());
    child.metadata.labels = Some(BTreeMap::from([("child".to_owned(), "yes".to_owned())]));
    child.metadata.owner_references = Some(vec![parent.controller_owner_ref(&()).unwrap()]);
    match children.get_opt(&name).await? {
        None => drop(children.create(&PostParams::default(), &child).await?),
        Some(found) if found.data != child.data => {
            child.metadata.resource_version = found.resource_version();
            drop(children.replace(&name, &PostParams::default(), &child).await?);
        }
        Some(_) => {}
    }
    let status = json!({"hard": hard, "used": {"pods": "0"}});
    let patch = Patch::Merge(json!({"status": status}));
    parents.patch_status(&parent.name_any(), &PatchParams::default(), &patch).await?;
    Ok(Action::await_change())
}

async fn cleanup(parent: &ResourceQuota, context: &Context) -> Result<Action, kube::Error> {
    let children: Api<ConfigMap> = Api::namespaced(context.client.clone(), "work");
    let name = format!("child-of-{}", parent.name_any());
    if children.get_opt(&name).await?.is_some() {
        children.delete(&name, &DeleteParams::default()).await?;
        context.cleaned.fetch_add(1, Ordering::Relaxed);
    }
    Ok(Action::await_change())
}

fn retry(_: Arc<ResourceQuota>, error: &Failure, _: Arc<Context>) -> Action {
    // Conflicts with the test's own writes are expected.
    println!("again: {error}");
    Action::requeue(Duration::from_millis(50))
}
