//! The service `kubernetes`, through which pods reach the servers, and its endpoints.
//!
//! With the lease reconciler (the default), every server has a key with a lease for its own address below
//! `masterleases/`, as in kube-apiserver; the endpoints are the addresses of all these keys. The key of a stopped
//! server disappears when its lease expires.

use std::net::{IpAddr, SocketAddr};

use binnacle_fields::core::v1::{EndpointAddress, EndpointSubset, Endpoints, ServicePort};
use binnacle_fields::discovery::v1::EndpointSlice;
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef, metadata};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::store_failure;
use binnacle_schema::{Value, value};
use binnacle_store::{Count, Expect, Op, RangeRequest, Revision, Store, Txn, prefix_range};
use bytes::Bytes;

use crate::config::EndpointReconciler;
use crate::context::ControllerContext;
use binnacle_controllers::Objects;
use binnacle_services::AddressRange;

const NAMESPACE: &str = "default";
const NAME: &str = "kubernetes";
const PORT: i64 = 443;

/// The prefix of the keys, below the root of all keys.
const LEASES: &str = "masterleases/";
/// The lifetime of a server's lease: one and a half times the interval of its renewals.
const LEASE_SECONDS: u64 = 15;

/// Creates the service if it is missing, renews this server's lease and updates the endpoints.
pub(crate) async fn ensure(ctx: &ControllerContext) -> Result<(), Status> {
    let Some(advertised) = ctx.config.advertised else { return ensure_service(ctx, None).await };
    ensure_service(ctx, Some(advertised)).await?;
    match ctx.config.endpoint_reconciler {
        EndpointReconciler::None => Ok(()),
        EndpointReconciler::Count(count) => {
            let own = advertised.ip().to_string();
            write(ctx, &limited_addresses(&current_addresses(ctx).await?, &own, count), advertised.port()).await
        }
        EndpointReconciler::Lease => {
            renew(ctx, advertised).await?;
            reconcile(ctx, advertised.port()).await
        }
    }
}

/// Removes this server from the endpoints.
pub(crate) async fn remove_endpoints(ctx: &ControllerContext) -> Result<(), Status> {
    let Some(advertised) = ctx.config.advertised else { return Ok(()) };
    match ctx.config.endpoint_reconciler {
        EndpointReconciler::None => Ok(()),
        EndpointReconciler::Count(_) => {
            let mut addresses = current_addresses(ctx).await?;
            addresses.retain(|address| *address != advertised.ip().to_string());
            write(ctx, &addresses, advertised.port()).await
        }
        EndpointReconciler::Lease => {
            let endpoints = endpoints(ctx)?;
            let txn = Txn { key: lease_key(&endpoints, advertised), expect: Expect::Anything, op: Op::Delete };
            store(&endpoints).txn(txn).await.map_err(store_failure)?;
            reconcile(ctx, advertised.port()).await
        }
    }
}

/// Returns the addresses in the endpoints, or none if the endpoints do not have exactly one subset, as servers write
/// them.
async fn current_addresses(ctx: &ControllerContext) -> Result<Vec<String>, Status> {
    let Some(existing) = endpoints(ctx)?.get(NAMESPACE, NAME).await? else { return Ok(Vec::new()) };
    let mut subsets = subsets(&existing);
    let (Some(subset), None) = (subsets.next(), subsets.next()) else { return Ok(Vec::new()) };
    Ok(ips(subset).map(str::to_owned).collect())
}

fn subsets(endpoints: &Value) -> impl Iterator<Item = FieldRef<'static, '_, EndpointSubset>> {
    FieldRef::<Endpoints>::root(endpoints).at(Endpoints::SUBSETS).values()
}

fn ips<'v>(subset: FieldRef<'_, 'v, EndpointSubset>) -> impl Iterator<Item = &'v str> + use<'v> {
    subset.at(EndpointSubset::ADDRESSES).values().map(|address| address.at(EndpointAddress::IP).str())
}

/// Returns at most `count` addresses, including the server's own. Those after its own are removed first, so that all
/// servers converge to the same addresses.
fn limited_addresses(current_addresses: &[String], own: &str, count: usize) -> Vec<String> {
    let mut addresses = current_addresses.to_vec();
    if current_addresses.iter().any(|address| address == own) && current_addresses.len() <= count {
        return addresses;
    }
    addresses.push(own.to_owned());
    addresses.sort();
    addresses.dedup();
    let at = addresses.iter().position(|address| address == own).unwrap_or(0);
    while addresses.len() > count.max(1) {
        addresses.remove((at + 1) % addresses.len());
    }
    addresses
}

