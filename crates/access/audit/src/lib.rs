//! Audit: the policy of recorded requests and levels ([`Policy`]), the events of a request ([`Trail`]), and their
//! backends ([`Backend`]).
//!
//! Independent of HTTP: the facts of a request are in its `Record`, and the server's handler chain reports its stages.

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

pub use auditor::{Auditor, ObjectReader};
pub use backend::Backend;
pub use event::{Event, ObjectReference, ResponseStatus, Stage, Stages};
pub use options::{
    AuditOptions, BatchOptions, LogFormat, LogOptions, Mode, OptionsError, TruncateOptions, WebhookOptions,
};
pub use policy::{Policy, PolicyError, RequestAuditConfig};
pub use spill::SpillOptions;
pub use trail::{Answered, Trail};
