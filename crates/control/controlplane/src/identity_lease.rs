//! The identity lease of this server (KEP-1965), and the deletion of leases of stopped servers.

use std::time::SystemTime;

use binnacle_fields::coordination::v1::{Lease, LeaseSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{MicroTime, Status, StatusReason};
use binnacle_schema::{Value, value};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use crate::context::ControllerContext;
use binnacle_controllers::Objects;

/// The duration of a lease in seconds; it is renewed every ten seconds.
const DURATION: i64 = 3600;
const NAMESPACE: &str = "kube-system";
const IDENTITY: &str = "apiserver.kubernetes.io/identity";
const PROGRAM: &str = "kube-apiserver";
const HOSTNAME: &str = "kubernetes.io/hostname";
const PEER_ADDRESS: &str = "kubernetes.io/peer-advertise-address";

/// The identity of this server. The name is the same at every start on a machine; the holder differs for each start.
#[derive(Debug)]
pub(crate) struct Identity {
    hostname: String,
    name: String,
    holder: String,
}

/// Returns the name of the identity lease of a server on this machine, or on one named `hostname`.
pub fn identity_lease_name(hostname: Option<&str>) -> String {
    Identity::of(hostname).name
}

impl Identity {
    /// Returns the identity of a server on this machine, or on one named `hostname`.
    pub(crate) fn of(hostname: Option<&str>) -> Self {
        match hostname {
            Some(hostname) => Self::new(hostname),
            None => Self::new(std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim()),
        }
    }

    /// Returns the name of the identity lease.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn hostname(&self) -> &str {
        &self.hostname
    }

    fn new(hostname: &str) -> Self {
        let mut hash = Sha256::new();
        for text in [hostname, PROGRAM] {
            // Each text is prefixed with its length, so that different pairs have different hashes.
            hash.update(u16::try_from(text.len()).unwrap_or(u16::MAX).to_be_bytes());
            hash.update(text);
        }
        let hash = hash.finalize();
        let name = format!("apiserver-{}", base32(&hash[..16]));
        let holder = format!("{name}_{}", Uuid::new_v4());
        Self { hostname: hostname.to_owned(), name, holder }
    }
}

/// Creates or renews the lease, and takes over the lease of an earlier holder.
pub(crate) async fn renew(ctx: &ControllerContext) -> Result<(), Status> {
    if !ctx.resources.features().enabled("APIServerIdentity") {
        return Ok(());
    }
    let leases = Objects::new(&ctx.resources, "coordination.k8s.io", "v1", "leases")?;
    let renewed = leases.update(NAMESPACE, &ctx.identity.name, "", |lease| fill(lease, ctx)).await;
    match renewed {
        Err(status) if status.is(StatusReason::NotFound) => {
            let name = ctx.identity.name.as_str();
            let mut lease = value!({"metadata": {"name": name, "namespace": NAMESPACE}});
            fill(&mut lease, ctx);
            leases.create(NAMESPACE, lease).await.map(|_| ())
        }
        renewed => renewed,
    }
}

/// Deletes the lease, so that other servers no longer count this one.
pub(crate) async fn release(ctx: &ControllerContext) -> Result<(), Status> {
    Objects::new(&ctx.resources, "coordination.k8s.io", "v1", "leases")?.delete(NAMESPACE, &ctx.identity.name).await
}

/// Deletes expired leases of servers.
pub(crate) async fn collect_expired(ctx: &ControllerContext) -> Result<(), Status> {
    if !ctx.resources.features().enabled("APIServerIdentity") {
        return Ok(());
    }
    let leases = Objects::new(&ctx.resources, "coordination.k8s.io", "v1", "leases")?;
    let now = now();
    for lease in leases.list(NAMESPACE).await? {
        let lease = FieldRef::<Lease>::root(&lease);
        let metadata = lease.at(Lease::METADATA);
        let is_own = metadata.at(ObjectMeta::LABELS).key(IDENTITY).str() == PROGRAM;
        if is_own && is_expired(lease.at(Lease::SPEC), &now) {
            leases.delete(NAMESPACE, metadata.at(ObjectMeta::NAME).str()).await?;
        }
    }
    Ok(())
}

fn fill(lease: &mut Value, ctx: &ControllerContext) {
    let identity = &ctx.identity;
    let mut lease = FieldMut::<Lease>::root(lease);
    let mut metadata = lease.entry(Lease::METADATA);
    let labels = metadata.map_entry(ObjectMeta::LABELS);
    labels.insert(IDENTITY, PROGRAM);
    labels.insert(HOSTNAME, identity.hostname.as_str());
    if let Some(address) = ctx.config.peer_address(ctx.resources.features()) {
        metadata.map_entry(ObjectMeta::ANNOTATIONS).insert(PEER_ADDRESS, address.to_string());
    }
    let mut spec = lease.entry(Lease::SPEC);
    spec.set(LeaseSpec::HOLDER_IDENTITY, identity.holder.as_str());
    spec.set(LeaseSpec::LEASE_DURATION_SECONDS, DURATION);
    spec.set(LeaseSpec::RENEW_TIME, now().to_string());
}

fn now() -> MicroTime {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    MicroTime::from_unix(i64::try_from(since.as_secs()).unwrap_or(i64::MAX), since.subsec_nanos())
}

/// Returns true if a lease is expired, or has no duration or renew time.
fn is_expired(spec: FieldRef<LeaseSpec>, now: &MicroTime) -> bool {
    let renewed = MicroTime::parse(spec.at(LeaseSpec::RENEW_TIME).str()).ok();
    let seconds = spec.at(LeaseSpec::LEASE_DURATION_SECONDS).int();
    match (renewed, seconds) {
        (Some(renewed), Some(seconds)) => {
            (renewed.unix_seconds().saturating_add(seconds), renewed.nanos()) < (now.unix_seconds(), now.nanos())
        }
        _ => true,
    }
}

/// Encodes as RFC 4648 base32 in lower case, without padding.
fn base32(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let (mut text, mut bits, mut pending_bits) = (String::new(), 0u32, 0);
    for byte in bytes {
        bits = (bits << 8) | u32::from(*byte);
        pending_bits += 8;
        while pending_bits >= 5 {
            pending_bits -= 5;
            text.push(char::from(LETTERS[(bits >> pending_bits) as usize & 31]));
        }
        bits &= (1 << pending_bits) - 1;
    }
    if pending_bits > 0 {
        text.push(char::from(LETTERS[(bits << (5 - pending_bits)) as usize & 31]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lease_name_matches_kube_apiserver() {
        // The lease name of the recorded kube-apiserver, on a machine with this name.
        assert_eq!(Identity::new("vm").name, "apiserver-wlv32tlttr4jl3gtroqexyxapa");
        assert_eq!(identity_lease_name(Some("test-host")), "apiserver-aafqjbvdrjjl2c5nvqhebm6kym");
        assert_eq!(base32(b"foobar"), "mzxw6ytboi");
        assert_eq!(base32(b"f"), "my");
    }

    #[test]
    fn detects_expired_leases() {
        let now = MicroTime::parse("2026-01-01T01:00:00.000000Z").expect("a time");
        for (spec, want) in [
            (value!({"renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 3600i64}), false),
            (value!({"renewTime": "2026-01-01T00:00:00.000000Z", "leaseDurationSeconds": 3599i64}), true),
            (value!({"renewTime": "2026-01-01T00:00:00.000000Z"}), true),
            (value!({"leaseDurationSeconds": 3600i64}), true),
        ] {
            assert_eq!(is_expired(FieldRef::root(&spec), &now), want, "{spec:?}");
        }
    }
}
