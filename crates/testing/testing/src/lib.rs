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
//! The environment variable `BINNACLE_KUBE_APISERVER` names the program; without it, the first `kube-apiserver` in
//! `PATH` is used. This crate depends on nothing but the standard library.

mod error;
mod files;
mod process;
mod server;

pub use error::StartError;
pub use server::{ApiServer, Builder, PROGRAM_VARIABLE};
