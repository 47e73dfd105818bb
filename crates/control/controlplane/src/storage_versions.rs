//! The versions that this server stores and reads, published as StorageVersion objects if the feature gate
//! StorageVersionAPI is enabled.
//!
//! Migrations of stored objects start when all servers store the same version. Therefore no object of a resource is
//! written before its StorageVersion has this server's version ([`StorageVersions::refusal`]).

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use binnacle_features::Features;
use binnacle_fields::apiserverinternal::v1alpha1::{
    ServerStorageVersion as Server, StorageVersion, StorageVersionCondition as Condition,
    StorageVersionStatus as VersionStatus,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{GroupResource, Status, StatusReason, Text};
use binnacle_registry::rfc3339;
use binnacle_request::{RequestInfo, User};
use binnacle_schema::{Value, value};
use binnacle_scheme::{Resources, Served};
use parking_lot::Mutex;

use crate::context::ControllerContext;
use binnacle_controllers::Objects;

const GROUP: &str = "internal.apiserver.k8s.io";
const RESOURCE: &str = "storageversions";
const CONDITION: &str = "AllEncodingVersionsEqual";

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
struct ResourceEntry {
    /// The resource that names the object, and others that are stored under the same keys.
    names: Vec<GroupResource>,
    encoding: String,
    decodable: Vec<String>,
    served: Vec<String>,
}

/// Returns true if StorageVersions are maintained.
pub(crate) fn is_on(features: &Features) -> bool {
    features.enabled("StorageVersionAPI") && features.enabled("APIServerIdentity")
}

impl StorageVersions {
    /// Creates the state in which no served resource is published.
    pub(crate) fn of(features: &Features, served: &Served) -> Self {
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

/// Publishes all resources. Fails while this server has no identity lease, which its entries need.
pub(crate) async fn ensure(ctx: &ControllerContext) -> Result<(), Status> {
    let name = ctx.identity.name();
    let leases = Objects::new(&ctx.resources, "coordination.k8s.io", "v1", "leases")?;
    if leases.get("kube-system", name).await?.is_none() {
        let leases = GroupResource { group: "coordination.k8s.io".into(), resource: "leases".into() };
        return Err(Status::not_found(&leases, name));
    }
    let mut failed = None;
    for entry in entries(&ctx.resources.snapshot().served().clone()) {
        let outcome = publish(ctx, &entry).await;
        let mut pending = ctx.storage_versions.0.pending.lock();
        for name in &entry.names {
            match &outcome {
                Ok(()) => drop(pending.remove(name)),
                Err(status) => {
                    if let Some(why) = pending.get_mut(name) {
                        *why = Some(status.message().to_owned());
                    }
                }
            }
        }
        failed = failed.or(outcome.err());
    }
    if let Some(status) = failed {
        return Err(status);
    }
    ctx.storage_versions.0.is_complete.store(true, Ordering::Release);
    Ok(())
}

async fn publish(ctx: &ControllerContext, entry: &ResourceEntry) -> Result<(), Status> {
    let objects = Objects::new(&ctx.resources, GROUP, "v1alpha1", RESOURCE)?;
    let Some(first) = entry.names.first() else { return Ok(()) };
    let group = if first.group.is_empty() { "core" } else { &first.group };
    let name = format!("{group}.{}", first.resource);
    let texts = |texts: &[String]| texts.iter().map(|text| Value::from(text.as_str())).collect::<Vec<Value>>();
    let own = value!({
        "apiServerID": (ctx.identity.name()),
        "encodingVersion": (entry.encoding.as_str()),
        "decodableVersions": (texts(&entry.decodable)),
        "servedVersions": (texts(&entry.served)),
    });
    let now = rfc3339(SystemTime::now());
    let update = async || objects.update("", &name, "status", |object| join(object, &own, &now)).await;
    match update().await {
        Err(status) if status.is(StatusReason::NotFound) => {}
        updated => return updated,
    }
    match objects.create("", value!({"metadata": {"name": (name.as_str())}, "spec": {}})).await {
        Err(status) if !status.is(StatusReason::AlreadyExists) => return Err(status),
        _ => {}
    }
    update().await
}

/// Adds this server's entry to a StorageVersion, and updates the condition that shows whether all servers agree.
fn join(object: &mut Value, own: &Value, now: &str) {
    let generation = metadata(object).at(ObjectMeta::GENERATION).int_or_zero();
    let mut status = FieldMut::<StorageVersion>::root(object).into_entry(StorageVersion::STATUS);
    let before = status.get(VersionStatus::COMMON_ENCODING_VERSION).as_str().map(str::to_owned);
    let mut servers = status.read().at(VersionStatus::STORAGE_VERSIONS).list().to_vec();
    match servers.iter_mut().find(|server| id(server) == id(own)) {
        Some(known) => *known = own.clone(),
        None => servers.push(own.clone()),
    }
    let versions: HashSet<&str> = servers.iter().map(encoding).collect();
    let common = match versions.len() {
        1 => versions.into_iter().next().map(str::to_owned),
        _ => None,
    };
    let (state, reason, message) = match &common {
        Some(_) => ("True", "CommonEncodingVersionSet", "Common encoding version set"),
        None => ("False", "CommonEncodingVersionUnset", "Common encoding version unset"),
    };
    let mut conditions = status.read().at(VersionStatus::CONDITIONS).list().to_vec();
    let changes = before.is_some() && common.is_some() && before != common;
    let mut condition =
        value!({"type": CONDITION, "status": state, "lastTransitionTime": now, "reason": reason, "message": message});
    if generation != 0 {
        FieldMut::root(&mut condition).set(Condition::OBSERVED_GENERATION, generation);
    }
    let is_known = |known: &&mut Value| FieldRef::<Condition>::root(known).at(Condition::TYPE).str() == CONDITION;
    match conditions.iter_mut().find(is_known) {
        Some(known) => {
            let before = FieldRef::<Condition>::root(known);
            if before.at(Condition::STATUS).str() == state && !changes {
                let since = before.at(Condition::LAST_TRANSITION_TIME).str();
                FieldMut::root(&mut condition).set(Condition::LAST_TRANSITION_TIME, since);
            }
            *known = condition;
        }
        None => conditions.push(condition),
    }
    status.set(VersionStatus::STORAGE_VERSIONS, servers);
    match common {
        Some(common) => status.set(VersionStatus::COMMON_ENCODING_VERSION, common),
        None => drop(status.remove(VersionStatus::COMMON_ENCODING_VERSION)),
    }
    status.set(VersionStatus::CONDITIONS, conditions);
}

fn id(server: &Value) -> &str {
    FieldRef::<Server>::root(server).at(Server::API_SERVER_ID).str()
}

fn encoding(server: &Value) -> &str {
    FieldRef::<Server>::root(server).at(Server::ENCODING_VERSION).str()
}

/// Returns the entries of all stored built-in resources, sorted by group and name. Resources that several groups serve
/// from the same keys have one entry.
fn entries(served: &Served) -> Vec<ResourceEntry> {
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
    fn condition_reports_common_encoding_version() {
        let server = |id: &str, version: &str| value!({"apiServerID": id, "encodingVersion": version});
        let mut object = value!({"metadata": {"name": "apps.deployments"}});
        for (id, version, now, common, status, since) in [
            ("a", "v1", "1", "v1", "True", "1"),
            ("a", "v1", "2", "v1", "True", "1"),
            // Another version, on which all servers agree again.
            ("a", "v2", "3", "v2", "True", "3"),
            ("b", "v1", "4", "", "False", "4"),
            ("b", "v3", "5", "", "False", "4"),
            ("b", "v2", "6", "v2", "True", "6"),
        ] {
            join(&mut object, &server(id, version), now);
            let condition = &object.list_at(&["status", "conditions"])[0];
            let found = (
                object.str_at(&["status", "commonEncodingVersion"]),
                condition.str_at(&["status"]),
                condition.str_at(&["lastTransitionTime"]),
            );
            assert_eq!(found, (common, status, since), "{id} {version} {now}");
        }
        assert_eq!(object.list_at(&["status", "storageVersions"]).len(), 2);
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
