//! Aggregated discovery of all servers of a cluster, whose resources differ during an upgrade (KEP-4020).

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use binnacle_meta::{GroupVersionKind, Text};
use binnacle_scheme::{RemoteResource, RemoteSubresource};

use crate::discovered::{DiscoveredGroup, DiscoveredVersion};
use crate::documents::{GroupDiscovery, ResourceDiscovery, ResponseKind, VersionDiscovery};

/// Merges the groups of all servers. `own` is the name of this server among its peers: if documents differ, the server
/// with the first name takes precedence, so that all servers return the same document.
#[must_use]
pub fn merge_peers(
    own: &str,
    groups: Vec<DiscoveredGroup>,
    peers: &BTreeMap<Text, Vec<DiscoveredGroup>>,
) -> Vec<DiscoveredGroup> {
    let mut servers: BTreeMap<&str, &[DiscoveredGroup]> =
        peers.iter().map(|(name, groups)| (name.as_str(), groups.as_slice())).collect();
    servers.insert(own, &groups);
    let own_order = names(&groups, |group| &group.name);
    let mut merged: HashMap<Text, DiscoveredGroup> = HashMap::new();
    let (mut is_changed, mut same_order, mut orders) = (false, true, Vec::new());
    for groups in servers.values() {
        for group in *groups {
            match merged.get_mut(&group.name) {
                None => drop(merged.insert(group.name.clone(), group.clone())),
                Some(merged_entry) => {
                    if let Some(both) = merge_groups(merged_entry, group) {
                        *merged_entry = both;
                        is_changed = true;
                    }
                }
            }
        }
        let order = names(groups, |group| &group.name);
        same_order &= order == own_order;
        orders.push(order);
    }
    let order = match (is_changed, same_order) {
        (false, true) => return groups,
        (true, true) => own_order,
        (_, false) => merge_orders(orders),
    };
    order.iter().filter_map(|name| merged.remove(name)).collect()
}

/// Merges two versions of a group; `None` if the second adds nothing to the first.
fn merge_groups(a: &DiscoveredGroup, b: &DiscoveredGroup) -> Option<DiscoveredGroup> {
    let mut versions: HashMap<Text, DiscoveredVersion> =
        a.versions.iter().map(|version| (version.version.clone(), version.clone())).collect();
    let mut is_changed = false;
    for version in &b.versions {
        match versions.get_mut(&version.version) {
            None => drop(versions.insert(version.version.clone(), version.clone())),
            Some(merged_entry) => {
                if let Some(resources) = merge_resources(&merged_entry.resources, &version.resources) {
                    merged_entry.resources = resources;
                    is_changed = true;
                }
            }
        }
    }
    let [ours, theirs] = [a, b].map(|group| names(&group.versions, |version| &version.version));
    let order = merge_order(ours, theirs, is_changed)?;
    let versions = order.iter().filter_map(|name| versions.remove(name)).collect();
    Some(DiscoveredGroup { name: a.name.clone(), versions })
}

/// Merges two lists of resources; `None` if the second adds nothing to the first.
fn merge_resources(a: &[RemoteResource], b: &[RemoteResource]) -> Option<Arc<[RemoteResource]>> {
    let mut resources: HashMap<Text, RemoteResource> =
        a.iter().map(|resource| (resource.plural.clone(), resource.clone())).collect();
    let mut is_changed = false;
    for resource in b {
        match resources.get_mut(&resource.plural) {
            None => drop(resources.insert(resource.plural.clone(), resource.clone())),
            Some(merged_entry) if merged_entry == resource => {}
            Some(merged_entry) => {
                add_capabilities(merged_entry, resource);
                is_changed = true;
            }
        }
    }
    let [ours, theirs] = [a, b].map(|list| names(list, |resource| &resource.plural));
    let order = merge_order(ours, theirs, is_changed)?;
    Some(order.iter().filter_map(|name| resources.remove(name)).collect())
}

