//! The versions that this server stores and reads. If the feature gate StorageVersionAPI is enabled,
//! [`storage_version_objects`](crate::storage_version_objects) publishes them.
//!
//! Migrations of stored objects start when all servers store the same version. Therefore no object of a resource is
//! written before its StorageVersion has this server's version ([`StorageVersions::refusal`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use binnacle_features::Features;
use binnacle_meta::{GroupResource, Status, Text};
use binnacle_request::{RequestInfo, User};
use binnacle_scheme::{Resources, ServedResources};
use parking_lot::Mutex;

pub(crate) const GROUP: &str = "internal.apiserver.k8s.io";
pub(crate) const RESOURCE: &str = "storageversions";

static DECODABLE: &str = include_str!("../data/decodable_versions.tbl");

/// The publishing state of each resource. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct StorageVersions(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    /// True when everything is published, or nothing has to be.
    is_complete: AtomicBool,
    /// The resources that are not published yet, each with the error of the last attempt.
    pending: Mutex<BTreeMap<GroupResource, Option<String>>>,
}

/// The entry of this server for one stored resource.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ResourceEntry {
    /// The resource that names the object, and others that are stored under the same keys.
    pub(crate) names: Vec<GroupResource>,
    pub(crate) encoding: String,
    pub(crate) decodable: Vec<String>,
    pub(crate) served: Vec<String>,
}

/// Returns true if StorageVersions are maintained.
pub(crate) fn is_on(features: &Features) -> bool {
    features.enabled("StorageVersionAPI") && features.enabled("APIServerIdentity")
}

impl StorageVersions {
    /// Creates the state in which no served resource is published.
    pub(crate) fn of(features: &Features, served: &ServedResources) -> Self {
        let versions = Self::default();
        match is_on(features) {
            true => {
                let names = entries(served).into_iter().flat_map(|entry| entry.names);
                *versions.0.pending.lock() = names.map(|name| (name, None)).collect();
            }
            false => versions.0.is_complete.store(true, Ordering::Release),
        }
        versions
    }

    /// Records the result of publishing resources.
    pub(crate) fn record(&self, names: &[GroupResource], outcome: &Result<(), Status>) {
        let mut pending = self.0.pending.lock();
        for name in names {
            match outcome {
                Ok(()) => drop(pending.remove(name)),
                Err(status) => {
                    if let Some(why) = pending.get_mut(name) {
                        *why = Some(status.message().to_owned());
                    }
                }
            }
        }
    }

    /// Ends the wait of all requests.
    pub(crate) fn complete(&self) {
        self.0.is_complete.store(true, Ordering::Release);
    }

    /// Returns the error for a request that must wait until its resource is published; `None` for other requests.
    pub fn refusal(&self, info: &RequestInfo, user: &User) -> Option<Status> {
        if self.0.is_complete.load(Ordering::Acquire) || !info.is_resource_request {
            return None;
        }
        let of = |group: &str, resource: &str| info.api_group == group && info.resource == resource;
        let is_own = || user.name == User::APISERVER && user.groups.iter().any(|group| group == User::MASTERS);
        let is_exempt = ["get", "list", "watch"].contains(&info.verb.as_str())
            || of(GROUP, RESOURCE)
            // Publishing needs these: the identity lease of this server, and its namespace.
            || (of("", "namespaces") && info.verb == "create" && is_own())
            || (of("coordination.k8s.io", "leases") && info.namespace == "kube-system");
        let resource = GroupResource { group: info.api_group.clone(), resource: info.resource.clone() };
        let why = match self.0.pending.lock().get(&resource) {
            Some(why) if !is_exempt => why.clone().unwrap_or_else(|| "<nil>".to_owned()),
            _ => return None,
        };
        Some(Status::service_unavailable(format!(
            "wait for storage version registration to complete for resource: {resource}, last seen error: {why}"
        )))
    }
}

/// Returns the entries of all stored built-in resources, sorted by group and name. Resources that several groups serve
/// from the same keys have one entry.
pub(crate) fn entries(served: &ServedResources) -> Vec<ResourceEntry> {
    let mut by_prefix: BTreeMap<Text, Vec<(GroupResource, Text, String)>> = BTreeMap::new();
    for group in served.groups() {
        for version in &group.versions {
            let Resources::BuiltIn(resources) = &version.resources else { continue };
            for resource in resources.iter() {
                let Some(storage) = &resource.storage else { continue };
                let name = GroupResource { group: group.name.clone(), resource: resource.plural.clone() };
                let encoding = group_version(&storage.group, &storage.announced_version);
                by_prefix.entry(storage.key_prefix.clone()).or_default().push((
                    name,
                    version.version.clone(),
                    encoding,
                ));
            }
        }
    }
    let mut all: Vec<ResourceEntry> = by_prefix.into_values().map(merge_entry).collect();
    all.sort_by(|a, b| a.names.cmp(&b.names));
    all
}

