//! Metrics of stores, caches and stored resources, with the names of kube-apiserver and etcd's client.
//!
//! Most values are read from the stores and resources at each scrape: [`register_resources`] exposes lists, caches,
//! watches and leases, [`register_embedded`] exposes the log of the embedded store. [`TimedStore`] counts the requests
//! of a store. Values that are expensive to compute are measured at intervals: see [`count_objects`] and
//! [`measure_databases`].
//!
//! ```
//! use std::time::Duration;
//!
//! use binnacle_metrics::Registry;
//! use binnacle_storage_metrics::{count_objects, register_resources};
//!
//! # #[tokio::main]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let registry = Registry::new();
//! let resources = [];
//! register_resources(&resources, &registry)?;
//! let (task, first) = count_objects(&resources, Duration::from_secs(60), &registry)?;
//! while !first.is_done() {
//!     tokio::task::yield_now().await;
//! }
//! task.abort();
//! # Ok(())
//! # }
//! ```

mod databases;
mod embedded;
mod objects;
mod resources;
mod timed_store;

pub use databases::measure_databases;
pub use embedded::register_embedded;
pub use objects::{FirstCount, count_objects};
pub use resources::register_resources;
pub use timed_store::TimedStore;
