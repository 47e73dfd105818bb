//! Streams between clients and the containers of a pod, by way of the kubelet of its node: logs, exec, attach and
//! port-forward. Here is decided who may, which kubelet, and in which protocol; `binnacle-proxy` moves the bytes.

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
pub(crate) use options::Options;
pub(crate) use remote::{Remote, Session};
