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

/// The time that a request waits for the first reading of configurations.
const PATIENCE: Duration = Duration::from_secs(10);

/// The two kinds of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookKind {
    Mutating,
    Validating,
}

/// All webhooks of a kind. Requests read them while who follows the configurations changes them.
pub struct Webhooks {
    kind: WebhookKind,
    backends: Arc<Backends>,
    known: Mutex<Known>,
    list: ArcSwap<List>,
    read: watch::Sender<bool>,
}

#[derive(Default)]
struct Known {
    /// The webhooks of files, which come first.
    manifests: Vec<Arc<Hook>>,
    /// The webhooks of the API, by the name of the configuration, which is the order.
    configurations: BTreeMap<Text, Vec<Arc<Hook>>>,
}

/// The webhooks at one moment.
#[derive(Default)]
pub(crate) struct List {
    hooks: Vec<Arc<Hook>>,
    /// The number of them, from the first on, that stand in files.
    of_files: usize,
    index: Index,
}

impl WebhookKind {
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
    /// No webhooks yet; requests wait until [`Webhooks::were_read`].
    pub fn new(kind: WebhookKind, backends: Arc<Backends>) -> Self {
        let (known, list) = (Mutex::default(), ArcSwap::default());
        Self { kind, backends, known, list, read: watch::Sender::new(false) }
    }

    pub fn kind(&self) -> WebhookKind {
        self.kind
    }

    /// The configurations that stand in files of the server, in their order: in place of those before.
    pub fn put_manifests(&self, configurations: &[Value]) {
        let hooks = |configuration| Hook::all_of("manifest/", configuration, self.kind.of_metrics(), &self.backends);
        let manifests = configurations.iter().flat_map(hooks).collect();
        let mut known = self.known.lock();
        known.manifests = manifests;
        self.list.store(Arc::new(known.list()));
    }

    /// A configuration is there or has changed.
    pub fn put(&self, configuration: &Value) {
        let hooks = Hook::all_of("", configuration, self.kind.of_metrics(), &self.backends);
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

    /// All webhooks that are asked now.
    pub(crate) fn all(&self) -> Vec<Arc<Hook>> {
        self.list.load().hooks.clone()
    }

    /// All configurations have been read for the first time.
    pub fn were_read(&self) {
        let known = self.known.lock();
        self.list.store(Arc::new(known.list()));
        self.read.send_replace(true);
    }

    /// True when all configurations have been read.
    pub fn are_read(&self) -> bool {
        *self.read.borrow()
    }

    /// True unless nothing of this kind can concern a request.
    pub(crate) fn may_concern(&self, attributes: &Attributes) -> bool {
        let list = self.list.load();
        if is_exempt(attributes) {
            return list.candidates(attributes).next().is_some();
        }
        !list.index.candidates(attributes).is_empty() || !self.are_read()
    }

    /// The webhooks once those that may be asked have been read; `None` where that takes too long.
    pub(crate) async fn list(&self, attributes: &Attributes) -> Option<Arc<List>> {
        if !self.are_read() && !is_exempt(attributes) {
            let mut read = self.read.subscribe();
            let waited = tokio::time::timeout(PATIENCE, read.wait_for(|read| *read)).await;
            waited.ok()?.ok()?;
        }
        Some(self.list.load_full())
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Text, Vec<Arc<Hook>>>)) {
        let mut known = self.known.lock();
        change(&mut known.configurations);
        // The list is not used before all configurations are there.
        if self.are_read() {
            self.list.store(Arc::new(known.list()));
        }
    }
}

impl Known {
    fn list(&self) -> List {
        let hooks: Vec<Arc<Hook>> =
            self.manifests.iter().chain(self.configurations.values().flatten()).cloned().collect();
        let index = Index::new(hooks.iter().map(|hook| &hook.criteria));
        List { hooks, of_files: self.manifests.len(), index }
    }
}

impl List {
    /// The webhooks that may match a request, each with its number among all. Only those of files match objects that
    /// configure admission, so that a cluster that others broke can be mended through the API.
    pub(crate) fn candidates(&self, attributes: &Attributes) -> impl Iterator<Item = (usize, &Arc<Hook>)> {
        let places = if is_exempt(attributes) { 0..self.of_files } else { 0..self.hooks.len() };
        let candidates = self.index.candidates(attributes).iter().filter(move |at| places.contains(at));
        candidates.filter_map(|at| Some((*at, self.hooks.get(*at)?)))
    }
}
