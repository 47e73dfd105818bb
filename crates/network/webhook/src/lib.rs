//! A client for webhooks: a [`Target`] is read from a kubeconfig file or built in code, a [`Client`] keeps connections
//! to it, [`Backoff`] retries calls, and [`AnswerCache`] caches responses.
//!
//! Independent of the contents of requests and responses. Errors have the messages of kube-apiserver's client.

mod answer_cache;
mod backoff;
mod body_pieces;
mod client;
mod connector;
mod credential;
mod kubeconfig;
mod loopback;
mod metrics;
mod review;
mod service;
mod target;
mod tls;
mod users;

pub use answer_cache::AnswerCache;
pub use backoff::Backoff;
pub use client::{Answer, Client, WebhookError};
pub use credential::Credential;
pub use kubeconfig::{KubeconfigError, load, parse};
pub use loopback::{Loopback, OwnCertificates};
pub use metrics::register_metrics;
pub use review::ReviewKind;
pub use service::{Service, ServiceResolver};
pub use target::{Identity, IdentityFiles, Target, TargetError};
pub use tls::config as tls_config;
pub use users::Users;
