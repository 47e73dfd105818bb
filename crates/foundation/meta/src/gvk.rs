//! Names of groups, versions, kinds and resources. Each combination has its own type, to prevent confusion.

use std::fmt;

use crate::Text;

/// An API group and one of its versions; the core group is the empty string.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersion {
    pub group: Text,
    pub version: Text,
}

/// A kind within a group, without a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupKind {
    pub group: Text,
    pub kind: Text,
}

/// A resource (the plural in paths) within a group, without a version.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupResource {
    pub group: Text,
    pub resource: Text,
}

/// The `apiVersion` and `kind` of an object.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionKind {
    pub group: Text,
    pub version: Text,
    pub kind: Text,
}

/// The group, version and resource of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct GroupVersionResource {
    pub group: Text,
    pub version: Text,
    pub resource: Text,
}

impl GroupVersion {
    pub fn new(group: impl Into<Text>, version: impl Into<Text>) -> Self {
        Self { group: group.into(), version: version.into() }
    }

    /// Parses an `apiVersion`: `v1` is in the core group, `apps/v1` in a named one.
    /// Returns `None` if there is more than one slash.
    pub fn parse(api_version: &str) -> Option<Self> {
        match api_version.split_once('/') {
            None => Some(Self::new("", api_version)),
            Some((group, version)) if !version.contains('/') => Some(Self::new(group, version)),
            Some(_) => None,
        }
    }

    pub fn with_kind(&self, kind: impl Into<Text>) -> GroupVersionKind {
        GroupVersionKind { group: self.group.clone(), version: self.version.clone(), kind: kind.into() }
    }
}

impl GroupVersionKind {
    pub fn new(group: impl Into<Text>, version: impl Into<Text>, kind: impl Into<Text>) -> Self {
        Self { group: group.into(), version: version.into(), kind: kind.into() }
    }

    pub fn group_version(&self) -> GroupVersion {
        GroupVersion { group: self.group.clone(), version: self.version.clone() }
    }

    pub fn group_kind(&self) -> GroupKind {
        GroupKind { group: self.group.clone(), kind: self.kind.clone() }
    }

    /// Returns the `apiVersion` of objects of this kind.
    pub fn api_version(&self) -> Text {
        api_version(&self.group, &self.version)
    }
}

impl GroupVersionResource {
    pub fn new(group: impl Into<Text>, version: impl Into<Text>, resource: impl Into<Text>) -> Self {
        Self { group: group.into(), version: version.into(), resource: resource.into() }
    }

    pub fn group_resource(&self) -> GroupResource {
        GroupResource { group: self.group.clone(), resource: self.resource.clone() }
    }
}

impl GroupResource {
    pub fn new(group: impl Into<Text>, resource: impl Into<Text>) -> Self {
        Self { group: group.into(), resource: resource.into() }
    }
}

impl GroupKind {
    pub fn new(group: impl Into<Text>, kind: impl Into<Text>) -> Self {
        Self { group: group.into(), kind: kind.into() }
    }
}

fn api_version(group: &Text, version: &Text) -> Text {
    if group.is_empty() { version.clone() } else { Text::from(format!("{group}/{version}")) }
}

// === Display: the notations in kube-apiserver's messages ===

impl fmt::Display for GroupVersion {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&api_version(&self.group, &self.version))
    }
}

impl fmt::Display for GroupKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.kind, &self.group)
    }
}

impl fmt::Display for GroupResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        dotted(f, &self.resource, &self.group)
    }
}

impl fmt::Display for GroupVersionKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Kind={}", self.group, self.version, self.kind)
    }
}

impl fmt::Display for GroupVersionResource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}, Resource={}", self.group, self.version, self.resource)
    }
}

fn dotted(f: &mut fmt::Formatter<'_>, name: &str, group: &str) -> fmt::Result {
    if group.is_empty() { f.write_str(name) } else { write!(f, "{name}.{group}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_and_formats_names() {
        assert_eq!(GroupVersion::parse("v1"), Some(GroupVersion::new("", "v1")));
        assert_eq!(GroupVersion::parse("apps/v1"), Some(GroupVersion::new("apps", "v1")));
        assert_eq!(GroupVersion::parse("a/b/c"), None);
        assert_eq!(GroupVersionKind::new("", "v1", "Pod").api_version(), "v1");
        assert_eq!(GroupResource::new("apps", "deployments").to_string(), "deployments.apps");
        assert_eq!(GroupVersionKind::new("apps", "v1", "Deployment").to_string(), "apps/v1, Kind=Deployment");
    }
}