fn merge_entry(mut served: Vec<(GroupResource, Text, String)>) -> ResourceEntry {
    // Versions stay in the order of preference.
    served.sort_by(|(a, ..), (b, ..)| a.cmp(b));
    let mut names: Vec<GroupResource> = served.iter().map(|(name, ..)| name.clone()).collect();
    names.dedup();
    let versions = |of: &GroupResource| -> Vec<String> {
        let of_resource = served.iter().filter(|(name, ..)| name == of);
        of_resource.map(|(name, version, _)| group_version(&name.group, version)).collect()
    };
    let first = names.first().map(&versions).unwrap_or_default();
    let mut decodable = names.first().map(decodable_versions).unwrap_or_default();
    for version in names.iter().flat_map(&versions) {
        if !decodable.contains(&version) {
            decodable.push(version);
        }
    }
    let encoding = served.into_iter().next().map(|(.., encoding)| encoding).unwrap_or_default();
    ResourceEntry { names, encoding, decodable, served: first }
}

/// Returns the decodable versions of a resource, if there are several.
fn decodable_versions(name: &GroupResource) -> Vec<String> {
    let lines = DECODABLE.lines().filter(|line| !line.starts_with('#'));
    let mut rows = lines.map(|line| line.split(' '));
    let of_resource =
        |row: &mut std::str::Split<'_, char>| row.next() == Some(&name.group) && row.next() == Some(&name.resource);
    let row = rows.find_map(|mut row| of_resource(&mut row).then_some(row));
    row.into_iter().flatten().map(|version| group_version(&name.group, version)).collect()
}

fn group_version(group: &str, version: &str) -> String {
    if group.is_empty() { version.to_owned() } else { format!("{group}/{version}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(group: &str, resource: &str) -> GroupResource {
        GroupResource { group: group.into(), resource: resource.into() }
    }

    #[test]
    fn collects_encoding_and_decodable_versions() {
        let deployments = (name("apps", "deployments"), Text::from("v1"), "apps/v1".to_owned());
        let entry = merge_entry(vec![deployments]);
        assert_eq!((entry.encoding.as_str(), entry.served), ("apps/v1", vec!["apps/v1".to_owned()]));
        assert_eq!(entry.decodable, ["apps/v1", "apps/v1beta2", "apps/v1beta1"]);
        // Two groups serve events from the same keys.
        let events = [("events.k8s.io", "v1"), ("", "v1")];
        let entry =
            merge_entry(events.map(|(group, version)| (name(group, "events"), version.into(), "v1".into())).to_vec());
        assert_eq!(entry.names, [name("", "events"), name("events.k8s.io", "events")]);
        assert_eq!(
            (entry.decodable, entry.served),
            (vec!["v1".to_owned(), "events.k8s.io/v1".to_owned()], vec!["v1".to_owned()])
        );
    }

    #[test]
    fn rejects_writes_until_published() {
        let versions = StorageVersions::default();
        versions.0.pending.lock().insert(name("apps", "deployments"), None);
        versions.0.pending.lock().insert(name("", "namespaces"), Some("no".to_owned()));
        let info = |verb: &'static str, group: &str, resource: &str, namespace: &str| RequestInfo {
            is_resource_request: true,
            verb: Text::new_static(verb),
            api_group: group.into(),
            resource: resource.into(),
            namespace: namespace.into(),
            ..RequestInfo::default()
        };
        let (ann, own) = (User::new("ann", &["system:masters"]), User::new(User::APISERVER, &[User::MASTERS]));
        for (info, user, want) in [
            (info("get", "apps", "deployments", "x"), &ann, None),
            (
                info("create", "apps", "deployments", "x"),
                &ann,
                Some("resource: deployments.apps, last seen error: <nil>"),
            ),
            (info("create", "", "namespaces", ""), &ann, Some("resource: namespaces, last seen error: no")),
            (info("create", "", "namespaces", ""), &own, None),
            (info("delete", "", "namespaces", ""), &own, Some("resource: namespaces, last seen error: no")),
            (info("update", "coordination.k8s.io", "leases", "kube-system"), &ann, None),
            (info("create", "authorization.k8s.io", "subjectaccessreviews", ""), &ann, None),
        ] {
            let refusal = versions.refusal(&info, user);
            let text = want.map(|want| format!("wait for storage version registration to complete for {want}"));
            assert_eq!(refusal.map(|status| status.message().to_owned()), text, "{info:?}");
        }
        versions.0.is_complete.store(true, Ordering::Release);
        assert!(versions.refusal(&info("create", "apps", "deployments", "x"), &ann).is_none());
    }
}
