//! The ServiceCIDR `kubernetes`, made from the flags, from which addresses of services are allocated.

use binnacle_meta::{Status, StatusReason};
use binnacle_registry::{Context, rfc3339};
use binnacle_schema::{Value, value};

use crate::controllers::Allocations;
use binnacle_controllers::Objects;

const NAME: &str = "kubernetes";
/// The field manager of the status.
const MANAGER: &str = "kubernetes-service-cidr-controller";

/// Creates it if it is missing, adds the second family of the flags if it has only the first, and sets the condition
/// `Ready`, unless another manager has set it.
pub(crate) async fn ensure(allocations: &Allocations) -> Result<(), Status> {
    let cidrs = Objects::new(&allocations.resources, "networking.k8s.io", "v1", "servicecidrs")?;
    let wanted: Vec<String> = allocations.config.cidrs.iter().map(|cidr| cidr.network()).collect();
    let Some(there) = cidrs.get("", NAME).await? else {
        let object = value!({"metadata": {"name": NAME}, "spec": {"cidrs": (wanted.clone())}});
        match cidrs.create("", object).await {
            Ok(_) => {}
            Err(status) if status.is(StatusReason::AlreadyExists) => {}
            Err(status) => return Err(status),
        }
        return tell_ready(&cidrs).await;
    };
    let stored: Vec<&str> = there.list_at(&["spec", "cidrs"]).iter().filter_map(Value::as_str).collect();
    if stored.len() == 1 && wanted.len() == 2 && stored[0] == wanted[0] {
        return cidrs.update("", NAME, "", |cidr| drop(cidr.make_at(&["spec"]).insert("cidrs", wanted.clone()))).await;
    }
    if there.at(&["metadata", "deletionTimestamp"]).is_some_and(|at| !at.is_null()) {
        return Ok(());
    }
    if stored != wanted {
        tracing::warn!(?stored, flags = ?wanted, "the default ServiceCIDR is not that of the flags");
        return Ok(());
    }
    let conditions = there.list_at(&["status", "conditions"]);
    match conditions.iter().find(|c| c.str_at(&["type"]) == "Ready").map(|c| c.str_at(&["status"])) {
        None | Some("Unknown") => tell_ready(&cidrs).await,
        _ => Ok(()),
    }
}

async fn tell_ready(cidrs: &Objects) -> Result<(), Status> {
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
