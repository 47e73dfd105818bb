//! Requests and responses recorded from a Go kube-apiserver, replayed against the program in tests.
//!
//! [`read`] reads cases, [`run`] sends their requests to a server and compares its responses with the recorded ones, in
//! a normal form without the values that differ in every run: identifiers, versions, times, generated names.

mod answer;
mod case;
mod claims;
mod client;
mod difference;
mod file;
mod normal;
mod pointer;
mod protobuf;
mod replay;
mod run;
mod template;
mod text;
mod tidy;
mod watch;

pub use case::{Area, Case, Compare, Condition, Head, Step, Until, parse, read};
pub use client::Endpoint;
pub use file::File;
pub use replay::{record, replay};
pub use run::{Results, run};
