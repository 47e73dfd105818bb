//! Tests of the engine on a real etcd. If there is none on the PATH when the tests are built, all of them are ignored.

mod contract;
mod faults;
mod outages;
mod sequence;
mod served;
mod streaming_member;
mod streams;
mod support;
mod tls;
mod unix;
