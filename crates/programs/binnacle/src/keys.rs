//! The owners of keys.

use std::collections::BTreeMap;
use std::fmt;

use binnacle_builtin::Releases;
use binnacle_encryption::StorageKeys;
use binnacle_meta::GroupResource;
use binnacle_resources::{all, key_prefixes};
use binnacle_scheme::StoredType;

/// The layout of the keys below one root.
pub(crate) struct KeyOwners {
    root: String,
    resources: StorageKeys,
    kinds: BTreeMap<GroupResource, StoredType>,
    /// In the order of [`NOTES`].
    notes: Vec<Option<StoredType>>,
}

/// The owner of a key: the kind of data under it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Owner {
    /// A resource of this release.
    Resource(GroupResource),
    /// A custom resource.
    Custom(GroupResource),
    /// Records that servers share: allocated addresses and ports, and the servers' addresses.
    Note(&'static str),
    Unknown,
}

/// Keys for the servers' own records, without the root: a description, and group, version and kind of the data.
const NOTES: [(&str, &str, [&str; 3]); 5] = [
    ("ranges/serviceips", "given service addresses", ["", "v1", "RangeAllocation"]),
    ("ranges/servicenodeports", "given node ports", ["", "v1", "RangeAllocation"]),
    ("ranges/secondaryserviceips", "given service addresses", ["", "v1", "RangeAllocation"]),
    ("masterleases/", "addresses of servers", ["", "v1", "Endpoints"]),
    // The addresses of peers with several versions (feature gate UnknownVersionInteroperabilityProxy).
    ("peerserverleases/", "addresses of servers", ["", "v1", "Endpoints"]),
];

// === impl KeyOwners ===

impl KeyOwners {
    pub(crate) fn new(root: &str) -> Self {
        let stored = all().filter_map(|described| binnacle_builtin::stored_type(described, Releases::default()));
        let kinds = stored.map(|kind| (GroupResource::new(kind.storage.group.clone(), kind.plural.clone()), kind));
        let note = |(_, _, [group, version, kind]): (_, _, [&'static str; 3])| {
            binnacle_builtin::stored_type_without_resource(group, version, kind)
        };
        Self {
            root: root.to_owned(),
            resources: StorageKeys::new(root, key_prefixes()),
            kinds: kinds.collect(),
            notes: NOTES.map(note).into(),
        }
    }

    pub(crate) fn owner(&self, key: &[u8]) -> Owner {
        if let Some((name, _)) = self.note(key) {
            return Owner::Note(name);
        }
        match self.resources.resource(key) {
            Some(resource) if self.kinds.contains_key(&resource) => Owner::Resource(resource),
            Some(resource) => Owner::Custom(resource),
            None => Owner::Unknown,
        }
    }

    /// Returns the type of the data under a key; `None` if this release has no such type.
    pub(crate) fn stored_type(&self, key: &[u8]) -> Option<&StoredType> {
        match self.owner(key) {
            Owner::Resource(resource) => self.kinds.get(&resource),
            Owner::Note(_) => self.note(key)?.1,
            Owner::Custom(_) | Owner::Unknown => None,
        }
    }

    fn note(&self, key: &[u8]) -> Option<(&'static str, Option<&StoredType>)> {
        let path = key.strip_prefix(self.root.as_bytes())?;
        let matches =
            |name: &str| if name.ends_with('/') { path.starts_with(name.as_bytes()) } else { path == name.as_bytes() };
        let found = NOTES.iter().zip(&self.notes).find(|((name, ..), _)| matches(name));
        found.map(|((_, description, _), stored_type)| (*description, stored_type.as_ref()))
    }
}

impl fmt::Display for Owner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Resource(resource) | Self::Custom(resource) => resource.fmt(f),
            Self::Note(name) => write!(f, "({name})"),
            Self::Unknown => f.write_str("(unknown)"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn finds_owner_of_each_key() {
        let keys = KeyOwners::new("/registry/");
        for (key, want, stored_type) in [
            ("/registry/pods/default/a", "pods", Some(["", "v1", "Pod"])),
            ("/registry/services/specs/default/a", "services", Some(["", "v1", "Service"])),
            ("/registry/services/endpoints/default/a", "endpoints", Some(["", "v1", "Endpoints"])),
            ("/registry/deployments/default/a", "deployments.apps", Some(["apps", "v1", "Deployment"])),
            ("/registry/stable.example.com/crontabs/a/b", "crontabs.stable.example.com", None),
            ("/registry/masterleases/10.0.0.1", "(addresses of servers)", Some(["", "v1", "Endpoints"])),
            ("/registry/peerserverleases/apiserver-x", "(addresses of servers)", Some(["", "v1", "Endpoints"])),
            ("/registry/ranges/serviceips", "(given service addresses)", Some(["", "v1", "RangeAllocation"])),
            ("/registry/ranges/other", "(unknown)", None),
            ("/registry/pod", "(unknown)", None),
            ("/elsewhere/pods/a/b", "(unknown)", None),
        ] {
            assert_eq!(keys.owner(key.as_bytes()).to_string(), want, "{key}");
            let stored_type = stored_type.map(|names| names.map(str::to_owned));
            let got = keys.stored_type(key.as_bytes()).map(|kind| {
                let storage = &kind.storage;
                [&storage.group, &storage.version, &storage.kind].map(|name| name.to_string())
            });
            assert_eq!(got, stored_type, "{key}");
        }
    }
}
