//! An informer, which passes each change of a resource to a handler, and all objects again when changes were missed. A
//! reader that needs current data waits for [`Informer::catch_up`] first.

use std::collections::HashSet;
use std::future::poll_fn;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context as Poller, Poll};
use std::time::Duration;

use binnacle_meta::{LabelSelector, Status, Text};
use binnacle_registry::{Context, ListOptions, Resource, WatchFrom};
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use binnacle_supervise::supervise;
use binnacle_watchcache::{BLOCK_TIMEOUT, Change, WatchError, WatchItem, Watcher};
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;

/// The maximum number of changes in a batch.
const BATCH: usize = 256;
/// The pause before a failed watch is opened again.
const RETRY: Duration = Duration::from_millis(250);

/// A handler of changes. Objects are in the storage version. Methods must not block.
pub trait EventHandler: Send + Sync + 'static {
    /// Called after all objects have been read again. Objects for which `exists(namespace, name)` is false have been
    /// deleted.
    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool);

    /// Called for an object that exists, was created or has changed.
    fn put(&self, object: Value);

    /// Called for an object that was deleted, or cannot be decoded any more.
    fn remove(&self, namespace: &str, name: &str);
}

/// A task that delivers the changes of one resource to a handler.
pub struct Informer<H> {
    resource: Arc<Resource>,
    selector: LabelSelector,
    handler: H,
    /// The number of calls of `catch_up`, and the last call whose changes have been delivered. Only the task delivers
    /// changes: objects may be large, and a reader that waits for its turn to compute must not delay other readers.
    called: AtomicU64,
    calls: Notify,
    delivered: watch::Sender<u64>,
}

impl<H: EventHandler> Informer<H> {
    /// Creates an informer; [`Informer::run`] starts it.
    pub fn new(resource: Arc<Resource>, handler: H) -> Arc<Self> {
        Self::with_selector(resource, LabelSelector::default(), handler)
    }

    /// Creates an informer for the objects that a label selector matches.
    pub fn with_selector(resource: Arc<Resource>, selector: LabelSelector, handler: H) -> Arc<Self> {
        let (called, calls, delivered) = (AtomicU64::new(0), Notify::new(), watch::Sender::new(0));
        Arc::new(Self { resource, selector, handler, called, calls, delivered })
    }

    /// Lists and watches the resource until shutdown. Calls `read` after the first list has been delivered. After a
    /// panic all objects are read again.
    pub async fn run(self: Arc<Self>, shutdown: Shutdown, read: impl FnOnce() + Send) {
        let read = Mutex::new(Some(read));
        supervise("informer", || {
            self.list_and_watch(&shutdown, || {
                if let Some(read) = read.lock().take() {
                    read();
                }
            })
        })
        .await;
    }

    async fn list_and_watch(&self, shutdown: &Shutdown, read: impl Fn() + Send) {
        let fired = shutdown.fired();
        tokio::pin!(fired);
        loop {
            let watch = tokio::select! {
                watch = self.open() => watch,
                () = &mut fired => return,
            };
            let Ok(mut watcher) = watch else {
                tokio::select! {
                    () = tokio::time::sleep(RETRY) => continue,
                    () = &mut fired => return,
                }
            };
            read();
            while self.serve_catch_up_calls(&mut watcher).await.is_ok() {
                tokio::select! {
                    delivered = poll_fn(|poller| self.deliver_batch(&mut watcher, poller)) => if delivered.is_err() { break },
                    () = self.calls.notified() => {}
                    () = &mut fired => return,
                }
            }
            // The watcher was too slow for the cache's window, or the cache was filled again.
        }
    }

    /// Waits until the handler has received every change that was acknowledged before the call.
    pub async fn catch_up(&self) -> Result<(), Status> {
        let deadline = Instant::now() + BLOCK_TIMEOUT;
        let late = || Status::too_many_requests("storage is (re)initializing", 1);
        self.resource.collection.cache.wait_consistent(deadline).await.map_err(|_| late())?;
        // From here on, all these changes are either in the mailbox of the watch, or will be read when the watch is
        // opened.
        let mut delivered = self.delivered.subscribe();
        let call = self.called.fetch_add(1, Ordering::SeqCst) + 1;
        self.calls.notify_one();
        let reached = tokio::time::timeout_at(deadline, delivered.wait_for(|delivered| *delivered >= call)).await;
        if reached.is_ok_and(|reached| reached.is_ok()) { Ok(()) } else { Err(late()) }
    }

    /// Delivers all pending items of the watch if `catch_up` was called, and wakes its callers.
    async fn serve_catch_up_calls(&self, watcher: &mut Watcher) -> Result<(), WatchError> {
        let called = self.called.load(Ordering::SeqCst);
        if called == *self.delivered.borrow() {
            return Ok(());
        }
        while let Poll::Ready(delivered) = poll_fn(|poller| Poll::Ready(self.deliver_batch(watcher, poller))).await {
            delivered?;
        }
        self.delivered.send_replace(called);
        Ok(())
    }

