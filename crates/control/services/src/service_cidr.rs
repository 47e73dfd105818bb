//! The ServiceCIDR `kubernetes`, created from the flags, from which addresses of services are allocated.

use binnacle_fields::meta::v1::ObjectMeta;
use binnacle_fields::networking::v1::{ServiceCIDR, ServiceCIDRSpec};
use binnacle_fields::{FieldMut, FieldRef};
use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Context, rfc3339};
use binnacle_schema::{Value, value};

use crate::addresses::readiness;
use crate::allocations::Allocations;
use binnacle_controllers::Objects;

const NAME: &str = "kubernetes";
/// The field manager of the status.
const MANAGER: &str = "kubernetes-service-cidr-controller";

/// Creates the ServiceCIDR if it is missing, adds the second family of the flags if it has only the first, and sets the
/// condition `Ready` unless another manager has set it.
pub(crate) async fn ensure(allocations: &Allocations) -> Result<(), Status> {
    let cidrs = Objects::new(&allocations.resources, "networking.k8s.io", "v1", "servicecidrs")?;
    let wanted: Vec<String> = allocations.config.cidrs.iter().map(|cidr| cidr.network()).collect();
    let Some(current) = cidrs.get("", NAME).await? else {
        let object = value!({"metadata": {"name": NAME}, "spec": {"cidrs": (wanted.clone())}});
        match cidrs.create("", object).await {
            Ok(_) => {}
            Err(status) if status.is(StatusReason::AlreadyExists) => {}
            Err(status) => return Err(status),
        }
        return set_ready(&cidrs).await;
    };
    let current = FieldRef::<ServiceCIDR>::root(&current);
    let stored: Vec<&str> = current.at(ServiceCIDR::SPEC).at(ServiceCIDRSpec::CIDRS).strs().collect();
    if stored.len() == 1 && wanted.len() == 2 && stored[0] == wanted[0] {
        let set = |cidr: &mut Value| {
            let mut cidr = FieldMut::<ServiceCIDR>::root(cidr);
            cidr.entry(ServiceCIDR::SPEC).set(ServiceCIDRSpec::CIDRS, Value::from(wanted.clone()));
        };
        return cidrs.update("", NAME, "", set).await;
    }
    if current.at(ServiceCIDR::METADATA).at(ObjectMeta::DELETION_TIMESTAMP).is_set() {
        return Ok(());
    }
    if stored != wanted {
        tracing::warn!(?stored, flags = ?wanted, "default ServiceCIDR differs from --service-cluster-ip-range");
        return Ok(());
    }
    match readiness(current) {
        None | Some("Unknown") => set_ready(&cidrs).await,
        _ => Ok(()),
    }
}

async fn set_ready(cidrs: &Objects) -> Result<(), Status> {
    let now = rfc3339(Context::internal("").now);
    let status = value!({
        "metadata": {"name": NAME},
        "status": {"conditions": [{
            "type": "Ready", "status": "True", "lastTransitionTime": now,
            "message": "Kubernetes default Service CIDR is ready",
        }]},
    });
    cidrs.apply_status(NAME, MANAGER, status).await
}
