//! Follows flow schemas and priority levels, from the watch caches to the filter of priority and fairness.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_flowcontrol::{FlowControl, FlowSchema, PriorityLevel};
use binnacle_meta::{Status, Text};
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use binnacle_controllers::{Handler, Informer};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const VERSION: &str = "v1";

/// All objects of both kinds. Nothing is passed on before both have been read.
#[derive(Default)]
struct Known {
    schemas: Kept<FlowSchema>,
    levels: Kept<PriorityLevel>,
}

/// The objects of one kind.
struct Kept<T> {
    objects: BTreeMap<Text, T>,
    all_read: bool,
}

impl<T> Default for Kept<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), all_read: false }
    }
}

impl<T: PartialEq> Kept<T> {
    /// Stores the object, and returns true if it is new or changed.
    fn put(&mut self, name: Text, object: T) -> bool {
        let same = self.objects.get(&name) == Some(&object);
        self.objects.insert(name, object);
        !same
    }

    fn remove(&mut self, name: &str) -> bool {
        self.objects.remove(name).is_some()
    }

    /// Removes the objects that are gone; returns true if there were any.
    fn retain(&mut self, there: &dyn Fn(&str, &str) -> bool) -> bool {
        let before = self.objects.len();
        self.objects.retain(|name, _| there("", name));
        let news = !self.all_read || self.objects.len() != before;
        self.all_read = true;
        news
    }
}

struct Feed {
    control: Arc<FlowControl>,
    known: Mutex<Known>,
}

/// Starts to follow both kinds when the resources exist; the tasks end with the shutdown signal.
pub fn follow_flow_control(
    control: &Arc<FlowControl>,
    resources: &Catalog,
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<(), Status> {
    let feed = Arc::new(Feed { control: control.clone(), known: Mutex::default() });
    let schemas = resources.require(GROUP, VERSION, "flowschemas")?.clone();
    let levels = resources.require(GROUP, VERSION, "prioritylevelconfigurations")?.clone();
    let schemas = Informer::new(schemas, Schemas(feed.clone()));
    let levels = Informer::new(levels, Levels(feed));
    tasks.spawn(schemas.run(shutdown.clone(), || {}));
    tasks.spawn(levels.run(shutdown.clone(), || {}));
    Ok(())
}

impl Feed {
    /// Passes all objects on if `change` changed any: most writes are only to statuses.
    fn change(&self, change: impl FnOnce(&mut Known) -> bool) {
        let mut known = self.known.lock();
        if !change(&mut known) {
            return;
        }
        let Known { schemas, levels } = &*known;
        if schemas.all_read && levels.all_read {
            self.control
                .configure(schemas.objects.values().cloned().collect(), levels.objects.values().cloned().collect());
        }
    }
}

struct Schemas(Arc<Feed>);

impl Handler for Schemas {
    fn put(&self, object: Value) {
        let schema = FlowSchema::read(&object);
        self.0.change(|known| known.schemas.put(schema.name.clone(), schema));
    }

    fn remove(&self, _: &str, name: &str) {
        self.0.change(|known| known.schemas.remove(name));
    }

    fn retain(&self, there: &dyn Fn(&str, &str) -> bool) {
        self.0.change(|known| known.schemas.retain(there));
    }
}

struct Levels(Arc<Feed>);

impl Handler for Levels {
    fn put(&self, object: Value) {
        let level = PriorityLevel::read(&object);
        self.0.change(|known| known.levels.put(level.name.clone(), level));
    }

    fn remove(&self, _: &str, name: &str) {
        self.0.change(|known| known.levels.remove(name));
    }

    fn retain(&self, there: &dyn Fn(&str, &str) -> bool) {
        self.0.change(|known| known.levels.retain(there));
    }
}
