//! The lease by which this server shows that it is there (KEP-1965), and the removal of those that nobody renews.
//!
//! Leases are told apart by the host: a server that starts again takes the place of the one before.

use std::time::UNIX_EPOCH;

use binnacle_meta::{MicroTime, Status, StatusReason};
use binnacle_registry::Context;
use binnacle_schema::{Value, value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::objects::Objects;
use crate::start::Work;

const NAMESPACE: &str = "kube-system";
const LABEL: &str = "apiserver.kubernetes.io/identity";
const COMPONENT: &str = "kube-apiserver";
const PEER_ADDRESS: &str = "kubernetes.io/peer-advertise-address";
/// Seconds after which a lease that was not renewed counts for nothing.
const LEASE_SECONDS: i64 = 3600;

/// Who this server is.
#[derive(Clone, Debug)]
pub(crate) struct Identity {
    hostname: String,
    /// The lease's name: the same after a restart on the same host.
    name: String,
    /// Of this run.
    holder: String,
}

impl Identity {
    pub(crate) fn new(hostname: &str) -> Self {
        let name = name(hostname);
        let holder = format!("{name}_{}", Uuid::new_v4());
        Self { hostname: hostname.to_owned(), name, holder }
    }

    fn lease(&self, now: &str, advertised: Option<String>) -> Value {
        let mut lease = value!({
            "metadata": {
                "name": (self.name.as_str()),
                "namespace": NAMESPACE,
                "labels": {"apiserver.kubernetes.io/identity": COMPONENT, "kubernetes.io/hostname": (self.hostname.as_str())},
            },
            "spec": {"holderIdentity": (self.holder.as_str()), "leaseDurationSeconds": LEASE_SECONDS, "renewTime": now},
        });
        if let Some(address) = advertised {
            lease.make_at(&["metadata", "annotations"]).insert(PEER_ADDRESS, address);
        }
        lease
    }
}

/// Makes the lease, or renews it. That of a run before is replaced, so that nobody takes the two for one.
pub(crate) async fn renew(work: &Work) -> Result<(), Status> {
    let leases = leases(work)?;
    let identity = &work.identity;
    let lease = identity.lease(&now(), work.config.advertised.map(|address| address.to_string()));
    match leases.get(NAMESPACE, &identity.name).await? {
        Some(there) if there.str_at(&["spec", "holderIdentity"]) == identity.holder => {
            leases
                .update(NAMESPACE, &identity.name, "", |object| {
                    for part in ["labels", "annotations"] {
                        for (name, text) in lease.object_at(&["metadata", part]).into_iter().flat_map(|o| o.iter()) {
                            object.make_at(&["metadata", part]).insert(name.to_owned(), text.clone());
                        }
                    }
                    object.make_at(&["spec"]).insert("renewTime", lease.str_at(&["spec", "renewTime"]));
                })
                .await
        }
        there => {
            if there.is_some() {
                leases.delete(NAMESPACE, &identity.name).await?;
            }
            match leases.create(NAMESPACE, lease).await {
                // Two servers on one host: whoever renews last is the one that is seen.
                Err(status) if status.is(StatusReason::AlreadyExists) => Ok(()),
                created => created.map(|_| ()),
            }
        }
    }
}

/// Takes the lease away, if it is still this server's.
pub(crate) async fn leave(work: &Work) -> Result<(), Status> {
    let leases = leases(work)?;
    match leases.get(NAMESPACE, &work.identity.name).await? {
        Some(there) if there.str_at(&["spec", "holderIdentity"]) == work.identity.holder => {
            leases.delete(NAMESPACE, &work.identity.name).await
        }
        _ => Ok(()),
    }
}

/// Removes the leases of servers that have not been heard of.
pub(crate) async fn collect_garbage(work: &Work) -> Result<(), Status> {
    let leases = leases(work)?;
    let now = seconds_now();
    for lease in leases.list(NAMESPACE).await? {
        if lease.str_at(&["metadata", "labels", LABEL]) == COMPONENT && is_expired(&lease, now) {
            leases.delete(NAMESPACE, lease.str_at(&["metadata", "name"])).await?;
        }
    }
    Ok(())
}

/// One that does not say when it was renewed, or for how long, is nobody's.
fn is_expired(lease: &Value, now: i64) -> bool {
    let renewed = MicroTime::parse(lease.str_at(&["spec", "renewTime"])).ok();
    let lasts = lease.int_at(&["spec", "leaseDurationSeconds"]);
    !matches!((renewed, lasts), (Some(renewed), Some(lasts)) if renewed.unix_seconds().saturating_add(lasts) >= now)
}

fn leases(work: &Work) -> Result<Objects<'_>, Status> {
    Objects::new(&work.resources, "coordination.k8s.io", "v1", "leases")
}

fn seconds_now() -> i64 {
    Context::internal("").now_seconds()
}