/// Adds the verbs and subresources of the same resource on another server. All other fields remain.
fn add_capabilities(merged_entry: &mut RemoteResource, other: &RemoteResource) {
    let verbs: BTreeSet<Text> =
        [&merged_entry.verbs, &other.verbs].into_iter().flatten().flat_map(|verbs| &**verbs).cloned().collect();
    merged_entry.verbs = (!verbs.is_empty()).then(|| verbs.into_iter().collect());
    let both = merged_entry.subresources.iter().chain(&other.subresources);
    let subresources: BTreeMap<Text, RemoteSubresource> =
        both.map(|subresource| (subresource.name.clone(), subresource.clone())).collect();
    merged_entry.subresources = subresources.into_values().collect();
}

/// Merges the orders of two lists; `None` if neither the order nor the elements change.
fn merge_order(ours: Vec<Text>, theirs: Vec<Text>, is_changed: bool) -> Option<Vec<Text>> {
    match (ours == theirs, is_changed) {
        (true, false) => None,
        (true, true) => Some(ours),
        (false, _) => Some(merge_orders(vec![ours, theirs])),
    }
}

fn names<T>(items: &[T], name: impl Fn(&T) -> &Text) -> Vec<Text> {
    items.iter().map(|item| name(item).clone()).collect()
}

/// Merges lists of names: each name follows those that precede it in any list; names without such an order, or with
/// contradicting ones, are sorted.
fn merge_orders(lists: Vec<Vec<Text>>) -> Vec<Text> {
    let mut after: BTreeMap<&Text, BTreeSet<&Text>> = BTreeMap::new();
    for list in &lists {
        for (at, name) in list.iter().enumerate() {
            let successors = after.entry(name).or_default();
            successors.extend(list.get(at + 1));
        }
    }
    let is_total_order = |list: &&Vec<Text>| {
        let distinct: BTreeSet<&Text> = list.iter().collect();
        list.len() == after.len() && distinct.len() == list.len()
    };
    if let Some(total) = lists.iter().find(is_total_order) {
        return total.clone();
    }
    let mut pending_predecessors: BTreeMap<&Text, usize> = after.keys().map(|name| (*name, 0)).collect();
    for successor in after.values().flatten() {
        *pending_predecessors.entry(successor).or_default() += 1;
    }
    let mut free: BTreeSet<&Text> =
        pending_predecessors.iter().filter(|(_, count)| **count == 0).map(|(name, _)| *name).collect();
    let mut order = Vec::with_capacity(after.len());
    while let Some(name) = free.pop_first() {
        order.push(name.clone());
        for successor in &after[name] {
            if let Some(count) = pending_predecessors.get_mut(successor) {
                *count -= 1;
                if *count == 0 {
                    free.insert(successor);
                }
            }
        }
    }
    match order.len() == after.len() {
        true => order,
        false => after.keys().map(|name| (*name).clone()).collect(),
    }
}

// === Conversion from documents and back ===

impl From<&GroupDiscovery<'_>> for DiscoveredGroup {
    fn from(group: &GroupDiscovery<'_>) -> Self {
        let versions = group.versions.iter().map(|version| DiscoveredVersion {
            version: version.version.into(),
            is_stale: version.freshness != "Current",
            resources: version.resources.iter().map(resource).collect(),
        });
        Self { name: group.metadata.name.into(), versions: versions.collect() }
    }
}

fn resource(described: &ResourceDiscovery<'_>) -> RemoteResource {
    let texts = |texts: &[&str]| texts.iter().map(|text| Text::from(*text)).collect::<Vec<_>>();
    let subresources = described.subresources.iter().map(|subresource| RemoteSubresource {
        name: subresource.subresource.into(),
        kind: kind(&subresource.response_kind),
        accepted: subresource.accepted_types.iter().map(kind).collect(),
        verbs: subresource.verbs.as_deref().map(|verbs| texts(verbs).into()),
    });
    RemoteResource {
        plural: described.resource.into(),
        singular: described.singular_resource.into(),
        kind: kind(&described.response_kind),
        scope: described.scope.into(),
        verbs: described.verbs.as_deref().map(|verbs| texts(verbs).into()),
        short_names: texts(&described.short_names),
        categories: texts(&described.categories),
        subresources: subresources.collect(),
        storage_version_hash: Text::default(),
    }
}

fn kind(described: &ResponseKind<'_>) -> GroupVersionKind {
    GroupVersionKind { group: described.group.into(), version: described.version.into(), kind: described.kind.into() }
}

