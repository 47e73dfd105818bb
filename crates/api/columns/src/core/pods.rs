//! Pod.

use std::collections::HashMap;

use binnacle_meta::Time;
use binnacle_schema::Value;

use crate::Now;
use crate::age;
use crate::columns::{Cells, Columns, RowCondition, cells, definitions, doc, string, text};
use crate::format::{NONE, condition, is_true, non_empty, text_or};
use crate::metadata::{AGE, NAME, created, deleting, name, number, present};

definitions!("io.k8s.api.core.v1": SPEC = "PodSpec", STATUS = "PodStatus");

pub(crate) const POD: Columns = Columns {
    conditions,
    ..Columns::new(
        &[
            NAME,
            string("Ready", text("The aggregate readiness state of this pod for accepting traffic.")),
            string("Status", text("The aggregate status of the containers in this pod.")),
            string(
                "Restarts",
                text(
                    "The number of times the containers in this pod have been restarted and when the last container in this pod has restarted.",
                ),
            ),
            AGE,
            string("IP", doc(STATUS, "podIP")).wide(),
            string("Node", doc(SPEC, "nodeName")).wide(),
            string("Nominated Node", doc(STATUS, "nominatedNodeName")).wide(),
            string("Readiness Gates", doc(SPEC, "readinessGates")).wide(),
        ],
        pod,
    )
};

fn conditions(pod: &Value) -> &'static [RowCondition] {
    match pod.str_at(&["status", "phase"]) {
        "Succeeded" => {
            &[RowCondition { type_: "Completed", reason: "Succeeded", message: "The pod has completed successfully." }]
        }
        "Failed" => &[RowCondition { type_: "Completed", reason: "Failed", message: "The pod failed." }],
        _ => &[],
    }
}

fn pod(pod: &Value, now: Now) -> Cells {
    let summary = Summary::of(pod);
    let restarts = match summary.restarts {
        Restarts { count, last: Some(last) } if count != 0 => format!("{count} ({} ago)", age::since(last, now)),
        Restarts { count, .. } => count.to_string(),
    };
    cells![
        name(pod),
        format!("{}/{}", summary.ready, summary.containers),
        summary.reason,
        restarts,
        created(pod, now),
        ip(pod),
        text_or(pod, &["spec", "nodeName"], NONE),
        text_or(pod, &["status", "nominatedNodeName"], NONE),
        readiness_gates(pod),
    ]
}

/// The summary of the statuses of a pod and its containers.
struct Summary {
    ready: usize,
    containers: usize,
    reason: String,
    restarts: Restarts,
}

/// The number of container restarts, and the end of the last container that was restarted.
#[derive(Clone, Copy, Default)]
struct Restarts {
    count: i64,
    last: Option<Time>,
}

impl Summary {
    fn of(pod: &Value) -> Self {
        let phase = pod.str_at(&["status", "phase"]);
        let mut reason = text_or(pod, &["status", "reason"], phase).to_owned();
        let gated = |condition: &Value| {
            condition.str_at(&["type"]) == "PodScheduled" && condition.str_at(&["reason"]) == "SchedulingGated"
        };
        if pod.list_at(&["status", "conditions"]).iter().any(gated) {
            reason = "SchedulingGated".into();
        }

        let sidecars = Sidecars::of(pod);
        let init = InitContainers::of(pod, &sidecars);
        let mut ready = init.ready;
        let mut restarts = init.restarts;
        if let Some(init_reason) = &init.reason {
            reason.clone_from(init_reason);
        }

        // Once the pod is initialized, the containers and sidecars determine the reason.
        let initialized = || condition(pod, &["status", "conditions"], "Initialized").is_some_and(is_true);
        if init.reason.is_none() || initialized() {
            restarts = init.sidecar_restarts;
            let mut error = None;
            let mut running = false;
            for status in pod.list_at(&["status", "containerStatuses"]).iter().rev() {
                restarts.add(status);
                match (waiting(status), terminated(status)) {
                    ("", None) => {
                        if status.bool_at(&["ready"]) && present(status, &["state", "running"]) {
                            running = true;
                            ready += 1;
                        }
                    }
                    ("", Some(terminated)) => {
                        reason = exit_reason(terminated);
                        if number(terminated, &["exitCode"]) != 0 {
                            error = Some(reason.clone());
                        }
                    }
                    (waiting, _) => reason = waiting.into(),
                }
            }
            // A completed container does not make the pod completed while others run or have failed.
            if reason == "Completed" {
                let pod_ready = || {
                    let ready = |condition: &Value| condition.str_at(&["type"]) == "Ready" && is_true(condition);
                    pod.list_at(&["status", "conditions"]).iter().any(ready)
                };
                match error {
                    _ if running && pod_ready() => reason = "Running".into(),
                    Some(error) => reason = error,
                    None if running => reason = "NotReady".into(),
                    None => {}
                }
            }
        }

        if deleting(pod) {
            // The node controller sets this reason for a pod on an unreachable node.
            if pod.str_at(&["status", "reason"]) == "NodeLost" {
                reason = "Unknown".into();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                reason = "Terminating".into();
            }
        }
        let containers = pod.list_at(&["spec", "containers"]).len() + sidecars.count;
        Self { ready, containers, reason, restarts }
    }
}

