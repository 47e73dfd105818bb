//! The informers of flow schemas and priority levels, which feed the filter of priority and fairness.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_flowcontrol::{FlowControl, FlowSchema, PriorityLevel};
use binnacle_meta::{Status, Text};
use binnacle_registry::Catalog;
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use binnacle_controllers::{EventHandler, Informer};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const VERSION: &str = "v1";

/// The objects of both kinds. The filter is configured only after both have been read.
#[derive(Default)]
struct Config {
    schemas: ObjectCache<FlowSchema>,
    levels: ObjectCache<PriorityLevel>,
}

/// The objects of one kind.
struct ObjectCache<T> {
    objects: BTreeMap<Text, T>,
    is_synced: bool,
}

impl<T> Default for ObjectCache<T> {
    fn default() -> Self {
        Self { objects: BTreeMap::new(), is_synced: false }
    }
}

impl<T: PartialEq> ObjectCache<T> {
    /// Stores the object, and returns true if it is new or changed.
    fn put(&mut self, name: Text, object: T) -> bool {
        let is_same = self.objects.get(&name) == Some(&object);
        self.objects.insert(name, object);
        !is_same
    }

    fn remove(&mut self, name: &str) -> bool {
        self.objects.remove(name).is_some()
    }

    /// Removes deleted objects; returns true if there were any, or if this is the first list.
    fn retain(&mut self, exists: &dyn Fn(&str, &str) -> bool) -> bool {
        let before = self.objects.len();
        self.objects.retain(|name, _| exists("", name));
        let is_changed = !self.is_synced || self.objects.len() != before;
        self.is_synced = true;
        is_changed
    }
}

struct ConfigConsumer {
    control: Arc<FlowControl>,
    config: Mutex<Config>,
}

/// Starts the informers of both kinds; they end with the shutdown signal. Fails if a resource is not served.
pub fn follow_flow_control(
    control: &Arc<FlowControl>,
    resources: &Catalog,
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<(), Status> {
    let consumer = Arc::new(ConfigConsumer { control: control.clone(), config: Mutex::default() });
    let schemas = resources.require(GROUP, VERSION, "flowschemas")?.clone();
    let levels = resources.require(GROUP, VERSION, "prioritylevelconfigurations")?.clone();
    let schemas = Informer::new(schemas, SchemaHandler(consumer.clone()));
    let levels = Informer::new(levels, LevelHandler(consumer));
    tasks.spawn(schemas.run(shutdown.clone(), || {}));
    tasks.spawn(levels.run(shutdown.clone(), || {}));
    Ok(())
}

impl ConfigConsumer {
    /// Configures the filter if `change` reports a change. Most writes only update a status.
    fn change(&self, change: impl FnOnce(&mut Config) -> bool) {
        let mut config = self.config.lock();
        if !change(&mut config) {
            return;
        }
        let Config { schemas, levels } = &*config;
        if schemas.is_synced && levels.is_synced {
            self.control
                .configure(schemas.objects.values().cloned().collect(), levels.objects.values().cloned().collect());
        }
    }
}

struct SchemaHandler(Arc<ConfigConsumer>);

impl EventHandler for SchemaHandler {
    fn put(&self, object: Value) {
        let schema = FlowSchema::read(&object);
        self.0.change(|config| config.schemas.put(schema.name.clone(), schema));
    }

    fn remove(&self, _: &str, name: &str) {
        self.0.change(|config| config.schemas.remove(name));
    }

    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        self.0.change(|config| config.schemas.retain(exists));
    }
}

struct LevelHandler(Arc<ConfigConsumer>);

impl EventHandler for LevelHandler {
    fn put(&self, object: Value) {
        let level = PriorityLevel::read(&object);
        self.0.change(|config| config.levels.put(level.name.clone(), level));
    }

    fn remove(&self, _: &str, name: &str) {
        self.0.change(|config| config.levels.remove(name));
    }

    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        self.0.change(|config| config.levels.retain(exists));
    }
}