impl<'a> VersionDiscovery<'a> {
    pub(crate) fn discovered(version: &'a DiscoveredVersion) -> Self {
        let resources = version.resources.iter().map(crate::documents::remote_discovery).collect();
        Self { version: &version.version, resources, freshness: if version.is_stale { "Stale" } else { "Current" } }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(list: &str) -> Vec<Text> {
        list.split_whitespace().map(Text::from).collect()
    }

    #[test]
    fn merges_orders() {
        for (lists, want) in [
            (&["a b c", "b c"][..], "a b c"),
            (&["a c", "b c"], "a b c"),
            (&["c a", "c b a"], "c b a"),
            (&["b a", "a d"], "b a d"),
            (&["z m", "a"], "a z m"),
            (&["b a c", "a b d"], "a b c d"),
            (&["", "a"], "a"),
        ] {
            let lists = lists.iter().map(|list| texts(list)).collect();
            assert_eq!(merge_orders(lists), texts(want), "{want}");
        }
    }

    /// Parses `GROUP=VERSION:RESOURCE(VERBS),...`, with spaces between groups.
    fn groups(text: &str) -> Vec<DiscoveredGroup> {
        let mut groups: Vec<DiscoveredGroup> = Vec::new();
        for part in text.split_whitespace() {
            let (name, rest) = part.split_once('=').unwrap();
            let (version, resources) = rest.split_once(':').unwrap();
            let resources = resources.split(',').filter(|resource| !resource.is_empty()).map(|resource| {
                let (plural, verbs) = resource.trim_end_matches(')').split_once('(').unwrap();
                RemoteResource {
                    plural: plural.into(),
                    singular: Text::default(),
                    kind: GroupVersionKind::new("", "", ""),
                    scope: "Namespaced".into(),
                    verbs: Some(verbs.split('+').map(Text::from).collect()),
                    short_names: Vec::new(),
                    categories: Vec::new(),
                    subresources: Vec::new(),
                    storage_version_hash: Text::default(),
                }
            });
            let version =
                DiscoveredVersion { version: version.into(), is_stale: false, resources: resources.collect() };
            match groups.iter_mut().find(|group| group.name == name) {
                Some(group) => group.versions.push(version),
                None => groups.push(DiscoveredGroup { name: name.into(), versions: vec![version] }),
            }
        }
        groups
    }

    #[test]
    fn merges_groups_of_peers() {
        for (own, peers, want) in [
            ("a=v1:x(get)", &[][..], "a=v1:x(get)"),
            ("a=v1:x(get)", &[("p", "a=v1:x(get)")], "a=v1:x(get)"),
            // The peer has more resources.
            ("a=v1:x(get) c=v1:x(get)", &[("p", "b=v1:x(get) c=v1:x(get)")], "a=v1:x(get) b=v1:x(get) c=v1:x(get)"),
            ("a=v1:x(get)", &[("p", "a=v2:x(get) a=v1:x(get)")], "a=v2:x(get) a=v1:x(get)"),
            ("a=v1:x(get)", &[("p", "a=v1:x(get),y(list)")], "a=v1:x(get),y(list)"),
            // Verbs are merged, and sorted if servers differ.
            ("a=v1:x(watch+get)", &[("p", "a=v1:x(list)")], "a=v1:x(get+list+watch)"),
            // The peer has fewer resources: none is removed.
            ("a=v1:x(get),y(get) b=v1:z(get)", &[("p", "a=v1:y(get)")], "a=v1:x(get),y(get) b=v1:z(get)"),
            // If orders contradict each other, the first server's order is used.
            ("b=v1:x(get) a=v1:x(get)", &[("p", "a=v1:x(get) b=v1:x(get)")], "b=v1:x(get) a=v1:x(get)"),
            ("b=v1:x(get) a=v1:x(get)", &[("a", "a=v1:x(get)")], "b=v1:x(get) a=v1:x(get)"),
        ] {
            let peers = peers.iter().map(|(name, text)| (Text::from(*name), groups(text))).collect();
            assert_eq!(merge_peers("own", groups(own), &peers), groups(want), "{own} {peers:?}");
        }
    }
}
