//! What a server serves right now: group versions with their resources, built-in and dynamic, in order of preference.

use std::cmp::{Ordering, Reverse};
use std::collections::BTreeMap;
use std::sync::Arc;

use binnacle_meta::{GroupVersionKind, Text, compare_kube_versions};
use binnacle_resources::{ResourceDescription, VersionDescription, groups};

/// An immutable set of group versions. A change makes a new set, which shares what did not change.
#[derive(Clone, Debug, Default)]
pub struct Served {
    /// By name; the core group is among them.
    groups: BTreeMap<Text, Arc<ServedGroup>>,
}

/// A group with at least one served version.
#[derive(Clone, Debug)]
pub struct ServedGroup {
    pub name: Text,
    /// In order of preference, never empty.
    pub versions: Vec<ServedVersion>,
}

/// One group version.
#[derive(Clone, Debug)]
pub struct ServedVersion {
    pub version: Text,
    /// As in APIServices: the greatest of a group's versions places the group.
    pub group_priority: i32,
    pub version_priority: i32,
    pub resources: Resources,
    /// The last attempt to learn the resources failed; those shown may be outdated.
    pub stale: bool,
}

/// The resources of one group version.
#[derive(Clone, Debug)]
pub enum Resources {
    BuiltIn(Arc<[&'static ResourceDescription]>),
    /// Of custom resource definitions, or as another server reports them.
    Dynamic(Arc<[DynamicResource]>),
}

/// A resource that is known only at run time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicResource {
    pub plural: Text,
    pub singular: Text,
    pub kind: GroupVersionKind,
    pub namespaced: bool,
    /// In the order in which they are shown.
    pub verbs: Arc<[Text]>,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub subresources: Vec<DynamicSubresource>,
    /// Empty where objects are not stored here.
    pub storage_version_hash: Text,
}

/// A subresource of a [`DynamicResource`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicSubresource {
    pub name: Text,
    pub kind: GroupVersionKind,
    pub verbs: Arc<[Text]>,
}

/// The priorities of group versions that custom resource definitions bring.
pub const CUSTOM_RESOURCE_PRIORITIES: (i32, i32) = (1000, 100);

// === impl Served: constructors ===

impl Served {
    /// What is served without `--runtime-config` and `--feature-gates`.
    pub fn default_built_in() -> Self {
        Self::built_in(|version, _| version.served_by_default)
    }

    /// The built-in resources that `enabled` lets through. Versions without any are not served.
    pub fn built_in(enabled: impl Fn(&VersionDescription, &ResourceDescription) -> bool) -> Self {
        let mut served = Self::default();
        for group in groups() {
            for version in group.versions {
                let resources: Arc<[_]> =
                    version.resources.iter().filter(|resource| enabled(version, resource)).collect();
                if !resources.is_empty() {
                    served.insert(
                        Text::new_static(group.name),
                        ServedVersion {
                            version: Text::new_static(version.version),
                            group_priority: group.priority,
                            version_priority: version.priority,
                            resources: Resources::BuiltIn(resources),
                            stale: false,
                        },
                    );
                }
            }
        }
        served
    }
}

// === impl Served: changes ===

impl Served {
    /// Adds a group version or replaces it.
    pub fn insert(&mut self, group: Text, version: ServedVersion) {
        let changed = self
            .groups
            .entry(group)
            .or_insert_with_key(|name| Arc::new(ServedGroup { name: name.clone(), versions: Vec::new() }));
        let versions = &mut Arc::make_mut(changed).versions;
        versions.retain(|known| known.version != version.version);
        let at = versions.partition_point(|known| known.preference(&version).is_lt());
        versions.insert(at, version);
    }

    /// Takes a group version out; a group without versions is gone.
    pub fn remove(&mut self, group: &str, version: &str) {
        let Some(changed) = self.groups.get_mut(group) else { return };
        let changed = Arc::make_mut(changed);
        changed.versions.retain(|known| known.version != version);
        if changed.versions.is_empty() {
            self.groups.remove(group);
        }
    }
}

