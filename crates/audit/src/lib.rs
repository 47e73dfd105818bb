//! Audit: which requests are recorded and how much of them ([`Policy`]), the events of a request ([`Trail`]), and where
//! they go ([`Backend`]).
//!
//! It knows nothing of HTTP: what a request was stands in its `Record`, and the server's chain says when it reached which
//! stage.

mod auditor;
mod backend;
mod buffered;
mod event;
mod log;
mod metrics;
mod options;
mod policy;
mod trail;
mod truncate;
mod webhook;

pub use auditor::{Auditor, ObjectReader};
pub use backend::Backend;
pub use event::{Event, ObjectReference, ResponseStatus, Stage, Stages};
pub use options::{BatchOptions, LogFormat, LogOptions, Mode, Options, OptionsError, TruncateOptions, WebhookOptions};
pub use policy::{Policy, PolicyError, Treatment};
pub use trail::{Answered, Trail};
