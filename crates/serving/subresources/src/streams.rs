//! Streams between clients and the containers of a pod, through the kubelet of its node: logs, exec, attach and
//! port-forward. These handlers authorize and select the kubelet and the protocol; `binnacle-streams` copies the bytes.

mod container;
mod log;
mod log_options;
mod metrics;
mod node;
mod options;
mod remote;

pub(crate) use log::Log;
pub(crate) use metrics::StreamMetrics;
pub(crate) use node::Nodes;
pub(crate) use options::StreamOptions;
pub(crate) use remote::{RemoteHandler, Session};