async fn ensure_service(ctx: &ControllerContext, advertised: Option<SocketAddr>) -> Result<(), Status> {
    let services = Objects::new(&ctx.resources, "", "v1", "services")?;
    if services.get(NAMESPACE, NAME).await?.is_some() {
        return Ok(());
    }
    let Some(primary) = ctx.config.services.cidrs.first() else { return Ok(()) };
    let node_port = i64::from(ctx.config.kubernetes_node_port);
    let target = advertised.map_or(PORT, |advertised| i64::from(advertised.port()));
    let mut port = value!({"name": "https", "protocol": "TCP", "port": PORT, "targetPort": target});
    if node_port != 0 {
        FieldMut::root(&mut port).set(ServicePort::NODE_PORT, node_port);
    }
    let service = value!({
        "metadata": {
            "name": NAME,
            "namespace": NAMESPACE,
            "labels": {"provider": "kubernetes", "component": "apiserver"},
        },
        "spec": {
            "ports": [port],
            "clusterIP": (AddressRange::new(*primary).first().to_string()),
            "ipFamilyPolicy": "SingleStack",
            "sessionAffinity": "None",
            "type": (if node_port == 0 { "ClusterIP" } else { "NodePort" }),
        },
    });
    ignore_already_exists(services.create(NAMESPACE, service).await.map(|_| ()))
}

/// Renews the key by which other servers find this one.
async fn renew(ctx: &ControllerContext, advertised: SocketAddr) -> Result<(), Status> {
    let endpoints = endpoints(ctx)?;
    let (store, key) = (store(&endpoints), lease_key(&endpoints, advertised));
    // The generation counts renewals, as in kube-apiserver, which does not write an unchanged value.
    let (before, _) = store.get(key.clone(), None).await.map_err(store_failure)?;
    // An undecodable value is replaced.
    let before = before.and_then(|kv| endpoints.resource().collection.decode(&kv.value, kv.mod_revision).ok());
    let renewed = before.and_then(|before| metadata(&before).at(ObjectMeta::GENERATION).int());
    let mut lease_object = value!({
        "metadata": {"generation": (renewed.unwrap_or(0) + 1)},
        "subsets": [{"addresses": [{"ip": (advertised.ip().to_string())}]}],
    });
    let value = endpoints.resource().collection.encode(&mut lease_object).await?;
    let lease = Some(store.grant_lease(LEASE_SECONDS).await.map_err(store_failure)?);
    let txn = Txn { key, expect: Expect::Anything, op: Op::Put { value, lease } };
    store.txn(txn).await.map(|_| ()).map_err(store_failure)
}

/// Sets the endpoints to the addresses of the leases.
async fn reconcile(ctx: &ControllerContext, port: u16) -> Result<(), Status> {
    let endpoints = endpoints(ctx)?;
    let range = prefix_range(format!("{}{LEASES}", endpoints.resource().collection.root).as_bytes());
    let request = RangeRequest { range, revision: None, limit: 0, count: Count::All };
    let leases = store(&endpoints).range(request).await.map_err(store_failure)?;
    let mut addresses = Vec::new();
    for kv in &leases.kvs {
        // An undecodable value of another server must not keep the others from the endpoints; it disappears with its
        // lease.
        let lease_object = match endpoints.resource().collection.decode(&kv.value, Revision(0)) {
            Ok(lease_object) => lease_object,
            Err(status) => {
                let key = String::from_utf8_lossy(&kv.key);
                tracing::warn!(%key, error = status.message(), "ignoring API server lease that cannot be decoded");
                continue;
            }
        };
        let address = subsets(&lease_object).next().and_then(|subset| ips(subset).next());
        addresses.extend(address.and_then(|address| address.parse::<IpAddr>().ok()));
    }
    let mut texts: Vec<String> = addresses.iter().map(IpAddr::to_string).collect();
    texts.sort();
    write(ctx, &texts, port).await
}

/// Writes these addresses to the endpoints and their slice.
async fn write(ctx: &ControllerContext, addresses: &[String], port: u16) -> Result<(), Status> {
    ensure_endpoints(&endpoints(ctx)?, addresses, i64::from(port)).await?;
    let all_v6 = !addresses.is_empty() && addresses.iter().all(|address| address.contains(':'));
    ensure_slice(ctx, addresses, if all_v6 { "IPv6" } else { "IPv4" }, i64::from(port)).await
}

