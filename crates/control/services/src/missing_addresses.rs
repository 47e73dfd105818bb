//! Detection of services whose IPAddress object is missing, so that it is repaired before another service can allocate
//! the address. Such an object was deleted by a client, since the server deletes it only after its service.

use std::collections::HashMap;
use std::net::IpAddr;

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_fields::networking::v1::ParentReference as Parent;
use binnacle_meta::{Status, Text};
use binnacle_schema::Value;

use crate::addresses::parent;
use crate::allocations::Allocations;
use crate::spec::Spec;
use binnacle_controllers::Objects;
use binnacle_controllers::{ChangeWatcher, Changes};

/// The namespace and name of the service that has an address.
type Owner = (Text, Text);

/// Waits until the IPAddress object of a service is missing. Returns for no other reason.
pub(crate) async fn wait_for_missing(allocations: &Allocations) {
    let ip_addresses = Objects::new(&allocations.resources, "networking.k8s.io", "v1", "ipaddresses");
    let services = Objects::new(&allocations.resources, "", "v1", "services");
    let (Ok(ip_addresses), Ok(services)) = (ip_addresses, services) else { return std::future::pending().await };
    let mut changes = ChangeWatcher::all(ip_addresses.resource());
    let mut owners: HashMap<Text, Owner> = HashMap::new();
    loop {
        let missing = match changes.changed().await {
            Changes::Anything => read_all(&ip_addresses, &mut owners).await,
            Changes::Named(names) => read_named(&ip_addresses, &mut owners, names).await,
        };
        match missing {
            Ok(missing) => {
                for (address, owner) in missing {
                    if has_address(&services, &owner, &address).await {
                        return;
                    }
                }
            }
            Err(status) => tracing::warn!(error = status.message(), "failed to list cluster IPs of services"),
        }
    }
}

/// Reads all IPAddress objects; returns the missing ones.
async fn read_all(ip_addresses: &Objects, owners: &mut HashMap<Text, Owner>) -> Result<Vec<(Text, Owner)>, Status> {
    let current: HashMap<Text, Owner> = ip_addresses.list("").await?.iter().map(name_and_owner).collect();
    let before = std::mem::replace(owners, current);
    Ok(before.into_iter().filter(|(name, _)| !owners.contains_key(name)).collect())
}

/// Reads the IPAddress objects that may have changed; returns the missing ones.
async fn read_named(
    ip_addresses: &Objects,
    owners: &mut HashMap<Text, Owner>,
    names: Vec<Text>,
) -> Result<Vec<(Text, Owner)>, Status> {
    let mut missing = Vec::new();
    for name in names {
        match ip_addresses.get("", &name).await? {
            Some(ip_address) => drop(owners.insert(name, name_and_owner(&ip_address).1)),
            None => missing.extend(owners.remove(&name).map(|owner| (name, owner))),
        }
    }
    Ok(missing)
}

fn name_and_owner(ip_address: &Value) -> (Text, Owner) {
    let parent = parent(ip_address);
    let owner = (parent.at(Parent::NAMESPACE).str().into(), parent.at(Parent::NAME).str().into());
    (metadata(ip_address).at(ObjectMeta::NAME).str().into(), owner)
}

/// Returns true if a service has an address.
async fn has_address(services: &Objects, (namespace, name): &Owner, address: &str) -> bool {
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    match services.get(namespace, name).await {
        Ok(Some(service)) => Spec::of(&service).addresses().into_iter().any(|own| own == address),
        Ok(None) | Err(_) => false,
    }
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::addresses::{Addresses, Owner as ServiceOwner};
    use crate::config::ServiceConfig;

    #[tokio::test]
    async fn notices_only_addresses_that_a_service_still_has() {
        let resources = binnacle_test_cluster::resources();
        let allocations = Allocations::new(resources.clone(), ServiceConfig::default());
        let services = Objects::new(&resources, "", "v1", "services").unwrap();
        let ip_addresses = Objects::new(&resources, "networking.k8s.io", "v1", "ipaddresses").unwrap();
        let addresses = Addresses::new(resources.clone());
        let service = value!({
            "metadata": {"name": "a", "namespace": "ns"},
            "spec": {"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "type": "ClusterIP",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80i64}]}
        });
        services.create("ns", service).await.unwrap();
        for (address, name) in [("10.0.0.5", "a"), ("10.0.0.6", "a"), ("10.0.0.7", "gone")] {
            addresses.create_address(address.parse().unwrap(), ServiceOwner { namespace: "ns", name }).await.unwrap();
        }
        let wait_for_missing = wait_for_missing(&allocations);
        tokio::pin!(wait_for_missing);
        // IPAddress objects that no service uses may be deleted.
        assert!(futures::poll!(&mut wait_for_missing).is_pending());
        ip_addresses.delete("", "10.0.0.6").await.unwrap();
        ip_addresses.delete("", "10.0.0.7").await.unwrap();
        tokio::select! {
            () = &mut wait_for_missing => panic!("no service lacks an address"),
            () = addresses_are(&ip_addresses, 1) => {}
        }
        // The objects may not have been read yet, so delete this one until the watcher has seen it before.
        let churn = async {
            loop {
                ip_addresses.delete("", "10.0.0.5").await.unwrap();
                tokio::task::yield_now().await;
                addresses
                    .create_address("10.0.0.5".parse().unwrap(), ServiceOwner { namespace: "ns", name: "a" })
                    .await
                    .unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = &mut wait_for_missing => {}
            () = churn => {}
        }
    }

    async fn addresses_are(ip_addresses: &Objects, count: usize) {
        while ip_addresses.list("").await.unwrap().len() != count {
            tokio::task::yield_now().await;
        }
    }
}
