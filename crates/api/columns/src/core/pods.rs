//! Pod.

use std::collections::HashMap;

use binnacle_fields::FieldRef;
use binnacle_fields::core::v1::{
    Container, ContainerState as State, ContainerStateTerminated as Terminated, ContainerStateWaiting,
    ContainerStatus as Status, Pod, PodCondition, PodIP, PodReadinessGate, PodSpec, PodStatus,
};
use binnacle_meta::Time;

use crate::Now;
use crate::age;
use crate::columns::{Cells, Columns, RowCondition, cells, doc, string, text};
use crate::format::{NONE, condition, is_true, non_empty, text_or};
use crate::metadata::{AGE, NAME, created, deleting, name};

pub(crate) const POD: Columns = Columns {
    conditions: |object| conditions(FieldRef::root(object)),
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
            string("IP", doc(PodStatus::POD_IP)).wide(),
            string("Node", doc(PodSpec::NODE_NAME)).wide(),
            string("Nominated Node", doc(PodStatus::NOMINATED_NODE_NAME)).wide(),
            string("Readiness Gates", doc(PodSpec::READINESS_GATES)).wide(),
        ],
        |object, now| pod(FieldRef::root(object), now),
    )
};

fn conditions(pod: FieldRef<Pod>) -> &'static [RowCondition] {
    match pod.at(Pod::STATUS).at(PodStatus::PHASE).str() {
        "Succeeded" => {
            &[RowCondition { type_: "Completed", reason: "Succeeded", message: "The pod has completed successfully." }]
        }
        "Failed" => &[RowCondition { type_: "Completed", reason: "Failed", message: "The pod failed." }],
        _ => &[],
    }
}

fn pod(pod: FieldRef<Pod>, now: Now) -> Cells {
    let (spec, status) = (pod.at(Pod::SPEC), pod.at(Pod::STATUS));
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
        ip(status),
        text_or(spec.at(PodSpec::NODE_NAME), NONE),
        text_or(status.at(PodStatus::NOMINATED_NODE_NAME), NONE),
        readiness_gates(spec, status),
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
    fn of(pod: FieldRef<Pod>) -> Self {
        let (spec, pod_status) = (pod.at(Pod::SPEC), pod.at(Pod::STATUS));
        let conditions = pod_status.at(PodStatus::CONDITIONS);
        let phase = pod_status.at(PodStatus::PHASE).str();
        let mut reason = text_or(pod_status.at(PodStatus::REASON), phase).to_owned();
        let conditions_of = |type_: &'static str| {
            conditions.items().filter(move |condition| condition.at(PodCondition::TYPE).str() == type_)
        };
        if conditions_of("PodScheduled").any(|c| c.at(PodCondition::REASON).str() == "SchedulingGated") {
            reason = "SchedulingGated".into();
        }
        let sidecars = Sidecars::of(spec);
        let init = InitContainers::of(spec, pod_status, &sidecars);
        let mut ready = init.ready;
        let mut restarts = init.restarts;
        if let Some(init_reason) = &init.reason {
            reason.clone_from(init_reason);
        }
        // Once the pod is initialized, the containers and sidecars determine the reason.
        let initialized = || condition(&conditions, "Initialized").is_some_and(is_true);
        if init.reason.is_none() || initialized() {
            restarts = init.sidecar_restarts;
            let mut error = None;
            let mut running = false;
            for status in pod_status.at(PodStatus::CONTAINER_STATUSES).items().rev() {
                restarts.add(status);
                let state = status.at(Status::STATE);
                match (waiting(state), state.at(State::TERMINATED).set()) {
                    ("", None) => {
                        if status.at(Status::READY).bool() && state.at(State::RUNNING).is_set() {
                            running = true;
                            ready += 1;
                        }
                    }
                    ("", Some(terminated)) => {
                        reason = exit_reason(terminated);
                        if terminated.at(Terminated::EXIT_CODE).int_or_zero() != 0 {
                            error = Some(reason.clone());
                        }
                    }
                    (waiting, _) => reason = waiting.into(),
                }
            }
            // A completed container does not make the pod completed while others run or have failed.
            if reason == "Completed" {
                match error {
                    _ if running && conditions_of("Ready").any(is_true) => reason = "Running".into(),
                    Some(error) => reason = error,
                    None if running => reason = "NotReady".into(),
                    None => {}
                }
            }
        }
        if deleting(pod) {
            // The node controller sets this reason for a pod on an unreachable node.
            if pod_status.at(PodStatus::REASON).str() == "NodeLost" {
                reason = "Unknown".into();
            } else if !matches!(phase, "Succeeded" | "Failed") {
                reason = "Terminating".into();
            }
        }
        let containers = spec.at(PodSpec::CONTAINERS).len() + sidecars.count;
        Self { ready, containers, reason, restarts }
    }
}

