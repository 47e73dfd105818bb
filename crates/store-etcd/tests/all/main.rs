//! The engine on a real etcd; without one on the PATH, everything here is skipped.

mod contract;
mod faults;
mod outages;
mod sequence;
mod served;
mod support;
mod tls;
mod unix;
