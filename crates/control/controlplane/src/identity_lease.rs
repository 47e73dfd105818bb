//! The identity lease of this server (KEP-1965), and the deletion of leases of stopped servers.

use std::time::SystemTime;

use binnacle_fields::coordination::v1::{Lease, LeaseSpec};
use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{MicroTime, Status, StatusReason};
use binnacle_schema::{Value, value};

use crate::context::ControllerContext;
use crate::identity::PROGRAM;
use binnacle_controllers::Objects;

/// The duration of a lease in seconds. It is renewed much more often.
const DURATION: i64 = 3600;
const NAMESPACE: &str = "kube-system";
const IDENTITY: &str = "apiserver.kubernetes.io/identity";
const HOSTNAME: &str = "kubernetes.io/hostname";
const PEER_ADDRESS: &str = "kubernetes.io/peer-advertise-address";

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

#[cfg(test)]
mod tests {
    use super::*;

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
