//! Assembles priority and fairness from the limits in flags, the sizes of the caches, and the stored objects.

use std::sync::Arc;

use binnacle_controlplane::start_flow_control_informers;
use binnacle_flowcontrol::{FlowControl, ListSize, RequestLimits};
use binnacle_registry::Catalog;
use binnacle_request::{RequestInfo, Shutdown};
use binnacle_server::Metrics;
use binnacle_supervise::supervise;
use tokio::task::JoinSet;

use crate::settings::Generic;
use crate::start_failure::{StartFailure, not_registered};

/// Starts priority and fairness unless it is off. It follows its objects until the shutdown signal.
pub(crate) fn start(
    generic: &Generic,
    resources: &Catalog,
    metrics: &Metrics,
    tasks: &mut JoinSet<()>,
    shutdown: &Shutdown,
) -> Result<Option<Arc<FlowControl>>, StartFailure> {
    if !generic.priority_and_fairness {
        return Ok(None);
    }
    let limit = |limit| u32::try_from(limit).unwrap_or(u32::MAX);
    let limits =
        RequestLimits { read_only: limit(generic.max_requests), mutating: limit(generic.max_mutating_requests) };
    let counted = resources.clone();
    let counts = Arc::new(move |info: &RequestInfo| {
        let stats = counted.find(&info.api_group, &info.api_version, &info.resource)?.collection.cache.stats();
        Some(ListSize { objects: stats.objects as u64, bytes: stats.bytes as u64 })
    });
    let watched = resources.clone();
    let watchers = Arc::new(move |info: &RequestInfo| {
        watched.find(&info.api_group, &info.api_version, &info.resource)?.collection.cache.watchers()
    });
    let control = FlowControl::new(limits, counts, watchers, metrics.registry()).map_err(not_registered)?;
    if let Err(status) = start_flow_control_informers(&control, resources, tasks, shutdown) {
        // Without its objects the mandatory defaults apply: administrators are exempt, all others share a small limit.
        tracing::warn!("failed to watch flow schemas: {}", status.message());
    }
    let (adjusted, stopped) = (control.clone(), shutdown.fired());
    tasks.spawn(async move {
        tokio::select! {
            () = supervise("flow control seats", || adjusted.clone().run()) => {}
            () = stopped => {}
        }
    });
    Ok(Some(control))
}
