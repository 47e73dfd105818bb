//! Flow schemas and priority levels on their way from the watch caches to what shares the server out by them.

use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_flowcontrol::{FlowControl, FlowSchema, PriorityLevel};
use binnacle_meta::{Status, Text};
use binnacle_registry::ResourceSet;
use binnacle_request::Shutdown;
use binnacle_schema::Value;
use parking_lot::Mutex;
use tokio::task::JoinSet;

use crate::informer::{Handler, Informer};

const GROUP: &str = "flowcontrol.apiserver.k8s.io";
const VERSION: &str = "v1";

/// What is there. Nothing is handed on before both kinds have been read.
#[derive(Default)]
struct Known {
    schemas: Option<BTreeMap<Text, FlowSchema>>,
    levels: Option<BTreeMap<Text, PriorityLevel>>,
}

struct Feed {
    control: Arc<FlowControl>,
    known: Mutex<Known>,
}

/// Begins to follow both kinds, once the resources are there; the tasks end with the shutdown signal.
pub fn follow_flow_control(
    control: &Arc<FlowControl>,
    resources: &ResourceSet,
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
    /// Hands everything on if `change` changed anything: most writes are to statuses.
    fn change(&self, change: impl FnOnce(&mut Known) -> bool) {
        let mut known = self.known.lock();
        if !change(&mut known) {
            return;
        }
        if let (Some(schemas), Some(levels)) = (&known.schemas, &known.levels) {
            self.control.configure(schemas.values().cloned().collect(), levels.values().cloned().collect());
        }
    }
}

/// Keeps the object, and says whether that is news.
fn keep<T: PartialEq>(known: &mut Option<BTreeMap<Text, T>>, name: Text, object: T) -> bool {
    let known = known.get_or_insert_default();
    let same = known.get(&name) == Some(&object);
    known.insert(name, object);
    !same
}

fn forget<T>(known: &mut Option<BTreeMap<Text, T>>, name: &str) -> bool {
    known.as_mut().is_some_and(|known| known.remove(name).is_some())
}

struct Schemas(Arc<Feed>);

impl Handler for Schemas {
    fn replace(&self, objects: Vec<Value>) {
        let schemas = objects.iter().map(FlowSchema::read).map(|schema| (schema.name.clone(), schema)).collect();
        self.0.change(|known| {
            known.schemas = Some(schemas);
            true
        });
    }

    fn put(&self, object: Value) {
        let schema = FlowSchema::read(&object);
        self.0.change(|known| keep(&mut known.schemas, schema.name.clone(), schema));
    }

    fn remove(&self, _: &str, name: &str) {
        self.0.change(|known| forget(&mut known.schemas, name));
    }
}

struct Levels(Arc<Feed>);

impl Handler for Levels {
    fn replace(&self, objects: Vec<Value>) {
        let levels = objects.iter().map(PriorityLevel::read).map(|level| (level.name.clone(), level)).collect();
        self.0.change(|known| {
            known.levels = Some(levels);
            true
        });
    }

    fn put(&self, object: Value) {
        let level = PriorityLevel::read(&object);
        self.0.change(|known| keep(&mut known.levels, level.name.clone(), level));
    }

    fn remove(&self, _: &str, name: &str) {
        self.0.change(|known| forget(&mut known.levels, name));
    }
}
