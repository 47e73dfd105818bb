//! Calls to webhooks: a [`Target`], from a kubeconfig file or built in code, a [`Client`] with persistent connections,
//! retries with growing pauses ([`Backoff`]), and a cache of answers ([`AnswerCache`]).
//!
//! Independent of the contents of requests and answers; errors have the words of kube-apiserver's client.

mod answer_cache;
mod backoff;
mod client;
mod connector;
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
pub use kubeconfig::{KubeconfigError, load, parse};
pub use loopback::{Loopback, OwnCertificates};
pub use metrics::register_metrics;
pub use review::ReviewKind;
pub use service::{Service, ServiceResolver};
pub use target::{Credential, Identity, IdentityFiles, Target, TargetError};
pub use users::Users;
