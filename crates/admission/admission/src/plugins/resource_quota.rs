//! ResourceQuota: limits the total usage of a namespace. A request is charged before its object is written. The quota
//! controller releases usage that is not needed or no longer needed.

mod check;
mod claims;
mod counts;
mod device_claims;
mod evaluator;
mod evaluators;
mod limited;
mod pods;
mod services;
mod usage;

use std::collections::HashMap;
use std::sync::{Arc, Weak};

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_meta::{Status, Text};
use binnacle_registry::WriteObject;
use binnacle_registry::admission::{Attributes, Operation};
use binnacle_request::BoxFuture;
use binnacle_schema::Value;
use parking_lot::Mutex;

use crate::lookup::{Freshness, Lookup, LookupKind};
use crate::plugin::{Plugin, Request, Stage};
use check::check;
pub use limited::LimitedResource;
pub use usage::{QuotaAmounts, QuotaState, QuotaUsage};

/// The number of retries of a charge after conflicts with other writers.
const RETRIES: usize = 3;

/// Resources that are not stored, and events, which are not counted.
const IGNORED: [(&str, &str); 10] = [
    ("", "bindings"),
    ("", "componentstatuses"),
    ("", "events"),
    ("authentication.k8s.io", "selfsubjectreviews"),
    ("authentication.k8s.io", "tokenreviews"),
    ("authorization.k8s.io", "localsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectaccessreviews"),
    ("authorization.k8s.io", "selfsubjectrulesreviews"),
    ("authorization.k8s.io", "subjectaccessreviews"),
    ("events.k8s.io", "events"),
];

pub(crate) struct ResourceQuota {
    lookup: Arc<dyn Lookup>,
    limited: Vec<LimitedResource>,
    /// Locks by namespace, since concurrent charges in a namespace would only conflict.
    locks: Mutex<HashMap<Text, Weak<NamespaceLock>>>,
}

type NamespaceLock = tokio::sync::Mutex<()>;

impl ResourceQuota {
    pub(crate) fn new(lookup: Arc<dyn Lookup>, limited: Vec<LimitedResource>) -> Self {
        Self { lookup, limited, locks: Mutex::default() }
    }

    async fn charge(&self, request: Request<'_>, object: &Value) -> Result<(), Status> {
        let attributes = request.attributes;
        let namespace = attributes.namespace.as_str();
        let evaluator = evaluators::of(attributes);
        if !evaluator.handles(request, object) {
            return Ok(());
        }
        if self.limited.is_empty()
            && self.lookup.list(LookupKind::ResourceQuota, namespace, Freshness::Cached).await?.is_empty()
        {
            return Ok(());
        }
        let lock = self.lock_of(namespace);
        let _guard = lock.lock().await;
        // The names of the quotas that are not charged yet; `None` for all.
        let mut uncharged: Option<Vec<Text>> = None;
        for retry in 0.. {
            let mut quotas = self.lookup.list(LookupKind::ResourceQuota, namespace, Freshness::Consistent).await?;
            if let Some(uncharged) = &uncharged {
                quotas.retain(|quota| uncharged.contains(&name(quota)));
            }
            let charged = check(&quotas, &self.limited, request, object, &*evaluator)?;
            if attributes.dry_run {
                return Ok(());
            }
            let mut failed = Vec::new();
            let mut failure = None;
            for quota in &charged {
                if let Err(status) = self.lookup.charge(quota).await {
                    failed.push(name(quota));
                    failure = Some(status);
                }
            }
            match failure {
                None => break,
                Some(status) if retry >= RETRIES => return Err(status),
                Some(_) => uncharged = Some(failed),
            }
        }
        Ok(())
    }

    fn lock_of(&self, namespace: &str) -> Arc<NamespaceLock> {
        let mut locks = self.locks.lock();
        if let Some(lock) = locks.get(namespace).and_then(Weak::upgrade) {
            return lock;
        }
        // The first request in a namespace also drops the locks that are no longer in use.
        locks.retain(|_, lock| lock.strong_count() > 0);
        let lock = Arc::new(NamespaceLock::default());
        locks.insert(namespace.into(), Arc::downgrade(&lock));
        lock
    }
}

impl Plugin for ResourceQuota {
    fn name(&self) -> &'static str {
        "ResourceQuota"
    }

    fn handles(&self, stage: Stage, attributes: &Attributes) -> bool {
        let resource = (attributes.resource.group.as_str(), attributes.resource.resource.as_str());
        stage == Stage::Validate
            && matches!(attributes.operation, Operation::Create | Operation::Update)
            && !attributes.namespace.is_empty()
            && resource != ("", "namespaces")
            && !IGNORED.contains(&resource)
    }

    fn validate<'a>(&'a self, request: Request<'a>, object: &'a WriteObject) -> BoxFuture<'a, Result<(), Status>> {
        Box::pin(self.charge(request, object))
    }
}

fn name(quota: &Value) -> Text {
    metadata(quota).at(ObjectMeta::NAME).str().into()
}
