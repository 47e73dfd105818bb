//! The webhooks of all configurations of a type, in the order of calls.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use binnacle_admission_matching::{Index, is_exempt, is_heartbeat};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::Text;
use binnacle_registry::admission::Attributes;
use binnacle_schema::Value;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::backends::Backends;
use crate::hook::Hook;
use crate::metrics::Type;

/// The maximum time that a request waits for the configurations to be read after startup.
const READ_TIMEOUT: Duration = Duration::from_secs(10);

/// The types of configurations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WebhookKind {
    Mutating,
    Validating,
}

/// All webhooks of a type, which an informer updates.
pub struct Webhooks {
    kind: WebhookKind,
    backends: Arc<Backends>,
    compiled: Mutex<CompiledWebhooks>,
    list: ArcSwap<WebhookList>,
    read: watch::Sender<bool>,
}

#[derive(Default)]
struct CompiledWebhooks {
    /// The webhooks from manifests, which come first.
    manifests: Vec<Arc<Hook>>,
    /// The webhooks of the API, sorted by the names of their configurations.
    configurations: BTreeMap<Text, Vec<Arc<Hook>>>,
}

/// A snapshot of the webhooks.
#[derive(Default)]
pub(crate) struct WebhookList {
    hooks: Vec<Arc<Hook>>,
    /// The number of webhooks from manifests, which are the first ones.
    manifest_count: usize,
    index: Index,
}

impl WebhookKind {
    pub(crate) fn of_metrics(self) -> Type {
        match self {
            Self::Mutating => Type::Admit,
            Self::Validating => Type::Validating,
        }
    }

    /// Returns the plural of the configurations' resource.
    pub fn plural(self) -> &'static str {
        match self {
            Self::Mutating => "mutatingwebhookconfigurations",
            Self::Validating => "validatingwebhookconfigurations",
        }
    }
}

impl Webhooks {
    /// Creates an empty set. Requests wait until [`Webhooks::were_read`] is called.
    pub fn new(kind: WebhookKind, backends: Arc<Backends>) -> Self {
        let (compiled, list) = (Mutex::default(), ArcSwap::default());
        Self { kind, backends, compiled, list, read: watch::Sender::new(false) }
    }

    pub fn kind(&self) -> WebhookKind {
        self.kind
    }

    /// Replaces the configurations from manifests, in order.
    pub fn put_manifests(&self, configurations: &[Value]) {
        let hooks = |configuration| Hook::all_of("manifest/", configuration, self.kind.of_metrics(), &self.backends);
        let manifests = configurations.iter().flat_map(hooks).collect();
        let mut compiled = self.compiled.lock();
        compiled.manifests = manifests;
        self.list.store(Arc::new(compiled.list()));
    }

    /// Adds or replaces a configuration.
    pub fn put(&self, configuration: &Value) {
        let hooks = Hook::all_of("", configuration, self.kind.of_metrics(), &self.backends);
        self.change(|configurations| {
            configurations.insert(metadata(configuration).at(ObjectMeta::NAME).str().into(), hooks);
        });
    }

    /// Removes a configuration.
    pub fn remove(&self, name: &str) {
        self.change(|configurations| {
            configurations.remove(name);
        });
    }

    /// Removes the configurations for whose name `exists` returns false.
    pub fn retain(&self, exists: impl Fn(&str) -> bool) {
        self.change(|configurations| configurations.retain(|name, _| exists(name)));
    }

    /// Returns all current webhooks.
    pub(crate) fn all(&self) -> Vec<Arc<Hook>> {
        self.list.load().hooks.clone()
    }

    /// Reports that all configurations have been read for the first time.
    pub fn were_read(&self) {
        let compiled = self.compiled.lock();
        self.list.store(Arc::new(compiled.list()));
        self.read.send_replace(true);
    }

    /// Returns true if all configurations have been read.
    pub fn are_read(&self) -> bool {
        *self.read.borrow()
    }

    /// Returns false if no webhook of this type can match a request.
    pub(crate) fn may_match(&self, attributes: &Attributes) -> bool {
        let list = self.list.load();
        if is_exempt_from_api_webhooks(attributes) {
            return list.candidates(attributes).next().is_some();
        }
        !list.index.candidates(attributes).is_empty() || !self.are_read()
    }

    /// Waits until the webhooks for the request have been read, and returns the current webhooks; `None` on a timeout.
    pub(crate) async fn list(&self, attributes: &Attributes) -> Option<Arc<WebhookList>> {
        if !self.are_read() && !is_exempt_from_api_webhooks(attributes) {
            let mut read = self.read.subscribe();
            let waited = tokio::time::timeout(READ_TIMEOUT, read.wait_for(|read| *read)).await;
            waited.ok()?.ok()?;
        }
        Some(self.list.load_full())
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<Text, Vec<Arc<Hook>>>)) {
        let mut compiled = self.compiled.lock();
        change(&mut compiled.configurations);
        // The list is not used before all configurations have been read.
        if self.are_read() {
            self.list.store(Arc::new(compiled.list()));
        }
    }
}