async fn ensure_endpoints(endpoints: &Objects, addresses: &[String], port: i64) -> Result<(), Status> {
    const SKIP_MIRROR: &str = "endpointslice.kubernetes.io/skip-mirror";
    let subsets = if addresses.is_empty() {
        value!([])
    } else {
        let addresses: Vec<Value> = addresses.iter().map(|ip| value!({"ip": (ip.as_str())})).collect();
        value!([{"addresses": addresses, "ports": [{"name": "https", "port": port, "protocol": "TCP"}]}])
    };
    let Some(existing) = endpoints.get(NAMESPACE, NAME).await? else {
        let object = value!({
            "metadata": {
                "name": NAME, "namespace": NAMESPACE, "labels": {"endpointslice.kubernetes.io/skip-mirror": "true"}
            },
            "subsets": subsets,
        });
        return ignore_already_exists(endpoints.create(NAMESPACE, object).await.map(|_| ()));
    };
    let labelled = metadata(&existing).at(ObjectMeta::LABELS).key(SKIP_MIRROR).str() == "true";
    // Ports are not compared: all servers of a cluster use the same.
    let same_addresses = {
        let mut stored = self::subsets(&existing);
        match (stored.next(), stored.next()) {
            (None, _) => addresses.is_empty(),
            (Some(only), None) => ips(only).eq(addresses),
            _ => false,
        }
    };
    if labelled && same_addresses {
        return Ok(());
    }
    endpoints
        .update(NAMESPACE, NAME, "", |object| {
            let mut object = FieldMut::<Endpoints>::root(object);
            object.entry(Endpoints::METADATA).map_entry(ObjectMeta::LABELS).insert(SKIP_MIRROR, "true");
            object.set(Endpoints::SUBSETS, subsets.clone());
        })
        .await
}

async fn ensure_slice(
    ctx: &ControllerContext,
    addresses: &[String],
    address_type: &str,
    port: i64,
) -> Result<(), Status> {
    let slices = Objects::new(&ctx.resources, "discovery.k8s.io", "v1", "endpointslices")?;
    let endpoints: Vec<Value> = addresses
        .iter()
        .map(|address| value!({"addresses": [(address.as_str())], "conditions": {"ready": true}}))
        .collect();
    let ports =
        if addresses.is_empty() { value!([]) } else { value!([{"name": "https", "protocol": "TCP", "port": port}]) };
    let slice = value!({
        "metadata": {
            "name": NAME, "namespace": NAMESPACE, "labels": {"kubernetes.io/service-name": NAME}
        },
        "addressType": address_type,
        "endpoints": endpoints,
        "ports": ports,
    });
    match slices.get(NAMESPACE, NAME).await? {
        None => ignore_already_exists(slices.create(NAMESPACE, slice).await.map(|_| ())),
        // The address family of a slice is immutable.
        Some(existing)
            if FieldRef::<EndpointSlice>::root(&existing).at(EndpointSlice::ADDRESS_TYPE).str() != address_type =>
        {
            slices.delete(NAMESPACE, NAME).await?;
            ignore_already_exists(slices.create(NAMESPACE, slice).await.map(|_| ()))
        }
        Some(existing) => {
            let [existing, slice] = [&existing, &slice].map(FieldRef::<EndpointSlice>::root);
            let labels = slice.at(EndpointSlice::METADATA).at(ObjectMeta::LABELS).detached();
            if existing.at(EndpointSlice::ENDPOINTS).list() == slice.at(EndpointSlice::ENDPOINTS).list()
                && existing.at(EndpointSlice::PORTS).list() == slice.at(EndpointSlice::PORTS).list()
                && existing.at(EndpointSlice::METADATA).at(ObjectMeta::LABELS).value() == labels.value()
            {
                return Ok(());
            }
            slices
                .update(NAMESPACE, NAME, "", |object| {
                    let mut object = FieldMut::<EndpointSlice>::root(object);
                    if let Some(labels) = labels.get() {
                        object.entry(EndpointSlice::METADATA).set(ObjectMeta::LABELS, labels.clone());
                    }
                    object.set(EndpointSlice::ENDPOINTS, slice.at(EndpointSlice::ENDPOINTS).list().to_vec());
                    object.set(EndpointSlice::PORTS, slice.at(EndpointSlice::PORTS).list().to_vec());
                })
                .await
        }
    }
}

fn endpoints(ctx: &ControllerContext) -> Result<Objects, Status> {
    Objects::new(&ctx.resources, "", "v1", "endpoints")
}

fn store(objects: &Objects) -> &dyn Store {
    &*objects.resource().collection.store
}

fn lease_key(endpoints: &Objects, advertised: SocketAddr) -> Bytes {
    Bytes::from(format!("{}{LEASES}{}", endpoints.resource().collection.root, advertised.ip()))
}

/// Ignores the error if another server has created the object first.
fn ignore_already_exists(result: Result<(), Status>) -> Result<(), Status> {
    match result {
        Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
        result => result,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keeps_at_most_count_addresses() {
        for (current_addresses, own, count, want) in [
            (&[][..], "b", 1, &["b"][..]),
            (&["b"], "b", 1, &["b"]),
            (&["a"], "b", 1, &["b"]),
            (&["a"], "b", 2, &["a", "b"]),
            (&["a", "c"], "b", 2, &["a", "b"]),
            (&["a", "b", "c"], "b", 3, &["a", "b", "c"]),
            (&["a", "b", "c"], "d", 2, &["b", "d"]),
            (&["a", "b", "c"], "a", 1, &["a"]),
        ] {
            let current_addresses: Vec<String> = current_addresses.iter().map(|text| (*text).to_owned()).collect();
            assert_eq!(limited_addresses(&current_addresses, own, count), want, "{current_addresses:?} {own} {count}");
        }
    }
}
