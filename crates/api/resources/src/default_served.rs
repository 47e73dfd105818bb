//! The built-in resources that are served by default.

use binnacle_scheme::ServedResources;

use crate::groups;

/// Returns the resources that are served without `--runtime-config`; feature gates are ignored.
pub fn default_served() -> ServedResources {
    ServedResources::built_in(groups(), |version, resource| version.served_by_default.then(|| resource.clone()))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use binnacle_meta::Text;
    use binnacle_scheme::{CUSTOM_RESOURCE_PRIORITIES, Resources, ServedResources, ServedVersion};

    use super::*;

    fn custom(version: &str) -> ServedVersion {
        let (group_priority, version_priority) = CUSTOM_RESOURCE_PRIORITIES;
        ServedVersion {
            version: version.into(),
            group_priority,
            version_priority,
            resources: Resources::Custom(Arc::new([])),
            stale: false,
        }
    }

    fn shown(served: &ServedResources, group: &str) -> Vec<Text> {
        served.group(group).map(|group| group.versions.iter().map(|v| v.version.clone()).collect()).unwrap_or_default()
    }

    #[test]
    fn keeps_groups_and_versions_in_order() {
        let mut served = default_served();
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
    fn omits_resources_that_are_off_by_default() {
        let served = default_served();
        assert!(served.group("storagemigration.k8s.io").is_none());
        assert!(served.version("resource.k8s.io", "v1beta1").is_none());
        let all = ServedResources::built_in(groups(), |_, resource| {
            resource.feature_gate.is_none().then(|| resource.clone())
        });
        assert!(all.group("storagemigration.k8s.io").is_none());
        assert!(all.version("scheduling.k8s.io", "v1alpha2").is_none());
        assert_eq!(shown(&all, "resource.k8s.io"), ["v1", "v1beta2", "v1beta1", "v1alpha3"]);
    }
}
