//! All APIServices, with an index for requests.

use std::cmp::Reverse;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use binnacle_discovery::ListedGroup;
use binnacle_meta::{Text, compare_kube_versions};
use binnacle_scheme::{Resources, Served};

use crate::remote::Remote;

/// The group of APIServices, which has no APIService itself and is listed first.
const REGISTRATION: &str = "apiregistration.k8s.io";

/// An APIService.
#[derive(Clone)]
pub(crate) struct ApiServiceEntry {
    pub(crate) group: Text,
    pub(crate) version: Text,
    pub(crate) group_priority: i32,
    pub(crate) version_priority: i32,
    /// `None` if this server serves the group version itself.
    pub(crate) remote: Option<Arc<Remote>>,
}

/// A snapshot of all APIServices by name, with an index for paths.
#[derive(Clone, Default)]
pub(crate) struct Registry {
    pub(crate) by_name: BTreeMap<Text, ApiServiceEntry>,
    /// The servers of APIServices, by group.
    remotes: HashMap<Text, Vec<Arc<Remote>>>,
    /// The number of APIServices in each group.
    groups: HashMap<Text, usize>,
    /// True once all APIServices have been read.
    pub(crate) is_complete: bool,
}

impl Registry {
    pub(crate) fn new(by_name: BTreeMap<Text, ApiServiceEntry>, is_complete: bool) -> Self {
        let mut remotes: HashMap<Text, Vec<Arc<Remote>>> = HashMap::new();
        let mut groups: HashMap<Text, usize> = HashMap::new();
        for entry in by_name.values() {
            *groups.entry(entry.group.clone()).or_default() += 1;
            if let Some(remote) = &entry.remote {
                remotes.entry(entry.group.clone()).or_default().push(remote.clone());
            }
        }
        Self { by_name, remotes, groups, is_complete }
    }

    /// Returns the remote server for a path: below `/apis/GROUP/VERSION`, or all of `/api`.
    pub(crate) fn remote_of(&self, path: &str) -> Option<&Arc<Remote>> {
        if self.remotes.is_empty() {
            return None;
        }
        let mut segments = path.strip_prefix('/')?.splitn(4, '/');
        match (segments.next(), segments.next(), segments.next()) {
            (Some("api"), ..) => self.remotes.get("").and_then(|remotes| remotes.first()),
            (Some("apis"), Some(group), Some(version)) if !group.is_empty() => {
                self.remotes.get(group)?.iter().find(|remote| remote.version == version)
            }
            _ => None,
        }
    }

    pub(crate) fn has_group(&self, group: &str) -> bool {
        self.groups.contains_key(group)
    }

    /// Returns the groups of all APIServices in the order of `/apis`. A version that this server has just started to
    /// serve is included, since its APIService is about to be created.
    pub(crate) fn listed_groups(&self, served: &Served) -> Vec<ListedGroup> {
        let name_of = |version: &str, group: &str| Text::from(format!("{version}.{group}"));
        let mut all: Vec<(Text, ListedVersion)> = Vec::with_capacity(self.by_name.len());
        for (name, entry) in &self.by_name {
            all.push((name.clone(), ListedVersion::of(entry)));
        }
        for group in served.groups() {
            for version in &group.versions {
                let is_listed = !self.is_complete || matches!(version.resources, Resources::Custom(_));
                let name = name_of(&version.version, &group.name);
                if is_listed && group.name != REGISTRATION && !self.by_name.contains_key(&name) {
                    let (group_priority, version_priority) = (version.group_priority, version.version_priority);
                    let (group, version) = (group.name.clone(), version.version.clone());
                    all.push((name, ListedVersion { group, version, group_priority, version_priority }));
                }
            }
        }
        all.retain(|(_, version)| !version.group.is_empty() && version.group != REGISTRATION);
        all.sort_by(|(a_name, a), (b_name, b)| {
            b.group_priority.cmp(&a.group_priority).then_with(|| a_name.cmp(b_name))
        });
        let mut groups: Vec<(Text, Vec<ListedVersion>)> = Vec::new();
        let mut positions: HashMap<Text, usize> = HashMap::new();
        for (_, version) in all {
            let position = *positions.entry(version.group.clone()).or_insert_with(|| {
                groups.push((version.group.clone(), Vec::new()));
                groups.len() - 1
            });
            groups[position].1.push(version);
        }
        let own = served.group(REGISTRATION).map(|group| ListedGroup {
            name: group.name.clone(),
            versions: group.versions.iter().map(|version| version.version.clone()).collect(),
        });
        let sorted = groups.into_iter().map(|(name, mut versions)| {
            versions.sort_by(|a, b| {
                let by_priority = Reverse(a.version_priority).cmp(&Reverse(b.version_priority));
                by_priority.then_with(|| compare_kube_versions(&b.version, &a.version))
            });
            ListedGroup { name, versions: versions.into_iter().map(|listed| listed.version).collect() }
        });
        own.into_iter().chain(sorted).collect()
    }
}

struct ListedVersion {
    group: Text,
    version: Text,
    group_priority: i32,
    version_priority: i32,
}

impl ListedVersion {
    fn of(entry: &ApiServiceEntry) -> Self {
        Self {
            group: entry.group.clone(),
            version: entry.version.clone(),
            group_priority: entry.group_priority,
            version_priority: entry.version_priority,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(names: &[(&str, i32, i32)], is_complete: bool) -> Registry {
        let entries = names.iter().map(|(name, group_priority, version_priority)| {
            let (version, group) = name.split_once('.').unwrap();
            let entry = ApiServiceEntry {
                group: group.into(),
                version: version.into(),
                group_priority: *group_priority,
                version_priority: *version_priority,
                remote: None,
            };
            (Text::from(*name), entry)
        });
        Registry::new(entries.collect(), is_complete)
    }

    /// Groups are sorted by the greatest group priority of their versions, then by the names of APIServices, which
    /// start with the version.
    #[test]
    fn orders_groups_by_priority() {
        let registry = registry(
            &[
                ("v1.", 18000, 1),
                ("v2.a.test", 1000, 100),
                ("v1.b.test", 1000, 100),
                ("v1.c.test", 100, 20),
                ("v1beta1.c.test", 2000, 20),
                ("v2.c.test", 100, 30),
            ],
            true,
        );
        let listed_groups = registry.listed_groups(&Served::default());
        let shown: Vec<String> =
            listed_groups.iter().map(|group| format!("{} {}", group.name, group.versions.join(","))).collect();
        assert_eq!(shown, ["c.test v2,v1,v1beta1", "b.test v1", "a.test v2"]);
        assert!(registry.has_group("c.test") && !registry.has_group("d.test"));
        assert!(registry.remote_of("/apis/c.test/v1/x").is_none());
    }
}
