//! Test fixtures: a lookup of fixed objects, and calls of plugins.

use std::sync::Arc;

use binnacle_authz::{Attributes as Access, Authorizer, AuthzError};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{GroupVersionKind, GroupVersionResource, Status, Text};
use binnacle_registry::admission::{Admission, Attributes, Operation, OperationOptions};
use binnacle_registry::{RequestNotes, WriteObject};
use binnacle_request::{BoxFuture, Decision, User};
use binnacle_schema::Value;
use parking_lot::Mutex;

use crate::lookup::{Freshness, Labels, Lookup, LookupKind, Mapping, NamespaceState};
use crate::{Chain, Metrics, Plugin};

/// Looks up these objects by their metadata.
#[derive(Default)]
pub(crate) struct FixedLookup {
    pub(crate) objects: Vec<(LookupKind, Value)>,
    /// The namespaces that were created.
    pub(crate) created: Mutex<Vec<String>>,
}

impl FixedLookup {
    pub(crate) fn new(objects: Vec<(LookupKind, Value)>) -> Arc<Self> {
        Arc::new(Self { objects, created: Mutex::default() })
    }

    fn find(&self, kind: LookupKind, namespace: &str, name: &str) -> Option<Value> {
        let mut found = self.all(kind, namespace);
        found.find(|object| metadata(object).at(ObjectMeta::NAME).str() == name)
    }

    fn all(&self, kind: LookupKind, namespace: &str) -> impl Iterator<Item = Value> + use<'_> {
        let namespace = namespace.to_owned();
        let of = move |entry: &&(LookupKind, Value)| {
            entry.0 == kind && metadata(&entry.1).at(ObjectMeta::NAMESPACE).str() == namespace
        };
        self.objects.iter().filter(of).map(|(_, object)| object.clone())
    }
}

impl Lookup for FixedLookup {
    fn namespace<'a>(&'a self, name: &'a str, _: Freshness) -> BoxFuture<'a, Result<NamespaceState, Status>> {
        let found = self.find(LookupKind::Namespace, "", name);
        let state = if found.is_some() { NamespaceState::Active } else { NamespaceState::Absent };
        Box::pin(async move { Ok(state) })
    }

    fn get<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        name: &'a str,
        _: Freshness,
    ) -> BoxFuture<'a, Result<Option<Arc<Value>>, Status>> {
        Box::pin(async move { Ok(self.find(kind, namespace, name).map(Arc::new)) })
    }

    fn labels<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        name: &'a str,
        _: Freshness,
    ) -> BoxFuture<'a, Result<Option<Labels>, Status>> {
        let labels = self.find(kind, namespace, name).map(|object| {
            let labels = metadata(&object).at(ObjectMeta::LABELS).detached();
            labels.entries().map(|(key, value)| (key.into(), Text::from(value.str()))).collect()
        });
        Box::pin(async move { Ok(labels) })
    }

    fn list<'a>(
        &'a self,
        kind: LookupKind,
        namespace: &'a str,
        _: Freshness,
    ) -> BoxFuture<'a, Result<Vec<Arc<Value>>, Status>> {
        Box::pin(async move { Ok(self.all(kind, namespace).map(Arc::new).collect()) })
    }

    fn charge<'a>(&'a self, _: &'a Value) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async { Ok(()) })
    }

    fn create_namespace<'a>(&'a self, name: &'a str) -> BoxFuture<'a, Result<(), Status>> {
        self.created.lock().push(name.to_owned());
        Box::pin(async { Ok(()) })
    }

    fn is_known(&self, group: &str, version: &str, kind: &str) -> bool {
        binnacle_resources::find_kind(group, version, kind).is_some()
    }

    fn mapping(&self, group: &str, version: &str, kind: &str) -> Option<Mapping> {
        let described = binnacle_resources::find_kind(group, version, kind)?;
        Some(Mapping { plural: described.plural.clone(), namespaced: described.namespaced })
    }
}

/// An authorizer that allows a list of requests: verb, resource, subresource and name, separated by spaces.
pub(crate) struct AccessListAuthorizer(pub(crate) Vec<&'static str>);

impl Authorizer for AccessListAuthorizer {
    fn authorize<'a>(&'a self, access: &'a Access<'a>) -> BoxFuture<'a, Result<Decision, AuthzError>> {
        let requested = [access.verb, access.resource, access.subresource, access.name];
        let requested = requested.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
        let allowed = self.0.contains(&requested.as_str());
        let decision = if allowed { Decision::Allow("".into()) } else { Decision::NoOpinion("".into()) };
        Box::pin(async { Ok(decision) })
    }
}

/// Returns the attributes of a request for the object `x` in the namespace `ns`; `resource` is group, version, plural.
pub(crate) fn attributes(operation: Operation, resource: [&str; 3], kind: &str, subresource: &str) -> Attributes {
    let [group, version, plural] = resource;
    Attributes {
        operation,
        kind: GroupVersionKind::new(group, version, kind),
        resource: GroupVersionResource::new(group, version, plural),
        subresource: subresource.into(),
        namespace: "ns".into(),
        name: "x".into(),
        user: User::new("me", &[]),
        dry_run: false,
        options: OperationOptions::None,
        deadline: None,
        by_server: false,
    }
}

pub(crate) fn pods(operation: Operation) -> Attributes {
    attributes(operation, ["", "v1", "pods"], "Pod", "")
}

/// Returns the object after both stages of the plugin, or the code and message of the rejection.
pub(crate) async fn admit(
    plugin: Arc<dyn Plugin>,
    attributes: &Attributes,
    object: &Value,
    old: Option<&Value>,
) -> Result<Value, (u16, String)> {
    let chain = Chain::new(vec![plugin], &Metrics::fresh()).expect("the plugin has a place");
    let mut object = WriteObject::from(object.clone());
    let refused = |status: Status| (status.code(), status.message().to_owned());
    chain.mutate(attributes, &mut object, old, &RequestNotes::default()).await.map_err(refused)?;
    chain.validate(attributes, &object, old, &RequestNotes::default()).await.map_err(refused)?;
    Ok(object.into_value())
}
