//! The mapping from storage keys to resources.

use std::collections::BTreeMap;

use binnacle_meta::GroupResource;

/// The storage key prefixes of the built-in resources. Custom resources are stored below their group and name.
#[derive(Clone, Debug, Default)]
pub struct StorageKeys {
    /// The prefix of all keys, `/registry/`.
    root: String,
    resources: BTreeMap<String, GroupResource>,
}

impl StorageKeys {
    /// Creates the mapping. `resources` are the prefixes below the root (such as `services/specs`) with their
    /// resources.
    pub fn new(root: &str, resources: impl IntoIterator<Item = (impl Into<String>, GroupResource)>) -> Self {
        let resources = resources.into_iter().map(|(prefix, resource)| (prefix.into(), resource));
        Self { root: root.to_owned(), resources: resources.collect() }
    }

    /// Returns the resource of a key, or `None` for other data, such as allocations.
    pub fn resource(&self, key: &[u8]) -> Option<GroupResource> {
        let path = std::str::from_utf8(key).ok()?.strip_prefix(&*self.root)?;
        let mut segments = path.split('/');
        let first = segments.next()?;
        let two = segments.next().map_or(first.len(), |second| first.len() + 1 + second.len());
        let found = self.resources.get(&path[..two]).or_else(|| self.resources.get(first));
        found.cloned().or_else(|| {
            // A group of custom resources has a dot.
            let (group, rest) = path.split_once('/').filter(|(group, _)| group.contains('.'))?;
            let resource = rest.split('/').next().filter(|resource| !resource.is_empty())?;
            Some(GroupResource { group: group.into(), resource: resource.into() })
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn maps_resources_to_key_prefixes() {
        let of = |text: &str| {
            let (resource, group) = text.split_once('.').unwrap_or((text, ""));
            GroupResource { group: group.into(), resource: resource.into() }
        };
        let prefixes = [
            ("secrets", "secrets"),
            ("services/specs", "services"),
            ("services/endpoints", "endpoints"),
            ("deployments", "deployments.apps"),
        ];
        let keys = StorageKeys::new("/registry/", prefixes.map(|(prefix, name)| (prefix, of(name))));
        for (key, want) in [
            ("/registry/secrets/default/token", Some("secrets")),
            ("/registry/services/specs/default/kubernetes", Some("services")),
            ("/registry/services/endpoints/default/kubernetes", Some("endpoints")),
            ("/registry/deployments/a/b", Some("deployments.apps")),
            ("/registry/stable.example.com/crontabs/a/b", Some("crontabs.stable.example.com")),
            ("/registry/ranges/serviceips", None),
            ("/registry/stable.example.com/", None),
            ("compact_rev_key", None),
            ("/registry/", None),
        ] {
            assert_eq!(keys.resource(key.as_bytes()), want.map(of), "{key}");
        }
    }
}
