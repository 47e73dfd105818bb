//! The addresses at which servers reach each other (KEP-4020): each server has a key with a lease below
//! `peerserverleases/`.
//!
//! A server that lacks the requested resource forwards the request to one that serves it. The identity lease provides
//! that server's name, and the key its address. The key of a stopped server disappears when its lease expires.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use binnacle_controllers::{Controller, Objects};
use binnacle_fields::core::v1::{EndpointAddress, EndpointPort, EndpointSubset, Endpoints};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldRef, metadata};
use binnacle_meta::Status;
use binnacle_registry::{Catalog, store_failure};
use binnacle_schema::{Value, value};
use binnacle_store::{Count, Expect, Op, RangeRequest, Revision, Store, Txn, prefix_range};
use bytes::Bytes;

/// The prefix of the keys, below the root of all keys.
const LEASES: &str = "peerserverleases/";
/// The lifetime of a server's lease: one and a half times the interval of its renewals.
const LEASE_SECONDS: u64 = 15;
const IDENTITY: &str = "apiserverIdentity";

/// This server's address for its peers.
pub struct PeerEndpoint {
    pub resources: Catalog,
    /// The name of this server's identity lease.
    pub name: String,
    /// The address to publish; `None` publishes nothing.
    pub address: Option<SocketAddr>,
}

/// Returns the controller that publishes this server's address, and removes it when the server stops.
pub fn peer_endpoint_controller(endpoint: PeerEndpoint) -> Controller {
    let endpoint = Arc::new(endpoint);
    Controller::periodic("peer-endpoint-reconciler-controller", Some(10), &endpoint, |endpoint| {
        Box::pin(publish(endpoint))
    })
    .optional()
    .with_cleanup(&endpoint, |endpoint| Box::pin(withdraw(endpoint)))
}

async fn publish(own: &PeerEndpoint) -> Result<(), Status> {
    let Some(address) = own.address else { return Ok(()) };
    let endpoints = endpoints(&own.resources)?;
    let (store, key) = (store(&endpoints), key(&endpoints, &own.name));
    // The generation counts renewals, as in kube-apiserver, which does not write an unchanged value.
    let (before, _) = store.get(key.clone(), None).await.map_err(store_failure)?;
    // An undecodable value is replaced.
    let before = before.and_then(|kv| endpoints.resource().collection.decode(&kv.value, kv.mod_revision).ok());
    let renewed = before.map_or(0, |before| metadata(&before).at(ObjectMeta::GENERATION).int_or_zero());
    let mut published = endpoints_object(&own.name, address, renewed + 1);
    let value = endpoints.resource().collection.encode(&mut published).await?;
    let lease = Some(store.grant_lease(LEASE_SECONDS).await.map_err(store_failure)?);
    let txn = Txn { key, expect: Expect::Anything, op: Op::Put { value, lease } };
    store.txn(txn).await.map(|_| ()).map_err(store_failure)
}

/// Removes the address, so that other servers do not use it.
async fn withdraw(own: &PeerEndpoint) -> Result<(), Status> {
    if own.address.is_none() {
        return Ok(());
    }
    let endpoints = endpoints(&own.resources)?;
    let txn = Txn { key: key(&endpoints, &own.name), expect: Expect::Anything, op: Op::Delete };
    store(&endpoints).txn(txn).await.map(|_| ()).map_err(store_failure)
}

/// The published addresses of the cluster's servers.
#[derive(Clone)]
pub struct PeerAddresses(Catalog);

impl PeerAddresses {
    pub fn new(resources: Catalog) -> Self {
        Self(resources)
    }

    /// Returns the `host:port` of the server with this identity lease.
    pub async fn address_of(&self, name: &str) -> Result<String, String> {
        let failed = |status: Status| status.message().to_owned();
        let endpoints = endpoints(&self.0).map_err(failed)?;
        let range = prefix_range(format!("{}{LEASES}", endpoints.resource().collection.root).as_bytes());
        let request = RangeRequest { range, revision: None, limit: 0, count: Count::All };
        let published = store(&endpoints).range(request).await.map_err(|error| failed(store_failure(error)))?;
        for kv in &published.kvs {
            // An undecodable value of another server disappears with its lease.
            let Ok(published) = endpoints.resource().collection.decode(&kv.value, Revision(0)) else { continue };
            if metadata(&published).at(ObjectMeta::LABELS).key(IDENTITY).str() == name {
                return address_in(&published).ok_or_else(|| "missing port in address".to_owned());
            }
        }
        Err("missing port in address".to_owned())
    }
}

fn endpoints_object(name: &str, address: SocketAddr, generation: i64) -> Value {
    value!({
        "metadata": {"generation": generation, "labels": {"apiserverIdentity": name}},
        "subsets": [{
            "addresses": [{"ip": (address.ip().to_string())}],
            "ports": [{"name": "https", "port": (i64::from(address.port())), "protocol": "TCP"}],
        }],
    })
}

fn address_in(published: &Value) -> Option<String> {
    let subset = FieldRef::<Endpoints>::root(published).at(Endpoints::SUBSETS).values().next()?;
    let address = subset.at(EndpointSubset::ADDRESSES).values().next()?;
    let ip: IpAddr = address.at(EndpointAddress::IP).str().parse().ok()?;
    let port = subset.at(EndpointSubset::PORTS).values().next()?.at(EndpointPort::PORT).int();
    let port = port.and_then(|port| u16::try_from(port).ok())?;
    Some(SocketAddr::new(ip, port).to_string())
}

fn endpoints(resources: &Catalog) -> Result<Objects, Status> {
    Objects::new(resources, "", "v1", "endpoints")
}

fn store(objects: &Objects) -> &dyn Store {
    &*objects.resource().collection.store
}

fn key(endpoints: &Objects, name: &str) -> Bytes {
    Bytes::from(format!("{}{LEASES}{name}", endpoints.resource().collection.root))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn resolves_published_addresses_until_withdrawn() {
        let resources = binnacle_test_cluster::resources();
        let at = |address: &str, name: &str| {
            let address = Some(address.parse().unwrap());
            PeerEndpoint { resources: resources.clone(), name: name.to_owned(), address }
        };
        let (one, two) = (at("10.0.0.1:6443", "one"), at("[fd00::2]:7443", "two"));
        let addresses = PeerAddresses::new(resources.clone());
        for own in [&one, &two, &one] {
            publish(own).await.unwrap();
        }
        assert_eq!(addresses.address_of("one").await, Ok("10.0.0.1:6443".to_owned()));
        assert_eq!(addresses.address_of("two").await, Ok("[fd00::2]:7443".to_owned()));
        withdraw(&one).await.unwrap();
        assert_eq!(addresses.address_of("one").await, Err("missing port in address".to_owned()));
    }
}
