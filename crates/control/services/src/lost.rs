//! Notices that an address of a service is no longer marked as taken, so that it is repaired before another service can
//! get it. Someone has deleted the mark: services give theirs back when they are gone.

use std::collections::HashMap;
use std::net::IpAddr;

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_fields::networking::v1::ParentReference as Parent;
use binnacle_meta::{Status, Text};
use binnacle_schema::Value;

use crate::addresses::parent;
use crate::controllers::Allocations;
use crate::spec::Spec;
use binnacle_controllers::Objects;
use binnacle_controllers::{ChangeWatcher, Changes};

/// The namespace and name of the service that has an address.
type Owner = (Text, Text);

/// Waits until a service lacks the mark of an address. Ends for nothing else.
pub(crate) async fn noticed(allocations: &Allocations) {
    let marks = Objects::new(&allocations.resources, "networking.k8s.io", "v1", "ipaddresses");
    let services = Objects::new(&allocations.resources, "", "v1", "services");
    let (Ok(marks), Ok(services)) = (marks, services) else { return std::future::pending().await };
    let mut changes = ChangeWatcher::all(marks.resource());
    let mut owners: HashMap<Text, Owner> = HashMap::new();
    loop {
        let gone = match changes.changed().await {
            Changes::Anything => reread(&marks, &mut owners).await,
            Changes::Named(names) => look_at(&marks, &mut owners, names).await,
        };
        match gone {
            Ok(gone) => {
                for (address, owner) in gone {
                    if has(&services, &owner, &address).await {
                        return;
                    }
                }
            }
            Err(status) => tracing::warn!(error = status.message(), "the addresses of services cannot be read"),
        }
    }
}

/// Reads all marks; returns those that are gone.
async fn reread(marks: &Objects, owners: &mut HashMap<Text, Owner>) -> Result<Vec<(Text, Owner)>, Status> {
    let there: HashMap<Text, Owner> = marks.list("").await?.iter().map(named).collect();
    let before = std::mem::replace(owners, there);
    Ok(before.into_iter().filter(|(name, _)| !owners.contains_key(name)).collect())
}

/// Reads the marks that may have changed; returns those that are gone.
async fn look_at(
    marks: &Objects,
    owners: &mut HashMap<Text, Owner>,
    names: Vec<Text>,
) -> Result<Vec<(Text, Owner)>, Status> {
    let mut gone = Vec::new();
    for name in names {
        match marks.get("", &name).await? {
            Some(mark) => drop(owners.insert(name, named(&mark).1)),
            None => gone.extend(owners.remove(&name).map(|owner| (name, owner))),
        }
    }
    Ok(gone)
}

fn named(mark: &Value) -> (Text, Owner) {
    let parent = parent(mark);
    let owner = (parent.at(Parent::NAMESPACE).str().into(), parent.at(Parent::NAME).str().into());
    (metadata(mark).at(ObjectMeta::NAME).str().into(), owner)
}

/// Returns true if a service has an address.
async fn has(services: &Objects, (namespace, name): &Owner, address: &str) -> bool {
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
    use crate::addresses::{Addresses, Owner as Of};
    use crate::config::ServiceConfig;

    #[tokio::test]
    async fn notices_only_addresses_that_a_service_still_has() {
        let resources = binnacle_test_cluster::resources();
        let allocations = Allocations::new(resources.clone(), ServiceConfig::default());
        let services = Objects::new(&resources, "", "v1", "services").unwrap();
        let marks = Objects::new(&resources, "networking.k8s.io", "v1", "ipaddresses").unwrap();
        let addresses = Addresses::new(resources.clone());
        let service = value!({
            "metadata": {"name": "a", "namespace": "ns"},
            "spec": {"clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "type": "ClusterIP",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack", "ports": [{"port": 80i64}]}
        });
        services.create("ns", service).await.unwrap();
        for (address, name) in [("10.0.0.5", "a"), ("10.0.0.6", "a"), ("10.0.0.7", "gone")] {
            addresses.claim(address.parse().unwrap(), Of { namespace: "ns", name }).await.unwrap();
        }
        let noticed = noticed(&allocations);
        tokio::pin!(noticed);
        // The marks of nobody may go.
        assert!(futures::poll!(&mut noticed).is_pending());
        marks.delete("", "10.0.0.6").await.unwrap();
        marks.delete("", "10.0.0.7").await.unwrap();
        tokio::select! {
            () = &mut noticed => panic!("no service lacks an address"),
            () = addresses_are(&marks, 1) => {}
        }
        // Whether the marks have been read by now cannot be told, so this one goes until it was seen to be there.
        let goes = async {
            loop {
                marks.delete("", "10.0.0.5").await.unwrap();
                tokio::task::yield_now().await;
                addresses.claim("10.0.0.5".parse().unwrap(), Of { namespace: "ns", name: "a" }).await.unwrap();
                tokio::task::yield_now().await;
            }
        };
        tokio::select! {
            () = &mut noticed => {}
            () = goes => {}
        }
    }

    async fn addresses_are(marks: &Objects, count: usize) {
        while marks.list("").await.unwrap().len() != count {
            tokio::task::yield_now().await;
        }
    }
}
