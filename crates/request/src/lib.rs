//! The context of one request: its info, its user, its record, and the traits by which parts of the server take it.
//!
//! Nothing here opens a socket or knows a kind. Filters fill a [`Request`] from the outside in; a [`Link`] answers it.

mod audit;
mod body;
mod connection;
mod info;
pub mod latency;
mod link;
mod offload;
mod permit;
mod pieces;
mod preferences;
mod query;
mod record;
mod shutdown;
pub mod trace;
mod upgrade;
mod user;

pub use audit::{AuditLevel, AuditNotes, Impersonated, Noted, ObjectNotes};
pub use body::{Body, BodyError, BoxError, IncomingBody, MAX_REQUEST_BODY};
pub use connection::ConnectionInfo;
pub use info::{InfoError, RequestInfo, Verb};
pub use link::{AnsweredStatus, BoxFuture, Compressible, Detour, Link, Request, Response};
pub use offload::{Turn, large, offloading};
pub use permit::{Action, CreatePermit, Decision, Permit};
pub use pieces::Pieces;
pub use preferences::{Preferences, pretty};
pub use query::{Query, decode_path};
pub use record::{Facts, Record, RecordSink};
pub use shutdown::{Shutdown, ShutdownTrigger};
pub use upgrade::{ByteStream, Upgrade};
pub use user::User;