/// Returns true for requests that only webhooks from manifests apply to, so that a broken webhook of the API can be
/// repaired and does not block the server's own heartbeats.
fn is_exempt_from_api_webhooks(attributes: &Attributes) -> bool {
    is_exempt(attributes) || is_heartbeat(attributes)
}

impl CompiledWebhooks {
    fn list(&self) -> WebhookList {
        let hooks: Vec<Arc<Hook>> =
            self.manifests.iter().chain(self.configurations.values().flatten()).cloned().collect();
        let index = Index::new(hooks.iter().map(|hook| &hook.criteria));
        WebhookList { hooks, manifest_count: self.manifests.len(), index }
    }
}

impl WebhookList {
    /// Returns the webhooks that may match a request, with their indices among all webhooks.
    pub(crate) fn candidates(&self, attributes: &Attributes) -> impl Iterator<Item = (usize, &Arc<Hook>)> {
        let range = if is_exempt_from_api_webhooks(attributes) { 0..self.manifest_count } else { 0..self.hooks.len() };
        let candidates = self.index.candidates(attributes).iter().filter(move |at| range.contains(at));
        candidates.filter_map(|at| Some((*at, self.hooks.get(*at)?)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{backends, creation, parse};

    /// Builds a configuration from its name and those of its webhooks, which match all requests: `a: x y`.
    fn configuration(text: &str) -> Value {
        let (name, webhooks) = text.split_once(": ").unwrap();
        let rules = r#"[{"operations": ["*"], "apiGroups": ["*"], "apiVersions": ["*"], "resources": ["*/*"]}]"#;
        let webhook =
            |name| format!(r#"{{"name": "{name}", "rules": {rules}, "clientConfig": {{"url": "https://a"}}}}"#);
        let webhooks: Vec<String> = webhooks.split(' ').map(webhook).collect();
        parse(&format!(r#"{{"metadata": {{"name": "{name}"}}, "webhooks": [{}]}}"#, webhooks.join(", ")))
    }

    fn webhooks(configurations: &[&str], manifests: &[&str]) -> Webhooks {
        let webhooks = Webhooks::new(WebhookKind::Validating, backends());
        configurations.iter().for_each(|text| webhooks.put(&configuration(text)));
        let manifests: Vec<Value> = manifests.iter().map(|text| configuration(text)).collect();
        webhooks.put_manifests(&manifests);
        webhooks.were_read();
        webhooks
    }

    fn ids(webhooks: &Webhooks) -> String {
        webhooks.all().iter().map(|hook| hook.id.to_string()).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn manifests_come_first_and_configurations_in_order_of_their_names() {
        let webhooks = webhooks(&["b: y", "a: x z"], &["q: m", "p: n"]);
        assert_eq!(ids(&webhooks), "manifest/q/m/0 manifest/p/n/0 a/x/0 a/z/0 b/y/0");
        webhooks.put(&configuration("a: w"));
        assert_eq!(ids(&webhooks), "manifest/q/m/0 manifest/p/n/0 a/w/0 b/y/0");
        webhooks.retain(|name| name == "b");
        webhooks.put_manifests(&[]);
        assert_eq!(ids(&webhooks), "b/y/0");
        webhooks.remove("b");
        assert_eq!(ids(&webhooks), "");
    }

    #[test]
    fn only_manifests_apply_to_webhook_configurations_and_heartbeats() {
        let pod = creation("", "Pod", "pods");
        let kind = "ValidatingWebhookConfiguration";
        let exempt = creation("admissionregistration.k8s.io", kind, "validatingwebhookconfigurations");
        let lease = creation("coordination.k8s.io", "Lease", "leases");
        let heartbeat = Attributes { by_server: true, namespace: "kube-system".into(), ..lease.clone() };
        for (configurations, manifests, attributes, want) in [
            (&["a: x"][..], &["m: n"][..], &pod, &[0, 1][..]),
            (&["a: x"], &["m: n"], &lease, &[0, 1]),
            (&["a: x"], &["m: n"], &exempt, &[0]),
            (&["a: x"], &["m: n"], &heartbeat, &[0]),
            (&["a: x"], &[], &heartbeat, &[]),
        ] {
            let webhooks = webhooks(configurations, manifests);
            let list = webhooks.list.load();
            let found: Vec<usize> = list.candidates(attributes).map(|(at, _)| at).collect();
            assert_eq!((found.as_slice(), webhooks.may_match(attributes)), (want, !want.is_empty()), "{attributes:?}");
        }
    }

    #[test]
    fn requests_may_match_until_configurations_are_read() {
        let webhooks = Webhooks::new(WebhookKind::Mutating, backends());
        let pod = creation("", "Pod", "pods");
        assert!(webhooks.may_match(&pod) && !webhooks.are_read());
        webhooks.were_read();
        assert!(!webhooks.may_match(&pod) && webhooks.are_read());
    }
}
