//! The resources that a server currently serves: group versions with their resources, built-in and dynamic, in order of
//! preference.

use std::cmp::{Ordering, Reverse};
use std::sync::Arc;

use binnacle_meta::{GroupVersionKind, Text, compare_kube_versions};
use imbl::OrdMap;

use crate::{GroupDescription, ResourceDescription, VersionDescription};

/// The group versions that a server serves at one time, for discovery and routing. Immutable: a change creates a new
/// set, which shares the unchanged groups. The registry's `Snapshot` adds the `Resource`s, which have the objects.
#[derive(Clone, Debug, Default)]
pub struct ServedResources {
    /// The groups by name, including the core group.
    groups: OrdMap<Text, Arc<ServedGroup>>,
}

/// A group with at least one served version. A [`GroupDescription`] also has the versions that are not served.
#[derive(Clone, Debug)]
pub struct ServedGroup {
    pub name: Text,
    /// In order of preference, never empty.
    pub versions: Vec<ServedVersion>,
}

/// One served version of a [`ServedGroup`]. A [`VersionDescription`] also has the resources that are not served.
#[derive(Clone, Debug)]
pub struct ServedVersion {
    pub version: Text,
    /// As in APIServices: the highest value of a group's versions determines the position of the group.
    pub group_priority: i32,
    pub version_priority: i32,
    pub resources: Resources,
    /// True if the last discovery of the resources failed, so that they may be outdated.
    pub stale: bool,
}

/// The resources of one [`ServedVersion`]: [`ResourceDescription`]s of this server, or [`RemoteResource`]s of another
/// server.
#[derive(Clone, Debug)]
pub enum Resources {
    /// Built-in resources.
    BuiltIn(Arc<[Arc<ResourceDescription>]>),
    /// Custom resources, sorted by plural.
    Custom(Arc<[Arc<ResourceDescription>]>),
    /// Resources as another server reports them.
    Remote(Arc<[RemoteResource]>),
}

/// A resource of another server, as published in discovery: a [`ResourceDescription`] without the data that only the
/// serving server needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteResource {
    pub plural: Text,
    pub singular: Text,
    pub kind: GroupVersionKind,
    /// `Namespaced`, `Cluster`, or any other value that its server reports.
    pub scope: Text,
    /// In the order of discovery; `None` if its server reports none, which differs from an empty list.
    pub verbs: Option<Arc<[Text]>>,
    pub short_names: Vec<Text>,
    pub categories: Vec<Text>,
    pub subresources: Vec<RemoteSubresource>,
    /// Empty if another server stores the objects.
    pub storage_version_hash: Text,
}

/// A subresource of a [`RemoteResource`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemoteSubresource {
    pub name: Text,
    pub kind: GroupVersionKind,
    /// The kinds that it accepts, if its server reports them.
    pub accepted: Vec<GroupVersionKind>,
    pub verbs: Option<Arc<[Text]>>,
}

/// The priorities of the group versions of custom resources.
pub const CUSTOM_RESOURCE_PRIORITIES: (i32, i32) = (1000, 100);

impl RemoteResource {
    pub fn is_namespaced(&self) -> bool {
        self.scope == SCOPES[1]
    }
}

/// Returns the scope of namespaced or cluster-scoped resources.
pub fn scope(namespaced: bool) -> &'static str {
    SCOPES[usize::from(namespaced)]
}

const SCOPES: [&str; 2] = ["Cluster", "Namespaced"];

// === impl ServedResources: constructors ===

