//! The keys of all resources, equal to kube-apiserver's, so that both servers can share a store.

use std::collections::BTreeMap;

use binnacle_resources::all;

/// Resources whose keys do not begin with their plural name: group, resource, and prefix below the root.
const ODD: &[(&str, &str, &str)] = &[
    ("", "endpoints", "services/endpoints"),
    ("", "nodes", "minions"),
    ("", "replicationcontrollers", "controllers"),
    ("", "services", "services/specs"),
    ("networking.k8s.io", "ingresses", "ingress"),
    // These two belong to delegated servers (aggregator and apiextensions), whose prefixes begin with the group, as for
    // custom resources.
    ("apiextensions.k8s.io", "customresourcedefinitions", "apiextensions.k8s.io/customresourcedefinitions"),
    ("apiregistration.k8s.io", "apiservices", "apiregistration.k8s.io/apiservices"),
];

/// Stored in a version older than the newest one served by default, so that the previous release can read it.
const OLDER: &[(&str, &str, &str)] = &[
    ("admissionregistration.k8s.io", "mutatingadmissionpolicies", "v1beta1"),
    ("admissionregistration.k8s.io", "mutatingadmissionpolicybindings", "v1beta1"),
    ("certificates.k8s.io", "clustertrustbundles", "v1beta1"),
    ("certificates.k8s.io", "podcertificaterequests", "v1beta1"),
    ("coordination.k8s.io", "leasecandidates", "v1beta1"),
    ("resource.k8s.io", "devicetaintrules", "v1alpha3"),
];

#[test]
fn storage_keys_match_kube_apiserver() {
    let mut owners: BTreeMap<&str, (&str, &str)> = BTreeMap::new();
    let mut odd = 0;
    for resource in all() {
        let Some(storage) = &resource.storage else { continue };
        let named = ODD
            .iter()
            .find(|(group, plural, _)| (*group, *plural) == (resource.group.as_str(), resource.plural.as_str()));
        odd += usize::from(named.is_some());
        let want = named.map_or(resource.plural.as_str(), |(_, _, prefix)| prefix);
        assert_eq!(storage.key_prefix, want, "{} of {}", resource.plural, resource.group);
        // Each kind has its own prefix: only events are shared, by two groups.
        let owner = owners.entry(&storage.key_prefix).or_insert((&storage.group, &storage.kind));
        assert_eq!(*owner, (storage.group.as_str(), storage.kind.as_str()), "{want}");
        if resource.group != storage.group {
            let names = [&resource.group, &resource.plural, &storage.group].map(|name| name.as_str());
            assert_eq!(names, ["events.k8s.io", "events", ""]);
        }
    }
    assert!(odd >= ODD.len(), "each of them is there");
    // No resource's keys have the prefix of another resource.
    let prefixes: Vec<String> = owners.keys().map(|prefix| format!("{prefix}/")).collect();
    for pair in prefixes.windows(2) {
        assert!(!pair[1].starts_with(&pair[0]), "{pair:?}");
    }
}

#[test]
fn some_resources_are_stored_in_an_older_version() {
    for (group, plural, version) in OLDER {
        let resources = all();
        let mut found = resources
            .filter(|resource| (resource.group.as_str(), resource.plural.as_str()) == (*group, *plural))
            .peekable();
        assert!(found.peek().is_some(), "{plural} of {group} is described");
        for resource in found {
            assert_eq!(
                resource.storage.as_ref().map(|storage| storage.version.as_str()),
                Some(*version),
                "{plural} of {group}"
            );
        }
    }
}
