//! The context of a request: its info, user and record, and the traits of handlers.
//!
//! Independent of sockets and kinds. Filters complete a [`Request`] step by step; a [`Handler`] serves it.

mod audit;
mod body;
mod connection;
mod deferred;
mod future;
mod handler;
mod info;
mod latencies;
pub mod latency;
mod permit;
mod pieces;
mod preferences;
mod query;
mod record;
mod seat;
mod shutdown;
mod spans;
pub mod trace;
mod upgrade;
mod user;
mod waiting;

pub use audit::{AuditContext, AuditData, AuditLevel, AuditedObject, ImpersonatedUser};
pub use body::{Body, BodyError, BoxError, IncomingBody, MAX_REQUEST_BODY};
pub use connection::{ConnectionInfo, RelayMeter};
pub use deferred::Deferred;
pub use future::BoxFuture;
pub use handler::{AnsweredStatus, Compressible, Handler, Interceptor, Request, Response};
pub use info::{BasePath, InfoError, RequestInfo, Verb};
pub use permit::{Action, CreatePermit, Decision, Permit};
pub use pieces::Pieces;
pub use preferences::{Preferences, pretty};
pub use query::{Query, decode_path};
pub use record::{Facts, FlowNames, Record, RecordSink};
pub use seat::{RequestSeat, WaitError};
pub use shutdown::{Shutdown, ShutdownTrigger};
pub use upgrade::{ByteStream, Upgrade};
pub use user::User;
pub use waiting::{served_remotely, waiting, waiting_for_decision, waiting_unless_failed};
