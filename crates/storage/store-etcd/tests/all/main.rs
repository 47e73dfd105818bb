//! The engine on a real etcd; without one on the PATH when the tests are built, everything here is ignored.

mod contract;
mod faults;
mod outages;
mod sequence;
mod served;
mod support;
mod tls;
mod unix;
