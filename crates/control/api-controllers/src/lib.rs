//! Controllers of kube-controller-manager that make an API complete and need no nodes: namespaces are emptied, service
//! accounts created. Each is in the file of its subject; [`ApiControllers`] runs the selected ones for one cluster.
//!
//! They read the watch caches of the process, and act only while this process holds the lease of
//! kube-controller-manager.

mod account_tokens;
mod api_controllers;
mod changes;
mod cluster_roles;
mod context;
mod finished_jobs;
mod garbage_collector;
mod leadership;
mod monitors;
mod namespaces;
mod outcome;
mod per_namespace;
mod protected_claims;
mod protected_volumes;
mod protection;
mod queue;
mod quotas;
mod remote_contents;
mod root_ca;
mod selection;
mod service_accounts;
mod stored_resources;

pub use api_controllers::{ApiControllers, Options};
pub use remote_contents::{RemoteContents, RemoteDeletion, RemoteDeletions};
pub use selection::{ControllerName, Selection, UnknownController};
