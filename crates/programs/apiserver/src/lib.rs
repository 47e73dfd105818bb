//! A kube-apiserver as a library: [`Settings`] in, a running server out. The program `kube-apiserver` is a thin layer
//! over it, and any process can run several servers, each with its own gates, store, port and metrics:
//!
//! ```no_run
//! use binnacle_apiserver::{Server, Settings};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let mut server = Server::start(Settings::ephemeral()).await?;
//! server.ready().await?;
//! println!("{}", server.url());
//! std::fs::write("admin.kubeconfig", server.kubeconfig()?)?;
//! server.stop().await;
//! # Ok(())
//! # }
//! ```
//!
//! Servers of one process share the built-in types, which are statics; the limits of concurrent work of some kinds; and
//! metrics of the process itself (its memory, its descriptors, tasks restarted after a panic). A server writes logs
//! through `tracing` but installs no subscriber, and does not change signal handlers, limits or the environment of the
//! process.

mod admin_socket;
mod assemble;
mod assembled_server;
mod authentication;
mod authorities;
mod authority_bundle;
mod authorization;
mod cluster;
mod cluster_storage;
mod compared_authorizer;
mod data_dir;
mod encryption;
mod fairness;
mod health;
mod hosted_clusters;
mod issuers;
mod live;
mod logical_clusters;
mod look_back;
mod openid;
mod reload;
mod server;
mod server_info;
pub mod settings;
mod signing;
mod stand_in;
mod start_failure;
mod store_maintenance;
mod stores;

pub use assemble::build;
pub use binnacle_features::{GateError, Gates, Version};
pub use hosted_clusters::{ClusterError, LogicalCluster};
pub use server::{Handle, Server, ServerEnded, StartError};
pub use server_info::Progress;
pub use settings::Settings;
