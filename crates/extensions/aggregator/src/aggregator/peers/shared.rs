//! Group versions that all servers of a cluster share: those of CustomResourceDefinitions, and of APIServices with a
//! service.
//!
//! The resources of peers are not read again when one of these group versions is removed. Therefore they are never
//! requested from peers, nor for some time after their removal, until all servers have noticed it.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use binnacle_controllers::EventHandler;
use binnacle_fields::apiextensions::v1::{
    CustomResourceDefinition as Definition, CustomResourceDefinitionSpec as DefinitionSpec,
    CustomResourceDefinitionVersion as DefinitionVersion,
};
use binnacle_fields::apiregistration::v1::{APIService, APIServiceSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::Text;
use binnacle_schema::Value;
use parking_lot::Mutex;
use tokio::sync::Notify;

use super::Peers;

/// The time after its removal during which a group version is not requested from peers.
const GRACE: Duration = Duration::from_secs(300);

type GroupVersion = (Text, Text);

/// The group versions that are shared, and those that were until recently.
#[derive(Default)]
pub(super) struct Shared {
    state: Mutex<State>,
    /// Notified when a group version is removed.
    pub(super) removed_any: Notify,
}

#[derive(Default)]
struct State {
    /// The shared group versions by the kind and name of the object that defines them.
    by_object: HashMap<(SourceKind, Text), Vec<GroupVersion>>,
    removed: HashMap<GroupVersion, Instant>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum SourceKind {
    Definition,
    Service,
}

impl Shared {
    pub(super) fn has(&self, group: &str, version: &str) -> bool {
        let is_same = |shared: &GroupVersion| shared.0 == group && shared.1 == version;
        let state = self.state.lock();
        state.by_object.values().flatten().any(is_same)
            || state.removed.iter().any(|(shared, since)| is_same(shared) && since.elapsed() <= GRACE)
    }

    /// Drops group versions whose grace period is over. Returns the time of the next call, if any is needed, and true
    /// if a group version was dropped.
    pub(super) fn reap(&self) -> (Option<Instant>, bool) {
        let mut state = self.state.lock();
        let before = state.removed.len();
        state.removed.retain(|_, since| since.elapsed() <= GRACE);
        let next = state.removed.values().min().map(|since| *since + GRACE + Duration::from_millis(1));
        (next, state.removed.len() < before)
    }

    /// Sets the group versions of an object; returns true if they have changed.
    fn put(&self, kind: SourceKind, name: &str, group_versions: Vec<GroupVersion>) -> bool {
        let mut state = self.state.lock();
        let before = state.by_object.get(&(kind, name.into())).cloned().unwrap_or_default();
        if before == group_versions {
            return false;
        }
        match group_versions.is_empty() {
            true => drop(state.by_object.remove(&(kind, name.into()))),
            false => drop(state.by_object.insert((kind, name.into()), group_versions)),
        }
        for group_version in before {
            if !state.by_object.values().flatten().any(|shared| *shared == group_version) {
                state.removed.insert(group_version, Instant::now());
            }
        }
        drop(state);
        self.removed_any.notify_one();
        true
    }

    fn names(&self, kind: SourceKind) -> Vec<Text> {
        self.state.lock().by_object.keys().filter(|(source, _)| *source == kind).map(|(_, name)| name.clone()).collect()
    }
}

/// Returns the handler of CustomResourceDefinitions.
pub(super) fn definitions(peers: &Peers) -> impl EventHandler + use<> {
    SharedVersionsHandler { peers: peers.clone(), kind: SourceKind::Definition, group_versions: of_definition }
}

/// Returns the handler of APIServices.
pub(super) fn services(peers: &Peers) -> impl EventHandler + use<> {
    SharedVersionsHandler { peers: peers.clone(), kind: SourceKind::Service, group_versions: of_service }
}

struct SharedVersionsHandler {
    peers: Peers,
    kind: SourceKind,
    group_versions: fn(&Value) -> Vec<GroupVersion>,
}

impl SharedVersionsHandler {
    fn change(&self, name: &str, group_versions: Vec<GroupVersion>) {
        if self.peers.0.shared.put(self.kind, name, group_versions) {
            self.peers.changed();
        }
    }
}

impl EventHandler for SharedVersionsHandler {
    fn retain(&self, exists: &dyn Fn(&str, &str) -> bool) {
        let names = self.peers.0.shared.names(self.kind);
        names.iter().filter(|name| !exists("", name)).for_each(|name| self.change(name, Vec::new()));
    }

    fn put(&self, object: Value) {
        self.change(metadata(&object).at(ObjectMeta::NAME).str(), (self.group_versions)(&object));
    }

    fn remove(&self, _: &str, name: &str) {
        self.change(name, Vec::new());
    }
}

fn of_definition(definition: &Value) -> Vec<GroupVersion> {
    let spec = FieldRef::<Definition>::root(definition).at(Definition::SPEC).detached();
    let group = Text::from(spec.at(DefinitionSpec::GROUP).str());
    let versions = spec.at(DefinitionSpec::VERSIONS).values();
    versions.map(|version| (group.clone(), version.at(DefinitionVersion::NAME).str().into())).collect()
}

/// Returns the group version of an APIService with a service, and none for a local APIService.
fn of_service(service: &Value) -> Vec<GroupVersion> {
    let spec = FieldRef::<APIService>::root(service).at(APIService::SPEC).detached();
    match spec.at(APIServiceSpec::SERVICE).is_set() {
        true => vec![(spec.at(APIServiceSpec::GROUP).str().into(), spec.at(APIServiceSpec::VERSION).str().into())],
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;

    #[test]
    fn reads_group_versions_of_objects() {
        let definition = value!({"spec": {"group": "a.test", "versions": [{"name": "v1"}, {"name": "v2"}]}});
        assert_eq!(of_definition(&definition), [("a.test".into(), "v1".into()), ("a.test".into(), "v2".into())]);
        let service = |service: Value| value!({"spec": {"group": "b.test", "version": "v1", "service": service}});
        assert_eq!(of_service(&service(value!({"name": "x"}))), [("b.test".into(), "v1".into())]);
        assert!(of_service(&service(Value::Null)).is_empty());
    }

    #[test]
    fn remembers_removed_group_versions() {
        let shared = Shared::default();
        let version = |version: &str| (Text::from("a.test"), Text::from(version));
        assert!(shared.put(SourceKind::Definition, "x", vec![version("v1"), version("v2")]));
        assert!(!shared.put(SourceKind::Definition, "x", vec![version("v1"), version("v2")]));
        assert!(shared.put(SourceKind::Service, "v1.a.test", vec![version("v1")]));
        assert_eq!(shared.reap(), (None, false));
        assert!(shared.put(SourceKind::Definition, "x", Vec::new()));
        // The APIService still defines the first one.
        let (next, reaped) = shared.reap();
        assert!(next.is_some() && !reaped);
        assert_eq!(shared.state.lock().removed.keys().collect::<Vec<_>>(), [&version("v2")]);
        assert!(shared.has("a.test", "v1") && shared.has("a.test", "v2") && !shared.has("a.test", "v3"));
        if let Some(long_ago) = Instant::now().checked_sub(GRACE * 2) {
            shared.state.lock().removed.insert(version("v2"), long_ago);
            assert!(!shared.has("a.test", "v2"));
            assert_eq!(shared.reap(), (None, true));
        }
    }
}
