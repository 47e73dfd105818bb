//! `apps`: workloads that consist of pods.

mod controller_revision;
mod daemon_set;
mod deployment;
mod replica_set;
mod stateful_set;

use crate::Entry;

#[rustfmt::skip]
pub(crate) const STRATEGIES: &[Entry] = &[
    ("ControllerRevision", &controller_revision::ControllerRevision),
    ("DaemonSet", &daemon_set::DaemonSet),
    ("Deployment", &deployment::Deployment),
    ("ReplicaSet", &replica_set::ReplicaSet),
    ("StatefulSet", &stateful_set::StatefulSet),
];
