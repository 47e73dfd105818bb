//! For tests only: the real program on a free port, clients for it, and waiting for conditions without fixed sleeps.
//!
//! Helpers panic on errors, to fail the test that called them.

#![allow(clippy::unwrap_used, reason = "setup failures fail the test")]

mod authority;
mod backend;
mod cryptography;
mod etcd;
mod extension;
mod faulty_disk;
pub mod frames;
mod grpc;
mod hook;
mod hostile;
pub mod https;
mod kms;
mod kubectl;
mod kubelet;
#[cfg(feature = "kube")]
mod kubers;
mod logical_cluster;
mod network;
mod port;
mod program;
mod relays;
mod seccomp;
mod server;
mod shifted_clock;
mod signer;
mod temp_dir;
mod tool;
mod wait;

pub use authority::Authority;
pub use backend::Backend;
pub use cryptography::Cryptography;
pub use etcd::{Etcd, EtcdTls};
pub use extension::{Extension, Reply};
pub use faulty_disk::{DiskCall, FaultyDisk};
pub use hook::Hook;
pub use hostile::Hostile;
pub use kms::KmsPlugin;
pub use kubectl::{Kubectl, Outcome, RunningCommand};
pub use kubelet::{Kubelet, Misbehavior};
pub use network::{POD_IPS, in_own_network};
pub use port::Port;
pub use program::{etcd_stand_in, program, tool};
pub use rustix::io::Errno;
pub use rustix::process::Signal;
pub use server::{Server, ServerEnvironment, admin, somebody};
pub use shifted_clock::ShiftedClock;
pub use signer::{SignerKey, SignerState, TokenSigner};
pub use temp_dir::TempDir;
pub use tool::{Tool, ToolOutcome};
pub use wait::{TIMEOUT, wait_until, wait_until_blocking};