impl ServedResources {
    /// Collects the resources of `groups` for which `pick` returns a description. Versions without any are not served.
    pub fn built_in(
        groups: &[GroupDescription],
        pick: impl Fn(&VersionDescription, &Arc<ResourceDescription>) -> Option<Arc<ResourceDescription>>,
    ) -> Self {
        let mut served = Self::default();
        for group in groups {
            for version in &group.versions {
                let resources: Arc<[_]> =
                    version.resources.iter().filter_map(|resource| pick(version, resource)).collect();
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

// === impl ServedResources: changes ===

impl ServedResources {
    /// Adds a group version or replaces it.
    pub fn insert(&mut self, group: Text, version: ServedVersion) {
        let changed = self
            .groups
            .entry(group.clone())
            .or_insert_with(|| Arc::new(ServedGroup { name: group, versions: Vec::new() }));
        let versions = &mut Arc::make_mut(changed).versions;
        versions.retain(|other| other.version != version.version);
        let at = versions.partition_point(|other| other.preference(&version).is_lt());
        versions.insert(at, version);
    }

    /// Removes a group version, and with its last version the group.
    pub fn remove(&mut self, group: &str, version: &str) {
        let Some(changed) = self.groups.get_mut(group) else { return };
        let changed = Arc::make_mut(changed);
        changed.versions.retain(|other| other.version != version);
        if changed.versions.is_empty() {
            self.groups.remove(group);
        }
    }
}

// === impl ServedResources: queries ===

impl ServedResources {
    /// Returns all groups in the order of discovery, including the core group: by descending priority, then by name.
    pub fn groups(&self) -> Vec<&ServedGroup> {
        let mut groups: Vec<&ServedGroup> = self.groups.values().map(|group| &**group).collect();
        groups.sort_by_key(|group| Reverse(group.versions.iter().map(|version| version.group_priority).max()));
        groups
    }

    pub fn group(&self, name: &str) -> Option<&ServedGroup> {
        self.groups.get(name).map(|group| &**group)
    }

    /// Returns the description of a resource that this server itself serves.
    pub fn find(&self, group: &str, version: &str, plural: &str) -> Option<&Arc<ResourceDescription>> {
        self.version(group, version)?.resources.find(plural)
    }

    /// Returns the description of the resource whose objects have this kind, if this server itself serves it.
    pub fn find_kind(&self, group: &str, version: &str, kind: &str) -> Option<&Arc<ResourceDescription>> {
        self.version(group, version)?.resources.own().iter().find(|resource| resource.kind == kind)
    }

    /// Returns true if a built-in resource is served.
    pub fn has(&self, description: &ResourceDescription) -> bool {
        self.find(&description.group, &description.version, &description.plural).is_some()
    }

    pub fn version(&self, group: &str, version: &str) -> Option<&ServedVersion> {
        self.group(group)?.versions.iter().find(|served| served.version == version)
    }
}

// === impl ServedGroup ===

impl ServedGroup {
    /// Returns true if any of the versions is built in.
    pub fn is_built_in(&self) -> bool {
        self.versions.iter().any(|version| matches!(version.resources, Resources::BuiltIn(_)))
    }
}

// === impl Resources ===

impl Resources {
    /// Returns the resources that this server itself serves.
    pub fn own(&self) -> &[Arc<ResourceDescription>] {
        match self {
            Self::BuiltIn(resources) | Self::Custom(resources) => resources,
            Self::Remote(_) => &[],
        }
    }

    /// Finds a resource in [`Resources::own`].
    pub fn find(&self, plural: &str) -> Option<&Arc<ResourceDescription>> {
        match self {
            Self::BuiltIn(resources) => resources.iter().find(|resource| resource.plural == plural),
            // The group of a custom resource may have thousands of resources.
            Self::Custom(resources) => {
                let at = resources.binary_search_by(|resource| resource.plural.as_str().cmp(plural)).ok()?;
                resources.get(at)
            }
            Self::Remote(_) => None,
        }
    }
}

// === impl ServedVersion ===

impl ServedVersion {
    /// Orders by descending priority, then by name.
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

    fn resources(group: &str, version: &str, plurals: &[&str]) -> Arc<[Arc<ResourceDescription>]> {
        let description = |plural: &&str| {
            let names = [group, version, plural, "one", &format!("Kind-{plural}"), "list"].map(Text::from);
            Arc::new(ResourceDescription::new(names, true))
        };
        plurals.iter().map(description).collect()
    }

    /// Inserts versions such as `group/version=10:20`, with the priorities of the group and of the version.
    fn served(versions: &str) -> ServedResources {
        let mut served = ServedResources::default();
        for text in versions.split_whitespace() {
            let (name, priorities) = text.split_once('=').unwrap();
            let ((group, version), (of_group, of_version)) =
                (name.split_once('/').unwrap(), priorities.split_once(':').unwrap());
            let version = ServedVersion {
                version: version.into(),
                group_priority: of_group.parse().unwrap(),
                version_priority: of_version.parse().unwrap(),
                resources: Resources::Custom(resources(group, version, &["as", "bs"])),
                stale: false,
            };
            served.insert(group.into(), version);
        }
        served
    }

    /// Returns all group versions in the order of discovery.
    fn order(served: &ServedResources) -> String {
        let groups = served.groups();
        let versions = groups
            .iter()
            .flat_map(|group| group.versions.iter().map(|version| format!("{}/{}", group.name, version.version)));
        versions.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn discovery_orders_groups_and_versions_by_priority() {
        for (versions, want) in [
            ("b/v1=10:1 a/v1=10:1 c/v1=20:1", "c/v1 a/v1 b/v1"),
            // The highest priority of any version counts for the group.
            ("a/v1=10:9 b/v1=20:1 a/v2=30:1", "a/v1 a/v2 b/v1"),
            ("a/v1=1:5 a/v2=1:9", "a/v2 a/v1"),
            ("a/v1beta1=1:1 a/v2=1:1 a/v1=1:1 a/v10=1:1 a/x=1:1", "a/v10 a/v2 a/v1 a/v1beta1 a/x"),
            // The later one replaces the earlier one, wherever it was.
            ("a/v1=1:9 a/v2=1:5 a/v1=1:1", "a/v2 a/v1"),
        ] {
            assert_eq!(order(&served(versions)), want, "{versions}");
        }
    }

    #[test]
    fn group_without_versions_is_not_served() {
        let all = served("a/v1=1:1 a/v2=1:2 b/v1=1:1");
        for (removed, want) in
            [("a/v1", "a/v2 b/v1"), ("b/v1", "a/v2 a/v1"), ("b/v2", "a/v2 a/v1 b/v1"), ("c/v1", "a/v2 a/v1 b/v1")]
        {
            let mut served = all.clone();
            let (group, version) = removed.split_once('/').unwrap();
            served.remove(group, version);
            assert_eq!(order(&served), want, "{removed}");
        }
        let mut served = all.clone();
        ["v1", "v2"].into_iter().for_each(|version| served.remove("a", version));
        assert!(served.group("a").is_none() && all.group("a").is_some());
    }

    #[test]
    fn finds_only_resources_that_this_server_serves() {
        let remote = RemoteResource {
            plural: "as".into(),
            singular: "a".into(),
            kind: GroupVersionKind::new("g", "v1", "Kind-as"),
            scope: "Namespaced".into(),
            verbs: None,
            short_names: Vec::new(),
            categories: Vec::new(),
            subresources: Vec::new(),
            storage_version_hash: "".into(),
        };
        let own = resources("g", "v1", &["as", "bs", "cs"]);
        for (resources, is_found) in [
            (Resources::BuiltIn(own.clone()), true),
            (Resources::Custom(own), true),
            (Resources::Remote([remote].into()), false),
        ] {
            let mut served = ServedResources::default();
            let version =
                ServedVersion { version: "v1".into(), group_priority: 1, version_priority: 1, resources, stale: false };
            served.insert("g".into(), version);
            let found = [served.find("g", "v1", "as"), served.find_kind("g", "v1", "Kind-bs")];
            let plurals = found.map(|found| found.map(|description| description.plural.as_str()));
            assert_eq!(plurals, ["as", "bs"].map(|plural| is_found.then_some(plural)));
            assert!(served.find("g", "v1", "ds").is_none() && served.find("g", "v2", "as").is_none());
        }
    }
}
