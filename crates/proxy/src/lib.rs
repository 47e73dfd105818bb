//! Requests handed on to other servers: kubelets, pods, and whatever serves an aggregated API.
//!
//! A [`Target`] is dialed for each request; [`forward`] hands on requests and answers, [`pass_through`] connections that
//! are upgraded. Nothing is collected on the way: who does not read is not read for. Knows nothing of resources.

mod client;
mod ending;
mod forward;
mod headers;
mod path;
mod rewrite;
mod target;
mod tls;
mod upgrade;

pub use client::{Answer, AnswerBody, SendError, send};
pub use ending::{Broken, until_stopped};
pub use forward::{Forward, forward};
pub use headers::{is_upgrade, is_websocket};
pub use path::{clean, escape_path};
pub use target::{DialError, Target, is_global_unicast, resolve};
pub use tls::{Verification, client_config};
pub use upgrade::pass_through;
