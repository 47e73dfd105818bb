//! `/debug/live`: a page for browsers that shows the activity of the server, and the WebSocket that updates it.
//!
//! Requests are observed and gauges are read only while a page is open. The gauges of other components come from
//! [`GaugeSource`]; nothing here depends on these components.

mod handler;
mod latency_histogram;
mod observer;
mod page;
mod sampler;
mod snapshot;
mod ticket;
mod top;

pub use handler::LiveHandler;
pub use observer::Observer;
pub use sampler::{GaugeSource, Sampler};
pub use snapshot::{
    Cache, Caches, Client, Clients, FlowControl, Gauges, InFlight, Level, Log, Process, Request, Requests, Server,
    SlowRequest, Snapshot, Stage, Store, Webhook,
};
