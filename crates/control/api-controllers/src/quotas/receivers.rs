//! The changes after which quotas are computed again.

use std::sync::{Arc, Weak};

use binnacle_admission::{QuotaState, QuotaUsage};
use binnacle_registry::Resource;
use binnacle_watchcache::Entry;

use super::{AFTER_CREATION, Controller, usage_of};
use crate::changes::Receiver;
use crate::monitors::Receivers;

impl Receivers for Arc<Controller> {
    fn receiver(&self, resource: &Arc<Resource>) -> Option<Arc<dyn Receiver>> {
        if !resource.description.namespaced {
            return None;
        }
        let (controller, usage) = (Arc::downgrade(self), usage_of(resource)?);
        let d = &resource.description;
        let of_quotas = d.group.is_empty() && d.plural == "resourcequotas";
        Some(Arc::new(UsageReceiver { controller, resource: resource.clone(), usage, of_quotas }))
    }
}

/// Receives the changes of one resource.
struct UsageReceiver {
    controller: Weak<Controller>,
    resource: Arc<Resource>,
    usage: QuotaUsage,
    /// True for the quotas themselves.
    of_quotas: bool,
}

impl UsageReceiver {
    fn quota_changed(&self, controller: &Controller, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(entry) = new.or(old) else { return };
        let (namespace, name) = (entry.namespace(), entry.name());
        {
            let mut known = controller.known.lock();
            let names = known.entry(namespace.into()).or_default();
            match new {
                Some(_) => drop(names.insert(name.into())),
                None => drop(names.remove(name)),
            }
            if names.is_empty() {
                known.remove(namespace);
            }
        }
        let state = |entry: &Arc<Entry>| {
            let quota = self.resource.collection.decode_entry(entry).ok()?;
            Some(QuotaState::of(&quota))
        };
        // Changes of the status are mostly those of this controller and of admission.
        let is_new = match (old.and_then(state), new.and_then(state)) {
            (_, None) => false,
            (None, Some(_)) => true,
            (Some(old), Some(new)) => old.limits != new.limits || new.enforced != new.limits,
        };
        if is_new {
            controller.queue.add((namespace.into(), name.into()));
        }
    }

    /// Returns true if the change of an object releases or adds usage that admission does not charge.
    fn usage_differs(&self, old: &Entry, new: &Entry) -> bool {
        let object = |entry: &Entry| self.resource.collection.decode_entry(entry).ok();
        match (object(old), object(new)) {
            (Some(old), Some(new)) => self.usage.differs(&old, &new),
            (old, new) => old.is_some() != new.is_some(),
        }
    }
}

impl Receiver for UsageReceiver {
    fn changed(&self, old: Option<&Arc<Entry>>, new: Option<&Arc<Entry>>) {
        let Some(controller) = self.controller.upgrade() else { return };
        if self.of_quotas {
            self.quota_changed(&controller, old, new);
        }
        let Some(entry) = new.or(old) else { return };
        let quotas = match controller.known.lock().get(entry.namespace()) {
            Some(names) => names.clone(),
            // Most namespaces have none.
            None => return,
        };
        let after = match (old, new) {
            (None, _) => AFTER_CREATION,
            (Some(old), Some(new)) if !self.usage_differs(old, new) => return,
            _ => std::time::Duration::ZERO,
        };
        for name in quotas {
            controller.queue.add_after((entry.namespace().into(), name), after);
        }
    }

    fn listed(&self, _: &dyn Fn(&str) -> bool) {
        // Deletions may have been missed.
        let Some(controller) = self.controller.upgrade() else { return };
        for (namespace, names) in &*controller.known.lock() {
            for name in names {
                controller.queue.add_after((namespace.clone(), name.clone()), AFTER_CREATION);
            }
        }
    }
}
