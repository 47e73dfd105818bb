//! The repair loop of allocations: marks the addresses and ports of services as allocated, and releases those without a
//! service when no service that is being written can own them.

use std::collections::HashMap;
use std::net::IpAddr;

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::metadata;
use binnacle_fields::networking::v1::ParentReference as Parent;
use binnacle_meta::{Status, Time};
use binnacle_registry::{Catalog, Context};
use binnacle_schema::Value;

use crate::addresses::{AddressError, Addresses, MANAGED_BY_LABEL, MANAGER, Owner, parent};
use crate::allocations::Allocations;
use crate::node_ports::NodePorts;
use crate::spec::Spec;
use binnacle_controllers::Objects;

/// The age in seconds from which an address without a service counts as leaked. The service of a younger one may still
/// be written.
const GRACE: i64 = 60;

pub(crate) async fn ensure(allocations: &Allocations) -> Result<(), Status> {
    repair_addresses(&allocations.resources, Context::internal("").now_seconds()).await?;
    let leaked = allocations.leaked_ports.lock().clone();
    let repaired = NodePorts::new(allocations.resources.clone(), allocations.config.node_ports).repair(&leaked).await;
    if let (Err(_), Some(metrics)) = (&repaired, &allocations.config.metrics) {
        metrics.port_repair_failed();
    }
    *allocations.leaked_ports.lock() = repaired?;
    Ok(())
}

async fn repair_addresses(resources: &Catalog, now: i64) -> Result<(), Status> {
    // The order matters: an address is allocated before its service is written.
    let objects = Objects::new(resources, "networking.k8s.io", "v1", "ipaddresses")?.list("").await?;
    let services = Objects::new(resources, "", "v1", "services")?.list("").await?;
    let addresses = Addresses::new(resources.clone());
    let mut used: HashMap<IpAddr, Owner<'_>> = HashMap::new();
    for service in &services {
        let owner = owner_of(service);
        for address in Spec::of(service).addresses() {
            if let Some(other) = used.insert(address, owner) {
                tracing::error!(%address, one = ?other, other = ?owner, "cluster IP is allocated to two services");
            }
        }
    }
    let name = |object| metadata(object).at(ObjectMeta::NAME).str();
    let objects_by_address: HashMap<IpAddr, &Value> =
        objects.iter().filter_map(|object| Some((name(object).parse().ok()?, object))).collect();
    for (address, owner) in &used {
        if objects_by_address.contains_key(address) {
            continue;
        }
        match addresses.create_address(*address, *owner).await {
            Ok(()) => tracing::warn!(%address, service = ?owner, "cluster IP was not allocated, repairing"),
            Err(AddressError::Allocated) => {}
            Err(error) => tracing::warn!(%address, service = ?owner, %error, "failed to repair cluster IP allocation"),
        }
    }
    for (address, object) in objects_by_address {
        let own = metadata(object).at(ObjectMeta::LABELS).key(MANAGED_BY_LABEL).str() == MANAGER;
        if !own || used.contains_key(&address) || age(object, now) < GRACE {
            continue;
        }
        let parent = parent(object);
        let owner = Owner { namespace: parent.at(Parent::NAMESPACE).str(), name: parent.at(Parent::NAME).str() };
        tracing::warn!(%address, service = ?owner, "releasing leaked cluster IP");
        addresses.try_release(address, owner).await?;
    }
    Ok(())
}

fn owner_of(service: &Value) -> Owner<'_> {
    let metadata = metadata(service);
    Owner { namespace: metadata.at(ObjectMeta::NAMESPACE).str(), name: metadata.at(ObjectMeta::NAME).str() }
}

/// Returns the age in seconds; an object without a time is new.
fn age(object: &Value, now: i64) -> i64 {
    let created = Time::parse(metadata(object).at(ObjectMeta::CREATION_TIMESTAMP).str());
    created.map_or(0, |created| now - created.unix_seconds())
}

#[cfg(test)]
mod tests {
    use binnacle_schema::value;

    use super::*;
    use crate::config::{PortRange, ServiceConfig};

    #[tokio::test]
    async fn repairs_missing_and_leaked_allocations() {
        // Without hooks, so that services get no allocations.
        let resources = binnacle_test_cluster::resources();
        let addresses = Addresses::new(resources.clone());
        let services = Objects::new(&resources, "", "v1", "services").unwrap();
        let objects = Objects::new(&resources, "networking.k8s.io", "v1", "ipaddresses").unwrap();
        let node_ports = NodePorts::new(resources.clone(), PortRange { first: 30000, last: 32767 });
        let leaked =
            node_ports.allocate(false, |session| session.allocate_next().map_err(Status::internal)).await.unwrap();
        let service = value!({
            "metadata": {"name": "a", "namespace": "ns"},
            "spec": {
                "clusterIP": "10.0.0.5", "clusterIPs": ["10.0.0.5"], "type": "NodePort",
                "ipFamilies": ["IPv4"], "ipFamilyPolicy": "SingleStack",
                "ports": [{"port": 80i64, "nodePort": 30005i64}]
            }
        });
        services.create("ns", service).await.unwrap();
        let gone = Owner { namespace: "ns", name: "gone" };
        addresses.create_address("10.0.0.9".parse().unwrap(), gone).await.unwrap();

        let names = async || {
            let mut names: Vec<String> = Vec::new();
            names.extend(objects.list("").await.unwrap().iter().map(|o| o.str_at(&["metadata", "name"]).to_owned()));
            names
        };
        let now = Context::internal("").now_seconds();
        repair_addresses(&resources, now).await.unwrap();
        assert_eq!(names().await, ["10.0.0.5", "10.0.0.9"], "a service may be about to get a young address");
        repair_addresses(&resources, now + GRACE + 1).await.unwrap();
        assert_eq!(names().await, ["10.0.0.5"]);

        let allocations = Allocations::new(resources.clone(), ServiceConfig::default());
        let take = async |port| {
            let allocated =
                node_ports.allocate(false, |session| session.allocate(port).map_err(Status::internal)).await;
            allocated.map_err(|status| status.message().to_owned())
        };
        let refused = Err("Internal error occurred: provided port is already allocated".to_owned());
        ensure(&allocations).await.unwrap();
        assert_eq!(*allocations.leaked_ports.lock(), [leaked]);
        assert_eq!((take(30005).await, take(leaked).await), (refused.clone(), refused.clone()));
        ensure(&allocations).await.unwrap();
        assert_eq!((take(30005).await, take(leaked).await), (refused, Ok(())));
    }
}
