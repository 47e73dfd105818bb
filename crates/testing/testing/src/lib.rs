//! A Kubernetes API server for each test.
//!
//! [`ApiServer::start`] starts Binnacle's program `kube-apiserver` on a free port, with everything in memory, and
//! returns its address and credentials. Dropping the value stops the server and removes its files, and so does any end of
//! the process. Each test can have its own.
//!
//! ```no_run
//! let server = binnacle_testing::ApiServer::start()?;
//! // Any client: kube-rs reads the text, kubectl the file.
//! println!("{} {}", server.url(), server.kubeconfig_path().display());
//! # Ok::<(), binnacle_testing::StartError>(())
//! ```
//!
//! With the feature `clusters`, a server with the flag `--logical-clusters` gives each test an isolated Kubernetes API
//! of its own, in one process:
//!
//! ```no_run
//! # #[cfg(feature = "clusters")]
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let server = binnacle_testing::ApiServer::builder().flag("--logical-clusters").start()?;
//! let cluster = server.cluster(None).await?;
//! println!("{} {}", cluster.url(), cluster.kubeconfig_path().display());
//! cluster.delete().await?;
//! # Ok(())
//! # }
//! ```
//!
//! The environment variable `BINNACLE_KUBE_APISERVER` names the program; without it, the first `kube-apiserver` in
//! `PATH` is used. Without the feature, this crate depends on nothing but the standard library.

#[cfg(feature = "clusters")]
mod cluster;
mod error;
mod files;
mod process;
mod server;
#[cfg(feature = "clusters")]
mod server_clusters;

#[cfg(feature = "clusters")]
pub use cluster::{Cluster, ClusterError};
pub use error::StartError;
pub use server::{ApiServer, Builder};

/// The environment variable that names the program.
pub const PROGRAM_VARIABLE: &str = "BINNACLE_KUBE_APISERVER";
