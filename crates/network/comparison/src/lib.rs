//! Comparison of two API servers.
//!
//! [`compare`] brings two responses into a normal form without the values that differ in every run (identifiers,
//! versions, times, generated names) and returns a [`Verdict`]. It has three users:
//!
//! - [`Shadow`] repeats a sample of a server's requests on another server, and counts and records the differences;
//! - [`offline`] replays audit logs, HAR files and recorded cases against two servers, and writes a [`Report`];
//! - tests [`run`] cases that were recorded from kube-apiserver.
//!
//! Independent of particular kinds, and of how a server handles requests.

mod answer;
mod case;
mod cause;
mod claims;
mod difference;
mod directory;
mod endpoint;
mod explained;
mod file;
mod impersonation;
mod map_order;
mod mask;
mod normal;
pub mod offline;
mod pointer;
mod protobuf;
mod replay;
mod report;
mod run;
mod server_values;
mod shadow;
mod subject;
mod template;
mod text;
mod tidy;
mod verdict;
mod watch;
mod watched;

pub use answer::Answer;
pub use case::{Area, Case, Compare, Condition, Head, Step, Until, parse, read};
pub use cause::Cause;
pub use difference::Difference;
pub use directory::CaseDirectory;
pub use endpoint::{Endpoint, Outgoing};
pub use explained::{Rule, Rules};
pub use file::File;
pub use replay::{record, replay};
pub use report::Report;
pub use run::{Results, run};
pub use shadow::{Refusal, Shadow, ShadowOptions, ShadowWorker};
pub use subject::{Kind, Subject};
pub use verdict::{Mismatch, Stores, Verdict, compare};
