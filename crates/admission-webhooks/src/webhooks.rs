//! The webhooks of all configurations of one kind, in the order in which they are asked.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use binnacle_admission_matching::{Index, is_exempt};
use binnacle_meta::Text;
use binnacle_registry::admission::Attributes;
use binnacle_schema::Value;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::backends::Backends;
use crate::hook::Hook;
use crate::metrics::Type;

/// How long a request waits for the first reading of configurations.
const PATIENCE: Duration = Duration::from_secs(10);

/// The two kinds of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    Mutating,
    Validating,
}

/// All webhooks of a kind. Requests read them while who follows the configurations changes them.
pub struct Webhooks {
    kind: Kind,
    backends: Arc<Backends>,
    /// By the name of the configuration, which is the order.
    configurations: Mutex<BTreeMap<Text, Vec<Arc<Hook>>>>,
    list: ArcSwap<List>,
    read: watch::Sender<bool>,
}

/// The webhooks at one moment.
#[derive(Default)]
pub(crate) struct List {
    hooks: Vec<Arc<Hook>>,
    index: Index,
}

impl Kind {
    pub(crate) fn of_metrics(self) -> Type {
        match self {
            Self::Mutating => Type::Admit,
            Self::Validating => Type::Validating,
        }
    }

    /// The plural name of the configurations.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }
}

impl Webhooks {
    /// Knows none yet, and lets requests wait until [`Webhooks::were_read`].
    pub fn new(kind: Kind, backends: Arc<Backends>) -> Self {
        let (configurations, list) = (Mutex::default(), ArcSwap::default());
        Self { kind, backends, configurations, list, read: watch::Sender::new(false) }
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// A configuration is there or has changed.
    pub fn put(&self, configuration: &Value) {
        let hooks = Hook::all_of(configuration, self.kind.of_metrics(), &self.backends);
        self.change(|configurations| {
            configurations.insert(configuration.str_at(&["metadata", "name"]).into(), hooks);
        });
    }

    /// A configuration is gone.
    pub fn remove(&self, name: &str) {
        self.change(|configurations| {
            configurations.remove(name);
        });
    }

    /// All configurations but these are gone.
    pub fn retain(&self, there: impl Fn(&str) -> bool) {
        self.change(|configurations| configurations.retain(|name, _| there(name)));
    }

    /// All configurations have been read for the first time.
    pub fn were_read(&self) {
        self.read.send_replace(true);
    }

    /// True when all configurations have been read.
    pub fn are_read(&self) -> bool {
        *self.read.borrow()
    }

    /// True unless nothing of this kind can concern a request.
    pub(crate) fn may_concern(&self, attributes: &Attributes) -> bool {
        let list = self.list.load();
        let none = list.hooks.is_empty() || list.index.candidates(attributes).is_empty();
        (!none || !self.are_read()) && !is_exempt(attributes)
    }

    /// The webhooks once they have been read; `None` where that takes too long.
    pub(crate) async fn list(&self) -> Option<Arc<List>> {
        if !self.are_read() {
            let mut read = self.read.subscribe();
            let waited = tokio::time::timeout(PATIENCE, read.wait_for(|read| *read)).await;
            waited.ok()?.ok()?;
        }
        Some(self.list.load_full())
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Text, Vec<Arc<Hook>>>)) {
        let mut configurations = self.configurations.lock();
        change(&mut configurations);
        let hooks: Vec<Arc<Hook>> = configurations.values().flatten().cloned().collect();
        let index = Index::new(hooks.iter().map(|hook| &hook.criteria));
        self.list.store(Arc::new(List { hooks, index }));
    }
}

impl List {
    /// Those that may concern a request, each with its number among all.
    pub(crate) fn candidates(&self, attributes: &Attributes) -> impl Iterator<Item = (usize, &Arc<Hook>)> {
        self.index.candidates(attributes).iter().filter_map(|at| Some((*at, self.hooks.get(*at)?)))
    }
}