    /// Opens a watch and reads the existing objects.
    async fn open(&self) -> Result<Watcher, ()> {
        let context = Context::internal("");
        let options = ListOptions { labels: self.selector.clone(), ..ListOptions::default() };
        let from = WatchFrom::InitialEvents { not_older_than: None };
        let mut watcher = match self.resource.watch(&context, &options, from).await {
            Ok(Ok(watcher)) => watcher,
            Ok(Err(_)) | Err(_) => return Err(()),
        };
        let mut there = HashSet::new();
        loop {
            let mut items = Vec::new();
            watcher.next_batch(BATCH, &mut items).await.map_err(|_| ())?;
            let mut rest = items.into_iter();
            for item in rest.by_ref() {
                match &item {
                    WatchItem::InitialEventsEnd(_) => {
                        self.handler.retain(&|namespace, name| there.contains(&path(namespace, name)));
                        rest.for_each(|item| self.deliver(&item));
                        return Ok(watcher);
                    }
                    item => {
                        there.extend(item.entry().map(|entry| path(entry.namespace(), entry.name())));
                        self.deliver(item);
                    }
                }
            }
        }
    }

    fn deliver_batch(&self, watcher: &mut Watcher, poller: &mut Poller<'_>) -> Poll<Result<(), WatchError>> {
        let mut items = Vec::new();
        let polled = watcher.poll_batch(poller, BATCH, &mut items);
        items.iter().for_each(|item| self.deliver(item));
        polled
    }

    fn deliver(&self, item: &WatchItem) {
        match item {
            // An object that stops matching is removed as well.
            WatchItem::Event { change: Change::Deleted, event } => {
                if let Some(old) = event.old() {
                    self.handler.remove(old.namespace(), old.name());
                }
            }
            item => match (self.decode(item), item.entry()) {
                (Some(object), _) => self.handler.put(object),
                // The previous version of the object is not valid any more.
                (None, Some(entry)) => self.handler.remove(entry.namespace(), entry.name()),
                (None, None) => {}
            },
        }
    }

    /// Decodes an object; an undecodable one counts as absent.
    fn decode(&self, item: &WatchItem) -> Option<Value> {
        let entry = item.entry()?;
        match self.resource.collection.decode_entry(entry) {
            Ok(object) => Some(object),
            Err(error) => {
                tracing::error!(path = entry.path(), error = error.message(), "failed to decode stored object");
                None
            }
        }
    }
}

fn path(namespace: &str, name: &str) -> (Text, Text) {
    (namespace.into(), name.into())
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use binnacle_request::ShutdownTrigger;
    use binnacle_schema::value;

    use super::*;
    use crate::objects::Objects;

    #[derive(Default)]
    struct Names(Mutex<BTreeSet<String>>);

    impl EventHandler for Arc<Names> {
        fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
            self.0.lock().retain(|name| exists("", name));
        }

        fn put(&self, object: Value) {
            self.0.lock().insert(object.str_at(&["metadata", "name"]).to_owned());
        }

        fn remove(&self, _: &str, name: &str) {
            self.0.lock().remove(name);
        }
    }

    /// The handler receives the objects with the selected labels, until they lose these labels.
    #[tokio::test]
    async fn delivers_only_selected_objects() {
        let resources = binnacle_test_cluster::resources();
        let objects = Objects::new(&resources, "", "v1", "namespaces").unwrap();
        let create = async |name: &str, role: &str| {
            objects.create("", value!({"metadata": {"name": name, "labels": {"role": role}}})).await.unwrap();
        };
        create("one", "a").await;
        create("two", "b").await;
        let names = Arc::new(Names::default());
        let resource = resources.require("", "v1", "namespaces").unwrap().clone();
        let selector = LabelSelector::parse("role=a").unwrap();
        let informer = Informer::with_selector(resource, selector, names.clone());
        let (trigger, shutdown) = ShutdownTrigger::new();
        let (read, is_read) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(informer.clone().run(shutdown, move || read.send(()).unwrap_or_default()));
        is_read.await.unwrap();
        create("three", "a").await;
        let relabel = |object: &mut Value| object.make_at(&["metadata", "labels"]).insert("role", "b");
        objects.update("", "one", "", |object| drop(relabel(object))).await.unwrap();
        informer.catch_up().await.unwrap();
        assert_eq!(*names.0.lock(), BTreeSet::from(["three".to_owned()]));
        trigger.fire();
        task.await.unwrap();
    }

    /// After `catch_up`, the handler has received all earlier writes, independently of scheduling.
    #[tokio::test]
    async fn catch_up_waits_for_acknowledged_writes() {
        let resources = binnacle_test_cluster::resources();
        let objects = Objects::new(&resources, "", "v1", "namespaces").unwrap();
        let create = async |name: &str| objects.create("", value!({"metadata": {"name": name}})).await.unwrap();
        create("before").await;
        let names = Arc::new(Names::default());
        let informer = Informer::new(resources.require("", "v1", "namespaces").unwrap().clone(), names.clone());
        let (trigger, shutdown) = ShutdownTrigger::new();
        let (read, is_read) = tokio::sync::oneshot::channel();
        let task = tokio::spawn(informer.clone().run(shutdown, move || read.send(()).unwrap_or_default()));
        is_read.await.unwrap();
        assert!(names.0.lock().contains("before"));
        for round in 0..200 {
            let name = format!("n{round}");
            create(&name).await;
            informer.catch_up().await.unwrap();
            assert!(names.0.lock().contains(&name), "{name}");
        }
        // The task also delivers changes without `catch_up`.
        create("after").await;
        let began = Instant::now();
        while !names.0.lock().contains("after") {
            assert!(began.elapsed() < Duration::from_secs(20));
            tokio::task::yield_now().await;
        }
        trigger.fire();
        task.await.unwrap();
    }
}