/// The init containers of a pod by name, with true for sidecars, which keep running (KEP-753).
struct Sidecars<'v> {
    by_name: HashMap<&'v str, bool>,
    count: usize,
}

impl<'v> Sidecars<'v> {
    fn of(spec: FieldRef<'_, 'v, PodSpec>) -> Self {
        let containers = spec.at(PodSpec::INIT_CONTAINERS);
        let is_sidecar = |c: &FieldRef<Container>| c.at(Container::RESTART_POLICY).str() == "Always";
        let by_name = containers.items().map(|c| (c.at(Container::NAME).str(), is_sidecar(&c))).collect();
        Self { by_name, count: containers.items().filter(is_sidecar).count() }
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
    fn of(spec: FieldRef<PodSpec>, status: FieldRef<PodStatus>, sidecars: &Sidecars) -> Self {
        let mut init =
            Self { ready: 0, restarts: Restarts::default(), sidecar_restarts: Restarts::default(), reason: None };
        for (index, status) in status.at(PodStatus::INIT_CONTAINER_STATUSES).items().enumerate() {
            init.restarts.add(status);
            let sidecar = sidecars.contains(status.at(Status::NAME).str());
            if sidecar {
                init.sidecar_restarts.add(status);
            }
            let state = status.at(Status::STATE);
            let reason = match (state.at(State::TERMINATED).set(), waiting(state)) {
                (Some(terminated), _) if terminated.at(Terminated::EXIT_CODE).int_or_zero() == 0 => continue,
                _ if sidecar && status.at(Status::STARTED).bool() => {
                    init.ready += usize::from(status.at(Status::READY).bool());
                    continue;
                }
                (Some(terminated), _) => exit_reason(terminated),
                (None, "" | "PodInitializing") => format!("{index}/{}", spec.at(PodSpec::INIT_CONTAINERS).len()),
                (None, waiting) => waiting.into(),
            };
            init.reason = Some(format!("Init:{reason}"));
            break;
        }
        init
    }
}

impl Restarts {
    fn add(&mut self, status: FieldRef<Status>) {
        self.count += status.at(Status::RESTART_COUNT).int_or_zero();
        let last = status.at(Status::LAST_STATE);
        self.last = self.last.max(age::time_of(last.at(State::TERMINATED).at(Terminated::FINISHED_AT)));
    }
}

/// Returns the reason why a container waits; empty if it does not wait or has no reason.
fn waiting<'v>(state: FieldRef<'_, 'v, State>) -> &'v str {
    state.at(State::WAITING).at(ContainerStateWaiting::REASON).str()
}

fn exit_reason(terminated: FieldRef<Terminated>) -> String {
    match (terminated.at(Terminated::REASON).str(), terminated.at(Terminated::SIGNAL).int_or_zero()) {
        ("", 0) => format!("ExitCode:{}", terminated.at(Terminated::EXIT_CODE).int_or_zero()),
        ("", signal) => format!("Signal:{signal}"),
        (reason, _) => reason.into(),
    }
}

/// Returns the pod's first address; `podIP` takes precedence over `podIPs`.
fn ip<'v>(status: FieldRef<'_, 'v, PodStatus>) -> &'v str {
    let first = status.at(PodStatus::POD_IPS).item(0).map_or("", |ip| ip.at(PodIP::IP).str());
    non_empty(text_or(status.at(PodStatus::POD_IP), first), NONE)
}

fn readiness_gates(spec: FieldRef<PodSpec>, status: FieldRef<PodStatus>) -> String {
    let (gates, conditions) = (spec.at(PodSpec::READINESS_GATES), status.at(PodStatus::CONDITIONS));
    if gates.is_empty() {
        return NONE.into();
    }
    let is_open = |gate: &FieldRef<PodReadinessGate>| {
        condition(&conditions, gate.at(PodReadinessGate::CONDITION_TYPE).str()).is_some_and(is_true)
    };
    format!("{}/{}", gates.items().filter(is_open).count(), gates.len())
}

#[cfg(test)]
mod tests;
