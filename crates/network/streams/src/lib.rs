//! Streams over upgraded connections between clients and other servers, mostly kubelets.
//!
//! [`pass_through`] forwards an upgraded connection unchanged. [`translate`] and [`tunnel`] turn a client's WebSocket
//! into the [SPDY](spdy) connection that kubelets expect. [`as_messages`] and [`as_events`] send a body on a WebSocket,
//! and [`push`] sends texts. All of them propagate back-pressure to the sender.
//!
//! ```
//! use binnacle_streams::spdy::{Frame, Reader, Writer};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let (kubelet, client) = tokio::io::duplex(1024);
//! Writer::new(kubelet).write(&Frame::Ping(1)).await?;
//! assert_eq!(Reader::new(client).next().await?, Some(Frame::Ping(1)));
//! # Ok(())
//! # }
//! ```
//!
//! Independent of resources and of the streamed contents.

mod headers;
mod messages;
mod outcome;
mod remote_command;
pub mod spdy;
mod throttled;
mod translate;
mod tunnel;
mod upgrade;
mod websocket;

pub use headers::{complete_headers, is_upgrade, is_websocket, strip_connection_headers, strip_hop_by_hop};
pub use messages::{as_events, as_messages, push};
pub use remote_command::Streams;
pub use translate::{translate, wants_translation};
pub use tunnel::{tunnel, wants_tunnel};
pub use upgrade::pass_through;
