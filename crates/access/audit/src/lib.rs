//! Auditing: the policy that determines the audit level of a request ([`Policy`]), the events of a request ([`Trail`]),
//! and the backends that process them ([`Backend`]).
//!
//! The crate is independent of HTTP: events are built from the request's `Record`, and the server's handler chain
//! reports the stages.

mod assembly;
mod auditor;
mod backend;
mod buffered;
mod event;
mod log;
mod metrics;
mod options;
mod policy;
mod spill;
mod trail;
mod truncate;
mod webhook;

pub use assembly::OptionsError;
pub use auditor::{Auditor, ObjectReader};
pub use backend::Backend;
pub use event::{Event, ObjectReference, ResponseStatus, Stage, Stages};
pub use options::{AuditOptions, BatchOptions, LogFormat, LogOptions, Mode, TruncateOptions, WebhookOptions};
pub use policy::{Policy, PolicyError, RequestAuditConfig};
pub use spill::SpillOptions;
pub use trail::{ResponseHead, Trail};
