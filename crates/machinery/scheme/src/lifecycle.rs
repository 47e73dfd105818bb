//! The lifecycle of a version of a kind in releases, from which deprecation warnings are derived.

/// A minor release of Kubernetes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Release {
    pub major: u16,
    pub minor: u16,
}

/// The releases that introduce, deprecate and remove a version of a kind; [`Lifecycle::STABLE`] for stable versions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifecycle {
    pub introduced: Option<Release>,
    pub deprecated: Option<Release>,
    pub removed: Option<Release>,
    /// Group, version and kind to use instead.
    pub replacement: Option<[&'static str; 3]>,
}

impl Release {
    pub const fn v1(minor: u16) -> Self {
        Self { major: 1, minor }
    }
}

impl Lifecycle {
    /// Neither deprecated nor removed.
    pub const STABLE: Self = Self { introduced: None, deprecated: None, removed: None, replacement: None };

    pub const fn introduced(self, minor: u16) -> Self {
        Self { introduced: Some(Release::v1(minor)), ..self }
    }

    pub const fn deprecated(self, minor: u16) -> Self {
        Self { deprecated: Some(Release::v1(minor)), ..self }
    }

    pub const fn removed(self, minor: u16) -> Self {
        Self { removed: Some(Release::v1(minor)), ..self }
    }

    pub const fn replaced_by(self, kind: [&'static str; 3]) -> Self {
        Self { replacement: Some(kind), ..self }
    }

    /// Returns true if the version exists in this release, deprecated or not.
    pub fn exists_in(&self, release: Release) -> bool {
        self.introduced.is_none_or(|introduced| introduced <= release)
            && self.removed.is_none_or(|removed| removed > release)
    }

    /// Returns true if a server of this release warns about the version.
    pub fn is_deprecated_in(&self, release: Release) -> bool {
        self.deprecated.is_some_and(|deprecated| deprecated <= release)
    }

    /// Returns the `Warning` header text for requests that use `kind` in `api_version`.
    pub fn warning(&self, api_version: &str, kind: &str) -> Option<String> {
        let deprecated = self.deprecated?;
        let mut text = format!("{api_version} {kind} is deprecated in v{}.{}+", deprecated.major, deprecated.minor);
        if let Some(removed) = self.removed {
            text.push_str(&format!(", unavailable in v{}.{}+", removed.major, removed.minor));
        }
        if let Some([group, version, kind]) = self.replacement {
            let slash = if group.is_empty() { "" } else { "/" };
            text.push_str(&format!("; use {group}{slash}{version} {kind}"));
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn returns_deprecation_warnings() {
        let endpoints = Lifecycle::STABLE.deprecated(33).replaced_by(["discovery.k8s.io", "v1", "EndpointSlice"]);
        for (lifecycle, api_version, kind, expected) in [
            (Lifecycle::STABLE.introduced(19), "v1", "Pod", None),
            (
                Lifecycle::STABLE.deprecated(19),
                "v1",
                "ComponentStatus",
                Some("v1 ComponentStatus is deprecated in v1.19+"),
            ),
            (
                endpoints,
                "v1",
                "Endpoints",
                Some("v1 Endpoints is deprecated in v1.33+; use discovery.k8s.io/v1 EndpointSlice"),
            ),
            (
                Lifecycle::STABLE.introduced(32).deprecated(35).removed(38),
                "resource.k8s.io/v1beta1",
                "ResourceClaim",
                Some("resource.k8s.io/v1beta1 ResourceClaim is deprecated in v1.35+, unavailable in v1.38+"),
            ),
        ] {
            assert_eq!(lifecycle.warning(api_version, kind).as_deref(), expected);
        }
        assert!(endpoints.is_deprecated_in(Release::v1(33)));
        assert!(!endpoints.is_deprecated_in(Release::v1(32)));
    }
}