// === impl Served: questions ===

impl Served {
    /// All groups in the order of discovery, the core group included: by falling priority, then by name.
    pub fn groups(&self) -> Vec<&ServedGroup> {
        let mut groups: Vec<&ServedGroup> = self.groups.values().map(|group| &**group).collect();
        groups.sort_by_key(|group| Reverse(group.versions.iter().map(|version| version.group_priority).max()));
        groups
    }

    pub fn group(&self, name: &str) -> Option<&ServedGroup> {
        self.groups.get(name).map(|group| &**group)
    }

    /// Whether a built-in resource is among those served.
    pub fn has(&self, description: &ResourceDescription) -> bool {
        let Some(version) = self.version(description.group, description.version) else { return false };
        match &version.resources {
            Resources::BuiltIn(resources) => resources.iter().any(|served| served.plural == description.plural),
            Resources::Dynamic(_) => false,
        }
    }

    pub fn version(&self, group: &str, version: &str) -> Option<&ServedVersion> {
        self.group(group)?.versions.iter().find(|served| served.version == version)
    }
}

// === impl ServedGroup ===

impl ServedGroup {
    /// Whether any of the versions is built in.
    pub fn is_built_in(&self) -> bool {
        self.versions.iter().any(|version| matches!(version.resources, Resources::BuiltIn(_)))
    }
}

// === impl ServedVersion ===

impl ServedVersion {
    /// Orders by falling priority, then by what the names say.
    fn preference(&self, other: &Self) -> Ordering {
        other
            .version_priority
            .cmp(&self.version_priority)
            .then_with(|| compare_kube_versions(&other.version, &self.version))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn custom(version: &str) -> ServedVersion {
        let (group_priority, version_priority) = CUSTOM_RESOURCE_PRIORITIES;
        ServedVersion {
            version: version.into(),
            group_priority,
            version_priority,
            resources: Resources::Dynamic(Arc::new([])),
            stale: false,
        }
    }

    fn shown(served: &Served, group: &str) -> Vec<Text> {
        served.group(group).map(|group| group.versions.iter().map(|v| v.version.clone()).collect()).unwrap_or_default()
    }

    #[test]
    fn groups_and_versions_keep_their_order() {
        let mut served = Served::default_built_in();
        for (group, version) in
            [("b.test", "v1beta1"), ("a.test", "v1"), ("b.test", "v10"), ("b.test", "v2alpha1"), ("b.test", "v1")]
        {
            served.insert(group.into(), custom(version));
        }
        assert_eq!(shown(&served, "b.test"), ["v10", "v1", "v1beta1", "v2alpha1"]);
        assert_eq!(shown(&served, "autoscaling"), ["v2", "v1"]);
        let names: Vec<&str> = served.groups().iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names[..3], ["apiregistration.k8s.io", "", "apps"]);
        assert_eq!(names[names.len() - 2..], ["a.test", "b.test"]);

        served.insert("b.test".into(), ServedVersion { group_priority: 2000, ..custom("v1") });
        let names: Vec<&str> = served.groups().iter().map(|group| group.name.as_str()).collect();
        assert_eq!(names[names.len() - 2..], ["b.test", "a.test"]);

        served.remove("a.test", "v1");
        served.remove("a.test", "v1");
        served.remove("b.test", "v10");
        assert!(served.group("a.test").is_none());
        assert_eq!(shown(&served, "b.test"), ["v1", "v1beta1", "v2alpha1"]);
    }

    #[test]
    fn what_is_off_is_not_served() {
        let served = Served::default_built_in();
        assert!(served.group("storagemigration.k8s.io").is_none());
        assert!(served.version("resource.k8s.io", "v1beta1").is_none());
        let all = Served::built_in(|_, resource| resource.feature_gate.is_none());
        assert!(all.group("storagemigration.k8s.io").is_none());
        assert!(all.version("scheduling.k8s.io", "v1alpha2").is_none());
        assert_eq!(shown(&all, "resource.k8s.io"), ["v1", "v1beta2", "v1beta1", "v1alpha3"]);
    }
}