/// The init containers of a pod by name, with true for sidecars, which keep running (KEP-753).
struct Sidecars<'p> {
    by_name: HashMap<&'p str, bool>,
    count: usize,
}

impl<'p> Sidecars<'p> {
    fn of(pod: &'p Value) -> Self {
        let containers = pod.list_at(&["spec", "initContainers"]).iter();
        let sidecars = containers.map(|c| (c.str_at(&["name"]), c.str_at(&["restartPolicy"]) == "Always"));
        Self { count: sidecars.clone().filter(|(_, sidecar)| *sidecar).count(), by_name: sidecars.collect() }
    }

    fn contains(&self, name: &str) -> bool {
        self.by_name.get(name).is_some_and(|sidecar| *sidecar)
    }
}

/// The progress of initialization.
struct InitContainers {
    ready: usize,
    restarts: Restarts,
    sidecar_restarts: Restarts,
    /// The reason to show during initialization; `None` once it is complete.
    reason: Option<String>,
}

impl InitContainers {
    fn of(pod: &Value, sidecars: &Sidecars) -> Self {
        let mut init =
            Self { ready: 0, restarts: Restarts::default(), sidecar_restarts: Restarts::default(), reason: None };
        for (index, status) in pod.list_at(&["status", "initContainerStatuses"]).iter().enumerate() {
            init.restarts.add(status);
            let sidecar = sidecars.contains(status.str_at(&["name"]));
            if sidecar {
                init.sidecar_restarts.add(status);
            }
            let reason = match (terminated(status), waiting(status)) {
                (Some(terminated), _) if number(terminated, &["exitCode"]) == 0 => continue,
                _ if sidecar && status.bool_at(&["started"]) => {
                    init.ready += usize::from(status.bool_at(&["ready"]));
                    continue;
                }
                (Some(terminated), _) => exit_reason(terminated),
                (None, "" | "PodInitializing") => {
                    format!("{index}/{}", pod.list_at(&["spec", "initContainers"]).len())
                }
                (None, waiting) => waiting.into(),
            };
            init.reason = Some(format!("Init:{reason}"));
            break;
        }
        init
    }
}

impl Restarts {
    fn add(&mut self, status: &Value) {
        self.count += number(status, &["restartCount"]);
        self.last = self.last.max(age::parse(status.at(&["lastState", "terminated", "finishedAt"])));
    }
}

/// Returns the reason why a container waits; empty if it does not wait or has no reason.
fn waiting(status: &Value) -> &str {
    status.str_at(&["state", "waiting", "reason"])
}

fn terminated(status: &Value) -> Option<&Value> {
    status.at(&["state", "terminated"]).filter(|state| !state.is_null())
}

fn exit_reason(terminated: &Value) -> String {
    match (terminated.str_at(&["reason"]), number(terminated, &["signal"])) {
        ("", 0) => format!("ExitCode:{}", number(terminated, &["exitCode"])),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}

/// Returns the pod's first address; `podIP` takes precedence over `podIPs`.
fn ip(pod: &Value) -> &str {
    let first = || pod.list_at(&["status", "podIPs"]).first().map_or("", |ip| ip.str_at(&["ip"]));
    non_empty(text_or(pod, &["status", "podIP"], first()), NONE)
}

fn readiness_gates(pod: &Value) -> String {
    let gates = pod.list_at(&["spec", "readinessGates"]);
    if gates.is_empty() {
        return NONE.into();
    }
    let open =
        |gate: &&Value| condition(pod, &["status", "conditions"], gate.str_at(&["conditionType"])).is_some_and(is_true);
    format!("{}/{}", gates.iter().filter(open).count(), gates.len())
}

#[cfg(test)]
mod tests;
