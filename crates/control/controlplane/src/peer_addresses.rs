//! The addresses of servers for each other (KEP-4020): each has a key with a lease below `peerserverleases/`.
//!
//! A server without the requested resource forwards the request to one that has it; the identity lease has that
//! server's name, and the key its address. The key of a stopped server disappears when its lease ends.

use std::net::{IpAddr, SocketAddr};

use binnacle_meta::Status;
use binnacle_registry::{Catalog, store_failure};
use binnacle_schema::{Value, value};
use binnacle_store::{Expect, Op, RangeRequest, Revision, Store, Txn, prefix_range};
use bytes::Bytes;

use crate::objects::Objects;
use crate::start::Work;

/// The prefix of the keys, below the root of all keys.
const LEASES: &str = "peerserverleases/";
/// The lifetime of a server's lease: one and a half times the interval of its renewals.
const LEASE_SECONDS: u64 = 15;
const IDENTITY: &str = "apiserverIdentity";

/// Publishes this server's address, if the gate is on.
pub(crate) async fn ensure(work: &Work) -> Result<(), Status> {
    let Some(address) = work.config.peer_address(work.resources.features()) else { return Ok(()) };
    let endpoints = endpoints(&work.resources)?;
    let (store, key) = (store(&endpoints), key(&endpoints, work.identity.name()));
    // As in kube-apiserver, which does not write an unchanged value, the generation counts renewals.
    let (before, _) = store.get(key.clone(), None).await.map_err(store_failure)?;
    // An undecodable value is replaced.
    let before = before.and_then(|kv| endpoints.resource().collection.decode(&kv.value, kv.mod_revision).ok());
    let renewed = before.and_then(|before| before.int_at(&["metadata", "generation"])).unwrap_or(0);
    let mut held = held(work.identity.name(), address, renewed + 1);
    let value = endpoints.resource().collection.encode(&mut held).await?;
    let lease = Some(store.grant_lease(LEASE_SECONDS).await.map_err(store_failure)?);
    let txn = Txn { key, expect: Expect::Anything, op: Op::Put { value, lease } };
    store.txn(txn).await.map(|_| ()).map_err(store_failure)
}

/// Removes the address, so that other servers do not use it.
pub(crate) async fn leave(work: &Work) -> Result<(), Status> {
    if work.config.peer_address(work.resources.features()).is_none() {
        return Ok(());
    }
    let endpoints = endpoints(&work.resources)?;
    let txn = Txn { key: key(&endpoints, work.identity.name()), expect: Expect::Anything, op: Op::Delete };
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
        let request = RangeRequest { range, revision: None, limit: 0, count_only: false };
        let held = store(&endpoints).range(request).await.map_err(|error| failed(store_failure(error)))?;
        for kv in &held.kvs {
            // Another server's undecodable value ends with its lease.
            let Ok(held) = endpoints.resource().collection.decode(&kv.value, Revision(0)) else { continue };
            if held.str_at(&["metadata", "labels", IDENTITY]) == name {
                return address_in(&held).ok_or_else(|| "missing port in address".to_owned());
            }
        }
        Err("missing port in address".to_owned())
    }
}

fn held(name: &str, address: SocketAddr, generation: i64) -> Value {
    value!({
        "metadata": {"generation": generation, "labels": {"apiserverIdentity": name}},
        "subsets": [{
            "addresses": [{"ip": (address.ip().to_string())}],
            "ports": [{"name": "https", "port": (i64::from(address.port())), "protocol": "TCP"}],
        }],
    })
}

fn address_in(held: &Value) -> Option<String> {
    let subset = held.list_at(&["subsets"]).first()?;
    let ip: IpAddr = subset.list_at(&["addresses"]).first()?.str_at(&["ip"]).parse().ok()?;
    let port = subset.list_at(&["ports"]).first()?.int_at(&["port"]).and_then(|port| u16::try_from(port).ok())?;
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
    use crate::config::Config;
    use crate::testing::Cluster;

    #[tokio::test]
    async fn servers_are_found_while_they_are_there() {
        let resources = Cluster::resources();
        let at = |address: &str, peer: Option<&str>, name: &str| {
            let config = Config {
                advertised: Some(address.parse().unwrap()),
                peer_advertised: peer.map(|address| address.parse().unwrap()),
                hostname: Some(name.to_owned()),
                ..Config::default()
            };
            Work::new(resources.clone(), config)
        };
        let (one, two) = (at("10.0.0.1:6443", None, "one"), at("10.0.0.2:6443", Some("[fd00::2]:7443"), "two"));
        let addresses = PeerAddresses::new(resources.clone());
        for work in [&one, &two, &one] {
            ensure(work).await.unwrap();
        }
        let [first, second] = [&one, &two].map(|work| work.identity.name().to_owned());
        assert_eq!(addresses.address_of(&first).await, Ok("10.0.0.1:6443".to_owned()));
        assert_eq!(addresses.address_of(&second).await, Ok("[fd00::2]:7443".to_owned()));
        leave(&one).await.unwrap();
        assert_eq!(addresses.address_of(&first).await, Err("missing port in address".to_owned()));
    }
}
