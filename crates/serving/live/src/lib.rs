//! `/debug/live`: a page for browsers that shows what the server is doing, and the WebSocket that keeps it up to date.
//!
//! Requests are observed, and figures read, only while a page is open. The figures of other parts come through
//! [`Figures`]; nothing here depends on them.

mod handler;
mod latency_histogram;
mod observer;
mod page;
mod sampler;
mod snapshot;
mod ticket;
mod top;

pub use handler::LiveLink;
pub use observer::Observer;
pub use sampler::{Figures, Sampler};
pub use snapshot::{
    Cache, Caches, Client, Clients, FlowControl, Gauges, InFlight, Level, Log, Process, Request, Requests, Server,
    SlowRequest, Snapshot, Stage, Store, Webhook,
};
