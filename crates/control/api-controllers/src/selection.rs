//! The names of the controllers, and which of them run.

use std::collections::BTreeSet;

use binnacle_meta::go_quote;

/// A controller of this crate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ControllerName {
    Namespace,
    GarbageCollector,
    ServiceAccount,
    RootCa,
    ClusterRoleAggregation,
    TtlAfterFinished,
    ResourceQuota,
    ServiceAccountToken,
    ClaimProtection,
    VolumeProtection,
}

/// kube-controller-manager's names: the canonical one, and the older one that it also accepts.
const NAMES: [(ControllerName, &str, &str); 10] = [
    (ControllerName::ClusterRoleAggregation, "clusterrole-aggregation-controller", "clusterrole-aggregation"),
    (ControllerName::GarbageCollector, "garbage-collector-controller", "garbagecollector"),
    (ControllerName::Namespace, "namespace-controller", "namespace"),
    (ControllerName::VolumeProtection, "persistentvolume-protection-controller", "pv-protection"),
    (ControllerName::ClaimProtection, "persistentvolumeclaim-protection-controller", "pvc-protection"),
    (ControllerName::ResourceQuota, "resourcequota-controller", "resourcequota"),
    (ControllerName::RootCa, "root-ca-certificate-publisher-controller", "root-ca-cert-publisher"),
    (ControllerName::ServiceAccount, "serviceaccount-controller", "serviceaccount"),
    (ControllerName::ServiceAccountToken, "serviceaccount-token-controller", "serviceaccount-token"),
    (ControllerName::TtlAfterFinished, "ttl-after-finished-controller", "ttl-after-finished"),
];

/// The controllers that run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection(BTreeSet<ControllerName>);

/// A name that no controller has.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{} is not in the list of known controllers", go_quote(.0))]
pub struct UnknownController(String);

impl Selection {
    /// Selects controllers by a list in which `*` is all of them, `NAME` one, and `-NAME` excludes one; the first item
    /// with a name counts, as in kube-controller-manager's `--controllers`.
    ///
    /// # Errors
    ///
    /// A name that no controller has.
    pub fn parse<'a>(items: impl IntoIterator<Item = &'a str>) -> Result<Self, UnknownController> {
        let mut every = false;
        let mut decided = BTreeSet::new();
        let mut selected = BTreeSet::new();
        for item in items {
            if item == "*" {
                every = true;
                continue;
            }
            let name = item.strip_prefix('-').unwrap_or(item);
            let known = NAMES.iter().find(|(_, canonical, older)| name == *canonical || name == *older);
            let (controller, ..) = known.ok_or_else(|| UnknownController(name.to_owned()))?;
            if decided.insert(*controller) && !item.starts_with('-') {
                selected.insert(*controller);
            }
        }
        if every {
            selected.extend(NAMES.iter().map(|(controller, ..)| *controller).filter(|one| !decided.contains(one)));
        }
        Ok(Self(selected))
    }

    /// Returns the canonical names of all controllers, in alphabetical order.
    pub fn names() -> impl Iterator<Item = &'static str> {
        let names: BTreeSet<&str> = NAMES.iter().map(|(_, canonical, _)| *canonical).collect();
        names.into_iter()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn contains(&self, controller: ControllerName) -> bool {
        self.0.contains(&controller)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(list: &str) -> Result<Vec<ControllerName>, String> {
        let selection = Selection::parse(list.split(',')).map_err(|error| error.to_string())?;
        Ok(selection.0.into_iter().collect())
    }

    #[test]
    fn first_item_with_a_name_counts() {
        use ControllerName::{Namespace, RootCa};
        for (list, want) in [
            ("namespace", vec![Namespace]),
            ("namespace-controller,root-ca-cert-publisher", vec![Namespace, RootCa]),
            ("namespace,-namespace", vec![Namespace]),
            ("-namespace,namespace", vec![]),
            ("-namespace", vec![]),
        ] {
            assert_eq!(of(list), Ok(want), "{list}");
        }
        let every = of("*").unwrap();
        assert_eq!(every.len(), NAMES.len());
        let without = of("*,-namespace-controller").unwrap();
        assert!(!without.contains(&Namespace) && without.len() == NAMES.len() - 1, "{without:?}");
    }

    #[test]
    fn unknown_names_are_reported_without_their_sign() {
        for list in ["nothing", "*,-nothing"] {
            assert_eq!(of(list), Err("\"nothing\" is not in the list of known controllers".to_owned()), "{list}");
        }
    }
}