fn now() -> String {
    let since = Context::internal("").now.duration_since(UNIX_EPOCH).unwrap_or_default();
    MicroTime::from_unix(since.as_secs() as i64, since.subsec_nanos()).to_string()
}

/// `apiserver-` and a hash of the host and the component, each with its length in front.
fn name(hostname: &str) -> String {
    let mut hash = Sha256::new();
    for part in [hostname, COMPONENT] {
        hash.update((part.len() as u16).to_be_bytes());
        hash.update(part);
    }
    format!("apiserver-{}", base32(&hash.finalize()[..16]))
}

/// RFC 4648 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut text = String::new();
    let (mut held, mut bits) = (0u32, 0);
    for byte in bytes {
        held = (held << 8) | u32::from(*byte);
        bits += 8;
        while bits >= 5 {
            bits -= 5;
            text.push(ALPHABET[(held >> bits) as usize & 31] as char);
        }
    }
    if bits > 0 {
        text.push(ALPHABET[(held << (5 - bits)) as usize & 31] as char);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Config;
    use crate::testing::Cluster;

    #[test]
    fn names() {
        // As the reference names it on a host of this name.
        assert_eq!(name("vm"), "apiserver-wlv32tlttr4jl3gtroqexyxapa");
        assert_ne!(name("vm2"), name("vm"));
    }

    #[test]
    fn expiry() {
        let lease = |renewed: &str, lasts: i64| value!({"spec": {"renewTime": renewed, "leaseDurationSeconds": lasts}});
        let time = "2026-01-02T03:04:05.000000Z";
        let at = MicroTime::parse(time).unwrap().unix_seconds();
        for (lease, now, want) in [
            (lease(time, 10), at, false),
            (lease(time, 10), at + 10, false),
            (lease(time, 10), at + 11, true),
            (lease("", 10), at, true),
            (value!({"spec": {"renewTime": time}}), at, true),
            (value!({}), at, true),
        ] {
            assert_eq!(is_expired(&lease, now), want, "{lease:?} {now}");
        }
    }

    #[tokio::test]
    async fn a_lease_is_made_renewed_and_taken_over() {
        let config = Config { advertised: Some("192.0.2.2:7443".parse().unwrap()), ..Config::default() };
        let resources = Cluster::resources();
        let first = Work::new(resources.clone(), config.clone());
        let leases = leases(&first).unwrap();
        renew(&first).await.unwrap();
        let lease = leases.get(NAMESPACE, &first.identity.name).await.unwrap().unwrap();
        assert_eq!(lease.str_at(&["metadata", "labels", LABEL]), COMPONENT);
        assert_eq!(lease.str_at(&["metadata", "annotations", PEER_ADDRESS]), "192.0.2.2:7443");
        assert_eq!(lease.str_at(&["spec", "holderIdentity"]), first.identity.holder);
        let uid = lease.str_at(&["metadata", "uid"]).to_owned();
        renew(&first).await.unwrap();
        let again = leases.get(NAMESPACE, &first.identity.name).await.unwrap().unwrap();
        assert_eq!(again.str_at(&["metadata", "uid"]), uid);
        assert!(again.str_at(&["spec", "renewTime"]) > lease.str_at(&["spec", "renewTime"]));

        // The next run on the same host replaces it; the first, going later, leaves it alone.
        let second = Work::new(resources.clone(), config);
        renew(&second).await.unwrap();
        leave(&first).await.unwrap();
        let taken = leases.get(NAMESPACE, &second.identity.name).await.unwrap().unwrap();
        assert_eq!(taken.str_at(&["spec", "holderIdentity"]), second.identity.holder);
        assert_ne!(taken.str_at(&["metadata", "uid"]), uid);
        leave(&second).await.unwrap();
        assert_eq!(leases.get(NAMESPACE, &second.identity.name).await.unwrap(), None);
    }

    #[tokio::test]
    async fn only_old_leases_of_servers_go() {
        let work = Work::new(Cluster::resources(), Config::default());
        let leases = leases(&work).unwrap();
        for (name, component, renewed) in [
            ("old", COMPONENT, "2020-01-02T03:04:05.000000Z"),
            ("new", COMPONENT, now().as_str()),
            ("other", "kubelet", "2020-01-02T03:04:05.000000Z"),
        ] {
            let lease = value!({
                "metadata": {"name": name, "namespace": NAMESPACE, "labels": {"apiserver.kubernetes.io/identity": component}},
                "spec": {"leaseDurationSeconds": LEASE_SECONDS, "renewTime": renewed},
            });
            leases.create(NAMESPACE, lease).await.unwrap();
        }
        collect_garbage(&work).await.unwrap();
        let mut left: Vec<String> = Vec::new();
        for lease in leases.list(NAMESPACE).await.unwrap() {
            left.push(lease.str_at(&["metadata", "name"]).to_owned());
        }
        left.sort();
        assert_eq!(left, ["new", "other"]);
    }
}
