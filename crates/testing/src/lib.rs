//! A Kubernetes API server for each test.
//!
//! [`ApiServer::start`] starts the program `kube-apiserver` of Binnacle on a free port, with everything in memory, and says
//! how it is reached; with the value the server ends and all that it wrote is removed. Each test can have its own.
//!
//! ```no_run
//! let server = binnacle_testing::ApiServer::start()?;
//! // Any client: kube-rs reads the text, kubectl the file.
//! println!("{} {}", server.url(), server.kubeconfig_path().display());
//! # Ok::<(), binnacle_testing::StartError>(())
//! ```
//!
//! The program is the one that the environment variable `BINNACLE_KUBE_APISERVER` names, else the first `kube-apiserver` in
//! `PATH`. This crate depends on nothing but the standard library.

mod error;
mod process;
mod scratch;
mod server;

pub use error::StartError;
pub use server::{ApiServer, Builder, PROGRAM_VARIABLE};
