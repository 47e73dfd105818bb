//! NamespaceExists and NamespaceAutoProvision: requests in a namespace that does not exist are rejected, or the
//! namespace is created. NamespaceLifecycle, which is enabled by default, includes NamespaceExists.

use std::sync::Arc;

use binnacle_meta::{GroupResource, Status, StatusReason};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;

use crate::lookup::{Freshness, Lookup, NamespaceState};
use crate::plugin::{Plugin, Request, Stage, forbidden};

pub(crate) struct NamespaceExists {
    lookup: Arc<dyn Lookup>,
}

impl NamespaceExists {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }
}

impl Plugin for NamespaceExists {
    fn name(&self) -> &'static str {
        "NamespaceExists"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Validate && attributes.operation != Operation::Connect && is_inside(attributes)
    }

    fn validate<'a>(&'a self, request: Request<'a>, _: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let name = &request.attributes.namespace;
            for freshness in [Freshness::Cached, Freshness::Consistent] {
                let state = self.lookup.namespace(name, freshness).await;
                if state.map_err(|status| Status::internal(status.message()))? != NamespaceState::Absent {
                    return Ok(());
                }
            }
            Err(Status::not_found(&GroupResource::new("", "namespaces"), name))
        })
    }
}

pub(crate) struct NamespaceAutoProvision {
    lookup: Arc<dyn Lookup>,
}

impl NamespaceAutoProvision {
    pub(crate) fn new(lookup: Arc<dyn Lookup>) -> Self {
        Self { lookup }
    }
}

impl Plugin for NamespaceAutoProvision {
    fn name(&self) -> &'static str {
        "NamespaceAutoProvision"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        stage == Stage::Mutate
            && attributes.operation == Operation::Create
            && !attributes.dry_run
            && is_inside(attributes)
    }

    fn mutate<'a>(&'a self, request: Request<'a>, object: &'a mut WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(async move {
            let name = &request.attributes.namespace;
            let refused = |status: Status| forbidden(request.attributes, object, status.message());
            if self.lookup.namespace(name, Freshness::Cached).await.map_err(refused)? != NamespaceState::Absent {
                return Ok(());
            }
            match self.lookup.create_namespace(name).await {
                Err(status) if !status.is(StatusReason::AlreadyExists) => Err(refused(status)),
                _ => Ok(()),
            }
        })
    }
}

/// Returns true if a request is for an object in a namespace.
fn is_inside(attributes: &Attributes) -> bool {
    let kind = &attributes.kind;
    let is_namespace = kind.group.is_empty() && kind.kind == "Namespace";
    !is_namespace && !attributes.namespace.is_empty()
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::lookup::LookupKind;
    use crate::testing::{FixedLookup, admit, attributes, pods};

    #[tokio::test]
    async fn rejects_or_creates_absent_namespaces() {
        let pod = value!({"metadata": {"name": "x"}});
        let existing = || FixedLookup::new(vec![(LookupKind::Namespace, value!({"metadata": {"name": "ns"}}))]);
        let absent = Err((404, "namespaces \"ns\" not found".to_owned()));
        for operation in [Operation::Create, Operation::Update, Operation::Delete] {
            let attributes = pods(operation);
            let plugin = Arc::new(NamespaceExists::new(existing()));
            assert_eq!(admit(plugin, &attributes, &pod, None).await, Ok(pod.clone()));
            let plugin = Arc::new(NamespaceExists::new(FixedLookup::new(Vec::new())));
            assert_eq!(admit(plugin, &attributes, &pod, None).await, absent);
        }
        let own = attributes(Operation::Create, ["", "v1", "namespaces"], "Namespace", "");
        let plugin = Arc::new(NamespaceExists::new(FixedLookup::new(Vec::new())));
        assert_eq!(admit(plugin, &own, &pod, None).await, Ok(pod.clone()));

        for (lookup, operation, dry_run, created) in [
            (existing(), Operation::Create, false, false),
            (FixedLookup::new(Vec::new()), Operation::Create, false, true),
            (FixedLookup::new(Vec::new()), Operation::Create, true, false),
            (FixedLookup::new(Vec::new()), Operation::Update, false, false),
        ] {
            let attributes = Attributes { dry_run, ..pods(operation) };
            let plugin = Arc::new(NamespaceAutoProvision::new(lookup.clone()));
            assert_eq!(admit(plugin, &attributes, &pod, None).await, Ok(pod.clone()));
            assert_eq!(*lookup.created.lock() == ["ns"], created, "{operation:?}");
        }
    }
}
