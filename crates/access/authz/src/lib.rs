//! Authorization of requests: one module per authorizer, and their union.
//!
//! A request that no authorizer allows is forbidden. An authorizer that cannot decide returns an error, which does not
//! allow the request. The crate is independent of HTTP and of the storage of roles and pods, which callers add.

mod abac;
mod always;
mod always_allow_paths;
mod attributes;
mod authorizer;
mod by_name;
mod chain;
mod config;
mod forbidden;
mod metrics;
mod node;
mod permits;
mod privileged;
mod rbac;
mod readiness;
mod reload;
mod rule;
mod rules;
mod signers;
mod union;
mod webhook;

pub use abac::{Abac, AbacError};
pub use always::{AlwaysAllow, AlwaysDeny};
pub use always_allow_paths::AlwaysAllowPaths;
pub use attributes::Attributes;
pub use authorizer::{Authorizer, AuthzError};
pub use binnacle_request::{CreatePermit, Decision, Permit};
pub use chain::AuthorizerDependencies;
pub use config::{AuthorizationConfig, AuthorizerConfig, AuthorizerMode, ConfigError, WebhookConfig};
pub use forbidden::forbidden;
pub use metrics::{CountingAuthorizer, Metrics};
pub use node::{GraphKind, Node, NodeFeatures, NodeGraph};
pub use permits::{authorize_with_permit, permit_create};
pub use privileged::PrivilegedGroups;
pub use rbac::{Escalation, Rbac, RbacIndex, RbacKind, RoleRef, UnresolvedRole, confirm_no_escalation, uncovered};
pub use readiness::Readiness;
pub use reload::{ConfigFile, ReloadableAuthorizer};
pub use rule::{RoleRules, Rule, quoted};
pub use rules::Rules;
pub use signers::is_allowed_for_signer;
pub use union::Union;
pub use webhook::{ReviewVersion, access_review};
