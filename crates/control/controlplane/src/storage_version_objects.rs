//! StorageVersion objects, by which each server of a cluster publishes the versions that it stores and reads.

use std::collections::HashSet;
use std::time::SystemTime;

use binnacle_controllers::Objects;
use binnacle_fields::apiserverinternal::v1alpha1::{
    ServerStorageVersion as Server, StorageVersion, StorageVersionCondition as Condition,
    StorageVersionStatus as VersionStatus,
};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{GroupResource, Status, StatusReason};
use binnacle_registry::rfc3339;
use binnacle_schema::{Value, value};

use crate::context::ControllerContext;
use crate::storage_versions::{GROUP, RESOURCE, ResourceEntry, entries};

const CONDITION: &str = "AllEncodingVersionsEqual";

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
        ctx.storage_versions.record(&entry.names, &outcome);
        failed = failed.or(outcome.err());
    }
    if let Some(status) = failed {
        return Err(status);
    }
    ctx.storage_versions.complete();
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

#[cfg(test)]
mod tests {
    use super::*;

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
}
